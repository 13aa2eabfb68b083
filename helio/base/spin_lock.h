// SPDX-License-Identifier: Apache-2.0
// A lock for critical sections of a few instructions that several threads share. Everything longer
// uses the fiber Mutex, or a message to the owner.
#pragma once

#include <sched.h>

#include <atomic>

namespace helio {

// Thread: any. Suspends: never; it may spin, so nothing under it may wait, log or allocate.
// It satisfies BasicLockable: use std::lock_guard<SpinLock>.
class SpinLock {
 public:
  void lock() {
    // The holder may have been preempted on this very core (more threads than cores): give it the
    // core soon.
    for (int spins = 0; locked_.exchange(true, std::memory_order_acquire); ++spins) {
      if (spins > 32) sched_yield();
    }
  }
  void unlock() {
    locked_.store(false, std::memory_order_release);
  }  // pairs with the acquire in lock()

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace helio
