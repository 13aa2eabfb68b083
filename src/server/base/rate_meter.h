// SPDX-License-Identifier: Apache-2.0
// Events per second without a timer: an idle server is not woken up for its statistics.
#pragma once

#include <cstdint>

namespace dfly {

// Owner: one thread. Told of the running total of events now and then, it knows how many fell into
// the last complete second.
class RateMeter {
 public:
  // `total` events have happened by `now_ms`. Cheap while the second stays the same. Returns how
  // many seconds have passed since the last call.
  int64_t Update(int64_t now_ms, uint64_t total) {
    const int64_t second = now_ms / 1000;
    if (second == second_) [[likely]] {
      total_ = total;
      return 0;
    }
    const int64_t passed = second - second_;
    last_ = passed == 1 ? total_ - total_before_ : 0;
    second_ = second;
    total_before_ = total_;
    total_ = total;
    return passed;
  }

  uint64_t Rate(int64_t now_ms) const {
    const int64_t second = now_ms / 1000;
    if (second == second_) return last_;
    return second == second_ + 1 ? total_ - total_before_ : 0;
  }

  // Complete seconds since the last call of Update.
  int64_t SecondsSince(int64_t now_ms) const { return now_ms / 1000 - second_; }

  // The total begins at zero again.
  void Reset() { *this = RateMeter(); }

 private:
  int64_t second_ = 0;
  uint64_t total_before_ = 0;  // when second_ began
  uint64_t total_ = 0;
  uint64_t last_ = 0;  // events of the second before second_
};

// The same of another total that grows with the events of a RateMeter, and costs nothing within a
// second: what the first ones of a second bring counts for the one before.
class SideMeter {
 public:
  // `seconds`, what Update has returned, is not 0.
  void Roll(int64_t seconds, uint64_t total) {
    last_ = seconds == 1 ? total - total_before_ : 0;
    total_before_ = total;
  }
  // `seconds`: RateMeter::SecondsSince.
  uint64_t Rate(int64_t seconds, uint64_t total) const {
    if (seconds == 0) return last_;
    return seconds == 1 ? total - total_before_ : 0;
  }
  void Reset() { *this = SideMeter(); }

 private:
  uint64_t total_before_ = 0;
  uint64_t last_ = 0;
};

}  // namespace dfly
