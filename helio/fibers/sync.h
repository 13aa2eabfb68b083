// SPDX-License-Identifier: Apache-2.0
// Waiting for each other: Mutex, CondVar, EventCount, BlockingCounter, Future.
//
// Thread:   all of them may be used by fibers of any thread and by plain threads at once.
// Suspends: whatever waits. A fiber is suspended and its thread goes on; a plain thread is blocked.
// None may be used
//           from a loop's own context (a brief), which must not wait.
//
// Each waker takes the waiters out of the list under a spin lock, lets it go, and wakes them
// afterwards: its last touch of the object is the unlock, so the one that is woken may destroy the
// object at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "helio/base/spin_lock.h"
#include "helio/fibers/hold.h"
#include "helio/fibers/scheduler.h"

namespace helio {

// Waiters in order of arrival. Guarded by its owner's lock.
class WaiterList {
 public:
  bool empty() const { return head_ == nullptr; }
  void PushBack(Waiter* waiter);
  Waiter* PopFront();           // null if empty
  bool Remove(Waiter* waiter);  // false if a PopFront or TakeAll has already taken it
  WaiterList TakeAll();
  void WakeAll();  // on what TakeAll gave, not under the owner's lock

 private:
  void Unlink(Waiter* waiter);

  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
};

// Fair: the lock is handed to whoever waits longest. Satisfies Lockable (std::lock_guard,
// std::unique_lock).
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock();
  bool try_lock();
  void unlock();

 private:
  SpinLock spin_;
  bool locked_ = false;
  WaiterList waiters_;
};

// A Mutex that a fiber may take which holds something already: whoever has it holds that, too, in
// the sense of hold.h. So he waits for nothing that needs what others hold, and it comes free.
class HoldableMutex {
 public:
  // `reason`: static.
  explicit HoldableMutex(const WaitReason& reason) : reason_(reason) {}

  void lock() {
    {
      const BoundedWait wait(reason_);
      mutex_.lock();
    }
    hold_.Begin();
  }
  void unlock() {
    hold_.End();
    mutex_.unlock();
  }

 private:
  const WaitReason& reason_;
  Mutex mutex_;
  Hold hold_;  // guarded by mutex_
};

class CondVar {
 public:
  // Lets `lock` go, waits for a notification, and takes it again. No spurious returns, but by then
  // what was announced may be untrue again.
  void Wait(std::unique_lock<Mutex>& lock);
  // Returns false if the deadline (monotonic nanoseconds) came first.
  bool WaitUntil(std::unique_lock<Mutex>& lock, uint64_t deadline_ns);
  template <typename Condition>
  void Wait(std::unique_lock<Mutex>& lock, Condition condition) {
    while (!condition()) Wait(lock);
  }

  void NotifyOne();
  void NotifyAll();

 private:
  SpinLock spin_;
  WaiterList waiters_;
};

// Waits for a condition over atomics that other threads change, without a mutex around them
// (Vyukov's event count). Whoever makes the condition true calls Notify() afterwards; when nobody
// waits that is a fence and a load.
class EventCount {
 public:
  template <typename Condition>
  void Await(Condition condition) {
    CheckMayWait();
    while (!condition()) {
      const uint32_t epoch = PrepareWait();
      if (condition()) {
        CancelWait();
        return;
      }
      CommitWait(epoch);
    }
  }

  // Wakes all that wait; each looks at its condition again.
  void Notify();

 private:
  uint32_t PrepareWait();
  void CancelWait();
  void CommitWait(uint32_t epoch);

  std::atomic<uint32_t> announced_{0};  // parties between PrepareWait and the end of their wait
  SpinLock spin_;
  uint32_t epoch_ = 0;  // guarded by spin_
  WaiterList waiters_;  // guarded by spin_
};

// Waits until Done() was called `count` times. The waiter may destroy it as soon as Wait() returns.
class BlockingCounter {
 public:
  explicit BlockingCounter(uint32_t count) : left_(count), done_(count == 0) {}

  void Done();
  void Wait();

 private:
  std::atomic<uint32_t> left_;
  SpinLock spin_;
  bool done_;           // guarded by spin_
  WaiterList waiters_;  // guarded by spin_
};

// A value that arrives once. Copies of a Future share it.
template <typename T>
class Future {
 public:
  Future() : state_(std::make_shared<State>()) {}

  // At most once.
  void Resolve(T value) {
    state_->value.emplace(std::move(value));
    state_->arrived.Done();
  }
  // Waits for the value and moves it out; one caller only.
  T Get() {
    state_->arrived.Wait();
    return std::move(*state_->value);
  }

 private:
  struct State {
    std::optional<T> value;
    BlockingCounter arrived{1};
  };
  std::shared_ptr<State> state_;
};

}  // namespace helio
