// SPDX-License-Identifier: Apache-2.0
// Fibers that are entered by a call: for work that nearly always ends without having to wait, but
// may wait. It begins at once, on a stack of its own, and if it does not suspend nobody else has
// run meanwhile.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "helio/fibers/scheduler.h"

namespace helio {

// Owner:    one thread with a Scheduler.
// Suspends: never; what it runs may.
class FiberPool {
 public:
  using Function = void (*)(void* arg);

  // Fibers of `options` are made when they are needed; up to `idle_max` are kept.
  FiberPool(FiberOptions options, size_t idle_max);
  // REQUIRES: none runs.
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // Calls function(arg) on a fiber, now. True: it has returned. False: it has suspended, and goes
  // on as any fiber does. From the loop, or from another fiber.
  bool Run(Function function, void* arg);

  size_t running() const { return running_; }
  size_t idle() const { return idle_.size(); }
  // Idle ones end, until so many are left; those first that were not used for longest. From the
  // loop, or from a fiber that is none of them.
  void Shrink(size_t idle_left);

 private:
  struct Member {
    FiberState* fiber = nullptr;
    Function function = nullptr;  // null: it is to end
    void* arg = nullptr;
    bool* has_returned = nullptr;  // of the Run that has not returned yet
  };

  Member* Take();
  void Main(Member* member);

  const FiberOptions options_;
  const size_t idle_max_;
  std::vector<Member*> idle_;
  size_t running_ = 0;
};

}  // namespace helio
