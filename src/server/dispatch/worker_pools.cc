// SPDX-License-Identifier: Apache-2.0
// What a worker keeps for reuse: buffers of connections, batches, MULTIs, stacks of fibers, Lua
// states, fibers of scripts. It all counts for maxmemory, so it goes when nobody uses it: a half of
// it each few seconds, by a timer that is armed only while there is some. So a thread that does
// nothing wakes for it some times after its last command, and then no more. Who is short of memory
// does not wait for that (Worker::GiveBack).
#include <utility>

#include "helio/base/clock.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

constexpr uint64_t kPoolPeriodNanos = 2'000'000'000;
// Of Lua states that have much in them, each takes a while.
constexpr uint64_t kShrinkSliceNanos = 500'000;
// Elements; a scratch vector of fewer stays.
constexpr size_t kScratchKept = 4096;

template <typename T>
void Release(std::vector<T>* scratch) {
  if (scratch->capacity() > kScratchKept) *scratch = {};
}

}  // namespace

void Worker::ArmPoolTimer() {
  proactor_.timers().Arm(&pool_timer_, helio::MonotonicNanos() + kPoolPeriodNanos);
}

void Worker::PoolTick() {
  const bool is_more = ShrinkPools();
  SettleMemory();
  // What is under way will come back to the pools.
  const bool has_worked = std::exchange(looked_commands_, state_.stats.commands_processed) !=
                          state_.stats.commands_processed;
  if (is_more || has_worked || batches_in_flight_ > 0 || running_scripts_count_ > 0) ArmPoolTimer();
}

bool Worker::ShrinkPools() {
  helio::StackPool& stacks = proactor_.scheduler().stacks();
  ShrinkBatches(batch_pool_.size() / 2);
  multi_pool_.resize(multi_pool_.size() / 2);
  state_.buffers.Halve();
  script_fibers_.Shrink(script_fibers_.idle() / 2);
  stacks.Halve();
  const bool has_states = interpreters_.ShrinkUnused(helio::MonotonicNanos() + kShrinkSliceNanos);
  CountInterpreters();
  ReleaseScratch();
  return has_states || !batch_pool_.empty() || !multi_pool_.empty() || state_.buffers.bytes() > 0 ||
         script_fibers_.idle() > 0 || stacks.kept() > 0;
}

void Worker::ShrinkBatches(size_t left) {
  if (batch_pool_.size() <= left) return;
  const auto end = batch_pool_.end() - static_cast<ptrdiff_t>(left);
  for (auto it = batch_pool_.begin(); it != end; ++it) {
    batch_pool_bytes_ -= (*it)->counted;
    Delete(*it);
  }
  batch_pool_.erase(batch_pool_.begin(), end);
}

void Worker::DropPools() {
  ShrinkBatches(0);
  multi_pool_.clear();
  state_.buffers.Drop();
}

void Worker::ReleaseScratch() {
  if (!noted_.empty()) return;
  Release(&noted_args_);
  Release(&batch_args_);
  Release(&exec_args_);
  Release(&tags_);
  Release(&spared_);
}

}  // namespace dfly
