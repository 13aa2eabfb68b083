// SPDX-License-Identifier: Apache-2.0
// A fiber's handle, and what a fiber may do to itself.
#pragma once

#include <string>
#include <utility>

#include "helio/base/clock.h"
#include "helio/fibers/scheduler.h"

namespace helio {

// A cooperative user-space thread. It never leaves the thread that made it.
// Like std::thread: joined or detached before the handle dies.
class Fiber {
 public:
  Fiber() = default;
  // Thread: one with a Scheduler; the fiber runs there, soon, not now.
  Fiber(FiberOptions options, FiberState::Function function)
      : state_(Scheduler::Current()->Spawn(std::move(options), std::move(function))) {}
  Fiber(const char* name, FiberState::Function function)
      : Fiber(FiberOptions{.name = std::move(name)}, std::move(function)) {}
  Fiber(Fiber&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Fiber& operator=(Fiber&& other) noexcept {
    DCHECK(!joinable());
    state_ = std::exchange(other.state_, nullptr);
    return *this;
  }
  ~Fiber() {
    CHECK(!joinable()) << "fiber " << state_->name() << " was neither joined nor detached";
  }

  bool joinable() const { return state_ != nullptr; }

  // Waits until the fiber's function has returned. Thread: any. Suspends, or blocks a plain thread.
  void Join() {
    DCHECK(joinable());
    state_->Join();
    std::exchange(state_, nullptr)->Release();
  }
  void Detach() { std::exchange(state_, nullptr)->Release(); }

 private:
  FiberState* state_ = nullptr;
};

namespace this_fiber {

// Lets everything that is ready run first. Suspends.
inline void Yield() { Scheduler::Current()->Yield(); }

// Suspends until the monotonic clock has reached `deadline_ns`.
inline void SleepUntil(uint64_t deadline_ns) {
  while (MonotonicNanos() < deadline_ns) {
    const bool woken = Scheduler::Current()->WaitForWakeUntil(deadline_ns);
    DCHECK(!woken) << "nobody may wake a sleeping fiber";
  }
}
inline void SleepForNanos(uint64_t nanos) { SleepUntil(MonotonicNanos() + nanos); }
inline void SleepForMillis(uint64_t millis) { SleepForNanos(millis * 1'000'000); }

}  // namespace this_fiber

}  // namespace helio
