// SPDX-License-Identifier: Apache-2.0
// MULTIs of a thread, and how EXEC carries them out: in one turn of a shard, or over shards as a
// transaction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_turn.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/io_buf.h"
#include "server/base/per_thread.h"
#include "server/care/memory_use.h"
#include "server/care/pools.h"
#include "server/care/shard_care.h"
#include "server/clients/multi.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/command_runner.h"

namespace dfly {

class Session;
class Transaction;

// Owner:    a worker; on its thread.
// Suspends: RunAcross.
class Execs final : public Pool, public PerThread<Execs> {
 public:
  Execs(WorkerState* worker, MemoryUse* memory, Pools* pools, ShardCare* care,
        CommandRunner* runner);

  // They are pooled.
  std::unique_ptr<Multi> NewMulti(int db_index);
  void Recycle(std::unique_ptr<Multi> multi);
  // DISCARD, and an EXEC that was refused.
  void EndMulti(Session& session);
  // Takes effect soon: what is watched next is not concerned.
  void Unwatch(Session& session);
  uint64_t NextWatcher();

  // EXEC in one shard, on its thread. `now_ms`: Unix time.
  void Run(ShardTurn& turn, const Command& row, const Multi& multi, int64_t now_ms,
           RespWriter& writer);
  // EXEC over shards, a CoordinatorHandler.
  static void RunAcross(CoordinatorContext& cx, Args args, ReplySink& sink);

 private:
  // Pool: of MULTIs.
  void Halve() override { pool_.resize(pool_.size() / 2); }
  void Drop() override { pool_.clear(); }
  bool is_empty() const override { return pool_.empty(); }
  void ReleaseScratch() override;

  // What its commands use; valid until the next command is run.
  std::span<const uint64_t> SpareKeysOf(const Multi& multi);
  void RunInExec(CoordinatorContext& cx, Transaction& tx, const Multi::Item& item, Args args,
                 helio::IoBuf* out);

  WorkerState& worker_;
  ServerState& server_;
  ShardSet& shards_;
  MemoryUse& memory_;
  ShardCare& care_;
  CommandRunner& runner_;
  std::vector<std::unique_ptr<Multi>> pool_;
  uint64_t last_watcher_ = 0;
  std::vector<std::string_view> args_;  // scratch of Run
  std::vector<uint64_t> spared_;        // scratch of SpareKeysOf
};

}  // namespace dfly
