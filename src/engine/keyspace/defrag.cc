// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/defrag.h"

#include <algorithm>

#include "core/text/hash.h"
#include "helio/base/logging.h"

namespace dfly {

void Defragmenter::Begin(std::optional<HeapSurvey> survey) {
  DCHECK(!is_running());
  pass_.emplace(std::move(survey));
  ++stats_.passes;
}

bool Defragmenter::must_wait() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const Shard* shard) { return shard->is_being_cut(); });
}

bool Defragmenter::Step(size_t budget) {
  DCHECK(!must_wait());
  const uint64_t end = pass_->mover.work() + budget;
  while (pass_->mover.work() < end) {
    if (!Advance(*pass_)) {
      Stop();
      return true;
    }
  }
  return false;
}

void Defragmenter::Stop() {
  stats_ = stats();
  last_pages_ = pass_->survey ? std::move(pass_->survey->sparse) : SparsePages();
  pass_.reset();
}

void Defragmenter::ResetStats() {
  stats_ = {};
  if (!pass_) return;
  stats_.hits -= pass_->mover.moved();  // modulo 2^64: what it adds at its end
  stats_.misses -= pass_->mover.stayed();
}

DefragStats Defragmenter::stats() const {
  DefragStats stats = stats_;
  if (pass_) {
    stats.hits += pass_->mover.moved();
    stats.misses += pass_->mover.stayed();
  }
  return stats;
}

bool Defragmenter::Advance(Pass& pass) {
  if (pass.shard == shards_.size()) return false;
  Shard& shard = *shards_[pass.shard];
  Database* const database = shard.FindDb(pass.db);
  const auto next_database = [&] {
    pass.large.clear();
    pass.large_cursor = pass.cursor = 0;
    pass.part = Part::kKeys;
    if (++pass.db < shard.db_count()) return;
    pass.db = 0;
    ++pass.shard;
  };
  if (database == nullptr) {
    next_database();
    return true;
  }
  if (!pass.large.empty()) {
    const std::string& key = pass.large.back();
    database->MoveLarge(KeyProbe(key, HashKey(key)), pass.mover, &pass.large_cursor);
    pass.mover.CountVisit();
    if (pass.large_cursor == 0) pass.large.pop_back();
    return true;
  }
  switch (pass.part) {
    case Part::kKeys: {
      const uint64_t moved = pass.mover.moved();
      pass.cursor = database->MoveKeys(pass.cursor, pass.mover, at_once_, &pass.large);
      ++(pass.mover.moved() > moved ? stats_.key_hits : stats_.key_misses);
      if (pass.cursor == 0) pass.part = Part::kDeadlines;
      break;
    }
    case Part::kDeadlines:
      pass.cursor = database->MoveDeadlines(pass.cursor, pass.mover);
      if (pass.cursor == 0) pass.part = Part::kMemberDeadlines;
      break;
    case Part::kMemberDeadlines:
      pass.cursor = database->MoveMemberDeadlines(pass.cursor, pass.mover);
      if (pass.cursor == 0) next_database();
      break;
  }
  return true;
}

}  // namespace dfly
