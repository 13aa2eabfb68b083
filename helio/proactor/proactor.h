// SPDX-License-Identifier: Apache-2.0
// A thread's event loop: messages from other threads, timers, fibers, and completions of the
// kernel.
//
// One iteration:
//   1. run the messages that other threads have sent, and the timers that are due
//   2. run each ready fiber once
//   3. run the hooks that asked for the iteration's end (connections send their replies here), and
//      wake the threads that messages were sent to lazily
//   4. hand all queued operations to the kernel in one call, sleeping in it if there is nothing
//      left to do
//   5. run the completions (data that arrived, sends that ended)
//
// Steps 1, 3 and 5 run on the loop's own stack and must not suspend ("briefs"); fibers may.
#pragma once

#include <absl/functional/any_invocable.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/counters.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/scheduler.h"
#include "helio/fibers/sync.h"

namespace helio {

// Counters of one loop. Written by its thread; read it there, or accept torn moments.
struct ProactorStats {
  uint64_t iterations = 0;
  uint64_t sleeps = 0;       // iterations that slept in the kernel
  uint64_t messages = 0;     // from other threads
  uint64_t wakes_sent = 0;   // to other, sleeping threads
  uint64_t completions = 0;  // io_uring completions or epoll events

  static constexpr CounterOf<ProactorStats> kCounters[] = {
      &ProactorStats::iterations, &ProactorStats::sleeps, &ProactorStats::messages,
      &ProactorStats::wakes_sent, &ProactorStats::completions};
};
static_assert(ListsAll<ProactorStats>());

// Something that wants to be called once at the end of the current iteration.
struct LoopHook {
  using RunFn = void (*)(LoopHook*);

  explicit LoopHook(RunFn fn) : run(fn) {}

  RunFn run;  // a brief; the hook is no longer queued when it is called
  LoopHook* next = nullptr;
  LoopHook* prev = nullptr;
  bool queued = false;
};

// Owner: its thread. Every method is for that thread, unless it says "Thread: any".
class Proactor {
 public:
  enum class Engine : uint8_t { kIoUring, kEpoll };

  struct Options {
    uint32_t index = 0;
    bool force_epoll = false;
    // The threads share cores. Before it sleeps, a loop then lets the others run once: often they
    // have something for it by then, which saves a sleep here and a wake-up there. (2 to 6 % of the
    // CPU with 4 threads on one core: docs/benchmarks.md.)
    bool shares_core = false;
  };

  // Makes the calling thread's proactor: on io_uring, or on epoll if that is forced or the kernel
  // refuses io_uring, which is logged once for the process. Never fails short of the process having
  // no descriptors left (CHECK).
  static std::unique_ptr<Proactor> Create(const Options& options);
  virtual ~Proactor();
  Proactor(const Proactor&) = delete;
  Proactor& operator=(const Proactor&) = delete;

  static Proactor* Current() { return current_; }

  uint32_t index() const { return index_; }  // Thread: any
  virtual Engine engine() const = 0;         // Thread: any
  Scheduler& scheduler() { return scheduler_; }
  TimerQueue& timers() { return scheduler_.timers(); }
  const ProactorStats& stats() const { return stats_; }
  // The buffers that all receives share: all of them, as they take turns; and what the machine has
  // given for them so far.
  virtual size_t receive_buffer_bytes() const { return 0; }
  virtual size_t ResidentReceiveBuffers() const { return 0; }

  // The monotonic time at which the current iteration began; cheap, and good enough for idle times
  // and statistics.
  uint64_t now_ns() const { return now_ns_; }

  // Runs the loop until Stop() was called and no fiber is left.
  void Run();
  void Stop();  // Thread: any

  // Thread: any. `message` runs here as a brief; messages of one thread keep their order.
  void Post(Message* message) { scheduler_.Post(message); }
  // Thread: any proactor's. As Post, but a sleeping receiver is woken only at the end of the
  // sender's iteration: the way for what a loop sends all the time, as one wake then serves all
  // that the iteration had to say.
  void PostLazily(Message* message);

  // Thread: any. Calls `function` here, as a brief.
  template <typename Function>
  void Dispatch(Function function) {
    struct Call : Message {
      explicit Call(Function f) : Message(&Invoke), call(std::move(f)) {}
      static void Invoke(Message* message) {
        std::unique_ptr<Call> self(static_cast<Call*>(message));
        self->call();
      }
      Function call;
    };
    Post(std::make_unique<Call>(std::move(function)).release());
  }

  // Thread: any fiber or plain thread. Calls `function` here, as a brief, and returns what it
  // returned. Suspends.
  template <typename Function>
  auto Await(Function function) -> decltype(function()) {
    using Result = decltype(function());
    if (Current() == this) {
      NoSuspend no_suspend;
      return function();
    }
    const BoundedWait wait(kBriefOnThread, index_);
    BlockingCounter done(1);
    if constexpr (std::is_void_v<Result>) {
      Dispatch([&] {
        function();
        done.Done();
      });
      done.Wait();
    } else {
      std::optional<Result> result;
      Dispatch([&] {
        result.emplace(function());
        done.Done();
      });
      done.Wait();
      return std::move(*result);
    }
  }

  // Thread: any. Starts a detached fiber here.
  template <typename Function>
  void DispatchFiber(const char* name, Function function) {
    Dispatch([name, function = std::move(function)]() mutable {
      Fiber(name, std::move(function)).Detach();
    });
  }

  // Thread: any fiber or plain thread. Runs `function` in a fiber here and waits for it. If the
  // caller holds something (hold.h) so does that fiber. Suspends.
  template <typename Function>
  void AwaitFiber(const char* name, Function function) {
    BlockingCounter done(1);
    DispatchFiber(name, [&, is_held = Hold::IsAny()] {
      {
        const InheritedHold inherited(is_held);
        function();
      }
      done.Done();
    });
    const BoundedWait wait(kFiberOnThread, index_);
    done.Wait();
  }

  // Calls `task`, as a brief, every `period_ms` from now on. Returns what RemovePeriodic takes.
  // Each one costs its wake-ups also on an idle server, so stop what has nothing to do.
  uint64_t AddPeriodic(uint64_t period_ms, absl::AnyInvocable<void()> task);
  void RemovePeriodic(uint64_t id);

  // Queues `hook` for the end of the current iteration; no effect if it is queued already.
  void AtIterationEnd(LoopHook* hook);
  void CancelHook(LoopHook* hook);
  size_t queued_hooks() const { return queued_hooks_; }

  // From now on on_stall(ns), a brief, is called after each iteration that took `least_ns` or
  // longer, from the end of its sleep to the next one; or to the next look at what has arrived, if
  // it does not sleep. Null ends that, and costs nothing then.
  void WatchStalls(uint64_t least_ns, absl::AnyInvocable<void(uint64_t)> on_stall);

  // `task`, a brief, is called after the messages and after the completions of each iteration: for
  // work that they only noted, because it is done better together. At most one; null removes it.
  void SetStageTask(absl::AnyInvocable<void()> task) { stage_task_ = std::move(task); }

 protected:
  explicit Proactor(const Options& options);

  // Hands queued operations to the kernel, sleeps until something completes but at most
  // `timeout_ns` (0: not at all, kNever: for ever), and runs the completions.
  virtual void Poll(uint64_t timeout_ns) = 0;
  // Thread: any. Ends a Poll that sleeps.
  virtual void WakeFromOtherThread() = 0;

  // For Poll: the sleep is over, senders need not wake us any more.
  void EndSleep() {
    scheduler_.inbox().EndSleep();
    if (on_stall_ != nullptr) [[unlikely]]
      iteration_begin_ns_ = MonotonicNanos();
  }

  ProactorStats stats_;

 private:
  struct Periodic;

  void EraseRemovedPeriodic();
  void CheckStall();
  void RunHooks();
  void RunStageTask();
  void SendLazyWakes();

  static inline thread_local Proactor* current_ = nullptr;

  const uint32_t index_;
  const bool shares_core_;
  Scheduler scheduler_;
  std::atomic<bool> stopped_{false};
  uint64_t now_ns_ = 0;
  absl::AnyInvocable<void(uint64_t)> on_stall_;
  uint64_t stall_ns_ = 0;
  uint64_t iteration_begin_ns_ = 0;
  LoopHook hooks_{nullptr};  // the ring's anchor
  size_t queued_hooks_ = 0;
  absl::AnyInvocable<void()> stage_task_;
  std::vector<Proactor*> lazy_wakes_;
  std::vector<std::unique_ptr<Periodic>> periodic_;
  uint64_t last_periodic_id_ = 0;
};

}  // namespace helio
