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
//   * A segment may have any number of buckets, so it grows in steps of about a fifth, and splits
//   in
//     two only when it is large. With plain splits all segments of a uniform hash split at the same
//     time, and the table is half empty afterwards; here the load stays between 0.77 and 0.93.
//   * A snapshot can walk by position, too.
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
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "core/allocator.h"
#include "core/compact_key.h"
#include "core/dash_bucket.h"
#include "core/prefetch.h"
#include "helio/base/logging.h"

namespace dfly {

struct KeyHasher {
  static uint64_t Hash(const CompactKey& key) { return key.Hash(); }
};

// Owner:     one shard; used on its thread only.
// Suspends:  never.
// Iterators: dead after any Insert or Erase. Nothing else moves entries.
// Invariant: size() == number of entries == sum of the segments' sizes.
// V:         16 or 8 bytes, trivially relocatable, default constructible.
template <typename V, typename Hasher = KeyHasher>
class DashTable {
 public:
  using Slot = DashSlot<V>;
  using Bucket = DashBucket<V>;
  using Segment = DashSegment<V>;

  class Iterator {
   public:
    Iterator() = default;
    explicit operator bool() const { return slot_ != nullptr; }
    Slot& operator*() const { return *slot_; }
    Slot* operator->() const { return slot_; }

   private:
    friend class DashTable;
    Iterator(Segment* segment, uint32_t bucket, unsigned index)
        : slot_(&segment->bucket(bucket)->slot(index)),
          segment_(segment),
          bucket_(bucket),
          index_(index) {}

    Slot* slot_ = nullptr;
    Segment* segment_ = nullptr;
    uint32_t bucket_ = 0;
    unsigned index_ = 0;
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

  Iterator Find(const KeyProbe& probe) const;
  // REQUIRES: the key is absent. The value is V().
  Iterator Insert(const KeyProbe& probe);
  std::pair<Iterator, bool> FindOrInsert(const KeyProbe& probe) {
    if (Iterator it = Find(probe)) return {it, false};
    return {Insert(probe), true};
  }
  void Erase(Iterator it);
  void Clear();
  // Clear() in steps: frees about `budget` entries and returns true when nothing is left. Between
  // the first step and the last, only FreeSome may be called.
  bool FreeSome(size_t budget, size_t* value_bytes = nullptr);

  // --- A batch of look-ups goes through these stages one after another, for all of its keys ---

  void Prefetch(uint64_t hash) const;       // the bucket's metadata
  void PrefetchSlot(uint64_t hash) const;   // the slot, by fingerprint
  void PrefetchValue(uint64_t hash) const;  // what key and value have on the heap

  // --- Walks ---

  // Calls fn(Slot&) for the entries of one home bucket, those at `cursor` or behind it, and returns
  // the next cursor, 0 at the end. Start with 0. Whatever happens to the table between calls, an
  // entry present all the time is seen exactly once. `fn` must not insert or erase.
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const;

  // All entries. `fn` must not insert or erase.
  template <typename F>
  void ForEach(F&& fn) const;

  // A random entry, none in an empty table. `random()` gives 32 random bits. Fair with the hash: it
  // draws a window of positions that holds 16 entries on average and accepts each of them with the
  // same probability. So it does not depend on the shape of the table; two neighbours in hash order
  // have correlated chances. Costs a few windows, about a microsecond.
  template <typename R>
  Iterator Random(R&& random) const;

  // --- For snapshots ---

  // The version of all entries that share a home with this hash: the owner's to use. New homes
  // inherit the highest of the segment. REQUIRES: size() > 0.
  uint64_t* Version(uint64_t hash) const {
    Segment* segment = SegmentAt(PositionOf(hash));
    return &segment->bucket(segment->Home(PositionOf(hash)))->version;
  }
  // Called with the first and the last position of a range before its homes are laid out anew.
  std::function<void(uint32_t first, uint32_t last)> before_rebuild;

  // O(n): for tests.
  void CheckInvariants() const;

 private:
  static constexpr uint32_t kMaxChunks = 30;  // a larger segment splits
  static constexpr uint32_t kMaxDepth = 24;   // 8 bits and more are left to choose a home
  // A segment grows at the first of these loads and has about the second one afterwards. Nearly
  // full segments would work, too, but then many entries are guests or in the stash.
  static constexpr double kLoadMax = 0.93;
  static constexpr double kLoadAfterGrowth = 0.77;
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
  Segment* NewSegment(uint32_t first, uint32_t depth, uint32_t chunks, uint64_t version);
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
  size_t structure_bytes_ = 0;
  size_t key_bytes_ = 0;
  size_t free_end_ = 0;  // FreeSome: directory entries that are left
  uint32_t segments_of_depth_[kMaxDepth + 1] = {};
};

// ---------------------------------------------------------------------------------------- look-up

template <typename V, typename H>
auto DashTable<V, H>::Find(const KeyProbe& probe) const -> Iterator {
  if (size_ == 0) return {};
  const uint32_t position = PositionOf(probe.hash());
  const uint8_t fingerprint = FingerprintOf(probe.hash());
  Segment* segment = SegmentAt(position);
  const uint32_t home = segment->Home(position);
  Bucket* bucket = segment->bucket(home);
  for (uint32_t mask = bucket->Match(fingerprint) & bucket->Own(); mask != 0; mask &= mask - 1) {
    unsigned i = std::countr_zero(mask);
    if (bucket->slot(i).key.Equals(probe)) return {segment, home, i};
  }
  const uint32_t next = segment->Next(home);
  Bucket* neighbour = segment->bucket(next);
  for (uint32_t mask = neighbour->Match(fingerprint) & neighbour->guests; mask != 0;
       mask &= mask - 1) {
    unsigned i = std::countr_zero(mask);
    if (neighbour->slot(i).key.Equals(probe)) return {segment, next, i};
  }
  if (bucket->stash_count == 0 || (bucket->stash_bits & StashBit(fingerprint)) == 0) return {};
  for (uint32_t b = segment->homes; b < segment->buckets; ++b) {
    Bucket* stash = segment->bucket(b);
    for (uint32_t mask = stash->Match(fingerprint) & stash->used; mask != 0; mask &= mask - 1) {
      unsigned i = std::countr_zero(mask);
      if (stash->slot(i).key.Equals(probe)) return {segment, b, i};
    }
  }
  return {};
}

template <typename V, typename H>
void DashTable<V, H>::Prefetch(uint64_t hash) const {
  if (size_ == 0) return;
  Segment* segment = SegmentAt(PositionOf(hash));
  PrefetchLine(segment->bucket(segment->Home(PositionOf(hash))));
}

template <typename V, typename H>
void DashTable<V, H>::PrefetchSlot(uint64_t hash) const {
  if (size_ == 0) return;
  Segment* segment = SegmentAt(PositionOf(hash));
  uint32_t home = segment->Home(PositionOf(hash));
  Bucket* bucket = segment->bucket(home);
  if (uint32_t mask = bucket->Match(FingerprintOf(hash)) & bucket->Own()) {
    PrefetchLine(&bucket->slot(std::countr_zero(mask)));
  } else {
    PrefetchLine(segment->bucket(segment->Next(home)));
  }
}

template <typename V, typename H>
void DashTable<V, H>::PrefetchValue(uint64_t hash) const {
  if (size_ == 0) return;
  Segment* segment = SegmentAt(PositionOf(hash));
  uint32_t home = segment->Home(PositionOf(hash));
  Bucket* bucket = segment->bucket(home);
  uint32_t mask = bucket->Match(FingerprintOf(hash)) & bucket->Own();
  if (mask == 0) {
    bucket = segment->bucket(segment->Next(home));
    mask = bucket->Match(FingerprintOf(hash)) & bucket->guests;
    if (mask == 0) return;
  }
  Slot& slot = bucket->slot(std::countr_zero(mask));
  if (const void* key = slot.key.HeapAddress()) PrefetchLine(key);
  if constexpr (requires(V value) { value.HeapAddress(); }) {
    if (const void* value = slot.value.HeapAddress()) PrefetchLine(value);
  }
}

// -------------------------------------------------------------------------------------- insertion

template <typename V, typename H>
auto DashTable<V, H>::Insert(const KeyProbe& probe) -> Iterator {
  DCHECK(!Find(probe));
  DCHECK_EQ(free_end_, 0u);
  if (directory_ == nullptr) {
    directory_ = static_cast<Segment**>(Counted(Alloc(sizeof(Segment*))));
    directory_[0] = NewSegment(0, 0, 1, 0);
  }
  const uint32_t position = PositionOf(probe.hash());
  const uint8_t fingerprint = FingerprintOf(probe.hash());
  if (Segment* segment = SegmentAt(position); IsLoaded(*segment)) Grow(segment);
  while (true) {
    Segment* segment = SegmentAt(position);
    Place place = FindPlace(segment, segment->Home(position), fingerprint);
    if (place.bucket == kNoBucket) {
      // A stash that was filled in worse times empties itself here, else it would force growth.
      uint32_t stash_slots = (segment->buckets - segment->homes) * kBucketSlots;
      if (stash_slots != 0 && DrainStash(segment) * 8 >= stash_slots) {
        place = FindPlace(segment, segment->Home(position), fingerprint);
      }
    }
    if (place.bucket != kNoBucket) {
      Iterator it(segment, place.bucket, place.index);
      new (&it->key) CompactKey(probe);
      new (&it->value) V();
      ++segment->size;
      ++size_;
      key_bytes_ += it->key.HeapBytes();
      return it;
    }
    Grow(segment);
  }
}

// Takes a slot for an entry and returns where; the segment's size is the caller's to count. Prefers
// the home, then its neighbour, then shifts others along the row, and uses the stash last.
template <typename V, typename H>
auto DashTable<V, H>::FindPlace(Segment* segment, uint32_t home, uint8_t fingerprint) -> Place {
  auto take = [&](uint32_t b, bool guest) {
    Bucket* bucket = segment->bucket(b);
    unsigned i = bucket->FreeSlot();
    bucket->Take(i, fingerprint, guest);
    return Place{b, i};
  };
  Bucket* bucket = segment->bucket(home);
  if (!bucket->is_full()) return take(home, false);
  const uint32_t next = segment->Next(home);
  if (!segment->bucket(next)->is_full()) return take(next, true);
  if (ShiftLeft(segment, home)) return take(home, false);
  if (ShiftRight(segment, home)) return take(next, true);
  for (uint32_t b = segment->homes; b < segment->buckets; ++b) {
    if (segment->bucket(b)->is_full()) continue;
    if (bucket->stash_count < Bucket::kManyStashed) ++bucket->stash_count;
    bucket->stash_bits |= StashBit(fingerprint);
    return take(b, false);
  }
  return {kNoBucket, 0};
}

// Frees a slot in the bucket after `home`: each bucket of a row gives an entry of its own to the
// next.
template <typename V, typename H>
bool DashTable<V, H>::ShiftRight(Segment* segment, uint32_t home) {
  uint32_t row[kChainMax];
  uint32_t last = segment->Next(home);
  const uint32_t steps = std::min(kChainMax, segment->homes - 2);
  for (uint32_t step = 0; step < steps; ++step) {
    if (segment->bucket(last)->Own() == 0) return false;
    row[step] = last;
    last = segment->Next(last);
    if (segment->bucket(last)->is_full()) continue;
    for (uint32_t i = step + 1; i-- > 0;) {
      Bucket* from = segment->bucket(row[i]);
      from->MoveTo(std::countr_zero(from->Own()), segment->bucket(segment->Next(row[i])), true);
    }
    return true;
  }
  return false;
}

// Frees a slot in `home`: each bucket of a row sends a guest home, to the bucket before.
template <typename V, typename H>
bool DashTable<V, H>::ShiftLeft(Segment* segment, uint32_t home) {
  uint32_t row[kChainMax];
  uint32_t last = home;
  const uint32_t steps = std::min(kChainMax, segment->homes - 2);
  for (uint32_t step = 0; step < steps; ++step) {
    if (segment->bucket(last)->guests == 0) return false;
    row[step] = last;
    last = segment->Previous(last);
    if (segment->bucket(last)->is_full()) continue;
    for (uint32_t i = step + 1; i-- > 0;) {
      Bucket* from = segment->bucket(row[i]);
      unsigned guest = std::countr_zero(static_cast<uint32_t>(from->guests));
      from->MoveTo(guest, segment->bucket(segment->Previous(row[i])), false);
    }
    return true;
  }
  return false;
}

// Moves what has room now out of the stash; returns how many entries.
template <typename V, typename H>
uint32_t DashTable<V, H>::DrainStash(Segment* segment) {
  uint32_t moved = 0;
  for (uint32_t b = segment->homes; b < segment->buckets; ++b) {
    Bucket* stash = segment->bucket(b);
    for (uint32_t mask = stash->used; mask != 0; mask &= mask - 1) {
      unsigned i = std::countr_zero(mask);
      uint32_t home = segment->Home(PositionIn(*segment, stash->slot(i)));
      Bucket* own = segment->bucket(home);
      Bucket* neighbour = segment->bucket(segment->Next(home));
      if (own->is_full() && neighbour->is_full()) continue;
      if (!own->is_full()) {
        stash->MoveTo(i, own, false);
      } else {
        stash->MoveTo(i, neighbour, true);
      }
      RecountStash(segment, home);
      ++moved;
    }
  }
  return moved;
}

// After an entry of this home has left the stash.
template <typename V, typename H>
void DashTable<V, H>::RecountStash(Segment* segment, uint32_t home) {
  Bucket* bucket = segment->bucket(home);
  if (bucket->stash_count == Bucket::kManyStashed) return;  // stays so until the next rebuild
  DCHECK_GT(bucket->stash_count, 0u);
  --bucket->stash_count;
  bucket->stash_bits = 0;
  uint32_t left = bucket->stash_count;
  for (uint32_t b = segment->homes; left != 0 && b < segment->buckets; ++b) {
    Bucket* stash = segment->bucket(b);
    for (uint32_t mask = stash->used; mask != 0; mask &= mask - 1) {
      unsigned i = std::countr_zero(mask);
      if (segment->Home(PositionIn(*segment, stash->slot(i))) != home) continue;
      bucket->stash_bits |= StashBit(stash->fingerprints[i]);
      --left;
    }
  }
}

// ------------------------------------------------------------------------------ growing, shrinking

template <typename V, typename H>
auto DashTable<V, H>::NewSegment(uint32_t first, uint32_t depth, uint32_t chunks, uint64_t version)
    -> Segment* {
  auto* segment = static_cast<Segment*>(Counted(Alloc(sizeof(Segment) + chunks * sizeof(Bucket*))));
  segment->first = first;
  segment->size = 0;
  segment->depth = depth;
  segment->chunks = chunks;
  segment->shrink_below = 0;
  segment->buckets = chunks * Segment::kChunkBuckets;
  // More chunks than kMaxChunks occur only when hashes collide so badly that splitting does not
  // help: then the stash takes what comes. It gets slow, it stays right.
  segment->homes = std::min(segment->buckets, kMaxChunks * Segment::kChunkBuckets);
  segment->homes -= segment->homes / 16;
  for (uint32_t i = 0; i < chunks; ++i) {
    segment->chunk_table()[i] = static_cast<Bucket*>(Counted(AllocLines(Segment::kChunkBytes)));
  }
  for (uint32_t b = 0; b < segment->buckets; ++b) {
    Bucket* bucket = segment->bucket(b);
    std::memset(static_cast<void*>(bucket), 0, offsetof(Bucket, slot_bytes));
    bucket->version = version;
  }
  ++segments_;
  ++segments_of_depth_[depth];
  return segment;
}

template <typename V, typename H>
void DashTable<V, H>::FreeSegment(Segment* segment) {
  for (uint32_t i = 0; i < segment->chunks; ++i) FreeCounted(segment->chunk_table()[i]);
  --segments_;
  --segments_of_depth_[segment->depth];
  FreeCounted(segment);
}

// Lays the entries of `sources` (neighbours in order) out anew in one segment, or in two when
// target_count is 2, of `depth` leading bits and at least `chunks` chunks each. Returns the first
// target, or null, with nothing changed, when one attempt was asked for and the entries did not
// fit. Cost: one segment, some tens of microseconds.
template <typename V, typename H>
auto DashTable<V, H>::Rebuild(Segment* const* sources, unsigned source_count, unsigned target_count,
                              uint32_t depth, uint32_t chunks, Effort effort) -> Segment* {
  const uint32_t first = sources[0]->first;
  const uint64_t span = (uint64_t{1} << (32 - depth)) * target_count;
  if (before_rebuild) before_rebuild(first, static_cast<uint32_t>(first + span - 1));
  uint64_t version = 0;
  for (unsigned s = 0; s < source_count; ++s) {
    for (uint32_t b = 0; b < sources[s]->homes; ++b) {
      version = std::max(version, sources[s]->bucket(b)->version);
    }
  }

  uint32_t target_chunks[2] = {chunks, chunks};
  Segment* targets[2] = {};
  while (true) {
    for (unsigned t = 0; t < target_count; ++t) {
      uint32_t target_first = first + static_cast<uint32_t>(t * (span / 2));
      targets[t] = NewSegment(target_first, depth, target_chunks[t], version);
    }
    int failed = -1;
    auto copy = [&](Segment* source, uint32_t b) {
      Bucket* bucket = source->bucket(b);
      for (uint32_t mask = bucket->used; mask != 0 && failed < 0; mask &= mask - 1) {
        unsigned i = std::countr_zero(mask);
        uint32_t position = PositionIn(*source, bucket->slot(i));
        unsigned t = target_count == 1 ? 0 : (position >> (32 - depth)) & 1;
        Segment* target = targets[t];
        Place place = FindPlace(target, target->Home(position), bucket->fingerprints[i]);
        if (place.bucket == kNoBucket) {
          failed = static_cast<int>(t);
          return;
        }
        std::memcpy(static_cast<void*>(&target->bucket(place.bucket)->slot(place.index)),
                    static_cast<const void*>(&bucket->slot(i)), sizeof(Slot));
        ++target->size;
      }
    };
    for (unsigned s = 0; s < source_count && failed < 0; ++s) {
      for (uint32_t b = 0; b < sources[s]->buckets && failed < 0; ++b) copy(sources[s], b);
    }
    if (failed < 0) break;
    // The sources are intact. Colliding hashes need many chunks: take more each time.
    target_chunks[failed] += 1 + target_chunks[failed] / 8;
    for (unsigned t = 0; t < target_count; ++t) FreeSegment(targets[t]);
    if (effort == Effort::kOnce) return nullptr;
  }

  for (unsigned s = 0; s < source_count; ++s) FreeSegment(sources[s]);
  for (unsigned t = 0; t < target_count; ++t) {
    size_t at = static_cast<uint64_t>(targets[t]->first) >> (32 - depth_);
    size_t count = size_t{1} << (depth_ - depth);
    std::fill_n(directory_ + at, count, targets[t]);
    targets[t]->shrink_below = std::min(targets[t]->capacity() / 2, targets[t]->size / 4 * 3);
  }
  return targets[0];
}

template <typename V, typename H>
void DashTable<V, H>::Grow(Segment* segment) {
  uint32_t chunks = std::max(segment->chunks + 1, TargetChunks(segment->size + 1));
  if (chunks > kMaxChunks && segment->depth < kMaxDepth) {
    // The directory follows the deepest segment; a few doublings beyond the usual are allowed.
    bool can_double = directory_size() <= 64 * (segments_ + 1);
    if (segment->depth < depth_ || can_double) {
      if (segment->depth == depth_) DoubleDirectory();
      // A little more than half of the entries may fall on one side.
      uint32_t half = TargetChunks(segment->size / 2);
      Rebuild(&segment, 1, 2, segment->depth + 1, half, Effort::kUntilItFits);
      return;
    }
  }
  if (chunks > kMaxChunks) chunks += chunks / 8;
  Rebuild(&segment, 1, 1, segment->depth, chunks, Effort::kUntilItFits);
}

template <typename V, typename H>
void DashTable<V, H>::DoubleDirectory() {
  auto** larger = static_cast<Segment**>(Counted(Alloc(2 * directory_size() * sizeof(Segment*))));
  for (size_t i = 0; i < directory_size(); ++i) larger[2 * i] = larger[2 * i + 1] = directory_[i];
  FreeCounted(directory_);
  directory_ = larger;
  ++depth_;
}

template <typename V, typename H>
void DashTable<V, H>::HalveDirectory() {
  --depth_;
  auto** smaller = static_cast<Segment**>(Counted(Alloc(directory_size() * sizeof(Segment*))));
  for (size_t i = 0; i < directory_size(); ++i) smaller[i] = directory_[2 * i];
  FreeCounted(directory_);
  directory_ = smaller;
}

// Merges a sparse segment with its sibling or gives chunks back. The limits lie far enough from
// those of growth that a table never swings between both.
//
// Whoever deletes in the order of a SCAN leaves segments whose first half is empty; the rest does
// not fit in half of the buckets, since the order is kept. So an attempt may fail, and the next one
// is made when a quarter less is left: otherwise each removal would try.
template <typename V, typename H>
void DashTable<V, H>::MaybeShrink(Segment* segment) {
  while (segment != nullptr) {
    if (segment->size != 0 && segment->size >= segment->shrink_below) return;
    segment->shrink_below = segment->size / 4 * 3;
    if (segment->depth > 0) {
      Segment* sibling = SegmentAt(segment->first ^ (1u << (32 - segment->depth)));
      size_t entries = size_t{segment->size} + sibling->size;
      if (sibling->depth == segment->depth && entries * 9 <= kMaxChunks * kChunkSlots * 4) {
        Segment* sources[2] = {segment, sibling};
        if (sibling->first < segment->first) std::swap(sources[0], sources[1]);
        Segment* merged =
            Rebuild(sources, 2, 1, segment->depth - 1, TargetChunks(entries), Effort::kOnce);
        if (merged != nullptr) {
          while (depth_ > 0 && segments_of_depth_[depth_] == 0) HalveDirectory();
          segment = merged;
          continue;  // the next sibling may be as empty
        }
      }
    }
    uint32_t chunks = TargetChunks(segment->size);
    if (chunks * 4 <= segment->chunks * 3) {
      Rebuild(&segment, 1, 1, segment->depth, chunks, Effort::kOnce);
    }
    return;
  }
}

// ---------------------------------------------------------------------------------------- removal

template <typename V, typename H>
void DashTable<V, H>::Erase(Iterator it) {
  DCHECK_EQ(free_end_, 0u);
  Segment* segment = it.segment_;
  const bool in_stash = it.bucket_ >= segment->homes;
  const uint32_t home = in_stash ? segment->Home(PositionIn(*segment, *it)) : 0;
  key_bytes_ -= it->key.HeapBytes();
  it.slot_->~Slot();
  segment->bucket(it.bucket_)->Drop(it.index_);
  --segment->size;
  --size_;
  if (in_stash) RecountStash(segment, home);
  MaybeShrink(segment);
}

template <typename V, typename H>
void DashTable<V, H>::DestroyEntries(Segment* segment, size_t* value_bytes) {
  ForEachIn(segment, [&](uint32_t, Bucket* bucket, unsigned i) {
    key_bytes_ -= bucket->slot(i).key.HeapBytes();
    if constexpr (requires(V value) { value.HeapBytes(); }) {
      if (value_bytes != nullptr) *value_bytes += bucket->slot(i).value.HeapBytes();
    }
    bucket->slot(i).~Slot();
  });
  size_ -= segment->size;
  segment->size = 0;
}

template <typename V, typename H>
void DashTable<V, H>::Clear() {
  while (!FreeSome(SIZE_MAX)) {
  }
}

template <typename V, typename H>
bool DashTable<V, H>::FreeSome(size_t budget, size_t* value_bytes) {
  if (directory_ == nullptr) return true;
  if (free_end_ == 0) free_end_ = directory_size();
  size_t freed = 0;
  while (free_end_ > 0 && freed < budget) {
    Segment* segment = directory_[free_end_ - 1];
    free_end_ -= size_t{1} << (depth_ - segment->depth);
    freed += segment->size;
    DestroyEntries(segment, value_bytes);
    FreeSegment(segment);
  }
  if (free_end_ > 0) return false;
  FreeCounted(directory_);
  directory_ = nullptr;
  depth_ = 0;
  return true;
}

// ------------------------------------------------------------------------------------------ walks

template <typename V, typename H>
template <typename F>
uint32_t DashTable<V, H>::Scan(uint32_t cursor, F&& fn) const {
  if (size_ == 0) return 0;
  Segment* segment = SegmentAt(cursor);
  const uint32_t home = segment->Home(cursor);
  const bool whole = segment->SpanBegin(home) >= cursor;
  auto emit = [&](Bucket* bucket, uint32_t mask) {
    for (; mask != 0; mask &= mask - 1) {
      Slot& slot = bucket->slot(std::countr_zero(mask));
      if (whole || PositionIn(*segment, slot) >= cursor) fn(slot);
    }
  };
  Bucket* bucket = segment->bucket(home);
  emit(bucket, bucket->Own());
  Bucket* neighbour = segment->bucket(segment->Next(home));
  emit(neighbour, neighbour->guests);
  if (bucket->stash_count != 0) {
    for (uint32_t b = segment->homes; b < segment->buckets; ++b) {
      Bucket* stash = segment->bucket(b);
      for (uint32_t mask = stash->used; mask != 0; mask &= mask - 1) {
        Slot& slot = stash->slot(std::countr_zero(mask));
        uint32_t position = PositionIn(*segment, slot);
        if (segment->Home(position) == home && position >= cursor) fn(slot);
      }
    }
  }
  return static_cast<uint32_t>(segment->SpanBegin(home + 1));  // 2^32, the end, becomes 0
}

template <typename V, typename H>
template <typename F>
void DashTable<V, H>::ForEach(F&& fn) const {
  ForEachSegment([&fn](Segment* segment) {
    ForEachIn(segment, [&fn](uint32_t, Bucket* bucket, unsigned i) { fn(bucket->slot(i)); });
  });
}

template <typename V, typename H>
template <typename R>
auto DashTable<V, H>::Random(R&& random) const -> Iterator {
  constexpr size_t kMean = 16;  // entries in a window
  constexpr size_t kMax = 48;   // more are so rare that the last ones may miss their chance
  if (size_ == 0) return {};
  if (size_ <= kMax) {
    size_t left = random() % size_;
    Iterator found;
    ForEachSegment([&](Segment* segment) {
      ForEachIn(segment, [&](uint32_t b, Bucket*, unsigned i) {
        if (left-- == 0) found = Iterator(segment, b, i);
      });
    });
    return found;
  }
  const uint64_t width = std::max<uint64_t>((uint64_t{1} << 32) / size_ * kMean, 1);
  Slot* slots[kMax];
  // With colliding hashes nearly all windows are empty: then the first entry found will do.
  for (int attempt = 0;; ++attempt) {
    const uint32_t begin = static_cast<uint32_t>(random());
    size_t count = 0;
    uint64_t at = begin;
    do {
      Segment* segment = SegmentAt(static_cast<uint32_t>(at));
      at = Scan(static_cast<uint32_t>(at), [&](Slot& slot) {
        uint32_t distance = PositionIn(*segment, slot) - begin;
        if ((distance < width || attempt > 100) && count < kMax) slots[count++] = &slot;
      });
    } while (static_cast<uint32_t>(at - begin) < width || (attempt > 100 && count == 0));
    size_t choice = random() % (attempt > 100 ? count : kMax);
    if (choice >= count) continue;
    char scratch[CompactKey::kScratchSize];
    KeyProbe probe(slots[choice]->key.View(scratch), H::Hash(slots[choice]->key));
    return Find(probe);
  }
}

// ----------------------------------------------------------------------------------------- checks

template <typename V, typename H>
void DashTable<V, H>::CheckInvariants() const {
  size_t entries = 0;
  size_t segments = 0;
  size_t keys = 0;
  size_t structure = directory_ == nullptr ? 0 : UsableSize(directory_);
  uint64_t expected_first = 0;
  ForEachSegment([&](Segment* segment) {
    CHECK_EQ(segment->first, expected_first);
    CHECK_LE(segment->depth, depth_);
    size_t at = static_cast<uint64_t>(segment->first) >> (32 - depth_);
    for (size_t i = 0; i < size_t{1} << (depth_ - segment->depth); ++i) {
      CHECK(directory_[at + i] == segment);
    }
    expected_first += uint64_t{1} << (32 - segment->depth);
    ++segments;
    structure += UsableSize(segment);
    for (uint32_t i = 0; i < segment->chunks; ++i)
      structure += UsableSize(segment->chunk_table()[i]);

    uint32_t in_segment = 0;
    ForEachIn(segment, [&](uint32_t b, Bucket* bucket, unsigned i) {
      Slot& slot = bucket->slot(i);
      char scratch[CompactKey::kScratchSize];
      uint64_t hash = H::Hash(slot.key);
      CHECK_EQ(PositionIn(*segment, slot), PositionOf(hash));
      CHECK_EQ(bucket->fingerprints[i], FingerprintOf(hash));
      Iterator found = Find(KeyProbe(slot.key.View(scratch), hash));
      CHECK(found && &*found == &slot) << "an entry cannot be found, or is there twice";
      if (b < segment->homes) {
        bool guest = (bucket->guests >> i) & 1;
        uint32_t home = segment->Home(PositionOf(hash));
        CHECK_EQ(b, guest ? segment->Next(home) : home);
      }
      keys += slot.key.HeapBytes();
      ++in_segment;
    });
    CHECK_EQ(in_segment, segment->size);
    entries += in_segment;
    for (uint32_t h = 0; h < segment->homes; ++h) {
      Bucket* home = segment->bucket(h);
      CHECK_EQ(home->guests & ~home->used, 0);
      uint32_t stashed = 0;
      uint32_t bits = 0;
      for (uint32_t b = segment->homes; b < segment->buckets; ++b) {
        Bucket* stash = segment->bucket(b);
        for (uint32_t mask = stash->used; mask != 0; mask &= mask - 1) {
          unsigned i = std::countr_zero(mask);
          if (segment->Home(PositionIn(*segment, stash->slot(i))) != h) continue;
          ++stashed;
          bits |= StashBit(stash->fingerprints[i]);
        }
      }
      if (home->stash_count != Bucket::kManyStashed) {
        CHECK_EQ(home->stash_count, stashed);
        CHECK_EQ(home->stash_bits, bits);
      }
    }
  });
  if (directory_ != nullptr) {
    CHECK_EQ(expected_first, uint64_t{1} << 32);
  }
  CHECK_EQ(entries, size_);
  CHECK_EQ(segments, segments_);
  CHECK_EQ(keys, key_bytes_);
  CHECK_EQ(structure, structure_bytes_);
}

}  // namespace dfly
