// SPDX-License-Identifier: Apache-2.0
// The two clocks: monotonic nanoseconds for intervals and timers, Unix milliseconds for what users
// see.
#pragma once

#include <time.h>

#include <cstdint>

namespace helio {

inline constexpr uint64_t kNanosPerMicro = 1'000;
inline constexpr uint64_t kNanosPerMilli = 1'000'000;
inline constexpr uint64_t kNanosPerSecond = 1'000'000'000;

// Thread: any. Nanoseconds of CLOCK_MONOTONIC.
inline uint64_t MonotonicNanos() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(ts.tv_nsec);
}

// Thread: any. 0 if another thread has read the clock later.
inline double SecondsSince(uint64_t begin_ns) {
  const uint64_t now_ns = MonotonicNanos();
  return now_ns > begin_ns ? static_cast<double>(now_ns - begin_ns) / 1e9 : 0;
}

// Thread: any. Microseconds since 1970-01-01 UTC.
inline int64_t UnixMicros() {
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000 + ts.tv_nsec / 1000;
}

inline int64_t UnixMillis() { return UnixMicros() / 1000; }

}  // namespace helio
