// SPDX-License-Identifier: Apache-2.0
// Writes what one shard has at one moment, the cut, while the shard goes on.
//
// After the cut a fiber walks over the tables, some keys at a time, and serializes those that it
// meets; a key that changes before the walk has come to it is serialized by the change itself, as
// it was (CutKeeper), into the same buffer. So nothing is copied but what is written anyway. What
// is serialized is queued for another fiber, which waits for the disk; the walk waits for that one,
// changes do not: who is told that too much is queued (OnBehind) has to slow those who make them.
//
// A large value is not serialized in one go, neither by the walk, which writes it part by part and
// lets others run between these, nor by a change. If its key is removed or gets another value, the
// snapshot takes the old one over, and frees it when it is written. A command that is to change it
// in place waits until it is serialized (CutGuard), which is done at once then, part by part, and
// waits for no disk. Only for who cannot wait, in the middle of a transaction or a script, the
// snapshot takes the value, and the key goes on with a copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/keyspace/shard.h"
#include "helio/base/counters.h"
#include "helio/fibers/sync.h"
#include "storage/entry_writer.h"
#include "storage/snapshot_output.h"
#include "storage/snapshot_sizes.h"

namespace dfly {

struct ShardSnapshotStats {
  uint64_t keys = 0;
  uint64_t keys_by_changes = 0;  // of them, as they were about to change
  uint64_t values_taken = 0;     // large ones that went before they were written
  uint64_t values_hurried = 0;   // large ones that somebody waited for to change them
  uint64_t values_copied = 0;    // large ones that were changed by who could not wait
  uint64_t buffered_bytes_max = 0;

  static constexpr helio::CounterOf<ShardSnapshotStats> kCounters[] = {
      &ShardSnapshotStats::keys,          &ShardSnapshotStats::keys_by_changes,
      &ShardSnapshotStats::values_taken,  &ShardSnapshotStats::values_hurried,
      &ShardSnapshotStats::values_copied, &ShardSnapshotStats::buffered_bytes_max};
};
static_assert(helio::ListsAll<ShardSnapshotStats>());

// Owner:    who saves; used on the shard's thread only. There is one at a time for each shard.
class ShardSnapshot final : private CutKeeper, private CutGuard {
 public:
  using Sizes = SnapshotSizes;
  // Says that bytes() have passed Sizes::behind, or are half of that again. May be called by a
  // change of a key, so it must not suspend.
  using OnBehind = std::function<void(bool is_behind)>;

  // `output` must outlive it, and `keys_written`, to which it adds; others may read that.
  ShardSnapshot(const SnapshotForm& form, SnapshotOutput* output,
                std::atomic<uint64_t>* keys_written, const Sizes& sizes, OnBehind on_behind = {});
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
    return (buffer_.empty() ? 0 : buffer_.capacity()) + queued_bytes_ + held_bytes_;
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
  // Keeps who would change a value waiting: in the shard's queue, or he is called back.
  struct Hold {
    TxEntry entry;
    TagLock tag;
    std::function<void()> on_saved;
  };
  // What somebody waits for.
  struct Urgent {
    Cell cell;
    Later what;
    std::unique_ptr<Hold> hold;
  };
  // A large value that is being serialized.
  struct Current {
    const void* address;  // of its object; null: its key went on without it
    std::vector<std::unique_ptr<Hold>> holds = {};  // not empty: somebody waits for it
    CompactValue value = {};                        // once its key went on without it
  };
  // What the output gets at a time.
  struct Piece {
    std::string bytes;
    enum class Kind : uint8_t { kEntries, kPart, kLastPart } kind;
  };
  class PartSink;

  void BeforeChange(Database& database, Slot& slot, Change change) override;
  bool MustWait(int db_index, std::string_view key, uint64_t hash, uint64_t lock) override;
  bool MustWaitLocked(int db_index, std::string_view key, uint64_t hash,
                      std::function<void()> on_saved) override;
  void TakeMemcached(MemcachedItems& items) override;
  // The database, if the key has an unsaved large value there; else null.
  Database* FindLarge(int db_index, const KeyProbe& probe, Current** current);
  void Hurry(Database& database, const KeyProbe& probe, Current* current,
             std::unique_ptr<Hold> hold);

  void Walk(const Cell& cell);
  // Serializes keys from `cursor` on, until it is somebody else's turn; returns the next cursor.
  uint32_t WalkSome(const Cell& cell, uint32_t cursor);
  void SerializeOrDefer(const Cell& cell, Slot& slot);
  EntryFacts FactsOf(int db_index, const Database& database, const Slot& slot,
                     std::string_view key) const;
  void Serialize(int db_index, const Database& database, const Slot& slot);
  // These let others run. `is_urgent`: somebody has waited for it from the beginning.
  void SaveLarge(const Cell& cell, const Later& later, std::unique_ptr<Hold> hold, bool is_urgent);
  void SaveLargeEntry(int db_index, std::string_view key, const EntryFacts& facts,
                      const CompactValue& value, bool is_urgent);
  void SaveTaken();
  void SaveUrgent();

  void FlushBuffer();  // queues it
  void Queue(Piece piece);
  // Of whole entries, which queued_bytes_ has already.
  void QueueCounted(Piece piece);
  // Until the output has taken most of what is queued, or somebody waits for a value. Suspends.
  void AwaitRoom();
  bool HasToHurry() const;
  void WriteQueued();  // a fiber of its own
  void NoteBytes();
  void MayRest();
  // Of a string the size is at hand; what its block has is a cache miss of the allocator's.
  bool IsLarge(const CompactValue& value) const {
    return (value.is_string() ? value.StringSize() : value.HeapBytes()) >= sizes_.large;
  }
  const Cell& CellOf(const Database& database) const;
  Current* FindCurrent(const Slot& slot) const;

  const SnapshotForm form_;
  SnapshotOutput& output_;
  std::atomic<uint64_t>& keys_written_;
  uint64_t keys_told_ = 0;
  const Sizes sizes_;
  const OnBehind on_behind_;
  bool is_behind_ = false;
  Shard* shard_ = nullptr;
  std::vector<Cell> cells_;

  std::string buffer_;  // whole entries
  int buffer_db_ = -1;  // the database of the last one
  std::deque<Piece> queue_;
  // Entries that wait for the end of a large one, whose parts are being queued.
  std::deque<Piece> after_large_;
  size_t after_large_bytes_ = 0;
  bool is_in_large_ = false;
  size_t queued_bytes_ = 0;  // of both, and of what is being written
  bool is_all_queued_ = false;
  helio::EventCount queue_changed_;

  std::deque<Taken> taken_;
  std::optional<MemcachedItems> items_;  // of database 0, if the shard has forgotten them
  size_t held_bytes_ = 0;                // of taken values, and of these
  std::vector<Later> later_;
  std::deque<Urgent> urgent_;
  std::vector<Current*> currents_;
  uint64_t work_begin_ns_ = 0;  // since the last rest

  ShardSnapshotStats stats_;
};

}  // namespace dfly
