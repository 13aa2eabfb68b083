// SPDX-License-Identifier: Apache-2.0
// Work of a fiber that takes long, cut into slices: others run in between.
#pragma once

#include <cstdint>

#include "helio/base/cycle_clock.h"

namespace helio {

// Owner:    a fiber, for one piece of work; it may hold locks.
// Suspends: Step, now and then.
class LongWork {
 public:
  // Behind each step, which takes some microseconds at most.
  void Step() {
    if (--steps_left_ == 0) Look();
  }

 private:
  static constexpr uint32_t kStepsPerLook = 64;
  static constexpr int64_t kSliceNanos = 100'000;

  void Look();

  uint32_t steps_left_ = kStepsPerLook;
  int64_t begin_ = CycleClock::Now();
};

}  // namespace helio
