// SPDX-License-Identifier: Apache-2.0
// Writes what one shard has at one moment, the cut, while the shard goes on.
//
// After the cut a fiber walks over the tables, some keys at a time, and serializes those that it
// meets; a key that changes before the walk has come to it is serialized by the change itself, as
// it was (CutKeeper), into the same buffer. So nothing is copied but what is written anyway.
//
// A large value is not serialized in one go, neither by the walk, which writes it part by part and
// lets others run between these, nor by a change: if its key is removed or gets another value, the
// snapshot takes the old one over, and frees it when it is written. If it is to be changed in place
// the snapshot takes the old one, too, and the key goes on with a copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/shard.h"
#include "storage/entry_writer.h"
#include "storage/snapshot_output.h"

namespace dfly {

struct ShardSnapshotStats {
  uint64_t keys = 0;
  uint64_t keys_by_changes = 0;  // of them, as they were about to change
  uint64_t values_taken = 0;     // large ones that went before they were written
  uint64_t values_copied = 0;    // large ones that were about to change in place
  uint64_t buffered_bytes_max = 0;

  void Add(const ShardSnapshotStats& other) {
    keys += other.keys;
    keys_by_changes += other.keys_by_changes;
    values_taken += other.values_taken;
    values_copied += other.values_copied;
    buffered_bytes_max += other.buffered_bytes_max;
  }
};

// Owner:    who saves; used on the shard's thread only. There is one at a time for each shard.
class ShardSnapshot final : private CutKeeper {
 public:
  // All in bytes.
  struct Sizes {
    size_t large = 128 * 1024;  // values from here on are written part by part
    size_t flush = 64 * 1024;   // what goes to the output at a time
    size_t slice = 16 * 1024;   // what is serialized before others have their turn: some 10 us
    // After so much work the fiber rests as long: where threads that are busy are more than the
    // cores, the kernel lets others wait for milliseconds. 0: never.
    uint64_t work_ns = 0;
  };

  // `output` must outlive it, and `keys_written`, to which it adds; others may read that.
  ShardSnapshot(const SnapshotForm& form, SnapshotOutput* output,
                std::atomic<uint64_t>* keys_written, const Sizes& sizes);
  // REQUIRES: Cut was not called, or Write has returned.
  ~ShardSnapshot();
  ShardSnapshot(const ShardSnapshot&) = delete;
  ShardSnapshot& operator=(const ShardSnapshot&) = delete;

  // This is the moment. `shard` must outlive it. Suspends: never.
  void Cut(Shard* shard);
  // Writes all, from a fiber; after Cut, also if nobody wants the rest any more. Suspends, and lets
  // others run all the time.
  void Write();

  const ShardSnapshotStats& stats() const { return stats_; }
  // Serialized but not written, and large values that were taken over. Exact.
  size_t bytes() const {
    return (buffer_.empty() ? 0 : buffer_.capacity()) + writing_bytes_ + held_bytes_;
  }

 private:
  struct Cell {
    Database* database;
    int index;  // at the cut
  };
  // A large value whose key has gone on without it.
  struct Taken {
    int db_index;
    std::string key;
    EntryFacts facts;
    CompactValue value;
  };
  // What the walk found too large to be written on the spot.
  struct Later {
    std::string key;
    uint64_t hash;
  };

  void BeforeChange(Database& database, Slot& slot, Change change) override;

  void Walk(const Cell& cell);
  // Serializes keys from `cursor` on, until it is somebody else's turn; returns the next cursor.
  uint32_t WalkSome(const Cell& cell, uint32_t cursor);
  void SerializeOrDefer(const Cell& cell, Slot& slot);
  void Serialize(int db_index, const Database& database, const Slot& slot);
  void WriteLarge(const Cell& cell, const Later& later);
  void WriteLargeEntry(int db_index, std::string_view key, const EntryFacts& facts,
                       const CompactValue& value);
  void WriteTaken();
  void Flush();
  void MayRest();
  // After what changes bytes(): the shard knows them, too.
  void TellBytes();
  bool IsLarge(const CompactValue& value) const { return value.HeapBytes() >= sizes_.large; }
  int IndexOf(const Database& database) const;

  const SnapshotForm form_;
  SnapshotOutput& output_;
  std::atomic<uint64_t>& keys_written_;
  uint64_t keys_told_ = 0;
  const Sizes sizes_;
  std::vector<Cell> cells_;
  Shard* shard_ = nullptr;    // from the cut on
  std::string buffer_;        // whole entries
  size_t writing_bytes_ = 0;  // of those that the output has now
  int buffer_db_ = -1;        // the database of the last one
  std::deque<Taken> taken_;
  size_t held_bytes_ = 0;  // of taken values
  std::vector<Later> later_;
  uint64_t work_begin_ns_ = 0;  // since the last rest

  // The large value that is being written: its object, and itself once its key went on without it.
  const void* current_ = nullptr;
  CompactValue current_value_;

  ShardSnapshotStats stats_;
};

}  // namespace dfly
