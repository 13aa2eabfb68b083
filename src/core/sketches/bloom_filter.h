// SPDX-License-Identifier: Apache-2.0
// A set of items that may say yes to what was never added, at a rate that was asked for, and never
// no to what was: a scalable Bloom filter (Bloom, 1970; Almeida et al., "Scalable Bloom Filters",
// 2007).
//
// A layer is an ordinary filter for so many items. When it is full, a layer with `expansion` times
// the capacity and half the error rate follows. The first one has half of what was asked for, so
// the rates of all layers add up to no more than that:  1/2 + 1/4 + 1/8 + ... < 1
// A filter that does not scale is one layer with the rate that was asked for.
//
// What a layer looks like follows from the options and its number, so a header (see Dump) and the
// bits of the layers, one behind the other, are all of a filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/counting_allocator.h"
#include "core/text/item_hash.h"

namespace dfly {

// Owner:    one value of a shard.
// Suspends: never.
class BloomFilter {
 public:
  struct Options {
    double error_rate = 0.01;  // above 0, below 1
    uint64_t capacity = 100;   // of the first layer; at least 1
    uint32_t expansion = 2;    // 0: it does not scale
  };
  // So many sum up to what a look-up may cost; a filter that comes to it had a silly capacity.
  static constexpr size_t kLayersMax = 1024;

  // Before the first shard starts.
  static void RegisterType();

  // Null if its bits would take more than `bytes_max`. It has one layer.
  static std::unique_ptr<BloomFilter> Make(const Options& options, size_t bytes_max);

  // It has no layer yet: use Make.
  explicit BloomFilter(const Options& options)
      : options_(options), layers_(CountingAllocator<Layer>(&heap_bytes_)) {}
  BloomFilter(const BloomFilter&) = delete;
  BloomFilter& operator=(const BloomFilter&) = delete;
  ~BloomFilter();
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* filter) { Free(filter); }

  bool Has(const ItemHash& item) const;
  // kFull: it does not scale. kTooLarge: it would take more than `bytes_max`, or kLayersMax layers.
  enum class AddResult : uint8_t { kAdded, kWasThere, kFull, kTooLarge };
  AddResult Add(const ItemHash& item, size_t bytes_max);

  uint64_t capacity() const { return capacity_; }  // of all layers
  uint64_t items() const { return items_; }        // that were new when they were added
  size_t layers() const { return layers_.size(); }
  uint32_t expansion() const { return options_.expansion; }  // 0: it does not scale
  // What it costs, exactly. REQUIRES: made with new.
  size_t bytes() const { return UsableSize(this) + heap_bytes_; }

  // --- As bytes ---

  std::string Header() const;
  // A filter with all bits 0. Null if the header makes no sense, or it would take more than
  // `bytes_max`.
  static std::unique_ptr<BloomFilter> FromHeader(std::string_view header, size_t bytes_max);
  // The bits of all layers.
  size_t bits_bytes() const { return bits_bytes_; }
  // Those from `offset` on, at most `most` of them, and none past the end of a layer. REQUIRES:
  // offset < bits_bytes().
  std::string_view BitsAt(size_t offset, size_t most) const;
  // False if there are not so many from there on. Any bits are accepted.
  bool SetBits(size_t offset, std::string_view bytes);

 private:
  // Which numbers a layer has.
  struct Shape {
    uint64_t capacity;
    uint64_t bits;  // a multiple of 64
    uint32_t hashes;
  };
  struct Layer {
    Shape shape;
    uint64_t* words;

    size_t bytes() const { return shape.bits / 8; }
    bool Has(const ItemHash& item) const;
    void Add(const ItemHash& item);
  };

  // None if it would overflow.
  std::optional<Shape> NextShape() const;
  bool Grow(size_t bytes_max);
  BloomFilter* Clone() const;

  const Options options_;
  uint64_t capacity_ = 0;
  uint64_t items_ = 0;
  size_t bits_bytes_ = 0;
  size_t heap_bytes_ = 0;
  std::vector<Layer, CountingAllocator<Layer>> layers_;
};

}  // namespace dfly
