// SPDX-License-Identifier: Apache-2.0
// What the files of the sorted set family share, geo included.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/collections/set_commands.h"
#include "commands/table/args.h"
#include "commands/table/command_table.h"
#include "commands/table/long_reads.h"
#include "commands/zsets/zset_ranges.h"
#include "core/types/zset_value.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
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

// Members, with their scores if asked for: pairs in RESP3.
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

// For two keys in different shards: fetch(ShardContext&) on that of `source`, which is only read;
// false if that has replied an error, or it is refused. Else store(ShardContext&) on that of
// `target`. Suspends.
template <typename Fetch, typename Store>
bool FetchAndStore(CoordinatorContext& cx, std::string_view source, std::string_view target,
                   Fetch fetch, Store store) {
  Transaction tx(cx);
  const auto lock = [&](std::string_view key, LockMode mode) {
    const uint64_t hash = HashKey(key);
    const ShardId id = cx.shards().ShardOfKey(key, hash);
    tx.Lock(id, {cx.shards().LockOfKey(key, hash, cx.db_index()), mode});
    return id;
  };
  const ShardId source_id = lock(source, LockMode::kShared);
  const ShardId target_id = lock(target, LockMode::kExclusive);
  if (!tx.Schedule()) return false;
  bool goes_on = false;
  tx.HopOn({&source_id, 1}, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    goes_on = fetch(shard_cx);
  });
  if (!goes_on) return false;
  tx.HopAndConclude({&target_id, 1}, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    store(shard_cx);
  });
  return true;
}

void RegisterZsetPops(CommandTable* table);        // ZPOPMIN ZMPOP BZPOPMIN ... (zset_pops.cc)
void RegisterZsetOperations(CommandTable* table);  // ZUNION ZINTERSTORE ... (zset_operations.cc)
void RegisterGeoCommands(CommandTable* table);     // (geo.cc)

}  // namespace dfly
