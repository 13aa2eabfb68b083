// SPDX-License-Identifier: Apache-2.0
// What a fiber has that others wait for (locks of keys, a HoldableMutex), and the rule that keeps
// them from waiting for each other for ever:
//
//   A fiber that holds something waits only where the wait says why it ends (BoundedWait).
//
// Debug builds stop at any other wait of such a fiber, also at one that would be over at once. So a
// wait that is new shows itself in the first test that comes by it with locks; whoever then writes
// a reason down has thought about it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "helio/base/cycle_clock.h"
#include "helio/fibers/scheduler.h"

namespace helio {

// Why a wait ends whatever the fiber holds that waits. Static.
struct WaitReason {
  const char* what;  // for operators: "a hop to shard {}"; the number of the wait replaces {}
  const char* ends;  // for who reads the code
};

// Something that a fiber has.
// Owner:    whatever it is that is had (a transaction, a mutex, a script).
// Thread:   Begin and End: the fiber's, between them nobody may destroy it. What says so: any.
// Suspends: never.
class Hold {
 public:
  Hold() = default;
  ~Hold() { DCHECK(!is_begun()); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // From now on the running fiber has it. No effect on a plain thread, which nothing is checked of.
  void Begin();
  // It has it no more. No effect if it did not begin.
  void End();
  bool is_begun() const { return fiber_ != nullptr; }

  // Has the running fiber anything?
  static bool IsAny() {
    const FiberState* const fiber = Scheduler::CurrentFiber();
    return fiber != nullptr && fiber->hold_ != nullptr;
  }

  // For who has it without a fiber that knows of it, or not yet: what it waits for. Null: nothing.
  void NoteWait(const WaitReason* reason, uint32_t number = 0) {
    if (reason != nullptr) {
      number_.store(number, std::memory_order_relaxed);
      since_.store(CycleClock::Now(), std::memory_order_relaxed);
    }
    reason_.store(reason, std::memory_order_relaxed);
  }

  // Thread: any. "a hop to shard 3 since 0.2 s"; empty: it waits for nothing. What is told while it
  // changes may be of two waits.
  std::string DescribeWait() const;
  // Thread: any. True the first time: for who tells of each once.
  bool TellOnce() { return !was_told_.exchange(true, std::memory_order_relaxed); }

 private:
  friend class BoundedWait;
  friend void CheckMayWait();

  FiberState* fiber_ = nullptr;
  Hold* outer_ = nullptr;  // what the fiber had before
  std::atomic<const WaitReason*> reason_{nullptr};
  std::atomic<uint32_t> number_{0};
  std::atomic<int64_t> since_{0};  // in cycles
  std::atomic<bool> was_told_{false};
};

// Marks the waits inside the scope: they end, for that reason. Within another one it has no effect.
// Owner: a scope of one fiber. Costs a look at the fiber if that holds nothing.
class BoundedWait {
 public:
  explicit BoundedWait(const WaitReason& reason, uint32_t number = 0) {
    const FiberState* const fiber = Scheduler::CurrentFiber();
    if (fiber == nullptr || fiber->hold_ == nullptr) [[likely]]
      return;
    if (fiber->hold_->reason_.load(std::memory_order_relaxed) != nullptr) return;
    first_ = fiber->hold_;
    for (Hold* hold = first_; hold != nullptr; hold = hold->outer_) {
      hold->NoteWait(&reason, number);
    }
  }
  ~BoundedWait() {
    for (Hold* hold = first_; hold != nullptr; hold = hold->outer_) hold->NoteWait(nullptr);
  }
  BoundedWait(const BoundedWait&) = delete;
  BoundedWait& operator=(const BoundedWait&) = delete;

 private:
  Hold* first_ = nullptr;  // what was marked here
};

// For a fiber that works for another one, which waits for it: if that one holds something, so does
// this one, and the rule is for both.
class InheritedHold {
 public:
  // `is_held`: Hold::IsAny() of the other one.
  explicit InheritedHold(bool is_held) {
    if (is_held) hold_.Begin();
  }
  ~InheritedHold() { hold_.End(); }
  InheritedHold(const InheritedHold&) = delete;
  InheritedHold& operator=(const InheritedHold&) = delete;

 private:
  Hold hold_;
};

// Whatever waits calls it first. Debug builds end the process if the running fiber may not wait.
#ifdef NDEBUG
inline void CheckMayWait() {}
#else
void CheckMayWait();
#endif

// Reasons that are the same everywhere.
inline constexpr WaitReason kBriefOnThread = {"thread {} to answer", "a brief never suspends"};
inline constexpr WaitReason kBriefsOnThreads = {"{} threads to answer", "briefs never suspend"};
inline constexpr WaitReason kFiberOnThread = {"a fiber on thread {}",
                                              "the rule is for that one, too: InheritedHold"};
inline constexpr WaitReason kItsTurn = {"its turn on its thread",
                                        "whatever else is ready there suspends or ends"};
inline constexpr WaitReason kSystemCall = {"the kernel to do something with a file", "it answers"};

}  // namespace helio
