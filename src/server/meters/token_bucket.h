// SPDX-License-Identifier: Apache-2.0
// How many commands, or bytes, may go through in a second, on all threads together.
//
// A token bucket as a single number: the moment at which the bucket is at zero again, if nothing
// more is taken ("theoretical arrival time" of the Generic Cell Rate Algorithm, ITU-T I.371, annex
// A; there the equivalence of both is shown). A token moves it on by 1/rate seconds; tokens that
// nobody took are saved by letting it lie in the past, by kSavedNanos at most. So one atomic number
// is all of the state, and time needs no ticks.
//
// Who takes may take more than there is: the bucket is in debt then, and nobody gets anything until
// time has paid it. So what is counted only afterwards, as bytes of replies are, is counted whole.
//
// Thread: any. No other memory depends on the number, so relaxed order is enough.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace dfly {

class TokenBucket {
 public:
  // What is not used is saved for so long.
  static constexpr int64_t kSavedNanos = 1'000'000'000;

  // 0: no limit. With another rate it begins anew: what is owed is time, which a higher rate would
  // not make shorter.
  void SetRate(uint64_t per_second) {
    if (rate_.exchange(per_second, std::memory_order_relaxed) == per_second) return;
    zero_at_ns_.store(kLongAgo, std::memory_order_relaxed);
  }
  bool is_limited() const { return rate_.load(std::memory_order_relaxed) != 0; }
  // What a thread takes at a time, to keep it for its commands: a millisecond's worth.
  int64_t portion() const {
    const uint64_t rate = rate_.load(std::memory_order_relaxed);
    return static_cast<int64_t>(std::max<uint64_t>(1, rate / 1000));
  }

  // Takes all of them, if the bucket is not in debt. `now_ns`: of the monotonic clock.
  [[nodiscard]] bool TryTake(uint64_t now_ns, int64_t tokens) {
    return Advance(now_ns, tokens, false);
  }
  // Takes them in any case.
  void Take(uint64_t now_ns, int64_t tokens) { (void)Advance(now_ns, tokens, true); }
  // From when on TryTake can be successful.
  uint64_t FreeAtNanos() const {
    return static_cast<uint64_t>(std::max<int64_t>(0, zero_at_ns_.load(std::memory_order_relaxed)));
  }

 private:
  bool Advance(uint64_t now_ns, int64_t tokens, bool at_any_rate) {
    const uint64_t rate = rate_.load(std::memory_order_relaxed);
    if (rate == 0) return true;
    const double nanos = static_cast<double>(tokens) * 1e9 / static_cast<double>(rate);
    const int64_t cost = std::max<int64_t>(1, static_cast<int64_t>(std::min(nanos, kCostMax)));
    const auto now = static_cast<int64_t>(now_ns);
    int64_t before = zero_at_ns_.load(std::memory_order_relaxed);
    int64_t after = 0;
    do {
      const int64_t from = std::max(before, now - kSavedNanos);
      if (from > now && !at_any_rate) return false;
      after = std::min(from, now + kDebtMax) + cost;
    } while (!zero_at_ns_.compare_exchange_weak(before, after, std::memory_order_relaxed));
    return true;
  }

  // A day: what is taken at once is never a reason to wait for longer.
  static constexpr double kCostMax = 86'400e9;
  static constexpr int64_t kDebtMax = 86'400'000'000'000;

  std::atomic<uint64_t> rate_{0};
  static constexpr int64_t kLongAgo = INT64_MIN / 2;

  std::atomic<int64_t> zero_at_ns_{kLongAgo};
};

}  // namespace dfly
