// SPDX-License-Identifier: Apache-2.0
#include "server/care/pools.h"

#include <algorithm>
#include <utility>

#include "helio/base/clock.h"

namespace dfly {

namespace {

// Of Lua states that have much in them, each takes a while.
constexpr uint64_t kShrinkSliceNanos = 500'000;

}  // namespace

Pools::Pools(WorkerState* worker, MemoryUse* memory, RunningScripts* scripts)
    : worker_(*worker), memory_(*memory), scripts_(*scripts), timer_(this, &worker->proactor) {
  worker->on_fiber_end = [this] { Note(); };
}

void Pools::Tick() {
  const bool is_more = Shrink();
  memory_.Settle();
  // What is under way will come back to the pools.
  const bool has_worked = std::exchange(looked_commands_, worker_.stats.commands_processed) !=
                          worker_.stats.commands_processed;
  const bool is_in_use =
      std::any_of(pools_.begin(), pools_.end(), [](const Pool* pool) { return pool->has_more(); });
  if (is_more || has_worked || is_in_use || scripts_.count() > 0) Note();
}

bool Pools::Shrink() {
  helio::StackPool& stacks = worker_.proactor.scheduler().stacks();
  helio::FiberPool& fibers = scripts_.fibers();
  for (Pool* pool : pools_) pool->Halve();
  worker_.buffers.Halve();
  fibers.Shrink(fibers.idle() / 2);
  stacks.Halve();
  const bool has_states = scripts_.ShrinkUnused(helio::MonotonicNanos() + kShrinkSliceNanos);
  ReleaseScratch();
  const bool is_empty =
      std::all_of(pools_.begin(), pools_.end(), [](const Pool* pool) { return pool->is_empty(); });
  return has_states || !is_empty || worker_.buffers.bytes() > 0 || fibers.idle() > 0 ||
         stacks.kept() > 0;
}

void Pools::Drop() {
  for (Pool* pool : pools_) pool->Drop();
  worker_.buffers.Drop();
}

void Pools::ReleaseScratch() {
  for (Pool* pool : pools_) pool->ReleaseScratch();
}

}  // namespace dfly
