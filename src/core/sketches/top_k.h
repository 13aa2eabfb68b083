// SPDX-License-Identifier: Apache-2.0
// The items that were counted most often, in little memory: HeavyKeeper (Yang et al.,
// "HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant Flows", 2018).
//
// Each of `depth` rows has `width` buckets with a fingerprint and a count, and an item has one of
// them in each row. If that has the item's fingerprint, it counts. If not, each time the item comes
// the bucket loses one with the probability decay^count; who brings it to 0 has it. So seldom ones
// soon make room, and frequent ones are safe. An item's largest count is seldom too large, and the
// k items with the largest ones are listed.
//
// Chance comes from a state of its own, so whoever is told the same has the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/counting_allocator.h"
#include "core/text/item_hash.h"

namespace dfly {

// Owner:    one value of a shard.
// Suspends: never.
class TopK {
 public:
  struct Options {
    uint32_t k = 1;  // items in the list
    uint64_t width = 8;
    uint64_t depth = 7;
    double decay = 0.9;  // above 0, at most 1

    // Nothing is 0, and it takes no more than `bytes_max` besides the listed items.
    bool IsPossible(size_t bytes_max) const;
  };
  static constexpr uint32_t kListMax = 100'000;  // it is searched for each item
  static constexpr uint32_t kIncrementMax = 100'000;

  // Before the first shard starts.
  static void RegisterType();

  // REQUIRES: `options` are possible.
  explicit TopK(const Options& options, uint64_t seed = 0);
  TopK(const TopK&) = delete;
  TopK& operator=(const TopK&) = delete;
  ~TopK();
  static void* operator new(size_t bytes) { return Alloc(bytes); }
  static void operator delete(void* top) { Free(top); }

  // Counts it `count` times. Returns the item that had to leave the list for it. REQUIRES: count is
  // at most kIncrementMax.
  std::optional<std::string> Add(std::string_view item, uint32_t count);
  // Whether it is listed.
  bool Has(std::string_view item) const { return Find(item, HashItem(item)) < list_.size(); }
  uint32_t CountOf(std::string_view item) const;

  struct Listed {
    std::string_view item;
    uint32_t count;
  };
  // The largest count first, and of equal ones in the order of their bytes. Valid until a change.
  std::vector<Listed> List() const;

  const Options& options() const { return options_; }

  // --- Its parts, from which another one can be made that goes on as this one would ---

  uint64_t chance() const { return chance_; }  // as a seed
  std::string_view bucket_bytes() const { return {Bytes(), BucketBytesOf(options_)}; }
  std::span<char> mutable_bucket_bytes() { return {Bytes(), BucketBytesOf(options_)}; }
  // REQUIRES: they are possible.
  static size_t BucketBytesOf(const Options& options) {
    return options.width * options.depth * sizeof(Bucket);
  }
  size_t listed() const { return list_.size(); }
  // fn(std::string_view item, uint32_t count), in the order in which AppendToList wants them.
  template <typename F>
  void ForEachListed(F&& fn) const {
    for (size_t i = 0; i < list_.size(); ++i) fn(list_[i].item(), counts_[i]);
  }
  // False if the list is full. REQUIRES: it is not listed, see HasDuplicates.
  bool AppendToList(std::string_view item, uint32_t count);
  bool HasDuplicates() const;  // an item is listed twice; O(n log n)

  // What it costs, exactly. REQUIRES: made with new.
  size_t bytes() const { return UsableSize(this) + UsableSize(buckets_) + heap_bytes_; }

 private:
  struct Bucket {
    uint32_t fingerprint;
    uint32_t count;  // 0: it is free
  };
  struct Entry {
    char* bytes;  // a block of its own; null if it has none
    size_t size;
    std::string_view item() const { return {bytes, size}; }
  };
  template <typename T>
  using Counted = std::vector<T, CountingAllocator<T>>;

  static uint32_t FingerprintOf(const ItemHash& hash) { return static_cast<uint32_t>(hash.first); }
  Bucket& BucketOf(const ItemHash& hash, uint64_t row) const {
    return buckets_[row * options_.width + hash.At(row, options_.width)];
  }
  // Takes up to `times` chances to make a bucket count one less, until it is free. Returns how many
  // are left then.
  uint32_t Decay(Bucket* bucket, uint32_t times);
  double NextChance();  // uniform, above 0 and at most 1

  char* Bytes() const { return reinterpret_cast<char*>(buckets_); }
  size_t Find(std::string_view item, const ItemHash& hash) const;  // list_.size() if not listed
  Entry MakeEntry(std::string_view item);
  void FreeEntry(const Entry& entry);
  TopK* Clone() const;

  const Options options_;
  uint64_t chance_;  // state of a splitmix64
  size_t heap_bytes_ = 0;
  Bucket* const buckets_;
  // The list in any order: its items, their hashes, their counts.
  Counted<Entry> list_;
  Counted<uint64_t> hashes_;
  Counted<uint32_t> counts_;
};

}  // namespace dfly
