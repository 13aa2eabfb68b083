// SPDX-License-Identifier: Apache-2.0
#include "helio/base/cycle_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace helio {
namespace {

TEST(CycleClockTest, NeverGoesBack) {
  int64_t last = CycleClock::Now();
  for (int i = 0; i < 100'000; i++) {
    const int64_t now = CycleClock::Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(CycleClockTest, AgreesWithTheSystemClock) {
  // Being descheduled between two readings can only spoil a single try, so the best counts.
  double best = 1;
  for (int i = 0; i < 10 && best > 0.01; i++) {
    const int64_t nanos = CycleClock::MonotonicNanos();
    const int64_t cycles = CycleClock::Now();
    int64_t passed = 0;
    while (passed < 3'000'000) passed = CycleClock::MonotonicNanos() - nanos;
    const int64_t measured = CycleClock::ToNanos(CycleClock::Now() - cycles);
    best = std::min(best,
                    std::abs(static_cast<double>(measured - passed)) / static_cast<double>(passed));
  }
  EXPECT_LT(best, 0.01);
}

TEST(CycleClockTest, ConversionsAreInverse) {
  for (int64_t nanos : {int64_t{1000}, int64_t{1'000'000'000}, int64_t{86'400'000'000'000}}) {
    const int64_t back = CycleClock::ToNanos(CycleClock::FromNanos(nanos));
    EXPECT_NEAR(static_cast<double>(back), static_cast<double>(nanos),
                static_cast<double>(nanos) * 1e-6 + 100);
  }
  EXPECT_EQ(CycleClock::ToNanos(0), 0);
  EXPECT_LE(CycleClock::ToNanos(-1'000'000), 0);
}

}  // namespace
}  // namespace helio
