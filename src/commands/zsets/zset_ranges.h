// SPDX-License-Identifier: Apache-2.0
// Which members of a sorted set a command means: by rank, by score or by the members' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commands/table/args.h"
#include "core/types/zset_value.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

// Members that follow one another: `count` from the one with the rank `first` on.
struct RankRange {
  size_t first = 0;
  size_t count = 0;
};

// One end of an interval of scores, "1.5", "(1.5" (without it) or "-inf"; none if it is no number.
struct ScoreBound {
  double score = 0;
  bool is_exclusive = false;

  static std::optional<ScoreBound> Parse(std::string_view text);
};
// The members between two, which may be the wrong way round: then there are none.
RankRange RangeOf(const ZsetValue& zset, const ScoreBound& min, const ScoreBound& max);

// One end of an interval of members: "[text", "(text" (without it), "-" (before all) or "+".
struct MemberBound {
  enum Kind : uint8_t { kFirst, kInclusive, kExclusive, kLast };
  Kind kind = kFirst;
  std::string_view member = {};  // of the text that it was parsed from

  static std::optional<MemberBound> Parse(std::string_view text);
};
RankRange RangeOf(const ZsetValue& zset, const MemberBound& min, const MemberBound& max);

// From the index `start` to `stop`, both included; below 0 they count from the end.
RankRange RangeOf(size_t size, int64_t start, int64_t stop);

// --- ZRANGE and its relatives ---

enum class RangeBy : uint8_t { kAny, kRank, kScore, kMember };

struct RangeForm {
  RangeBy by = RangeBy::kAny;           // kAny: the arguments say
  std::optional<bool> is_reverse = {};  // none: the arguments say
  bool may_have_scores = true;          // WITHSCORES
};

struct RangeOptions {
  RangeBy by = RangeBy::kRank;
  bool is_reverse = false;
  bool with_scores = false;
  int64_t offset = 0;
  int64_t limit = -1;  // below 0: all
  int64_t start = 0, stop = 0;
  ScoreBound min_score, max_score;
  MemberBound min_member, max_member;
};

// ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES], and what it has
// made obsolete. Replies the error and returns none if they are not valid.
std::optional<RangeOptions> ParseRange(Args args, const RangeForm& form, ReplySink& reply);

// The members that are meant; `first` is the first one to reply, from where it goes backwards if
// that was asked for.
RankRange Select(const ZsetValue& zset, const RangeOptions& options);

}  // namespace dfly
