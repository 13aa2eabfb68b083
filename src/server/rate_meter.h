// SPDX-License-Identifier: Apache-2.0
// Events per second without a timer: an idle server is not woken up for its statistics.
#pragma once

#include <cstdint>

namespace dfly {

// Owner: one thread. Told of the running total of events now and then, it knows how many fell into
// the last complete second.
class RateMeter {
 public:
  // `total` events have happened by `now_ms`. Cheap while the second stays the same.
  void Update(int64_t now_ms, uint64_t total) {
    const int64_t second = now_ms / 1000;
    if (second == second_) [[likely]] {
      total_ = total;
      return;
    }
    last_ = second == second_ + 1 ? total_ - total_before_ : 0;
    second_ = second;
    total_before_ = total_;
    total_ = total;
  }

  uint64_t Rate(int64_t now_ms) const {
    const int64_t second = now_ms / 1000;
    if (second == second_) return last_;
    return second == second_ + 1 ? total_ - total_before_ : 0;
  }

  // The total begins at zero again.
  void Reset() { *this = RateMeter(); }

 private:
  int64_t second_ = 0;
  uint64_t total_before_ = 0;  // when second_ began
  uint64_t total_ = 0;
  uint64_t last_ = 0;  // events of the second before second_
};

}  // namespace dfly
