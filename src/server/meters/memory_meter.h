// SPDX-License-Identifier: Apache-2.0
// What the whole process uses, kept so that asking costs two loads; and who can make room.
//
// Each worker knows its own part exactly and adds the difference when that is large enough to
// matter (`quantum`). Far from the limit that is rare, so the line of the sum stays in all caches.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "helio/base/clock.h"

namespace dfly {

// Thread: any. Numbers that stand alone, so relaxed order is enough.
class MemoryMeter {
 public:
  // `limit`: maxmemory; it outlives this. Each of `workers` threads may be off by one quantum.
  MemoryMeter(const std::atomic<uint64_t>* limit, uint32_t workers)
      : limit_(*limit), workers_(workers) {}

  void Add(int64_t used_bytes, int64_t pending_bytes) {
    if (used_bytes != 0) {
      used_.fetch_add(used_bytes, std::memory_order_relaxed);
      if (is_over() != (over_since_ns_.load(std::memory_order_relaxed) != 0)) [[unlikely]]
        NoteCrossing();
    }
    if (pending_bytes != 0) pending_.fetch_add(pending_bytes, std::memory_order_relaxed);
  }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Of it, what will be free when the values that were deleted are freed: that takes steps.
  int64_t pending() const { return pending_.load(std::memory_order_relaxed); }
  // A replica does as its primary, whatever that costs: for it there is no limit.
  void set_has_limit(bool has) { has_limit_.store(has, std::memory_order_relaxed); }
  bool has_limit() const { return has_limit_.load(std::memory_order_relaxed); }
  int64_t limit() const {
    if (!has_limit_.load(std::memory_order_relaxed)) return 0;
    return static_cast<int64_t>(
        std::min<uint64_t>(limit_.load(std::memory_order_relaxed), INT64_MAX));
  }

  // --- All of these are never true without a limit ---

  bool is_over() const {
    const int64_t limit = this->limit();
    return limit != 0 && used() > limit;
  }
  // Eviction begins before the limit, so that commands find room, and ends a little lower.
  bool is_tight() const { return Above(kTight) > 0; }
  int64_t to_evict() const { return Above(kRelaxed); }
  // Room will be there, but so much is used that no command may make it worse.
  bool is_beyond() const {
    const int64_t limit = this->limit();
    return limit != 0 && used() - pending() > limit + slack(limit);
  }
  int64_t excess() const { return std::max<int64_t>(0, used() - pending() - limit()); }

  // Some database has a policy that evicts; nothing is evicted for now; threads that have nothing
  // more to evict.
  void set_has_policy(bool has) { has_policy_.store(has, std::memory_order_relaxed); }
  void set_holds_eviction(bool holds) { holds_eviction_.store(holds, std::memory_order_relaxed); }
  bool evicts() const {
    return has_policy_.load(std::memory_order_relaxed) &&
           !holds_eviction_.load(std::memory_order_relaxed);
  }
  void CountBarren(int change) { barren_.fetch_add(static_cast<uint32_t>(change)); }
  bool can_make_room() const {
    return evicts() && barren_.load(std::memory_order_relaxed) < workers_;
  }
  // The limit is passed, nothing comes back by itself, and nobody can evict anything. Whoever runs
  // on a shard asks for room there (ShardCare::MakeRoom).
  bool is_exhausted() const { return is_over() && excess() > 0 && !can_make_room(); }

  // How long the limit has been passed, as seen at changes: in all, and since it was the last time
  // (0: it is not).
  uint64_t OverNanos(uint64_t now_ns) const {
    return over_ns_.load(std::memory_order_relaxed) + IsOverNanos(now_ns);
  }
  uint64_t IsOverNanos(uint64_t now_ns) const {
    const uint64_t since_ns = over_since_ns_.load(std::memory_order_relaxed);
    return since_ns == 0 || now_ns < since_ns ? 0 : now_ns - since_ns;
  }

  // The use or the limit has changed, and `is_over` perhaps.
  void NoteCrossing() {
    const uint64_t now_ns = helio::MonotonicNanos();
    if (is_over()) {
      uint64_t none = 0;
      over_since_ns_.compare_exchange_strong(none, now_ns, std::memory_order_relaxed);
      return;
    }
    const uint64_t since_ns = over_since_ns_.exchange(0, std::memory_order_relaxed);
    if (since_ns != 0 && since_ns < now_ns) {
      over_ns_.fetch_add(now_ns - since_ns, std::memory_order_relaxed);
    }
  }
  // Of what is over.
  void ResetOver() { over_ns_.store(0, std::memory_order_relaxed); }

  int64_t quantum() const {
    constexpr int64_t kMost = 64 * 1024;
    const int64_t limit = this->limit();
    if (limit == 0) return kMost;
    return std::clamp<int64_t>((limit - used()) / (64 * int64_t{workers_}), 1, kMost);
  }

 private:
  static constexpr int kTight = 9;    // 1/512 below the limit
  static constexpr int kRelaxed = 8;  // 1/256
  static int64_t slack(int64_t limit) { return std::max<int64_t>(limit >> 6, 128 << 10); }
  int64_t Above(int shift) const {
    const int64_t limit = this->limit();
    return limit == 0 ? 0 : used() - pending() - (limit - (limit >> shift));
  }

  const std::atomic<uint64_t>& limit_;
  const uint32_t workers_;
  alignas(64) std::atomic<int64_t> used_{0};
  std::atomic<int64_t> pending_{0};
  std::atomic<uint32_t> barren_{0};
  std::atomic<bool> has_policy_{false};
  std::atomic<bool> holds_eviction_{false};
  std::atomic<bool> has_limit_{true};
  std::atomic<uint64_t> over_since_ns_{0};
  std::atomic<uint64_t> over_ns_{0};
};

}  // namespace dfly
