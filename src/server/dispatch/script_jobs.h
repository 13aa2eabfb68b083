// SPDX-License-Identifier: Apache-2.0
// EVAL and its like: which way a script goes, scripts in place and how they give way, and scripts
// over shards. See script_run.h for what happens inside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/shard_set.h"
#include "server/base/per_thread.h"
#include "server/care/running_scripts.h"
#include "server/care/script_args.h"
#include "server/care/script_finder.h"
#include "server/care/shard_care.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/command_runner.h"
#include "server/dispatch/script_job.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: what runs a script over shards.
class ScriptJobs : public PerThread<ScriptJobs> {
 public:
  ScriptJobs(WorkerState* worker, ScriptFinder* finder, RunningScripts* scripts, ShardCare* care,
             CommandRunner* runner);

  struct Plan {
    enum class Way : uint8_t { kInPlace, kAcross, kGlobal, kAlone };
    Way way;
    ShardId shard = 0;  // kInPlace
    uint64_t hash = 0;  // of its first key
  };
  Plan PlanOf(const Script& script, std::span<const std::string_view> keys);

  // --- In place ---

  ScriptJob* New();
  void Recycle(ScriptJob* job);
  // Runs the job in its shard. False: it goes on later (then ScriptJob::on_end comes), or has to be
  // run again (is_abandoned), and needs a batch.
  bool Run(ScriptJob* job);

  // --- Over shards, on a fiber ---

  // A CoordinatorHandler. Suspends.
  static void OverShards(CoordinatorContext& cx, Args args, ReplySink& reply);
  // `discovered`: keys that it used without declaring them, as earlier runs have told;
  // `wants_all_keys`: no list is enough. Suspends.
  void RunOverShards(CoordinatorContext& cx, const Command& command, Script* script,
                     const ScriptArgs& call, std::vector<std::string> discovered,
                     bool wants_all_keys, ReplySink& reply);

 private:
  // On a fiber.
  static void Main(void* job);

  WorkerState& worker_;
  ServerState& server_;
  ShardSet& shards_;
  ScriptFinder& finder_;
  RunningScripts& scripts_;
  ShardCare& care_;
  CommandRunner& runner_;
  std::vector<std::unique_ptr<ScriptJob>> jobs_;  // all that there are
  std::vector<ScriptJob*> idle_;
};

}  // namespace dfly
