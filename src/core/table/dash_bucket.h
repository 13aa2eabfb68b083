// SPDX-License-Identifier: Apache-2.0
// One bucket and one segment of a DashTable: plain memory, no policy. See core/table/dash_table.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/table/compact_key.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace dfly {

inline constexpr unsigned kBucketSlots = 15;
inline constexpr uint32_t kBucketMask = (1u << kBucketSlots) - 1;

// A key with its value. Both are trivially relocatable: the table moves them with memcpy.
template <typename V, typename Key = CompactKey>
struct DashSlot {
  Key key;
  [[no_unique_address]] V value;
};
// For a set of keys.
struct NoValue {};
static_assert(sizeof(DashSlot<NoValue>) == sizeof(CompactKey));

//   bytes  0..14  fingerprints      15  stash_count   16..17  used   18..19  guests
//         20..23  stash_bits    24..    15 slots; from byte 32 on if they have 32 bytes
//
// With a 16-byte value a bucket is 512 bytes: its metadata and its first slot share a cache line,
// and no slot crosses one.
template <typename V, typename Key = CompactKey>
struct alignas(sizeof(DashSlot<V, Key>) == 32 ? 64 : alignof(DashSlot<V, Key>)) DashBucket {
  using Slot = DashSlot<V, Key>;

  uint8_t fingerprints[kBucketSlots];
  uint8_t stash_count;  // entries of this home that are in the stash; kManyStashed: not counted
  uint16_t used;        // bit i: slot i holds an entry
  uint16_t guests;      // bit i: the entry's home is the bucket before; a subset of used
  uint32_t stash_bits;  // bit (fingerprint % 32) is set for each entry of this home in the stash
  alignas(sizeof(Slot) == 32 ? 32
                             : alignof(Slot)) std::byte slot_bytes[kBucketSlots * sizeof(Slot)];

  static constexpr uint8_t kManyStashed = 255;

  // That has `slot` as its slot `i`.
  static DashBucket* OfSlot(Slot* slot, unsigned i) {
    return reinterpret_cast<DashBucket*>(reinterpret_cast<std::byte*>(slot - i) -
                                         offsetof(DashBucket, slot_bytes));
  }
  Slot& slot(unsigned i) { return reinterpret_cast<Slot*>(slot_bytes)[i]; }

  bool is_full() const { return used == kBucketMask; }
  unsigned FreeSlot() const { return std::countr_one(used); }  // REQUIRES: !is_full()
  uint32_t Own() const { return used & ~static_cast<uint32_t>(guests); }

  // Slots with this fingerprint, used or not. Bit 15 means nothing: stash_count is compared along.
  uint32_t Match(uint8_t fingerprint) const {
#if defined(__SSE2__)
    __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(this));
    __m128i equal = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(fingerprint)));
    return static_cast<uint32_t>(_mm_movemask_epi8(equal));
#elif defined(__aarch64__)
    static constexpr uint8_t kWeights[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                             1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t equal =
        vceqq_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(this)), vdupq_n_u8(fingerprint));
    uint8x16_t bits = vandq_u8(equal, vld1q_u8(kWeights));
    return vaddv_u8(vget_low_u8(bits)) | (static_cast<uint32_t>(vaddv_u8(vget_high_u8(bits))) << 8);
#else
    uint32_t mask = 0;
    for (unsigned i = 0; i < kBucketSlots; ++i) {
      mask |= static_cast<uint32_t>(fingerprints[i] == fingerprint) << i;
    }
    return mask;
#endif
  }

  void Take(unsigned i, uint8_t fingerprint, bool guest) {
    fingerprints[i] = fingerprint;
    used |= 1u << i;
    if (guest) guests |= 1u << i;
  }
  void Drop(unsigned i) {
    used &= ~(1u << i);
    guests &= ~(1u << i);
  }
  // Moves the entry of slot `i` here to a free slot of `to`.
  void MoveTo(unsigned i, DashBucket* to, bool guest) {
    unsigned j = to->FreeSlot();
    std::memcpy(static_cast<void*>(&to->slot(j)), static_cast<const void*>(&slot(i)), sizeof(Slot));
    to->Take(j, fingerprints[i], guest);
    Drop(i);
  }
};

// A contiguous range of positions, [first, first + 2^(32 - depth)), and the buckets that hold its
// entries. Buckets come in chunks of one size, so growing and shrinking leave no holes in the heap.
template <typename V, typename Key = CompactKey>
struct alignas(8) DashSegment {
  using Bucket = DashBucket<V, Key>;
  static constexpr unsigned kChunkBuckets = 2048 / sizeof(Bucket);
  static constexpr size_t kChunkBytes = (kChunkBuckets * sizeof(Bucket) + 63) / 64 * 64;
  static_assert(kChunkBuckets >= 4);

  uint32_t first;  // position
  uint32_t size;   // entries
  uint32_t homes;  // buckets 0 .. homes - 1 are homes, those from homes to buckets - 1 the stash
  uint32_t buckets;
  uint32_t chunks;
  uint32_t depth;         // leading bits that all positions share
  uint32_t shrink_below;  // the size below which less memory is tried next

  Bucket** chunk_table() { return reinterpret_cast<Bucket**>(this + 1); }
  Bucket* bucket(uint32_t i) { return chunk_table()[i / kChunkBuckets] + i % kChunkBuckets; }
  uint32_t capacity() const { return buckets * kBucketSlots; }

  // Monotonic in the position: multiply-shift of the bits below the prefix.
  uint32_t Home(uint32_t position) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(position << depth) * homes) >> 32);
  }
  uint32_t Next(uint32_t home) const { return home + 1 == homes ? 0 : home + 1; }
  uint32_t Previous(uint32_t home) const { return home == 0 ? homes - 1 : home - 1; }

  // The first position whose home is `home` or a later one. homes gives the end of the segment
  // (2^32 for the last).
  uint64_t SpanBegin(uint32_t home) const {
    uint64_t local = ((static_cast<uint64_t>(home) << 32) + homes - 1) / homes;
    return first + ((local + (1ull << depth) - 1) >> depth);
  }
};

}  // namespace dfly
