// SPDX-License-Identifier: Apache-2.0
// The deadlines of keys that are in a table of their own already, in about 15 bytes each.
// Knows which one is next.
//
// It does not have the keys again: an entry is found by 40 bits of the key's hash, its position and
// its fingerprint. Of two keys that agree in these (among 5,000,000 about a dozen do) the first one
// is in the table of hashes, and the other one, with its bytes, in a second table. So who wants a
// key's deadline looks for the key in the second table first, if that holds any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/table/compact_key.h"
#include "core/table/dash_table.h"
#include "core/table/range_minima.h"

namespace dfly {

// Owner:     one Database; used on its thread only.
// Suspends:  never.
// Invariant: a key is in one of the two tables at most.
class DeadlineTable {
 public:
  // What one entry costs without its share of the table's metadata.
  static constexpr size_t kEntryBytes = 12;

  // Somebody's deadline. The key is `key` if that is given; else the one key with bits 63..32 and
  // 7..0 of `hash` that has a deadline here and is not IsApart. Valid until the table changes.
  struct Entry {
    uint64_t hash;  // the other bits are 0
    const CompactKey* key;
    int64_t at_ms;
  };

  size_t size() const { return hashes_.size() + apart_.size(); }
  size_t bytes() const { return hashes_.bytes() + apart_.bytes() + minima_.bytes(); }
  // No deadline is earlier; INT64_MAX: there are none. VisitDue makes it exact.
  int64_t earliest_ms() const { return minima_.earliest(); }
  void Reserve(size_t entries) { hashes_.Reserve(entries); }

  // REQUIRES: the key has a deadline here.
  int64_t Get(const KeyProbe& probe) const;
  void Set(const KeyProbe& probe, int64_t at_ms);
  void Erase(const KeyProbe& probe);
  // REQUIRES: it has none.
  void Add(const KeyProbe& probe, int64_t at_ms);

  // The key has its deadline in the second table.
  bool IsApart(const KeyProbe& probe) const { return apart_.size() != 0 && apart_.Find(probe); }
  bool has_apart() const { return apart_.size() != 0; }

  // fn(const Entry&) for deadlines before `before_ms`. Looks at `budget` entries, or some more, and
  // returns at how many; if earliest_ms() is as early still, there are others. Who leaves an entry
  // as it is notes that, else it is not looked at again.
  template <typename F>
  size_t VisitDue(int64_t before_ms, size_t budget, F&& fn);
  // The key's deadline shall be looked at when this time is reached.
  void NoteAgain(const KeyProbe& probe, int64_t at_ms) {
    minima_.Note(PositionOf(probe.hash()), at_ms);
  }

  // As DashTable::Scan: fn(const Entry&).
  template <typename F>
  uint32_t Scan(uint32_t cursor, F&& fn) const;
  // As DashTable::Random. Those in the second table are never drawn, if there are others: they are
  // too few to matter.
  template <typename R>
  std::optional<Entry> Random(R&& random) const;
  // As DashTable::Move.
  uint32_t Move(uint32_t cursor, BlockMover& mover);
  // As DashTable::FreeSome.
  bool FreeSome(size_t budget) {
    minima_.Clear();
    return hashes_.FreeSome(budget) && apart_.FreeSome(budget);
  }

  // O(n): for tests.
  void CheckInvariants() const;

 private:
  struct HashProbe {
    uint64_t bits;
    uint64_t hash() const { return bits; }
  };
  // Of the hash; the fingerprint is in the bucket.
  struct Position {
    explicit Position(const HashProbe& probe) : value(static_cast<uint32_t>(probe.bits >> 32)) {}
    bool Equals(const HashProbe& probe) const { return value == probe.bits >> 32; }
    static bool is_heap() { return false; }
    static size_t HeapBytes() { return 0; }
    static uint32_t HashBits24() { return 0; }
    static const void* HeapAddress() { return nullptr; }

    uint32_t value;
  };
  struct PositionHasher {
    using Key = Position;
    using Probe = HashProbe;
    static constexpr bool kKnowsFingerprint = false;
    static uint64_t Hash(const Position& position) { return uint64_t{position.value} << 32; }
    static bool AreSame(const Position& a, const Position& b) { return a.value == b.value; }
  };
  struct [[gnu::packed, gnu::aligned(4)]] PackedTime {
    int64_t ms = 0;
  };
  using Hashes = DashTable<PackedTime, PositionHasher>;
  using Apart = DashTable<int64_t>;
  static_assert(sizeof(Hashes::Slot) == kEntryBytes);

  static Entry EntryOf(const Hashes::Slot& slot, uint8_t fingerprint) {
    return {(uint64_t{slot.key.value} << 32) | fingerprint, nullptr, slot.value.ms};
  }
  static Entry EntryOf(const Apart::Slot& slot) {
    return {slot.key.Hash() & 0xFFFFFFFF000000FF, &slot.key, slot.value};
  }

  static uint32_t PositionOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  Hashes hashes_;
  Apart apart_;
  RangeMinima minima_;
};

template <typename F>
size_t DeadlineTable::VisitDue(int64_t before_ms, size_t budget, F&& fn) {
  size_t visited = 0;
  while (visited < budget && minima_.earliest() < before_ms) {
    const RangeMinima::Range range = minima_.FindBefore(before_ms);
    int64_t next_ms = RangeMinima::kNever;
    uint64_t at = range.begin;
    do {
      const uint32_t following = Scan(static_cast<uint32_t>(at), [&](const Entry& entry) {
        if (!range.Has(PositionOf(entry.hash))) return;
        ++visited;
        if (entry.at_ms < before_ms) return fn(entry);
        next_ms = std::min(next_ms, entry.at_ms);
      });
      at = following == 0 ? uint64_t{1} << 32 : following;
    } while (at < range.end);
    ++visited;  // a range without entries costs, too
    minima_.Set(range, next_ms);
  }
  return visited;
}

template <typename F>
uint32_t DeadlineTable::Scan(uint32_t cursor, F&& fn) const {
  const uint32_t next = hashes_.Scan(cursor, [&fn](const Hashes::Slot& slot, uint8_t fingerprint) {
    fn(EntryOf(slot, fingerprint));
  });
  if (apart_.size() == 0) [[likely]] {
    return next;
  }
  // Of the second table what lies in the same range of positions.
  const uint64_t end = next == 0 ? uint64_t{1} << 32 : next;
  uint64_t at = cursor;
  do {
    const uint32_t following = apart_.Scan(static_cast<uint32_t>(at), [&](const Apart::Slot& slot) {
      const Entry entry = EntryOf(slot);
      if (entry.hash >> 32 < end) fn(entry);
    });
    at = following == 0 ? uint64_t{1} << 32 : following;
  } while (at < end);
  return next;
}

template <typename R>
std::optional<DeadlineTable::Entry> DeadlineTable::Random(R&& random) const {
  if (const auto it = hashes_.Random(random)) return EntryOf(*it, it.fingerprint());
  if (const auto it = apart_.Random(random)) return EntryOf(*it);
  return std::nullopt;
}

}  // namespace dfly
