// SPDX-License-Identifier: Apache-2.0
// The fibers of one thread: which are ready, which wait, and the switch between them.
//
// The thread's own stack runs a loop (a Proactor's, or Scheduler::RunUntilDone in tests) that calls
// RunReady(). A fiber that suspends switches back to that loop, and the loop resumes the next one.
// Going through the loop costs a second switch of a few nanoseconds and buys one place where all
// bookkeeping happens.
//
//   fiber state:   ready --RunReady--> running --Suspend--> suspended --wake--> ready
//                                         \--its function returns--> done
#pragma once

#include <absl/functional/any_invocable.h>

#include <atomic>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "helio/base/sanitizers.h"
#include "helio/base/spin_lock.h"
#include "helio/fibers/inbox.h"
#include "helio/fibers/no_suspend.h"
#include "helio/fibers/stack_pool.h"
#include "helio/fibers/timer_queue.h"

namespace helio {

class Hold;
class Scheduler;
class Waiter;

enum class FiberPriority : uint8_t {
  kNormal,
  kBackground,  // runs only when the loop has found nothing else to do, or has been kept waiting
                // for too long
};

struct FiberOptions {
  std::string name;
  size_t stack_size = 0;  // bytes; 0: the default of --fiber_stack_size
  FiberPriority priority = FiberPriority::kNormal;
};

// The state of one fiber. Counted: by its handle(s) and by the scheduler as long as it runs.
// Everything but the reference count and `done` belongs to the scheduler's thread. Users hold a
// Fiber (fiber.h) instead.
class FiberState {
 public:
  using Function = absl::AnyInvocable<void()>;

  FiberState(Scheduler* scheduler, FiberOptions options, Function function);

  void AddRef() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    // acq_rel: the last one to let go sees all that the others wrote, and pairs with their
    // releases.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  const std::string& name() const { return options_.name; }
  Scheduler* scheduler() const { return scheduler_; }

  // Thread: any. Ends the fiber's present wait (see Waiter). At most one Wake for each wait.
  void Wake();

  // Thread: any; suspends a fiber, blocks a plain thread. Returns once the fiber's function has
  // returned.
  void Join();

 private:
  friend class BoundedWait;
  friend class Hold;
  friend class Scheduler;
  friend void CheckMayWait();
  enum class Status : uint8_t { kReady, kRunning, kSuspended, kDone };

  ~FiberState();

  // The boost stack allocator's interface: hands the stack back once the fiber has left it.
  struct StackReturner;

  Scheduler* const scheduler_;
  FiberOptions options_;
  Function function_;
  std::atomic<uint32_t> references_{1};
  Status status_ = Status::kReady;
  bool woken_ = false;    // a Wake came that no wait has taken yet
  Hold* hold_ = nullptr;  // what it has that others wait for, the last one first (hold.h)
  Stack stack_;
  boost::context::fiber context_;
  [[no_unique_address]] SanitizerContext sanitizer_;
  struct WaitTimer : Timer {
    using Timer::Timer;
    FiberState* fiber = nullptr;
  } timer_;
  struct WakeMessage : Message {
    FiberState* fiber = nullptr;
  } wake_message_;

  SpinLock join_lock_;
  bool done_ = false;             // guarded by join_lock_
  std::vector<Waiter*> joiners_;  // guarded by join_lock_
};

// Owner:    one thread; all calls from that thread unless said otherwise.
// Suspends: only the calls that say so.
class Scheduler {
 public:
  // Makes this the scheduler of the calling thread. `wake_thread` is called from other threads when
  // a message arrives while the thread sleeps (after PrepareSleep() on the inbox); by default it
  // ends the sleep of RunUntilDone(). A scheduler outlives every other thread's last call to it:
  // stop all threads first, then destroy.
  explicit Scheduler(absl::AnyInvocable<void()> wake_thread = nullptr);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The calling thread's scheduler, or null on a plain thread.
  static Scheduler* Current() { return current_; }
  // The running fiber, or null in the loop itself and on plain threads.
  static FiberState* CurrentFiber() { return current_ ? current_->running_ : nullptr; }

  // Makes a fiber that is ready. The returned reference is the caller's.
  FiberState* Spawn(FiberOptions options, FiberState::Function function);
  // Makes one that begins when it is entered.
  FiberState* SpawnSuspended(FiberOptions options, FiberState::Function function);

  // Tests: from now on the next ready fiber is picked at random. The same seed and the same program
  // give the same run.
  void UseRandomOrder(uint64_t seed);

  // Wakes `fiber`, which waits in WaitForWake, and runs it at once; returns when it suspends or
  // ends. From the loop (also in a brief) or from another fiber.
  void Enter(FiberState* fiber);

  // The loop's side: runs each fiber that is ready now once. Returns how many ran.
  size_t RunReady();
  // Runs one background fiber, if one is ready.
  bool RunOneBackground();
  bool has_ready() const { return !ready_.empty(); }
  size_t live_fibers() const { return live_fibers_; }
  const StackPool& stacks() const { return stacks_; }
  StackPool& stacks() { return stacks_; }

  // Runs the messages that have come. Returns how many.
  size_t DrainInbox();

  // Tests and threads without a proactor: runs until no fiber is left, sleeping when all wait.
  void RunUntilDone();

  Inbox& inbox() { return inbox_; }
  TimerQueue& timers() { return timers_; }

  // Thread: any. Sends `message` to this thread, and wakes it if it sleeps.
  void Post(Message* message) {
    if (inbox_.Push(message)) wake_thread_();
  }
  // Thread: any. As Post; returns true instead of waking, and the caller must call WakeThread()
  // soon.
  [[nodiscard]] bool PostLazily(Message* message) { return inbox_.Push(message); }
  void WakeThread() { wake_thread_(); }

  // Below: from a running fiber only. They suspend.

  // Lets all that is ready now run first.
  void Yield();
  // Waits for FiberState::Wake.
  void WaitForWake();
  // As above, at the latest until `deadline_ns` (monotonic). Returns true if woken, false at the
  // deadline.
  bool WaitForWakeUntil(uint64_t deadline_ns);

 private:
  friend class FiberState;

  void MakeReady(FiberState* fiber);
  void WakeHere(FiberState* fiber);
  FiberState* PickReady();
  void Resume(FiberState* fiber);
  void Suspend(FiberState::Status status);
  void FiberMain(FiberState* fiber);

  // A first-in first-out queue of fibers that reuses its memory; TakeAt serves the random policy.
  class ReadyQueue {
   public:
    bool empty() const { return head_ == items_.size(); }
    size_t size() const { return items_.size() - head_; }
    void Push(FiberState* fiber);
    FiberState* Pop();
    FiberState* TakeAt(size_t index);

   private:
    std::vector<FiberState*> items_;
    size_t head_ = 0;
  };

  static inline thread_local Scheduler* current_ = nullptr;

  absl::AnyInvocable<void()> wake_thread_;
  Inbox inbox_;
  TimerQueue timers_;
  StackPool stacks_;
  ReadyQueue ready_;
  ReadyQueue background_;
  FiberState* running_ = nullptr;
  size_t live_fibers_ = 0;
  // Where the running fiber goes when it suspends: the loop, or the fiber that has entered it.
  boost::context::fiber back_;
  SanitizerContext* back_sanitizer_ = nullptr;
  [[no_unique_address]] SanitizerContext loop_sanitizer_;
  uint64_t random_state_ = 0;             // 0: first in, first out
  std::atomic<uint32_t> wake_signal_{0};  // RunUntilDone() sleeps on it
};

// One party that waits: the running fiber, or a plain thread. Lives on the stack of the one that
// waits. The way to use it: put it into a list under a lock, let the lock go, Wait(). The waker
// takes it out of the list under the lock, and then calls Wake() exactly once; only then may it be
// destroyed.
class Waiter {
 public:
  Waiter() : fiber_(Scheduler::CurrentFiber()) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Thread: any.
  void Wake();
  // Thread: the waiter's. Suspends, or blocks a plain thread.
  void Wait();
  // Returns false at the deadline (monotonic nanoseconds). Then the caller takes the waiter out of
  // its list; if it is no longer there, a Wake is on its way and the caller must Wait() for it.
  bool WaitUntil(uint64_t deadline_ns);

  Waiter* next = nullptr;  // these three are for the list that holds it, under that list's lock
  Waiter* prev = nullptr;
  bool listed = false;

 private:
  FiberState* const fiber_;
  std::atomic<uint32_t> thread_woken_{0};
};

}  // namespace helio
