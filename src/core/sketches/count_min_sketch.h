// SPDX-License-Identifier: Apache-2.0
// How often items were counted, in little memory: a count-min sketch (Cormode and Muthukrishnan,
// 2005). Each of `depth` rows has `width` counters, and an item has one of them in each row. Others
// may share it, so the smallest of an item's counters is never too small, and seldom much too
// large: with width 2 / e and depth log2(1 / p) it is more than e times the total too large with a
// probability of at most p.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/memory/allocator.h"
#include "core/text/item_hash.h"

namespace dfly {

// Owner:    one value of a shard.
// Suspends: never.
class CountMinSketch {
 public:
  static constexpr uint32_t kCountMax = UINT32_MAX;  // a counter that comes to it stays there

  struct Shape {
    uint64_t width = 0;
    uint64_t depth = 0;

    bool operator==(const Shape&) const = default;
    uint64_t counters() const { return width * depth; }  // REQUIRES: IsPossible
    // Not empty, and its sums (see AddTo) take no more than `bytes_max`.
    bool IsPossible(size_t bytes_max) const;
    // For an error of `error` times the total with a probability of `probability`, both above 0 and
    // below 1. May be too large to be possible.
    static Shape For(double error, double probability);
  };

  // Before the first shard starts.
  static void RegisterType();

  // REQUIRES: `shape` is possible.
  explicit CountMinSketch(const Shape& shape);
  CountMinSketch(const CountMinSketch&) = delete;
  CountMinSketch& operator=(const CountMinSketch&) = delete;
  ~CountMinSketch() { Free(counters_); }
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* sketch) { Free(sketch); }

  // Returns the count of the item, which is kCountMax if it may be more.
  uint32_t Add(const ItemHash& item, uint64_t count);
  uint32_t CountOf(const ItemHash& item) const;

  const Shape& shape() const { return shape_; }
  int64_t total() const { return total_; }  // that was added; stays at its maximum
  // What it costs, exactly. REQUIRES: made with new.
  size_t bytes() const { return UsableSize(this) + UsableSize(counters_); }

  // --- As bytes, the lowest one of a counter first ---

  std::string_view counter_bytes() const { return {Bytes(), CounterBytesOf(shape_)}; }
  std::span<char> mutable_counter_bytes() { return {Bytes(), CounterBytesOf(shape_)}; }
  static size_t CounterBytesOf(const Shape& shape) { return shape.counters() * sizeof(uint32_t); }
  void set_total(int64_t total) { total_ = total; }  // REQUIRES: total >= 0

  // --- Several at once ---

  // Sums of counters, each times a weight, and of totals behind them.
  static size_t SumsOf(const Shape& shape) { return shape.counters() + 1; }
  // False if a sum would overflow; they make no sense then. REQUIRES: sums.size() == SumsOf(shape).
  [[nodiscard]] bool AddTo(std::span<int64_t> sums, int64_t weight) const;
  // Puts sums in place of what it has. False, without a change, if some are negative or too large.
  [[nodiscard]] bool Assign(std::span<const int64_t> sums);

 private:
  CountMinSketch* Clone() const;
  char* Bytes() const { return reinterpret_cast<char*>(counters_); }

  const Shape shape_;
  int64_t total_ = 0;
  uint32_t* const counters_;  // row by row
};

}  // namespace dfly
