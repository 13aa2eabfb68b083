// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/tag_placement.h"

#include "core/text/hash.h"
#include "helio/base/logging.h"

namespace dfly {

TagPlacement::TagPlacement(PlacementRules rules, uint32_t shards, uint32_t threads)
    : rules_(std::move(rules)), shards_(shards), caches_(threads) {
  CHECK_GT(shards, 0u);
}

uint32_t TagPlacement::ShardOfTag(std::string_view tag, uint64_t hash, uint32_t thread) {
  DCHECK_LT(thread, caches_.size());
  ThreadCache& cache = caches_[thread];
  const auto hit = cache.shard_of.find(hash);
  if (hit != cache.shard_of.end()) [[likely]] {
    return hit->second;
  }
  if (cache.is_complete) return ShardOf(hash, shards_);

  const std::lock_guard lock(mutex_);
  auto known = shard_of_.find(hash);
  if (known == shard_of_.end()) {
    if (tags_.size() >= rules_.tags_max) {
      cache.shard_of = shard_of_;
      cache.is_complete = true;
      return ShardOf(hash, shards_);
    }
    Add(tag, hash, static_cast<uint32_t>(tags_.size() % shards_));
    known = shard_of_.find(hash);
  }
  cache.shard_of.emplace(hash, known->second);
  return known->second;
}

void TagPlacement::Add(std::string_view tag, uint64_t hash, uint32_t shard) {
  shard_of_.emplace(hash, shard);
  tags_.emplace_back(tag, shard);
  size_.store(tags_.size(), std::memory_order_relaxed);
}

std::vector<std::pair<std::string, uint32_t>> TagPlacement::Export() const {
  const std::lock_guard lock(mutex_);
  return tags_;
}

bool TagPlacement::Import(const std::vector<std::pair<std::string, uint32_t>>& tags) {
  const std::lock_guard lock(mutex_);
  for (const auto& [tag, shard] : tags) {
    const uint64_t hash = HashKey(tag);
    const auto known = shard_of_.find(hash);
    if (known != shard_of_.end()) {
      if (known->second != shard) return false;
      continue;
    }
    if (shard >= shards_) return false;
    // Past the limit it would have gone by its hash since a thread first asked for it.
    if (tags_.size() >= rules_.tags_max) return false;
    Add(tag, hash, shard);
  }
  return true;
}

}  // namespace dfly
