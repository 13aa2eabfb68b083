// SPDX-License-Identifier: Apache-2.0
// When the keys of a shard were last written, as epochs of the journal: a reply that tells of a key
// must not leave before what it tells is durable.
//
// A table of slots by the key's hash. A key may get the epoch of another one with its slot, which
// is later, and then its reader waits longer than it must.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace dfly {

// Owner:    a shard, on its thread. Suspends: never.
class FreshKeys {
 public:
  static constexpr size_t kSlots = 4096;
  // Written by a unit of several shards, whose epoch this shard does not know. The newest epoch of
  // the journal is that one or a later one, once the unit has let its locks go.
  static constexpr uint64_t kUnknown = UINT64_MAX;

  void Note(uint64_t hash, uint64_t epoch) { slots_[hash % kSlots] = epoch; }
  void NoteAll(uint64_t epoch) { all_ = epoch; }
  // A unit of this shard alone is in `epoch`: what had locked the whole shard was over before.
  void OnLocalUnit(uint64_t epoch) {
    if (all_ == kUnknown) [[unlikely]]
      all_ = epoch;
  }

  // 0: not since the table was made.
  uint64_t EpochOf(uint64_t hash) const { return std::max(slots_[hash % kSlots], all_); }

 private:
  std::array<uint64_t, kSlots> slots_{};
  uint64_t all_ = 0;
};

}  // namespace dfly
