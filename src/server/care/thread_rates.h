// SPDX-License-Identifier: Apache-2.0
// What one thread has done in the last complete second.
#pragma once

#include <cstdint>

#include "helio/base/counters.h"
#include "server/base/rate_meter.h"
#include "server/care/pools.h"
#include "server/clients/worker_state.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: never.
class ThreadRates : public PerThread<ThreadRates> {
 public:
  ThreadRates(WorkerState* worker, Pools* pools)
      : PerThread(this), worker_(*worker), pools_(*pools) {}

  struct Rates {
    uint64_t commands = 0;
    uint64_t received_bytes = 0;
    uint64_t sent_bytes = 0;
    uint64_t loop_cycles = 0;
    uint64_t loop_us = 0;

    static constexpr helio::CounterOf<Rates> kCounters[] = {
        &Rates::commands, &Rates::received_bytes, &Rates::sent_bytes, &Rates::loop_cycles,
        &Rates::loop_us};
  };
  // Of the event loop: its iterations, and the processor's time that it took.
  struct LoopTotals {
    uint64_t cycles = 0;
    uint64_t us = 0;

    static constexpr helio::CounterOf<LoopTotals> kCounters[] = {&LoopTotals::cycles,
                                                                 &LoopTotals::us};
  };

  // Some commands have come.
  void Count(int64_t now_ms) {
    const int64_t seconds = commands_.Update(now_ms, worker_.stats.commands_processed);
    if (seconds != 0) [[unlikely]]
      OnSecond(seconds);
  }
  Rates rates() const;
  // Since the start or Reset.
  LoopTotals loop_totals() const;
  void Reset();

 private:
  void OnSecond(int64_t seconds);

  WorkerState& worker_;
  Pools& pools_;
  RateMeter commands_;
  SideMeter received_;
  SideMeter sent_;
  SideMeter loop_;
  SideMeter loop_us_;
  LoopTotals loop_before_;  // when Reset was called
};

static_assert(helio::ListsAll<ThreadRates::Rates>());
static_assert(helio::ListsAll<ThreadRates::LoopTotals>());

}  // namespace dfly
