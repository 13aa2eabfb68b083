// SPDX-License-Identifier: Apache-2.0
// The shards of tags that are placed one shard after another, in the order in which they are first
// seen (--shard_round_robin_prefix), instead of by their hash: eight queues on four threads are two
// on each then, and not perhaps five on one.
//
// A place is for ever: keys are where it says. What is past the limit goes by the hash, also for
// ever. Whoever first names a tag places it, be that a command that only reads.
//
// Snapshots remember the places, and replicas will have to (Export, Import), since another order
// would look for keys in the wrong shard.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dfly {

struct PlacementRules {
  std::string prefix = {};    // of the tags that are placed; empty: none are
  size_t tags_max = 1000000;  // a tag takes its text and about 100 bytes, and 20 on each thread
};

// Owner:    ShardSet. Thread: any; `thread` below is the calling proactor's index.
// Suspends: never. Takes a mutex when a thread asks for a tag for the first time, and only then: a
//           hit is a look-up in a table of the thread's own.
class TagPlacement {
 public:
  TagPlacement(PlacementRules rules, uint32_t shards, uint32_t threads);
  TagPlacement(const TagPlacement&) = delete;
  TagPlacement& operator=(const TagPlacement&) = delete;

  bool Places(std::string_view tag) const { return tag.starts_with(rules_.prefix); }
  // The shard of a tag that Places(); `hash` is the tag's. Tags with the same hash share a shard.
  uint32_t ShardOfTag(std::string_view tag, uint64_t hash, uint32_t thread);

  // How many have a place.
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // All of them, in the order in which they got their places.
  std::vector<std::pair<std::string, uint32_t>> Export() const;
  // Gives tags the places that they had when they were exported. False: one of them has another
  // place by now, or there is no such shard; those before it are taken over. With fewer shards than
  // then the caller has to place them anew, as it has to move their keys.
  [[nodiscard]] bool Import(const std::vector<std::pair<std::string, uint32_t>>& tags);

 private:
  using Cache = absl::flat_hash_map<uint64_t, uint32_t>;
  struct alignas(64) ThreadCache {
    Cache shard_of;
    bool is_complete = false;  // it has all, and no more will come
  };

  // REQUIRES: mutex_ is held.
  void Add(std::string_view tag, uint64_t hash, uint32_t shard);

  const PlacementRules rules_;
  const uint32_t shards_;
  std::vector<ThreadCache> caches_;
  // A plain mutex: no fiber suspends under it, and a spin lock would be held while memory is
  // allocated.
  mutable std::mutex mutex_;
  Cache shard_of_;  // by hash
  std::vector<std::pair<std::string, uint32_t>> tags_;
  std::atomic<size_t> size_{0};
};

}  // namespace dfly
