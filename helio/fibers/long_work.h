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
  // It looks at the clock behind so many steps.
  explicit LongWork(uint32_t steps_per_look = 64)
      : steps_per_look_(steps_per_look), steps_left_(steps_per_look) {}

  // Behind each step, of which `steps_per_look` take some ten microseconds at most.
  void Step() {
    if (--steps_left_ == 0) Look();
  }

 private:
  static constexpr int64_t kSliceNanos = 100'000;

  void Look();

  const uint32_t steps_per_look_;
  uint32_t steps_left_;
  int64_t begin_ = CycleClock::Now();
};

}  // namespace helio
