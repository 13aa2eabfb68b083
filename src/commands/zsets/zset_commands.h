// SPDX-License-Identifier: Apache-2.0
// What the files of the sorted set family share, geo included.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/collections/set_commands.h"
#include "commands/table/args.h"
#include "commands/table/command_table.h"
#include "commands/table/long_reads.h"
#include "commands/zsets/zset_ranges.h"
#include "core/types/zset_value.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"
#include "helio/fibers/long_work.h"

namespace dfly {

// The sorted set of a key to read. ZsetValue changes nothing unless one of its changes is called.
inline ZsetValue ToRead(const CompactValue& value) {
  return ZsetValue(const_cast<CompactValue*>(&value));
}

struct ZAddOptions {
  bool only_new = false;        // NX
  bool only_present = false;    // XX
  bool only_greater = false;    // GT
  bool only_less = false;       // LT
  bool counts_changes = false;  // CH
  bool increments = false;      // INCR
  size_t end = 0;               // the index behind the options
};
// What ZADD does with the members args[first_member], args[first_member + step] ... and their
// scores; `args` are those of a command with its key in front. Replies.
void AddToZset(ShardContext& cx, Args args, const ZAddOptions& options,
               std::span<const double> scores, size_t first_member, size_t step, ReplySink& reply);

// Replies with members, one after another, with their scores if asked for: pairs in RESP3.
class RangeWriter {
 public:
  RangeWriter(size_t count, bool with_scores, ReplySink& reply)
      : reply_(reply), with_scores_(with_scores), is_nested_(with_scores && reply.resp3()) {
    reply_.Array(with_scores && !is_nested_ ? 2 * count : count);
  }
  void operator()(std::string_view member, double score) {
    if (is_nested_) reply_.Array(2);
    reply_.Bulk(member);
    if (with_scores_) reply_.Double(score);
  }

 private:
  ReplySink& reply_;
  const bool with_scores_;
  const bool is_nested_;
};
void ReplyWithRange(const ZsetValue& zset, RankRange range, bool is_reverse, bool with_scores,
                    ReplySink& reply);

// Copies of members and their scores.
struct ScoredMembers {
  MemberList members = {};
  std::vector<double> scores = {};

  void Add(std::string_view member, double score) {
    members.Add(member);
    scores.push_back(score);
  }
  void Reserve(size_t count) { scores.reserve(count); }
  void Clear() { *this = {}; }
  size_t size() const { return scores.size(); }
};

// As ReplyWithRange, of copies. Suspends.
void ReplyWithScored(const ScoredMembers& found, bool with_scores, ReplySink& reply);

// A sorted set of these, each member once. `work`: null in a brief.
CompactValue MakeZset(const ScoredMembers& found, const PackedLimit& limit,
                      helio::LongWork* work = nullptr);
// The key becomes that, whatever it was; nothing if there are none. `changes` as
// ShardContext::Changed's. `made`: it was made already.
void StoreZset(ShardContext& cx, std::string_view key, const ScoredMembers& found, KeyEvent event,
               uint64_t changes = 1, std::optional<CompactValue> made = {});

// Tells other servers what StoreZset has made, instead of how: DEL, and ZADDs of so many members.
// tell(words) for each of them. `work`: null in a brief.
constexpr size_t kToldMembers = 1024;
void TellZset(std::string_view key, const ScoredMembers& stored,
              absl::FunctionRef<void(std::span<const std::string_view>)> tell,
              helio::LongWork* work = nullptr);

// What a coordinator stores, and how.
struct Storing {
  KeyEvent event;
  uint64_t changes = 1;
  PackedLimit limit = {};     // of a shard
  bool tells_result = false;  // by TellZset
};
// StoreZset by the last hop of `parts`, whose target is `key`. A large one is made before, while
// others go on. Suspends.
template <typename Parts>
void StoreZset(Parts& parts, std::string_view key, const ScoredMembers& found,
               const Storing& storing, helio::LongWork* work) {
  std::optional<CompactValue> made;
  if (found.size() > kLargeMembers) made = MakeZset(found, storing.limit, work);
  const bool tells = storing.tells_result && parts.records();
  parts.HopToTarget(
      [&](ShardContext& cx) {
        StoreZset(cx, key, found, storing.event, storing.changes, std::move(made));
      },
      tells ? Parts::More::kYes : Parts::More::kNo);
  if (!tells) return;
  TellZset(
      key, found, [&parts](auto words) { parts.TellAll(words); }, work);
}

void RegisterZsetPops(CommandTable* table);        // ZPOPMIN ZMPOP BZPOPMIN ... (zset_pops.cc)
void RegisterZsetDraws(CommandTable* table);       // ZRANDMEMBER (zset_draws.cc)
void RegisterZsetOperations(CommandTable* table);  // ZUNION ZINTERSTORE ... (zset_operations.cc)
void RegisterGeoCommands(CommandTable* table);     // (geo.cc)

}  // namespace dfly
