// SPDX-License-Identifier: Apache-2.0
// How a DashTable grows and shrinks, one segment at a time. Included by core/table/dash_table.h
// only.
//
// A segment that is full gets an eighth more buckets; when it would have more than kMaxChunks
// chunks it splits, and the directory doubles if the segment was as deep as the directory is. A
// segment that is half empty merges with its sibling or gives chunks back.
#pragma once

#include "core/table/dash_table.h"

namespace dfly {

template <typename V, typename H>
auto DashTable<V, H>::NewSegment(uint32_t first, uint32_t depth, uint32_t chunks) -> Segment* {
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
  ++rebuilds_;

  uint32_t target_chunks[2] = {chunks, chunks};
  Segment* targets[2] = {};
  while (true) {
    for (unsigned t = 0; t < target_count; ++t) {
      uint32_t target_first = first + static_cast<uint32_t>(t * (span / 2));
      targets[t] = NewSegment(target_first, depth, target_chunks[t]);
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
void DashTable<V, H>::Reserve(size_t entries) {
  if (directory_ != nullptr || entries == 0) return;
  // Segments of about half the size at which one splits, so that all may still grow a while.
  constexpr size_t kEntries = kMaxChunks * kChunkSlots / 2;
  while ((entries >> depth_) > kEntries && depth_ < kMaxDepth) ++depth_;
  const size_t mean = (entries >> depth_) + 1;
  // Each gets as many as it should up to chance, by three deviations.
  const auto share = mean + 3 * static_cast<size_t>(std::sqrt(static_cast<double>(mean)));
  const uint32_t chunks =
      static_cast<uint32_t>(static_cast<double>(share) / (kChunkSlots * kLoadAtReserve)) + 1;
  directory_ = static_cast<Segment**>(Counted(Alloc(directory_size() * sizeof(Segment*))));
  for (size_t i = 0; i < directory_size(); ++i) {
    const auto first = static_cast<uint32_t>(depth_ == 0 ? 0 : uint64_t{i} << (32 - depth_));
    directory_[i] = NewSegment(first, depth_, chunks);
  }
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

}  // namespace dfly
