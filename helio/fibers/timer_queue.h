// SPDX-License-Identifier: Apache-2.0
// Timers of one thread: an intrusive binary heap ordered by deadline.
#pragma once

#include <cstdint>
#include <vector>

#include "helio/base/logging.h"

namespace helio {

// One timer. Owner: whoever embeds it; armed and disarmed on the thread of its queue only.
// It must be disarmed, or have fired, before it is destroyed.
struct Timer {
  using FireFn = void (*)(Timer*);

  explicit Timer(FireFn fn) : fire(fn) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { DCHECK(!armed()); }

  bool armed() const { return heap_index != kNotArmed; }

  static constexpr uint32_t kNotArmed = UINT32_MAX;

  FireFn fire;  // a brief; the timer is disarmed when it is called, and may be armed again or
                // destroyed in it
  uint64_t deadline_ns = 0;  // on the clock of MonotonicNanos()
  uint32_t heap_index = kNotArmed;
};

class TimerQueue {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Arms `timer`, or moves its deadline. O(log n).
  void Arm(Timer* timer, uint64_t deadline_ns) {
    timer->deadline_ns = deadline_ns;
    if (timer->armed()) {
      SiftDown(timer->heap_index);
      SiftUp(timer->heap_index);
      return;
    }
    timer->heap_index = static_cast<uint32_t>(heap_.size());
    heap_.push_back(timer);
    SiftUp(timer->heap_index);
  }

  // No effect on a timer that is not armed. O(log n).
  void Disarm(Timer* timer) {
    if (!timer->armed()) return;
    const uint32_t hole = timer->heap_index;
    DCHECK_EQ(heap_[hole], timer);
    timer->heap_index = Timer::kNotArmed;
    Timer* last = heap_.back();
    heap_.pop_back();
    if (last == timer) return;
    Place(last, hole);
    SiftDown(hole);
    SiftUp(last->heap_index);
  }

  uint64_t next_deadline_ns() const { return heap_.empty() ? kNever : heap_.front()->deadline_ns; }
  size_t size() const { return heap_.size(); }

  // Fires what is due. A timer that is armed anew with a deadline in the past while this runs fires
  // in the next call, so that a call always ends.
  void FireDue(uint64_t now_ns) {
    size_t most = heap_.size();
    while (most-- > 0 && !heap_.empty() && heap_.front()->deadline_ns <= now_ns) {
      Timer* timer = heap_.front();
      Disarm(timer);
      timer->fire(timer);
    }
  }

 private:
  void Place(Timer* timer, uint32_t index) {
    heap_[index] = timer;
    timer->heap_index = index;
  }

  void SiftUp(uint32_t index) {
    Timer* timer = heap_[index];
    while (index > 0) {
      const uint32_t parent = (index - 1) / 2;
      if (heap_[parent]->deadline_ns <= timer->deadline_ns) break;
      Place(heap_[parent], index);
      index = parent;
    }
    Place(timer, index);
  }

  void SiftDown(uint32_t index) {
    Timer* timer = heap_[index];
    const uint32_t count = static_cast<uint32_t>(heap_.size());
    while (true) {
      uint32_t child = 2 * index + 1;
      if (child >= count) break;
      if (child + 1 < count && heap_[child + 1]->deadline_ns < heap_[child]->deadline_ns) ++child;
      if (timer->deadline_ns <= heap_[child]->deadline_ns) break;
      Place(heap_[child], index);
      index = child;
    }
    Place(timer, index);
  }

  std::vector<Timer*> heap_;
};

}  // namespace helio
