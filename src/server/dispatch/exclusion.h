// SPDX-License-Identifier: Apache-2.0
// What keeps a command from running on its shard at once: a transaction that has its keys, a
// snapshot that has to save them first, or a large value.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/shard_set.h"
#include "engine/queue/slow_scripts.h"
#include "server/clients/multi.h"
#include "server/clients/worker_state.h"
#include "server/scripts/script_store.h"

namespace dfly {

class Session;
class ShardBatch;

// Owner:    a worker; on its thread. It keeps nothing.
// Suspends: AskSnapshots.
class Exclusion {
 public:
  explicit Exclusion(WorkerState* worker);

  // Is the command excluded now? `tags` gets what it wants then: its keys, but of a blocking
  // command with keys in other shards only those before the first of these.
  bool IsExcluded(Shard& shard, const Command& command, Args args, uint64_t hash, int db_index,
                  std::vector<TagLock>* tags) const;
  // The same for an EXEC of that shard, and for a script.
  bool IsExecExcluded(Shard& shard, const Multi& multi, std::vector<TagLock>* tags) const;
  bool IsScriptExcluded(Shard& shard, const Script& script, const Command& command, Args args,
                        int db_index, std::vector<TagLock>* tags) const;
  // The next command of the batch has its locks. False: it may run, as far as snapshots are
  // concerned. Else `on_saved` is called for each of the values that ShardBatch::unsaved counts.
  bool AwaitsSnapshotLocked(ShardBatch* batch, const std::function<void()>& on_saved) const;
  // For what will be a transaction of that database (an EXEC knows its own): snapshots begin to
  // save what it changes, and it waits for that by its locks. Suspends.
  void AskSnapshots(const Session& session, const Command& command, Args args, int db_index);
  // Whether a command, with keys in this shard, should work in slices. `hash`: of its first key.
  // REQUIRES: command.slices.
  static bool TakesLong(const Shard& shard, int db_index, const Command& command, Args args,
                        uint64_t hash);
  // The slow script that it would wait for. `tags`: what it wants.
  Slow SlowBefore(const Shard& shard, const Command& command, std::vector<TagLock>* tags);

 private:
  // Calls fn(key, hash, db_index) for the keys in the shard whose values may be changed in place.
  template <typename Function>
  void ForEachChanged(const Shard& shard, const Command& command, Args args, int db_index,
                      Function fn) const;
  // A snapshot has to save what the command changes first, and does so now.
  bool AwaitsSnapshot(Shard& shard, const Command& command, Args args, int db_index) const;

  ShardSet& shards_;
  const Settings& settings_;
  const Command* const exec_;
};

}  // namespace dfly
