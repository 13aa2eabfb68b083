// SPDX-License-Identifier: Apache-2.0
// For tests: a second set of shards that knows only the effects of what is done in the first one.
//
// Its clock stands at 0: nothing is ever due there, so nothing expires by itself, and a time that
// is not absolute is seen at once. What the first set holds, and would still show to a client, has
// to be the same in both, deadlines, members' deadlines and sticky flags included.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/shard_set.h"
#include "facade/replies/resp_reader.h"
#include "helio/base/spin_lock.h"

namespace dfly {

// Runs a command as dispatch does, but without a client: on the shard of its keys if they have one,
// else over a coordinator. On a fiber of a proactor. Suspends.
void DispatchForTest(const CommandTable& table, ShardSet& shards, int db_index, int64_t now_ms,
                     Args args, ReplySink& reply);

// Owner:    a test. On fibers of the pool's first thread, but for OnUnit. Suspends: what hops.
class ReplicaCheck final : public EffectSink {
 public:
  // Both outlive it. Listens from here on; there must be no keys yet.
  ReplicaCheck(const CommandTable* table, ShardSet* shards);
  ~ReplicaCheck();

  // Thread: any of the pool's.
  uint64_t OnUnit(const Effects& effects, UnitOrigin origin) override;
  // Applies what has come. Suspends.
  void CatchUp();
  // What differs, as text; empty: nothing. `now_ms` is the time of the first set; 0: the clock's,
  // so that keys may expire meanwhile. REQUIRES: nobody else changes keys. Suspends.
  std::string Compare(int64_t now_ms);
  // Units since the last TakeUnits, each "0 SET k v; 0 DEL k".
  std::vector<std::string> TakeUnits();
  ShardSet& replica() { return *replica_; }

 private:
  using Words = std::vector<std::string>;

  RespValue Ask(ShardSet& shards, int db_index, const Words& words);
  // All that a client can see of a key, in an order of its own.
  std::string Describe(ShardSet& shards, int db_index, const std::string& key);
  std::string DescribeMembers(ShardSet& shards, int db_index, const std::string& key,
                              std::string_view read, bool has_values);
  // Of the set that is asked.
  int64_t ClockOf(const ShardSet& shards) const;
  std::vector<std::string> KeysOf(int db_index);

  const CommandTable& table_;
  ShardSet& primary_;
  std::unique_ptr<ShardSet> replica_;
  int64_t now_ms_ = 0;  // of the first set; 0: the clock's
  helio::SpinLock mutex_;
  std::vector<std::pair<int, Words>> to_apply_;  // guarded by mutex_, as the next one
  std::vector<std::string> seen_;
  std::string failed_;  // effects that the replica has refused
};

}  // namespace dfly
