// SPDX-License-Identifier: Apache-2.0
#include "helio/base/cycle_clock.h"

#include <cmath>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace helio {
namespace {

constexpr double kFraction = 4294967296.0;  // 2^32

#if defined(__x86_64__)
// The counter ticks at one rate in all power states: leaf 0x80000007, EDX bit 8. Some hypervisors
// hide the bit although the host's counter is fine; we lose only speed there.
bool CounterIsInvariant() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
}

// A pair of readings that belong together: of several tries the one with the least delay between.
struct Reading {
  int64_t cycles;
  int64_t nanos;
};

Reading ReadBoth() {
  Reading best{0, 0};
  int64_t best_gap = INT64_MAX;
  for (int i = 0; i < 10; i++) {
    const int64_t before = static_cast<int64_t>(__builtin_ia32_rdtsc());
    const int64_t nanos = CycleClock::MonotonicNanos();
    const int64_t after = static_cast<int64_t>(__builtin_ia32_rdtsc());
    if (after - before < best_gap) {
      best_gap = after - before;
      best = {before + (after - before) / 2, nanos};
    }
  }
  return best;
}

// Cycles per nanosecond over a few milliseconds, or 0 if the counter misbehaves.
double MeasureRate() {
  constexpr int64_t kSpanNanos = 2'000'000;
  double rates[2] = {0, 0};
  for (double& rate : rates) {
    const Reading begin = ReadBoth();
    Reading end = begin;
    while (end.nanos - begin.nanos < kSpanNanos) end = ReadBoth();
    if (end.cycles <= begin.cycles) return 0;
    rate = static_cast<double>(end.cycles - begin.cycles) /
           static_cast<double>(end.nanos - begin.nanos);
  }
  return std::abs(rates[0] - rates[1]) < 0.005 * rates[0] ? (rates[0] + rates[1]) / 2 : 0;
}
#endif

}  // namespace

CycleClock::Scales CycleClock::Calibrate() {
  double cycles_per_nano = 0;
#if defined(__x86_64__)
  if (CounterIsInvariant()) {
    // A preemption in the middle of a measurement spoils it, hence three tries.
    for (int i = 0; i < 3 && cycles_per_nano == 0; i++) cycles_per_nano = MeasureRate();
  }
#elif defined(__aarch64__)
  uint64_t hertz;  // the counter is invariant by definition and tells its rate
  asm("mrs %0, cntfrq_el0" : "=r"(hertz));
  cycles_per_nano = static_cast<double>(hertz) / 1e9;
#endif
  if (cycles_per_nano <= 0) {
    return {false, static_cast<uint64_t>(kFraction), static_cast<uint64_t>(kFraction)};
  }
  return {true, static_cast<uint64_t>(std::llround(kFraction / cycles_per_nano)),
          static_cast<uint64_t>(std::llround(kFraction * cycles_per_nano))};
}

const CycleClock::Scales CycleClock::scale_ = CycleClock::Calibrate();

}  // namespace helio
