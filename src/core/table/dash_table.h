// SPDX-License-Identifier: Apache-2.0
// The hash table of the key space: extendible hashing after Dash (Lu, Hao, Wang, Lo: "Dash:
// Scalable Hashing on Persistent Memory", VLDB 2020), with an order of its own.
//
// The upper 32 bits of a key's hash are its *position*. A directory, indexed by the leading bits of
// the position, names segments; each segment owns a range of positions. Within a segment the *home*
// bucket is the next bits times the number of buckets: so homes are ordered by position in the
// whole table, whatever the sizes of its segments. Three things follow:
//
//   * A SCAN cursor is a position. It needs no knowledge of the table's shape and survives splits,
//     growth and merges: everything with a smaller position has been seen.
//   * A segment may have any number of buckets, so it grows in steps of about an eighth, and splits
//     in two only when it is large. With plain splits all segments of a uniform hash split at the
//     same time, and the table is half empty afterwards; here the load stays between 0.82 and 0.93.
//   * A snapshot walks by position, too, and entries that come in that order are added fast if
//     there is room for them (Reserve).
//
// An entry is in its home bucket, in the next one (as a guest), or in one of the stash buckets at
// the end of its segment; the home knows by a count and a few bits whether to look in the stash. A
// bucket has 15 slots and one byte of fingerprint for each, compared at once: a look-up reads one
// line of metadata and one of the slot; a miss reads the metadata of two buckets.
//
// Cost of an entry: 34 bytes / load, the slot's 32 included.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"
#include "core/memory/prefetch.h"
#include "core/table/compact_key.h"
#include "core/table/dash_bucket.h"
#include "helio/base/logging.h"

namespace dfly {

// What a table's keys are, and their hash.
struct KeyHasher {
  using Key = CompactKey;
  using Probe = KeyProbe;
  static constexpr bool kKnowsFingerprint = true;  // else Hash gives the position only
  static uint64_t Hash(const CompactKey& key) { return key.Hash(); }
  static bool AreSame(const CompactKey& a, const CompactKey& b) {
    char scratch[2][CompactKey::kScratchSize];
    return a.View(scratch[0]) == b.View(scratch[1]);
  }
};

// Owner:     one shard; used on its thread only.
// Suspends:  never.
// Iterators: dead after any Insert or Erase. Nothing else moves entries.
// Invariant: size() == number of entries == sum of the segments' sizes.
// V:         16, 8 or no bytes (NoValue), trivially relocatable, default constructible.
// Hasher:    what its keys are: KeyHasher or with the same members.
template <typename V, typename Hasher = KeyHasher>
class DashTable {
 public:
  using Key = typename Hasher::Key;
  using Probe = typename Hasher::Probe;
  using Slot = DashSlot<V, Key>;
  using Bucket = DashBucket<V, Key>;
  using Segment = DashSegment<V, Key>;

  // Two words, so that it travels in registers.
  class Iterator {
   public:
    Iterator() = default;
    explicit operator bool() const { return slot_ != nullptr; }
    Slot& operator*() const { return *slot_; }
    Slot* operator->() const { return slot_; }
    // Bits 7..0 of the hash.
    uint8_t fingerprint() const { return bucket()->fingerprints[index()]; }
    bool operator==(const Iterator&) const = default;

   private:
    friend class DashTable;
    static constexpr uintptr_t kInStash = 0x100;
    static constexpr unsigned kSegmentShift = 16;  // addresses have 48 bits

    Iterator(Segment* segment, Bucket* bucket, unsigned index, bool in_stash)
        : slot_(&bucket->slot(index)),
          place_(reinterpret_cast<uintptr_t>(segment) << kSegmentShift | (in_stash ? kInStash : 0) |
                 index) {}
    Segment* segment() const { return reinterpret_cast<Segment*>(place_ >> kSegmentShift); }
    bool in_stash() const { return (place_ & kInStash) != 0; }
    unsigned index() const { return place_ & (kInStash - 1); }
    Bucket* bucket() const { return Bucket::OfSlot(slot_, index()); }

    Slot* slot_ = nullptr;
    uintptr_t place_ = 0;
  };

  DashTable() = default;  // allocates nothing
  ~DashTable() { Clear(); }
  DashTable(const DashTable&) = delete;
  DashTable& operator=(const DashTable&) = delete;

  size_t size() const { return size_; }
  // Exact: the structure and the heap parts of keys. Heap parts of values are their owner's to
  // count.
  size_t bytes() const { return structure_bytes_ + key_bytes_; }

  // --- Look-up, insertion, removal ---

  Iterator Find(const Probe& probe) const {
    return FindIf(probe.hash(), [&probe](const Slot& slot) { return slot.key.Equals(probe); });
  }
  // The first entry that fn(Slot&) accepts, of those that have this home and this fingerprint: of
  // the hash, bits 63..32 and 7..0 matter. All that have such a hash are asked, and a few others.
  template <typename F>
  Iterator FindIf(uint64_t hash, F&& fn) const;
  // REQUIRES: the key is absent. The value is V().
  Iterator Insert(const Probe& probe);
  std::pair<Iterator, bool> FindOrInsert(const Probe& probe) {
    if (Iterator it = Find(probe)) return {it, false};
    return {Insert(probe), true};
  }
  void Erase(Iterator it);
  void Clear();
  // Makes room for so many entries in all, if the table is empty and was never used; else it does
  // nothing. They may come in any order then, also in that of their positions.
  void Reserve(size_t entries);
  // Clear() in steps: frees about `budget` entries, adds what their values had on the heap to
  // `value_bytes`, if given, and returns true when nothing is left. Between the first step and the
  // last, only FreeSome may be called.
  bool FreeSome(size_t budget, size_t* value_bytes = nullptr);

  // --- A batch of look-ups ---

  // Of one of its keys. After the stages before it.
  void Prefetch(FetchStage stage, uint64_t hash) const {
    if (size_ == 0) return;
    switch (stage) {
      case FetchStage::kBucket:
        return PrefetchBucket(hash);
      case FetchStage::kSlot:
        return PrefetchSlot(hash);
      case FetchStage::kValue:
        return PrefetchValue(hash);
    }
  }
  // What is most likely the slot of the key with this hash; null: it is absent, or elsewhere. After
  // FetchStage::kSlot it waits for nothing.
  const Slot* Guess(uint64_t hash) const;

  // --- Walks ---

  // Calls fn(Slot&), or fn(Slot&, fingerprint), for the entries of one home bucket, those at
  // `cursor` or behind it, and returns the next cursor, 0 at the end. Start with 0. Whatever
  // happens to the table between calls, an entry present all the time is seen exactly once. `fn`
  // must not insert or erase.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const;

  // All entries. `fn` must not insert or erase.
  template <typename F>
  void ForEach(F&& fn) const;

  // As Scan, and moves the table's own memory along; `fn` moves what its slot has on the heap.
  template <typename F>
  uint32_t Move(uint32_t cursor, BlockMover& mover, F&& fn);

  // A random entry, none in an empty table. `random()` gives 32 random bits. Fair with the hash: it
  // draws a window of positions that holds 16 entries on average and accepts each of them with the
  // same probability. So it does not depend on the shape of the table; two neighbours in hash order
  // have correlated chances. Costs a few windows, about a microsecond.
  template <typename R>
  Iterator Random(R&& random) const;

  // As long as this stays the same, iterators stay alive.
  uint64_t layout() const { return layout_; }
  // How often a segment was laid out anew. For tests.
  uint64_t rebuilds() const { return rebuilds_; }
  // O(n): for tests.
  void CheckInvariants() const;

 private:
  static constexpr uint32_t kMaxChunks = 30;  // a larger segment splits
  static constexpr uint32_t kMaxDepth = 24;   // 8 bits and more are left to choose a home
  // A segment grows at the first of these loads and has about the second one afterwards. Nearly
  // full segments would work, too, but then many entries are guests or in the stash.
  static constexpr double kLoadMax = 0.93;
  static constexpr double kLoadAfterGrowth = 0.82;
  static constexpr double kLoadAtReserve = 0.85;  // once all have come

  void PrefetchBucket(uint64_t hash) const {
    Segment* const segment = SegmentAt(PositionOf(hash));
    PrefetchLine(segment->bucket(segment->Home(PositionOf(hash))));
  }
  void PrefetchSlot(uint64_t hash) const;
  void PrefetchValue(uint64_t hash) const;
  static constexpr uint32_t kChainMax = 8;  // buckets that an insertion may shift entries along
  static constexpr uint32_t kChunkSlots = Segment::kChunkBuckets * kBucketSlots;

  struct Place {
    uint32_t bucket;
    unsigned index;
  };
  static constexpr uint32_t kNoBucket = UINT32_MAX;

  static uint32_t PositionOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  static uint8_t FingerprintOf(uint64_t hash) { return static_cast<uint8_t>(hash); }
  static uint32_t StashBit(uint8_t fingerprint) { return 1u << (fingerprint % 32); }
  static uint32_t TargetChunks(size_t entries) {
    auto chunks =
        static_cast<uint32_t>(static_cast<double>(entries) / (kChunkSlots * kLoadAfterGrowth));
    return chunks + 1;
  }

  static bool IsLoaded(const Segment& segment) {
    // In integers: this is asked at each insertion.
    return segment.size >= segment.capacity() * static_cast<uint32_t>(kLoadMax * 1024) / 1024;
  }

  size_t directory_size() const { return size_t{1} << depth_; }
  Segment* SegmentAt(uint32_t position) const {
    return directory_[static_cast<uint64_t>(position) >> (32 - depth_)];
  }
  // Of an entry of this segment; a heap key's without touching the heap, except in small tables.
  static uint32_t PositionIn(const Segment& segment, const Slot& slot) {
    if (slot.key.is_heap() && segment.depth >= 8) {
      return (segment.first & 0xFF000000) | slot.key.HashBits24();
    }
    return PositionOf(Hasher::Hash(slot.key));
  }

  template <typename F>
  void ForEachSegment(F&& fn) const {
    for (size_t i = 0; directory_ != nullptr && i < directory_size();) {
      Segment* segment = directory_[i];
      i += size_t{1} << (depth_ - segment->depth);
      fn(segment);
    }
  }
  template <typename F>
  static void ForEachIn(Segment* segment, F&& fn) {  // fn(bucket number, bucket, index)
    for (uint32_t b = 0; b < segment->buckets; ++b) {
      Bucket* bucket = segment->bucket(b);
      for (uint32_t mask = bucket->used; mask != 0; mask &= mask - 1) {
        fn(b, bucket, static_cast<unsigned>(std::countr_zero(mask)));
      }
    }
  }

  void* Counted(void* block) {
    structure_bytes_ += UsableSize(block);
    return block;
  }
  void FreeCounted(void* block) {
    structure_bytes_ -= UsableSize(block);
    Free(block);
  }
  void MoveSegment(Segment* segment, BlockMover& mover);
  Segment* NewSegment(uint32_t first, uint32_t depth, uint32_t chunks);
  void FreeSegment(Segment* segment);  // its memory; the entries are gone or were moved
  void DestroyEntries(Segment* segment, size_t* value_bytes);

  static Place FindPlace(Segment* segment, uint32_t home, uint8_t fingerprint);
  static bool ShiftRight(Segment* segment, uint32_t home);
  static bool ShiftLeft(Segment* segment, uint32_t home);
  static uint32_t DrainStash(Segment* segment);
  static void RecountStash(Segment* segment, uint32_t home);

  void Grow(Segment* segment);
  void MaybeShrink(Segment* segment);
  enum class Effort { kOnce, kUntilItFits };
  Segment* Rebuild(Segment* const* sources, unsigned source_count, unsigned target_count,
                   uint32_t depth, uint32_t chunks, Effort effort);
  void DoubleDirectory();
  void HalveDirectory();

  Segment** directory_ = nullptr;  // null until the first insertion
  uint32_t depth_ = 0;             // log2 of the directory's size
  size_t size_ = 0;
  size_t segments_ = 0;
  uint64_t rebuilds_ = 0;
  uint64_t layout_ = 0;
  size_t structure_bytes_ = 0;
  size_t key_bytes_ = 0;
  size_t free_end_ = 0;  // FreeSome: directory entries that are left
  uint32_t segments_of_depth_[kMaxDepth + 1] = {};
};

}  // namespace dfly

#include "core/table/dash_table_growth.h"
#include "core/table/dash_table_inl.h"
