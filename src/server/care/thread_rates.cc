// SPDX-License-Identifier: Apache-2.0
#include "server/care/thread_rates.h"

#include <sys/resource.h>

#include "helio/base/clock.h"

namespace dfly {

void ThreadRates::OnSecond(int64_t seconds) {
  const BufferPool::Traffic& traffic = worker_.buffers.traffic;
  received_.Roll(seconds, traffic.received_bytes);
  sent_.Roll(seconds, traffic.sent_bytes);
  const LoopTotals loop = loop_totals();
  loop_.Roll(seconds, loop.cycles);
  loop_us_.Roll(seconds, loop.us);
  pools_.Note();
}

void ThreadRates::Reset() {
  commands_.Reset();
  received_.Reset();
  sent_.Reset();
  loop_.Reset();
  loop_us_.Reset();
  loop_before_ = {};
  loop_before_ = loop_totals();
}

ThreadRates::LoopTotals ThreadRates::loop_totals() const {
  rusage thread{};
  getrusage(RUSAGE_THREAD, &thread);
  const auto us = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
  };
  return {.cycles = worker_.proactor.stats().iterations - loop_before_.cycles,
          .us = us(thread.ru_utime) + us(thread.ru_stime) - loop_before_.us};
}

ThreadRates::Rates ThreadRates::rates() const {
  const int64_t now_ms = helio::UnixMillis();
  const int64_t seconds = commands_.SecondsSince(now_ms);
  const BufferPool::Traffic& traffic = worker_.buffers.traffic;
  const LoopTotals loop = loop_totals();
  return {.commands = commands_.Rate(now_ms),
          .received_bytes = received_.Rate(seconds, traffic.received_bytes),
          .sent_bytes = sent_.Rate(seconds, traffic.sent_bytes),
          .loop_cycles = loop_.Rate(seconds, loop.cycles),
          .loop_us = loop_us_.Rate(seconds, loop.us)};
}

}  // namespace dfly
