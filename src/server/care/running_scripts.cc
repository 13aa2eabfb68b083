// SPDX-License-Identifier: Apache-2.0
#include "server/care/running_scripts.h"

#include "helio/base/clock.h"
#include "server/clients/server_state.h"

namespace dfly {

namespace {

constexpr uint64_t kSliceNanos = 250'000;
constexpr uint64_t kSliceNanosMin = 100'000;
// Of what scripts have left.
constexpr uint64_t kCollectSliceNanos = helio::kNanosPerMilli / 2;
constexpr uint64_t kCollectRestNanos = helio::kNanosPerMilli;
constexpr size_t kIdleFibersMax = 8;

}  // namespace

RunningScripts::RunningScripts(WorkerState* worker, MemoryUse* memory)
    : PerThread(this),
      worker_(*worker),
      memory_(*memory),
      interpreters_(worker->server.options.interpreters_per_thread,
                    worker->server.options.lua_memory_max),
      fibers_({.name = "script", .stack_size = kStackBytes}, kIdleFibersMax),
      collect_timer_(this, &worker->proactor) {}

void RunningScripts::OnBegin(LongRun* run) {
  runs_.PushBack(run);
  ++count_;
}

void RunningScripts::OnEnd(LongRun* run) {
  run->Unlink();
  --count_;
}

uint64_t RunningScripts::slice_ns() const {
  return std::max(kSliceNanosMin, kSliceNanos / std::max<uint64_t>(1, count_));
}

void RunningScripts::RenewInterpreters() {
  interpreters_.Renew();
  CountInterpreters();
  memory_.Settle();
}

void RunningScripts::CollectNow(uint64_t until_ns) {
  if (memory_.counted.interpreters_transient == 0) return;
  interpreters_.Collect(InterpreterPool::kGarbageMinShort, until_ns);
  CountInterpreters();
}

bool RunningScripts::ShrinkUnused(uint64_t until_ns) {
  const bool is_more = interpreters_.ShrinkUnused(until_ns);
  CountInterpreters();
  return is_more;
}

void RunningScripts::Shrink() {
  interpreters_.Shrink();
  CountInterpreters();
  fibers_.Shrink(0);
}

// Soon, but not between two scripts of one pipeline.
void RunningScripts::ArmCollector() { collect_timer_.ArmIn(kCollectRestNanos); }

void RunningScripts::CollectTick() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  const bool is_short = worker_.server.memory.is_over();
  const size_t worth = is_short ? InterpreterPool::kGarbageMinShort : InterpreterPool::kGarbageMin;
  const bool is_more = interpreters_.Collect(worth, begin_ns + kCollectSliceNanos);
  CountInterpreters();
  memory_.Settle();
  if (is_more) ArmCollector();
}

}  // namespace dfly
