// SPDX-License-Identifier: Apache-2.0
// What scripts of one thread run in: interpreters, fibers; and which of them run now.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "commands/table/command_table.h"
#include "core/text/string_cache.h"
#include "helio/base/intrusive_list.h"
#include "helio/fibers/fiber_pool.h"
#include "scripting/interpreter.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/care/long_run.h"
#include "server/care/memory_use.h"
#include "server/clients/worker_state.h"
#include "server/scripts/interpreter_pool.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: never.
class RunningScripts : public PerThread<RunningScripts> {
 public:
  RunningScripts(WorkerState* worker, MemoryUse* memory);

  // The interpreter's, and for what commands need below it; only touched pages cost memory.
  static constexpr size_t kStackBytes = std::max<size_t>(1 << 20, 2 * Interpreter::kStackBytes);

  WorkerState& worker() { return worker_; }
  InterpreterPool& interpreters() { return interpreters_; }
  helio::FiberPool& fibers() { return fibers_; }
  // By the names that scripts call them. Null: there is none.
  using Commands = StringCache<const Command*, 64, 24>;
  Commands& commands() { return commands_; }

  // --- What runs ---

  void OnBegin(LongRun* run);
  void OnEnd(LongRun* run);
  // It gives way for the first time.
  void OnLong() { ++worker_.stats.scripts.gave_way; }
  size_t count() const { return count_; }
  // How long a script runs before it lets others run: less if several do.
  uint64_t slice_ns() const;
  // fn(LongRun&), for each.
  template <typename Function>
  void ForEach(Function function) {
    for (LongRun& run : runs_) function(run);
  }

  // --- Memory of interpreters ---

  // What they have may have changed.
  void CountInterpreters() {
    const InterpreterPool::Memory memory = interpreters_.memory();
    memory_.counted.interpreters = memory.used;
    memory_.counted.interpreters_transient = memory.transient;
  }
  // A script has ended or something was compiled, and its interpreter is free again.
  void OnInterpreterBack() {
    CountInterpreters();
    if (memory_.counted.interpreters_transient != 0 && !collect_timer_.armed()) [[unlikely]]
      ArmCollector();
  }
  // What was compiled goes, and garbage with it: SCRIPT FLUSH, FUNCTION FLUSH.
  void RenewInterpreters();
  // Memory is short: collects until `until_ns`.
  void CollectNow(uint64_t until_ns);
  // InterpreterPool's.
  bool ShrinkUnused(uint64_t until_ns);
  // MEMORY PURGE: all that is not in use, however long that takes.
  void Shrink();

 private:
  void ArmCollector();
  void CollectTick();

  WorkerState& worker_;
  MemoryUse& memory_;
  InterpreterPool interpreters_;
  helio::FiberPool fibers_;
  Commands commands_;
  helio::IntrusiveList<LongRun> runs_;
  size_t count_ = 0;
  // Armed while scripts have left something that is worth a collection.
  OwnedTimer<&RunningScripts::CollectTick> collect_timer_;
};

}  // namespace dfly
