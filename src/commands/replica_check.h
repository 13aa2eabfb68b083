// SPDX-License-Identifier: Apache-2.0
// For tests: a second set of shards that knows only the effects of what is done in the first one.
//
// Its clock stands at 0: nothing is ever due there, so nothing expires by itself, and a time that
// is not absolute is seen at once. What the first set holds, and would still show to a client, has
// to be the same in both, deadlines, members' deadlines and sticky flags included.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/command_table.h"
#include "engine/shard_set.h"
#include "facade/resp_reader.h"

namespace dfly {

// Owner:    a test. What it does runs on the calling fiber, of the pool's only thread, but for
// OnUnit. Suspends: what hops.
class ReplicaCheck final : public EffectSink {
 public:
  // Runs a command on a set of shards at a time of the test's.
  using RunFn = std::function<RespValue(ShardSet& shards, int db_index, int64_t now_ms,
                                        const std::vector<std::string>& words)>;

  // `shards` outlives it. Listens from here on; there must be no keys yet.
  ReplicaCheck(helio::ProactorPool* pool, ShardSet* shards, RunFn run);
  ~ReplicaCheck();

  void OnUnit(const Effects& effects) override;
  // Applies what has come. Suspends.
  void CatchUp();
  // What differs, as text; empty: nothing. `now_ms` is the time of the first set. Suspends.
  std::string Compare(int64_t now_ms);
  // Units since the last TakeUnits, each "0 SET k v; 0 DEL k".
  const std::vector<std::string>& units() const { return seen_; }
  ShardSet& replica() { return *replica_; }
  std::vector<std::string> TakeUnits() { return std::exchange(seen_, {}); }

 private:
  using Words = std::vector<std::string>;

  RespValue Ask(ShardSet& shards, int db_index, int64_t now_ms, const Words& words) {
    return run_(shards, db_index, now_ms, words);
  }
  // All that a client can see of a key, in an order of its own.
  std::string Describe(ShardSet& shards, int db_index, int64_t now_ms, const std::string& key);
  std::string DescribeMembers(ShardSet& shards, int db_index, int64_t now_ms,
                              const std::string& key, std::string_view read, bool has_values);

  ShardSet& primary_;
  std::unique_ptr<ShardSet> replica_;
  const RunFn run_;
  std::vector<std::pair<int, Words>> to_apply_;
  std::vector<std::string> seen_;
  std::string failed_;  // effects that the replica has refused
};

}  // namespace dfly
