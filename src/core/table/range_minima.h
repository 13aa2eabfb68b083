// SPDX-License-Identifier: Apache-2.0
// For each range of a table's positions a time that is no later than the earliest one in it: so
// what is due next is known, and found without a walk over the table.
//
// A tournament tree over 4^n ranges of equal size: a node has the smaller time of its two children.
// A time that is set is one comparison, unless it is its range's earliest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"
#include "helio/base/logging.h"

namespace dfly {

// Owner:    a DeadlineTable.
// Suspends: never.
class RangeMinima {
 public:
  static constexpr int64_t kNever = INT64_MAX;
  // Ranges are divided in four when there are more entries for each.
  static constexpr size_t kEntriesMax = 128;

  RangeMinima() = default;
  ~RangeMinima() { Free(nodes_); }
  RangeMinima(const RangeMinima&) = delete;
  RangeMinima& operator=(const RangeMinima&) = delete;

  // Of all ranges.
  int64_t earliest() const { return nodes_ == nullptr ? kNever : nodes_[1]; }
  size_t bytes() const { return bytes_; }

  // Something at `position` has this time now.
  void Note(uint32_t position, int64_t at_ms) {
    if (nodes_ == nullptr) [[unlikely]]
      Start();
    size_t node = ranges() + RangeOf(position);
    for (; node != 0 && at_ms < nodes_[node]; node /= 2) nodes_[node] = at_ms;
  }

  struct Range {
    uint64_t begin;
    uint64_t end;  // up to 2^32
    bool Has(uint32_t position) const { return position >= begin && position < end; }
  };
  // A range that has a time before this one. REQUIRES: earliest() < before_ms.
  Range FindBefore(int64_t before_ms) const {
    DCHECK_LT(earliest(), before_ms);
    size_t node = 1;
    while (node < ranges()) {
      node *= 2;
      node += nodes_[node] >= before_ms;
    }
    const uint64_t size = (uint64_t{1} << 32) >> bits_;
    const uint64_t begin = (node - ranges()) * size;
    return {begin, begin + size};
  }
  // All of the range was looked at, and this is the earliest of it.
  void Set(const Range& range, int64_t at_ms) {
    size_t node = ranges() + RangeOf(static_cast<uint32_t>(range.begin));
    nodes_[node] = at_ms;
    while ((node /= 2) != 0) nodes_[node] = std::min(nodes_[2 * node], nodes_[2 * node + 1]);
  }

  // The table has so many entries now.
  void Fit(size_t entries) {
    if (entries == 0) return Clear();
    if (entries > kEntriesMax * ranges() && bits_ < 32) [[unlikely]]
      Resize(bits_ + 2);
    if (bits_ != 0 && entries < kEntriesMax / 16 * ranges()) [[unlikely]]
      Resize(bits_ - 2);
  }
  // Of the range that has `position`. For tests.
  int64_t EarliestAt(uint32_t position) const {
    return nodes_ == nullptr ? kNever : nodes_[ranges() + RangeOf(position)];
  }
  void CheckInvariants() const {
    for (size_t node = 1; nodes_ != nullptr && node < ranges(); ++node) {
      CHECK_EQ(nodes_[node], std::min(nodes_[2 * node], nodes_[2 * node + 1]));
    }
  }
  void Clear() {
    bits_ = 0;
    Take(nullptr);
  }
  void Move(BlockMover& mover) {
    nodes_ = mover.Move(nodes_);
    bytes_ = UsableSize(nodes_);
  }

 private:
  static int64_t* Made(size_t ranges) {
    auto* const nodes = static_cast<int64_t*>(Alloc(2 * ranges * sizeof(int64_t)));
    std::fill_n(nodes, 2 * ranges, kNever);
    return nodes;
  }
  void Take(int64_t* nodes) {
    Free(nodes_);
    nodes_ = nodes;
    bytes_ = UsableSize(nodes);
  }
  void Start() {
    DCHECK_EQ(bits_, 0);
    Take(Made(1));
  }

  size_t ranges() const { return size_t{1} << bits_; }
  size_t RangeOf(uint32_t position) const { return uint64_t{position} >> (32 - bits_); }

  void Resize(int bits) {
    if (nodes_ == nullptr) Start();
    const size_t old_ranges = ranges();
    const size_t new_ranges = size_t{1} << bits;
    int64_t* const nodes = Made(new_ranges);
    const size_t most = std::max(old_ranges, new_ranges);
    for (size_t i = 0; i < most; ++i) {
      int64_t& node = nodes[new_ranges + i * new_ranges / most];
      node = std::min(node, nodes_[old_ranges + i * old_ranges / most]);
    }
    for (size_t node = new_ranges - 1; node != 0; --node) {
      nodes[node] = std::min(nodes[2 * node], nodes[2 * node + 1]);
    }
    Take(nodes);
    bits_ = bits;
  }

  // Nothing here refers to this object itself: what has it may be moved in memory as bytes.
  size_t bytes_ = 0;
  int bits_ = 0;              // 2^bits_ ranges
  int64_t* nodes_ = nullptr;  // [0] is unused, [1] the root, the ranges are the last half; null:
                              // nothing was noted
};

}  // namespace dfly
