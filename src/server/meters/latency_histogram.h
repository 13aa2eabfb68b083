// SPDX-License-Identifier: Apache-2.0
// How long the calls of one command took, in cycles: what each call adds to must be cheap.
//
// Values below 32 have a bucket each. Above, each power of two is cut into 16 equal buckets, so a
// value is known to 1/16. Those from 2^46 on (some hours) share the last bucket.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dfly {

// Owner: one worker; copies are merged for INFO. 5.5 KB.
class LatencyHistogram {
 public:
  void Add(int64_t cycles, uint32_t times = 1) {
    buckets_[IndexOf(cycles < 0 ? 0 : static_cast<uint64_t>(cycles))] += times;
  }
  void Merge(const LatencyHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  }
  uint64_t count() const {
    uint64_t sum = 0;
    for (uint64_t bucket : buckets_) sum += bucket;
    return sum;
  }
  // The largest value of the bucket in which `percent` % of the values are reached; 0 when empty.
  int64_t Percentile(double percent) const {
    const uint64_t all = count();
    if (all == 0) return 0;
    const double exact = percent / 100 * static_cast<double>(all);
    auto rank = static_cast<uint64_t>(exact);
    if (static_cast<double>(rank) < exact) ++rank;
    rank = std::clamp<uint64_t>(rank, 1, all);
    uint64_t seen = 0;
    size_t i = 0;
    while ((seen += buckets_[i]) < rank) ++i;
    return HighOf(i);
  }
  // fn(highest value, count) for each bucket that is not empty.
  template <typename Function>
  void ForEach(Function fn) const {
    for (size_t i = 0; i < kBuckets; ++i) {
      if (buckets_[i] != 0) fn(HighOf(i), buckets_[i]);
    }
  }

 private:
  static constexpr unsigned kSubBits = 4;
  static constexpr unsigned kValueBits = 46;
  static constexpr size_t kBuckets = (kValueBits - kSubBits + 1) << kSubBits;

  static size_t IndexOf(uint64_t value) {
    value = std::min(value, (uint64_t{1} << kValueBits) - 1);
    if (value < (2u << kSubBits)) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return (size_t{shift} << kSubBits) + (value >> shift);
  }
  static int64_t HighOf(size_t index) {
    if (index < (2u << kSubBits)) return static_cast<int64_t>(index);
    const size_t shift = (index >> kSubBits) - 1;
    const uint64_t low = uint64_t{index - (shift << kSubBits)} << shift;
    return static_cast<int64_t>(low + (uint64_t{1} << shift) - 1);
  }

  std::array<uint64_t, kBuckets> buckets_{};
};

}  // namespace dfly
