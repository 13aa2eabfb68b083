// SPDX-License-Identifier: Apache-2.0
// Which members of a sorted set a command means: by rank, by score or by the members' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/zset_value.h"

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

}  // namespace dfly
