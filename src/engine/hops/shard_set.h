// SPDX-License-Identifier: Apache-2.0
// All shards of the process, and the way to reach them from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/text/hash.h"
#include "engine/hops/tag_placement.h"
#include "engine/keyspace/key_tag.h"
#include "engine/keyspace/shard.h"
#include "engine/keyspace/shard_turn.h"
#include "engine/queue/slow_scripts.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {

using ShardId = uint32_t;

inline constexpr helio::WaitReason kHop = {"a hop to shard {}",
                                           "it is a brief, and waits for no locks: who sends it "
                                           "has them, or it needs none"};
inline constexpr helio::WaitReason kHops = {"hops to {} shards", "as kHop"};

// Of the transactions that fibers of one thread have run.
struct TransactionStats {
  uint64_t global = 0;           // of all shards as a whole
  std::vector<uint64_t> widths;  // [n]: of tags on n shards
};

// Owner:    the server; made before and destroyed after all use. `shard i` lives on `proactor i %
// threads`. Suspends: only what says so.
class ShardSet {
 public:
  // Makes the shards. REQUIRES: the pool runs; called from none of its threads.
  ShardSet(helio::ProactorPool* pool, uint32_t num_shards, int db_count,
           size_t string_max = Shard::kStringMax, TagRules tag_rules = {},
           PlacementRules placement_rules = {});
  // Destroys them. REQUIRES: nobody uses them any more.
  ~ShardSet();
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

  // These are for any thread; ShardOfKey, if tags are placed, for any proactor's.
  uint32_t size() const { return static_cast<uint32_t>(cells_.size()); }
  int db_count() const { return db_count_; }
  size_t string_max() const { return string_max_.load(std::memory_order_relaxed); }  // see Shard
  // Strings that are longer already stay. Suspends.
  void SetStringMax(size_t bytes);
  helio::ProactorPool& pool() const { return pool_; }
  helio::Proactor* owner(ShardId id) const { return pool_.at(id % pool_.size()); }
  bool is_local(ShardId id) const { return helio::Proactor::Current() == owner(id); }
  // `hash` is the key's; the tag is hashed only if it is another.
  ShardId ShardOfKey(std::string_view key, uint64_t hash) const {
    if (size() == 1) return 0;
    if (placement_ != nullptr) [[unlikely]]
      return PlaceOfKey(key, hash);
    return ShardOf(HashOfTag(key, hash), size());
  }
  // Of what is no key: it has no place in the order of the tags.
  ShardId ShardOfChannel(std::string_view channel, uint64_t hash) const {
    return ShardOf(HashOfTag(channel, hash), size());
  }
  // Tags whose shard is not that of their hash; see TagPlacement.
  size_t placed_tags() const { return placement_ == nullptr ? 0 : placement_->size(); }

  // Of all placed tags, as a snapshot keeps them; empty if none are placed.
  std::vector<std::pair<std::string, uint32_t>> ExportPlacements() const;
  // Gives tags the places that they had, or, if there were `shards` shards and are now others,
  // places them anew in their order. On a proactor's thread, before any key is there.
  void ImportPlacements(const std::vector<std::pair<std::string, uint32_t>>& tags, uint32_t shards);

  // Of the key's tag. `hash` is the key's.
  uint64_t HashOfTag(std::string_view key, uint64_t hash) const {
    const std::string_view tag = tag_rules_.TagOf(key);
    return tag.size() == key.size() ? hash : HashKey(tag);
  }

  // What a command that uses the key locks: the key, or its tag. `hash` is the key's.
  uint64_t LockOfKey(std::string_view key, uint64_t hash, int db_index) const {
    return TagFingerprint(tag_rules_.locks_tags ? HashOfTag(key, hash) : hash, db_index);
  }
  const TagRules& tag_rules() const { return tag_rules_; }

  // Thread: any. Transactions that may be refused do not wait for these.
  SlowScripts& slow_scripts() { return slow_scripts_; }

  // On the shard's thread only.
  Shard& local(ShardId id) const {
    DCHECK(is_local(id));
    return *cells_[id].shard;
  }

  // Who hears of the effects of all units; null: nobody. `notes_fresh_keys`: the shards note the
  // epochs in which their keys were written. REQUIRES: no unit is under way. Suspends.
  void SetEffectSink(EffectSink* sink, bool notes_fresh_keys = false);
  EffectSink* effect_sink() const { return effect_sink_.load(std::memory_order_acquire); }

  // What follows FLUSHALL; called on the thread of who asked for it. REQUIRES: set before the first
  // use, and removed after the last, while nobody else runs.
  void set_after_flush_all(std::function<void()> after_flush_all) {
    after_flush_all_ = std::move(after_flush_all);
  }
  void OnFlushedAll() {
    if (after_flush_all_) after_flush_all_();
  }

  // Thread: any. The global order of transactions over several shards.
  uint64_t NextTransactionNumber() {
    return last_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  // Of the calling proactor's thread, or of that with `index` when it is stopped or looks itself.
  TransactionStats& transaction_stats(uint32_t index) { return transaction_stats_[index]; }

  // Thread: any proactor's. Sends `message` to the shard's thread.
  void PostLazily(ShardId id, helio::Message* message) {
    if (post_hook_) [[unlikely]]
      return post_hook_(id, message);
    owner(id)->PostLazily(message);
  }
  // For tests: gets what PostLazily is called with, and calls message->run() later, on the shard's
  // thread. REQUIRES: set while nobody else runs.
  void set_post_hook(std::function<void(ShardId, helio::Message*)> hook) {
    post_hook_ = std::move(hook);
  }

  // Calls function(ShardTurn&) on the shard, as a brief, and returns what it returned. From a fiber
  // or a plain thread. Suspends, unless the shard is on the caller's thread.
  template <typename Function>
  auto Await(ShardId id, Function function) {
    const auto call = [&] {
      ShardTurn turn(*cells_[id].shard);
      return function(turn);
    };
    if (is_local(id)) {
      helio::NoSuspend no_suspend;
      return call();
    }
    const helio::BoundedWait wait(kHop, id);
    return owner(id)->Await(call);
  }

  // Calls function(ShardTurn&) on each of `ids`, all at once, and waits for all. Suspends.
  template <typename Function>
  void AwaitOn(std::span<const ShardId> ids, Function function) {
    helio::BlockingCounter done(static_cast<uint32_t>(ids.size()));
    for (ShardId id : ids) {
      owner(id)->Dispatch([&, id] {
        {
          ShardTurn turn(*cells_[id].shard);
          function(turn);
        }
        done.Done();
      });
    }
    const helio::BoundedWait wait(kHops, static_cast<uint32_t>(ids.size()));
    done.Wait();
  }
  template <typename Function>
  void AwaitOnAll(Function function) {
    AwaitOn(all_ids_, std::move(function));
  }

  // The bytes that a shard used when it last told, and their sum. Thread: any; a shard tells on its
  // own.
  void PublishUsedBytes(const Shard& shard) {
    Cell& cell = cells_[shard.id()];
    const uint64_t bytes = shard.used_bytes();
    cell.used_bytes.store(bytes, std::memory_order_relaxed);
    cell.changes.store(shard.stats().changes, std::memory_order_relaxed);
    const uint64_t pending = shard.has_pending() ? bytes - shard.live_bytes() : 0;
    cell.pending_bytes.store(pending, std::memory_order_relaxed);
    if (bytes > cell.peak_bytes.load(std::memory_order_relaxed)) {
      cell.peak_bytes.store(bytes, std::memory_order_relaxed);
    }
  }
  uint64_t used_bytes() const;
  // Of keys, since the start, as shards told when they told their bytes.
  uint64_t changes() const;
  uint64_t used_bytes(ShardId id) const {
    return cells_[id].used_bytes.load(std::memory_order_relaxed);
  }
  // Of them, those of keys that were deleted and are freed in steps.
  uint64_t pending_bytes(ShardId id) const {
    return cells_[id].pending_bytes.load(std::memory_order_relaxed);
  }
  // Of used bytes, those of databases that evict. Shards tell them only while memory is short.
  uint64_t PublishEvictableBytes(const Shard& shard) {
    const uint64_t bytes = shard.evictable_bytes();
    cells_[shard.id()].evictable_bytes.store(bytes, std::memory_order_relaxed);
    return bytes;
  }
  uint64_t evictable_bytes() const;
  // The sum of what each shard used at most, so perhaps more than all ever used at once.
  uint64_t peak_bytes() const;

 private:
  ShardId PlaceOfKey(std::string_view key, uint64_t hash) const;

  // A line of its own for each: the owner writes the number all the time.
  struct alignas(64) Cell {
    std::unique_ptr<Shard> shard;
    std::unique_ptr<EffectRecorder> recorder;
    std::atomic<uint64_t> used_bytes{0};
    std::atomic<uint64_t> pending_bytes{0};
    std::atomic<uint64_t> peak_bytes{0};
    std::atomic<uint64_t> changes{0};
    std::atomic<uint64_t> evictable_bytes{0};
  };

  alignas(64) std::atomic<uint64_t> last_number_{0};
  alignas(64) helio::ProactorPool& pool_;
  SlowScripts slow_scripts_;
  WaiterTable::SpanningMutex spanning_waiters_;
  std::atomic<EffectSink*> effect_sink_{nullptr};
  std::function<void()> after_flush_all_;
  std::function<void(ShardId, helio::Message*)> post_hook_;
  const int db_count_;
  std::atomic<size_t> string_max_;
  const TagRules tag_rules_;
  const std::unique_ptr<TagPlacement> placement_;  // null: all go by their hash
  std::vector<Cell> cells_;
  std::vector<TransactionStats> transaction_stats_;  // by thread
  std::vector<ShardId> all_ids_;
};

}  // namespace dfly
