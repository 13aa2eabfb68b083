// SPDX-License-Identifier: Apache-2.0
// One slice of the key space.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/table/packed_block.h"
#include "core/table/value_reaper.h"
#include "core/types/hash_value.h"
#include "core/types/quick_list.h"
#include "core/types/set_value.h"
#include "core/types/stream_entries.h"
#include "engine/keyspace/database.h"
#include "engine/keyspace/effect_recorder.h"
#include "engine/keyspace/eviction.h"
#include "engine/keyspace/key_events.h"
#include "engine/keyspace/key_tag.h"
#include "engine/keyspace/memcached_items.h"
#include "engine/keyspace/read_tracker.h"
#include "engine/keyspace/shard_limits.h"
#include "engine/keyspace/waiter_table.h"
#include "engine/keyspace/watch_table.h"
#include "engine/queue/tx_queue.h"
#include "helio/base/counters.h"

namespace dfly {

struct ShardStats {
  uint64_t hits = 0;    // reads that found their key
  uint64_t misses = 0;  // reads that did not
  uint64_t expired_keys = 0;
  uint64_t expired_members = 0;  // by their own deadlines
  uint64_t evicted_keys = 0;
  uint64_t changes = 0;        // of keys, since the shard exists
  uint64_t freed_objects = 0;  // keys and values, in steps

  static constexpr helio::CounterOf<ShardStats> kCounters[] = {
      &ShardStats::hits,         &ShardStats::misses,
      &ShardStats::expired_keys, &ShardStats::expired_members,
      &ShardStats::evicted_keys, &ShardStats::changes,
      &ShardStats::freed_objects};
};
static_assert(helio::ListsAll<ShardStats>());

class TurnEnd;

enum class FlushMode { kSync, kAsync };

// While a cut goes on (see Database): knows which values are too large to be saved on the spot.
class CutGuard {
 public:
  // A command that has no locks is about to change the key's value in place, and could wait. True:
  // it has to, and `lock`, the key's, is shared in the shard's queue until the value is saved.
  virtual bool MustWait(int db_index, std::string_view key, uint64_t hash, uint64_t lock) = 0;
  // The same for who has the key's lock. True: `on_saved` is called when it may go on.
  virtual bool MustWaitLocked(int db_index, std::string_view key, uint64_t hash,
                              std::function<void()> on_saved) = 0;
  // Database 0 becomes another one, whose keys have none of these.
  virtual void TakeMemcached(MemcachedItems& items) = 0;

 protected:
  ~CutGuard() = default;
};

// Owner:    one proactor; made anywhere, used and destroyed on its thread. Takes no locks.
// Suspends: never.
class Shard final : private ChangeListener {
 public:
  static constexpr size_t kStringMax = 512u << 20;  // bytes; what --max_bulk_len is by default

  // No string becomes longer than `string_max` bytes. REQUIRES: string_max <= UINT32_MAX.
  Shard(uint32_t id, int db_count, size_t string_max = kStringMax);
  ~Shard();

  // Large values that end on the calling thread, its own, are freed in steps from now on. For one
  // of the thread's shards, which answers for those of the others.
  void ReapForThread() { reaper_.ServeThisThread(); }
  // Called when there is something to free although no command has run here.
  void set_on_block_to_free(std::function<void()> fn) { reaper_.set_on_block(std::move(fn)); }

  uint32_t id() const { return id_; }
  size_t string_max() const { return string_max_; }
  void set_string_max(size_t bytes) { string_max_ = bytes; }
  int db_count() const { return live_.count(); }
  // Made at its first use. REQUIRES: 0 <= index < db_count().
  Database& db(int index) { return live_.Make(index); }
  // Null if nothing was ever in it. REQUIRES: as above.
  const Database* FindDb(int index) const { return live_.Find(index); }
  Database* FindDb(int index) { return live_.Find(index); }
  // All that clients see.
  DatabaseSet& live() { return live_; }

  // Exact: all databases, those of incoming() as well, and what waits to be freed.
  size_t used_bytes() const;
  // Of what clients see: without the rest of these.
  size_t live_bytes() const { return live_.bytes(); }

  // What a snapshot that is being written keeps of it: not in used_bytes().
  size_t snapshot_bytes() const { return snapshot_bytes_; }
  void set_snapshot_bytes(size_t bytes) { snapshot_bytes_ = bytes; }

  // Which tags its keys have, and what is locked of them. Lives as long as this; null: keys have
  // none.
  void set_tag_rules(const TagRules* rules) { tag_rules_ = rules; }
  // As ShardSet's.
  uint64_t LockOfKey(std::string_view key, uint64_t hash, int db_index) const;

  // Who has locks here, and who waits for them.
  TxQueue& transactions() { return transactions_; }
  const TxQueue& transactions() const { return transactions_; }

  // Nothing that a command wants can be in use: nobody has locks, no cut is going on.
  bool runs_freely() const { return transactions_.empty() && cut_guard_ == nullptr; }
  // Null: no cut is going on.
  CutGuard* cut_guard() const { return cut_guard_; }
  void set_cut_guard(CutGuard* guard) { cut_guard_ = guard; }

  // What is due stays until somebody says so: the shard is of a replica.
  bool keeps_due() const { return keeps_due_; }
  void set_keeps_due(bool keeps) { keeps_due_ = keeps; }

  WatchTable& watches() { return watches_; }
  MemcachedItems& memcached() { return live_.memcached(); }
  const MemcachedItems& memcached() const { return live_.memcached(); }
  WaiterTable& waiters() { return waiters_; }
  // TxQueue::Arm and Cancel, and what follows when locks end without a hop.
  void Arm(TxEntry* entry) {
    transactions_.Arm(entry);
    ServeWaiters();
  }
  void Cancel(TxEntry* entry) {
    transactions_.Cancel(entry);
    ServeWaiters();
  }

  // Up to which size values have their small forms.
  ShardLimits& limits() { return limits_; }
  const BlockLimit& list_limit() const { return limits_.list; }
  const PackedLimit& zset_limit() const { return limits_.zset; }
  const PackedLimit& hash_limit() const { return limits_.hash; }
  const SetLimit& set_limit() const { return limits_.set; }
  const StreamLimit& stream_limit() const { return limits_.stream; }
  size_t hll_sparse_max_bytes() const { return limits_.hll_sparse_bytes; }

  // Which keys go when memory is full, and what makes them go.
  void SetEviction(const EvictionSettings& eviction);
  Evictor& evictor() { return evictor_; }
  // Of live_bytes(): of the databases that evict.
  size_t evictable_bytes() const;

  // Who hears of keyspace events, and whether of fields. Null: nobody.
  void set_key_events(KeyEventListener* listener, bool tells_fields = false) {
    key_events_ = listener;
    tells_fields_ = tells_fields;
  }
  KeyEventListener* key_events() const { return key_events_; }
  // For as long as a command runs: `listener` passes on to the one that was there, which is
  // returned. REQUIRES: there was one.
  KeyEventListener* ExchangeKeyEvents(KeyEventListener* listener) {
    return std::exchange(key_events_, listener);
  }
  bool tells_fields() const { return tells_fields_ && key_events_->HearsFields(id_); }
  // REQUIRES: tells_fields(); there are some.
  void NotifyFields(int db_index, std::string_view key, KeyEvent event,
                    std::span<const std::string_view> fields) {
    key_events_->OnFieldEvent(id_, db_index, key, event, fields);
  }
  // What is an event, but no change by itself: "new", "keymiss", or the second one of a change.
  void NotifyKeyEvent(int db_index, std::string_view key, KeyEvent event) {
    if (key_events_ != nullptr) [[unlikely]]
      key_events_->OnKeyEvent(id_, db_index, key, event);
  }

  // The one place where a change of data has its consequences.
  void OnMutation(const Mutation& mutation) override;
  // Who hears of each besides. Null: nobody.
  void set_mutation_listener(MutationListener* listener) { mutation_listener_ = listener; }
  // The same for who wants to know what units do. Null: nobody.
  void set_recorder(EffectRecorder* recorder) {
    recorder_ = recorder;
    mutation_listener_ = recorder;
  }
  EffectRecorder* recorder() const { return recorder_; }

  // Who hears of reads of clients that cache, and of changes for them. Null: no client does.
  void set_tracker(ReadTracker* tracker) { tracker_ = tracker; }
  ReadTracker* tracker() const { return tracker_; }
  void NoteRead(std::string_view key, const CachingClient& reader) {
    if (tracker_ != nullptr) tracker_->OnRead(id_, key, reader);
  }
  // Any key may be another one now. For FLUSHALL and its like once, on each shard.
  void NoteFlushed() {
    ++flush_count_;
    if (tracker_ != nullptr) tracker_->OnFlushed(id_, flush_count_);
  }
  // What follows each turn. Null: nothing. Its owner removes it, on the shard's thread, before it
  // goes.
  void set_turn_end(TurnEnd* end) { turn_end_ = end; }
  TurnEnd* turn_end() const { return turn_end_; }

  ShardStats& stats() { return stats_; }
  const ShardStats& stats() const { return stats_; }

  struct ExpireProgress {
    size_t visited = 0;
    size_t expired = 0;
    bool is_more_due = false;
  };
  // No key or member becomes due before. INT64_MAX: none has a deadline. It may be too early, until
  // the next ExpireStep.
  int64_t next_deadline_ms() const { return next_deadline_ms_; }
  // Active expiry: looks at about `budget` deadlines where some are due, all databases together.
  ExpireProgress ExpireStep(int64_t now_ms, size_t budget);

  // FLUSHDB. kAsync puts the keys aside, FreeStep frees them.
  void Flush(int index, FlushMode mode);
  void FlushAll(FlushMode mode);
  // Frees about `budget` of the keys, or members, put aside. True when nothing is left to do.
  bool FreeStep(size_t budget);

  // --- A load beside the data ---

  // What a load fills while clients go on with live(). Nobody else sees it: no clock, no eviction
  // and no cut reaches it. Made at its first use.
  DatabaseSet& incoming();
  // It takes the place of all that clients see, which is put aside for FreeStep. REQUIRES: as for a
  // flush of all databases. NoteFlushed is the caller's.
  void TakeIncoming();
  // Puts it aside for FreeStep, if there is one.
  void DropIncoming();

  // FreeStep has something to do.
  bool needs_to_free() const { return !reaper_.empty() || FindFreeable() != doomed_.end(); }
  // used_bytes() are more than live_bytes().
  bool has_pending() const { return !doomed_.empty() || !reaper_.empty() || incoming_ != nullptr; }
  // Keys, and large values, that wait to be freed.
  size_t pending_objects() const;
  // A cut of one of its databases is going on.
  bool is_being_cut() const;
  // True if ExpireStep, FreeStep or StartClocks have something to look at.
  bool needs_steps() const;
  // After a change of the rules of eviction: Database::StartClocks, for all databases.
  bool StartClocks(int64_t now_ms, size_t budget);
  // It has something to do.
  bool starts_clocks() const { return starts_clocks_; }

  void SwapDatabases(int first, int second);

  // O(n): recomputes all counters and compares. For tests.
  void CheckInvariants() const;

 private:
  friend class ShardTurn;  // it serves those who wait

  // After a command, or an EXEC as a whole, has changed keys: serves those who wait for them.
  void ServeWaiters() {
    if (waiters_.has_ready()) [[unlikely]]
      waiters_.Serve(*this);
  }
  void OnEarlierDeadline(int64_t at_ms) override {
    next_deadline_ms_ = std::min(next_deadline_ms_, at_ms);
  }
  void OnMembersExpired(size_t count) override { stats_.expired_members += count; }
  bool WantsMembers() const override { return mutation_listener_ != nullptr; }
  bool WantsFields() const override { return tells_fields(); }
  void OnFieldsExpired(int db_index, std::string_view key,
                       std::span<const std::string> fields) override;
  void Tell(const Mutation& mutation) {
    if (mutation_listener_ != nullptr) [[unlikely]]
      mutation_listener_->OnMutation(id_, mutation);
  }

  std::span<const std::unique_ptr<Database>> made() const { return live_.made(); }
  // A database that nobody uses any more waits for FreeStep.
  void Doom(std::unique_ptr<Database> database);
  // Has StartClocks something to do?
  void LookForClocks();
  // What is known of keys of database 0, which becomes another one.
  void ForgetMemcached();

  // The first of doomed_ that no cut needs.
  std::vector<std::unique_ptr<Database>>::const_iterator FindFreeable() const;

  const uint32_t id_;
  size_t string_max_;
  const TagRules* tag_rules_ = nullptr;
  ValueReaper reaper_;  // destroyed after the databases, whose values come here
  TxQueue transactions_{[](void* shard) { static_cast<Shard*>(shard)->ServeWaiters(); }, this};
  CutGuard* cut_guard_ = nullptr;
  bool keeps_due_ = false;
  WatchTable watches_;
  WaiterTable waiters_;
  KeyEventListener* key_events_ = nullptr;
  bool tells_fields_ = false;
  MutationListener* mutation_listener_ = nullptr;
  EffectRecorder* recorder_ = nullptr;
  ReadTracker* tracker_ = nullptr;
  TurnEnd* turn_end_ = nullptr;
  uint64_t flush_count_ = 0;
  DatabaseSet live_;
  std::unique_ptr<DatabaseSet> incoming_;          // null: nothing is loaded beside the data
  std::vector<std::unique_ptr<Database>> doomed_;  // flushed, to be freed in steps
  bool starts_clocks_ = false;                     // of some database
  size_t snapshot_bytes_ = 0;
  size_t expire_next_ = 0;  // the database whose turn it is
  int64_t next_deadline_ms_ = INT64_MAX;
  ShardLimits limits_;
  ShardStats stats_;
  Evictor evictor_{this};
};

}  // namespace dfly
