// SPDX-License-Identifier: Apache-2.0
// Do all threads run what they are sent?
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "helio/proactor/proactor_pool.h"

namespace dfly {

// Asks each thread of a pool, and knows for how long one has not answered. A thread may answer when
// the Pulse is no more.
// Owner:    whoever waits for the threads.
// Thread:   one at a time, a fiber's or a plain one.
// Suspends: never.
// Times:    monotonic nanoseconds.
class Pulse {
 public:
  // REQUIRES: the pool outlives it.
  explicit Pulse(helio::ProactorPool* pool);

  // Asks those that have answered, and returns for how long one has not, at most. 0 the first time.
  uint64_t LongestSilence(uint64_t now_ns);
  // Silence counts from now on.
  void Forget(uint64_t now_ns);

 private:
  struct Beat {
    uint64_t asked_ns = 0;
    std::atomic<bool> is_asked{false};
  };
  helio::ProactorPool& pool_;
  std::vector<std::shared_ptr<Beat>> beats_;
};

}  // namespace dfly
