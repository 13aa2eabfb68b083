// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/shard_set.h"

namespace dfly {

ShardSet::ShardSet(helio::ProactorPool* pool, uint32_t num_shards, int db_count, size_t string_max,
                   TagRules tag_rules, PlacementRules placement_rules)
    : pool_(*pool),
      db_count_(db_count),
      string_max_(string_max),
      tag_rules_(std::move(tag_rules)),
      placement_(placement_rules.prefix.empty()
                     ? nullptr
                     : std::make_unique<TagPlacement>(std::move(placement_rules), num_shards,
                                                      pool->size())),
      cells_(num_shards) {
  CHECK_GT(num_shards, 0u);
  transaction_stats_.resize(pool->size());
  for (TransactionStats& stats : transaction_stats_) stats.widths.resize(num_shards + 1);
  for (ShardId id = 0; id < num_shards; ++id) {
    all_ids_.push_back(id);
    owner(id)->Await([&] {
      cells_[id].shard = std::make_unique<Shard>(id, db_count, string_max);
      cells_[id].shard->set_tag_rules(&tag_rules_);
      cells_[id].shard->waiters().set_spanning_mutex(&spanning_waiters_);
      if (id < pool->size()) cells_[id].shard->ReapForThread();  // the thread's first
    });
  }
}

void ShardSet::SetStringMax(size_t bytes) {
  string_max_.store(bytes, std::memory_order_relaxed);
  AwaitOnAll([bytes](Shard& shard) { shard.set_string_max(bytes); });
}

void ShardSet::SetEffectSink(EffectSink* sink, bool notes_fresh_keys) {
  effect_sink_ = sink;
  AwaitOnAll([&](Shard& shard) {
    std::unique_ptr<EffectRecorder>& recorder = cells_[shard.id()].recorder;
    recorder = sink == nullptr ? nullptr : std::make_unique<EffectRecorder>(sink, notes_fresh_keys);
    shard.set_recorder(recorder.get());
  });
}

ShardSet::~ShardSet() {
  for (ShardId id = 0; id < size(); ++id) {
    owner(id)->Await([&] { cells_[id].shard.reset(); });
  }
}

ShardId ShardSet::PlaceOfKey(std::string_view key, uint64_t hash) const {
  const std::string_view tag = tag_rules_.TagOf(key);
  const uint64_t tag_hash = tag.size() == key.size() ? hash : HashKey(tag);
  if (!placement_->Places(tag)) return ShardOf(tag_hash, size());
  return placement_->ShardOfTag(tag, tag_hash, helio::Proactor::Current()->index());
}

std::vector<std::pair<std::string, uint32_t>> ShardSet::ExportPlacements() const {
  if (placement_ == nullptr) return {};
  return placement_->Export();
}

void ShardSet::ImportPlacements(const std::vector<std::pair<std::string, uint32_t>>& tags,
                                uint32_t shards) {
  if (placement_ == nullptr) return;
  std::vector<std::pair<std::string, uint32_t>> wanted;
  for (const auto& tag : tags) {
    if (placement_->Places(tag.first)) wanted.push_back(tag);
  }
  // Past the limit of tags the hash decides, as it would have.
  if (shards == size() && placement_->Import(wanted)) return;
  for (const auto& [tag, shard] : wanted) {
    placement_->ShardOfTag(tag, HashKey(tag), helio::Proactor::Current()->index());
  }
}

uint64_t ShardSet::peak_bytes() const {
  uint64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.peak_bytes.load(std::memory_order_relaxed);
  return sum;
}

uint64_t ShardSet::changes() const {
  uint64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.changes.load(std::memory_order_relaxed);
  return sum;
}

uint64_t ShardSet::evictable_bytes() const {
  uint64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.evictable_bytes.load(std::memory_order_relaxed);
  return sum;
}

uint64_t ShardSet::used_bytes() const {
  uint64_t sum = 0;
  for (const Cell& cell : cells_) sum += cell.used_bytes.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace dfly
