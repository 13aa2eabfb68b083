// SPDX-License-Identifier: Apache-2.0
// DashTable's look-ups, insertions, removals and walks. Included by core/table/dash_table.h only.
#pragma once

#include "core/table/dash_table.h"

namespace dfly {

// ---------------------------------------------------------------------------------------- look-up

template <typename V, typename H>
template <typename F>
[[gnu::always_inline]] inline auto DashTable<V, H>::FindIf(uint64_t hash, F&& fn) const
    -> Iterator {
  if (size_ == 0) return {};
  const uint32_t position = PositionOf(hash);
  const uint8_t fingerprint = FingerprintOf(hash);
  Segment* segment = SegmentAt(position);
  const uint32_t home = segment->Home(position);
  Bucket* bucket = segment->bucket(home);
  for (uint32_t mask = bucket->Match(fingerprint) & bucket->Own(); mask != 0; mask &= mask - 1) {
    unsigned i = std::countr_zero(mask);
    if (fn(bucket->slot(i))) return {segment, bucket, i, false};
  }
  Bucket* neighbour = segment->bucket(segment->Next(home));
  for (uint32_t mask = neighbour->Match(fingerprint) & neighbour->guests; mask != 0;
       mask &= mask - 1) {
    unsigned i = std::countr_zero(mask);
    if (fn(neighbour->slot(i))) return {segment, neighbour, i, false};
  }
  if (bucket->stash_count == 0 || (bucket->stash_bits & StashBit(fingerprint)) == 0) return {};
  for (uint32_t b = segment->homes; b < segment->buckets; ++b) {
    Bucket* stash = segment->bucket(b);
    for (uint32_t mask = stash->Match(fingerprint) & stash->used; mask != 0; mask &= mask - 1) {
      unsigned i = std::countr_zero(mask);
      if (fn(stash->slot(i))) return {segment, stash, i, true};
    }
  }
  return {};
}

template <typename V, typename H>
void DashTable<V, H>::PrefetchSlot(uint64_t hash) const {
  Segment* const segment = SegmentAt(PositionOf(hash));
  const uint32_t home = segment->Home(PositionOf(hash));
  Bucket* const bucket = segment->bucket(home);
  if (const uint32_t mask = bucket->Match(FingerprintOf(hash)) & bucket->Own()) {
    PrefetchLine(&bucket->slot(std::countr_zero(mask)));
  } else {
    PrefetchLine(segment->bucket(segment->Next(home)));
  }
}

template <typename V, typename H>
inline auto DashTable<V, H>::Guess(uint64_t hash) const -> const Slot* {
  if (size_ == 0) return nullptr;
  Segment* const segment = SegmentAt(PositionOf(hash));
  const uint32_t home = segment->Home(PositionOf(hash));
  Bucket* bucket = segment->bucket(home);
  uint32_t mask = bucket->Match(FingerprintOf(hash)) & bucket->Own();
  if (mask == 0) {
    bucket = segment->bucket(segment->Next(home));
    mask = bucket->Match(FingerprintOf(hash)) & bucket->guests;
    if (mask == 0) return nullptr;
  }
  return &bucket->slot(std::countr_zero(mask));
}

template <typename V, typename H>
void DashTable<V, H>::PrefetchValue(uint64_t hash) const {
  const Slot* const slot = Guess(hash);
  if (slot == nullptr) return;
  if (const void* key = slot->key.HeapAddress()) PrefetchLine(key);
  if constexpr (requires(V value) { value.HeapAddress(); }) {
    if (const void* value = slot->value.HeapAddress()) PrefetchLine(value);
  }
}

// -------------------------------------------------------------------------------------- insertion

template <typename V, typename H>
auto DashTable<V, H>::Insert(const Probe& probe) -> Iterator {
  DCHECK(!Find(probe));
  DCHECK_EQ(free_end_, 0u);
  ++layout_;
  if (directory_ == nullptr) {
    directory_ = static_cast<Segment**>(Counted(Alloc(sizeof(Segment*))));
    directory_[0] = NewSegment(0, 0, 1);
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
      Iterator it(segment, segment->bucket(place.bucket), place.index,
                  place.bucket >= segment->homes);
      new (&it->key) Key(probe);
      if constexpr (!std::is_empty_v<V>) new (&it->value) V();  // else it lies within the key
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

// ---------------------------------------------------------------------------------------- removal

template <typename V, typename H>
void DashTable<V, H>::Erase(Iterator it) {
  DCHECK_EQ(free_end_, 0u);
  ++layout_;
  Segment* segment = it.segment();
  const uint32_t home = it.in_stash() ? segment->Home(PositionIn(*segment, *it)) : 0;
  key_bytes_ -= it->key.HeapBytes();
  it.slot_->~Slot();
  it.bucket()->Drop(it.index());
  --segment->size;
  --size_;
  if (it.in_stash()) RecountStash(segment, home);
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
  ++layout_;
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
  auto tell = [&](Bucket* bucket, unsigned i) {
    if constexpr (std::is_invocable_v<F, Slot&, uint8_t>) {
      fn(bucket->slot(i), bucket->fingerprints[i]);
    } else {
      fn(bucket->slot(i));
    }
  };
  auto emit = [&](Bucket* bucket, uint32_t mask) {
    for (; mask != 0; mask &= mask - 1) {
      const unsigned i = std::countr_zero(mask);
      if (whole || PositionIn(*segment, bucket->slot(i)) >= cursor) tell(bucket, i);
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
        const unsigned i = std::countr_zero(mask);
        uint32_t position = PositionIn(*segment, stash->slot(i));
        if (segment->Home(position) == home && position >= cursor) tell(stash, i);
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
template <typename F>
uint32_t DashTable<V, H>::Move(uint32_t cursor, BlockMover& mover, F&& fn) {
  if (directory_ == nullptr) return 0;
  ++layout_;
  if (cursor == 0) directory_ = mover.Move(directory_);
  if (Segment* const segment = SegmentAt(cursor); segment->first == cursor) {
    MoveSegment(segment, mover);
  }
  mover.CountVisit();
  return Scan(cursor, fn);
}

template <typename V, typename H>
void DashTable<V, H>::MoveSegment(Segment* segment, BlockMover& mover) {
  Segment* const moved = mover.Move(segment);
  const size_t at = static_cast<uint64_t>(moved->first) >> (32 - depth_);
  std::fill_n(directory_ + at, size_t{1} << (depth_ - moved->depth), moved);
  for (uint32_t i = 0; i < moved->chunks; ++i) {
    moved->chunk_table()[i] = mover.MoveLines(moved->chunk_table()[i]);
  }
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
      ForEachIn(segment, [&](uint32_t b, Bucket* bucket, unsigned i) {
        if (left-- == 0) found = Iterator(segment, bucket, i, b >= segment->homes);
      });
    });
    return found;
  }
  const uint64_t width = std::max<uint64_t>((uint64_t{1} << 32) / size_ * kMean, 1);
  struct Drawn {
    Slot* slot;
    uint64_t hash;
  };
  Drawn drawn[kMax];
  // With colliding hashes nearly all windows are empty: then the first entry found will do.
  for (int attempt = 0;; ++attempt) {
    const uint32_t begin = static_cast<uint32_t>(random());
    size_t count = 0;
    uint64_t at = begin;
    do {
      Segment* segment = SegmentAt(static_cast<uint32_t>(at));
      at = Scan(static_cast<uint32_t>(at), [&](Slot& slot, uint8_t fingerprint) {
        const uint32_t position = PositionIn(*segment, slot);
        const bool counts = position - begin < width || attempt > 100;
        if (!counts || count == kMax) return;
        drawn[count++] = {&slot, (uint64_t{position} << 32) | fingerprint};
      });
    } while (static_cast<uint32_t>(at - begin) < width || (attempt > 100 && count == 0));
    size_t choice = random() % (attempt > 100 ? count : kMax);
    if (choice >= count) continue;
    const Slot* const chosen = drawn[choice].slot;
    return FindIf(drawn[choice].hash, [chosen](const Slot& slot) { return &slot == chosen; });
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
      const uint64_t hash = H::Hash(slot.key);
      CHECK_EQ(PositionIn(*segment, slot), PositionOf(hash));
      if constexpr (H::kKnowsFingerprint) {
        CHECK_EQ(bucket->fingerprints[i], FingerprintOf(hash));
      }
      const uint64_t known = (uint64_t{PositionOf(hash)} << 32) | bucket->fingerprints[i];
      unsigned equal = 0;
      Iterator found;
      FindIf(known, [&](Slot& other) {
        if (&other == &slot) found = Iterator(segment, bucket, i, b >= segment->homes);
        equal += H::AreSame(other.key, slot.key);
        return false;
      });
      CHECK(found) << "an entry cannot be found";
      CHECK_EQ(equal, 1u) << "an entry is there twice";
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
