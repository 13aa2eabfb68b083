// SPDX-License-Identifier: Apache-2.0
// A log-linear histogram of non-negative integers: latencies in nanoseconds, sizes in bytes.
//
// Values below 128 have a bucket each. Above, each power of two is cut into 64 equal buckets:
//
//     value  = 1 m m m m m m x x x x...      the six bits m after the leading one choose the bucket
//     error <= half a bucket = 1/128 of the value, 0.8 %
//
// Values from 2^40 on (18 minutes in nanoseconds) share the last bucket; max() stays exact.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "helio/base/logging.h"

namespace helio {

// Owner:    whoever holds it; not thread-safe. Keep one for each thread and Merge() them.
// Suspends: never.
// Memory:   18 KB, allocated by the first Add() or Merge().
class Histogram {
 public:
  static constexpr uint64_t kValueMax = (uint64_t{1} << 40) - 1;

  Histogram() = default;
  Histogram(Histogram&&) = default;
  Histogram& operator=(Histogram&&) = default;

  void Add(uint64_t value, uint64_t times = 1) {
    if (!buckets_) [[unlikely]]
      Allocate();
    buckets_[IndexOf(std::min(value, kValueMax))] += times;
    count_ += times;
    sum_ += static_cast<double>(value) * static_cast<double>(times);
    max_ = std::max(max_, value);
    min_ = std::min(min_, value);
  }

  void Merge(const Histogram& other) {
    if (other.count_ == 0) return;
    if (!buckets_) Allocate();
    for (size_t i = 0; i < kBuckets; i++) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
    min_ = std::min(min_, other.min_);
  }

  // Forgets the values; keeps the memory.
  void Clear() {
    if (buckets_) std::fill_n(buckets_.get(), kBuckets, uint64_t{0});
    count_ = max_ = 0;
    min_ = UINT64_MAX;
    sum_ = 0;
  }

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  double sum() const { return sum_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  // The smallest recorded value v, within the error, such that `percent` % of the values are <= v.
  // 0 when empty. REQUIRES: 0 <= percent <= 100.
  uint64_t Percentile(double percent) const {
    DCHECK(percent >= 0 && percent <= 100) << percent;
    if (count_ == 0) return 0;
    const double exact = percent / 100 * static_cast<double>(count_);
    uint64_t rank = static_cast<uint64_t>(exact);
    if (static_cast<double>(rank) < exact) rank++;
    rank = std::clamp<uint64_t>(rank, 1, count_);
    if (rank == count_) return max_;
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; i++) {
      seen += buckets_[i];
      if (seen >= rank) return std::clamp(MiddleOf(i), min_, max_);
    }
    return max_;
  }

  // Calls fn(low, high, count) for each bucket that is not empty: values in [low, high].
  template <typename Fn>
  void ForEachBucket(Fn fn) const {
    for (size_t i = 0; buckets_ && i < kBuckets; i++) {
      if (buckets_[i] > 0) fn(LowOf(i), LowOf(i + 1) - 1, buckets_[i]);
    }
  }

  size_t memory_used() const { return buckets_ ? kBuckets * sizeof(uint64_t) : 0; }

 private:
  static constexpr unsigned kSubBits = 6;
  static constexpr unsigned kSub = 1u << kSubBits;
  // Indices 0 .. 2*kSub-1 are the values themselves; 33 powers of two follow.
  static constexpr size_t kBuckets = 2 * kSub + (40 - kSubBits - 1) * kSub;

  static size_t IndexOf(uint64_t value) {
    if (value < 2 * kSub) return static_cast<size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return shift * kSub + static_cast<size_t>(value >> shift);
  }
  static uint64_t LowOf(size_t index) {
    if (index < 2 * kSub) return index;
    const size_t shift = index / kSub - 1;
    return static_cast<uint64_t>(index - shift * kSub) << shift;
  }
  static uint64_t MiddleOf(size_t index) {
    return LowOf(index) + (LowOf(index + 1) - LowOf(index) - 1) / 2;
  }

  void Allocate() { buckets_ = std::make_unique<uint64_t[]>(kBuckets); }

  std::unique_ptr<uint64_t[]> buckets_;
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  uint64_t min_ = UINT64_MAX;
  double sum_ = 0;
};

}  // namespace helio
