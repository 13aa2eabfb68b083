// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/eviction.h"

#include <algorithm>
#include <utility>

#include "core/text/hash.h"
#include "engine/keyspace/shard.h"

namespace dfly {

namespace {

// Coldness is compared as a whole: its low bits are drawn, so that equals have equal chances.
constexpr unsigned kTieBits = 32;

// A bucket has about a dozen keys and costs as much as one or two random samples.
size_t BucketsFor(const EvictionRules& rules, size_t most) {
  return std::clamp<size_t>((size_t{rules.samples} + 1) / 2, 1, most);
}

// How many keys of the database may go by its policy.
size_t EvictableIn(const Database& database) {
  const EvictionRules& rules = database.eviction_rules();
  if (!rules.evicts()) return 0;
  return rules.is_volatile() ? database.expires() : database.size();
}

}  // namespace

void Evictor::Reset() {
  barren_until_ms_ = 0;
  found_nothing_ = false;
  fruitless_buckets_ = 0;
  for (Hand& hand : hands_) hand.floor = 0;
}

bool Evictor::is_barren(int64_t now_ms) const {
  return now_ms < barren_until_ms_ && shard_.stats().changes < barren_until_changes_;
}

Evictor::Progress Evictor::Evict(size_t bytes, size_t keys_max, const SparedKeys& spared,
                                 int64_t now_ms, int64_t due_ms) {
  Progress progress;
  if (is_barren(now_ms)) {
    progress.end = End::kBarren;
    found_nothing_ = true;
    return progress;
  }
  found_nothing_ = false;
  const size_t before = shard_.live_bytes();
  while (true) {
    const size_t now = shard_.live_bytes();
    progress.bytes = now < before ? before - now : 0;
    if (progress.bytes >= bytes) return progress;
    if (progress.keys >= keys_max) {
      progress.end = End::kMore;
      return progress;
    }
    const Found found = EvictOne(spared, now_ms, due_ms);
    if (found != Found::kEvicted) {
      progress.end = found == Found::kBusy ? End::kBusy : End::kBarren;
      found_nothing_ = progress.end == End::kBarren && progress.keys == 0;
      return progress;
    }
    ++progress.keys;
  }
}

Database* Evictor::ChooseDatabase() {
  // Most servers use one.
  size_t total = 0;
  Database* only = nullptr;
  size_t used = 0;
  for (int i = 0; i < shard_.db_count(); ++i) {
    Database* database = shard_.FindDb(i);
    const size_t keys = database == nullptr ? 0 : EvictableIn(*database);
    if (keys == 0) continue;
    total += keys;
    only = database;
    ++used;
  }
  keys_ = total;
  if (used <= 1) return only;
  uint64_t chosen = (uint64_t{only->access_clock().Random()} * total) >> 32;
  for (int i = 0; i < shard_.db_count(); ++i) {
    Database* database = shard_.FindDb(i);
    if (database == nullptr) continue;
    const size_t keys = EvictableIn(*database);
    if (chosen < keys) return database;
    chosen -= keys;
  }
  return only;
}

auto Evictor::HandOf(const Database& database) -> Hand& {
  hands_.resize(static_cast<size_t>(shard_.db_count()));
  return hands_[static_cast<size_t>(database.index())];
}

auto Evictor::EvictOne(const SparedKeys& spared, int64_t now_ms, int64_t due_ms) -> Found {
  Database* database = ChooseDatabase();
  if (database == nullptr) return Found::kNone;
  candidate_count_ = buckets_ = met_ = 0;
  Search(*database, now_ms);
  fruitless_buckets_ += buckets_;
  if (met_ == 0) {
    // All of its keys may be sticky. The others share as many buckets.
    std::vector<Database*> others;
    for (int i = 0; i < shard_.db_count(); ++i) {
      Database* const other = shard_.FindDb(i);
      if (other != nullptr && other != database && EvictableIn(*other) > 0) others.push_back(other);
    }
    for (size_t i = 0; i < others.size() && met_ == 0; ++i) {
      database = others[i];
      const size_t begin = kBucketsMax - std::max<size_t>(1, kBucketsMax / others.size());
      buckets_ = begin;
      Search(*database, now_ms);
      fruitless_buckets_ += buckets_ - begin;
    }
  }
  if (met_ == 0) {
    // A bucket has about a dozen keys, so this is some times round.
    if (fruitless_buckets_ * 4 > keys_) {
      fruitless_buckets_ = 0;
      barren_until_ms_ = now_ms + kBarrenMs;
      barren_until_changes_ = shard_.stats().changes + keys_ / 64 + 1;
    }
    return Found::kNone;
  }
  fruitless_buckets_ = 0;
  for (size_t i = 0; i < candidate_count_; ++i) {
    const Candidate& candidate = candidates_[i];
    const uint64_t hash = HashKey(candidate.key);
    if (IsSpared(*database, candidate.key, hash, spared)) continue;
    Remove(*database, candidate, hash, due_ms);
    return Found::kEvicted;
  }
  return Found::kBusy;
}

void Evictor::Search(Database& database, int64_t now_ms) {
  const EvictionRules& rules = database.eviction_rules();
  const bool is_random = rules.policy == EvictionPolicy::kAllKeysRandom ||
                         rules.policy == EvictionPolicy::kVolatileRandom;
  if (is_random && Draw(database)) return;
  if (rules.is_volatile()) {
    SearchDeadlines(database, now_ms);
  } else {
    SearchAll(database, now_ms);
  }
}

bool Evictor::Draw(Database& database) {
  AccessClock& clock = database.access_clock();
  const auto random = [&clock] { return clock.Random(); };
  for (size_t i = 0; i < kDrawsMax; ++i) {
    std::string key;
    if (clock.rules().is_volatile()) {
      key = database.RandomDeadline(random).key.ToString();
    } else {
      key = database.Random(random)->key.ToString();
    }
    const auto it = database.Find(KeyProbe(key, HashKey(key)));
    if (it->key.has_flag(CompactKey::kSticky)) continue;
    Consider(0, [&key] { return key; });
    return true;
  }
  return false;
}

uint64_t Evictor::ColdnessOf(Database& database, CompactValue& value, int64_t now_ms) {
  AccessClock& clock = database.access_clock();
  uint64_t coldness = 0;
  switch (clock.rules().policy) {
    case EvictionPolicy::kAllKeysLfu:
    case EvictionPolicy::kVolatileLfu:
    case EvictionPolicy::kCache:
      coldness = uint64_t{UINT8_MAX} - clock.Settle(value, now_ms);
      break;
    case EvictionPolicy::kAllKeysLru:
    case EvictionPolicy::kAllKeysLrm:
    case EvictionPolicy::kVolatileLru:
    case EvictionPolicy::kVolatileLrm:
      coldness = clock.IdleSeconds(value, now_ms);
      break;
    default:  // all are the same
      break;
  }
  return coldness << kTieBits | clock.Random();
}

template <typename KeyOf>
void Evictor::Consider(uint64_t coldness, KeyOf key_of) {
  ++met_;
  if (candidate_count_ == kCandidatesMax && coldness <= candidates_[kCandidatesMax - 1].coldness)
      [[likely]] {
    return;
  }
  if (candidates_.empty()) candidates_.resize(kCandidatesMax);
  if (candidate_count_ < kCandidatesMax) ++candidate_count_;
  size_t at = candidate_count_ - 1;
  for (; at > 0 && candidates_[at - 1].coldness < coldness; --at) {
    std::swap(candidates_[at], candidates_[at - 1]);
  }
  candidates_[at].coldness = coldness;
  candidates_[at].key = key_of();
}

void Evictor::SearchAll(Database& database, int64_t now_ms) {
  Hand& hand = HandOf(database);
  const EvictionRules& rules = database.eviction_rules();
  const bool counts_hits = rules.counts_hits();
  const size_t wanted = BucketsFor(rules, kBucketsMax);
  while (buckets_ < kBucketsMax && (buckets_ < wanted || met_ == 0)) {
    ++buckets_;
    hand.at = database.Scan(hand.at, [&](Database::Table::Slot& slot) {
      if (slot.key.has_flag(CompactKey::kSticky)) return;
      Consider(ColdnessOf(database, slot.value, now_ms), [&slot] { return slot.key.ToString(); });
    });
    if (!counts_hits || met_ == 0) continue;
    const uint64_t hits = UINT8_MAX - (candidates_[0].coldness >> kTieBits);
    if (hits <= hand.floor) break;
  }
  database.Prefetch(FetchStage::kBucket, uint64_t{hand.at} << 32);
  if (!counts_hits || met_ == 0) return;
  const uint64_t hits = UINT8_MAX - (candidates_[0].coldness >> kTieBits);
  if (hits > hand.floor) {
    ++hand.floor;  // by small steps: this neighbourhood may be no measure
  } else {
    hand.floor = static_cast<uint8_t>(hits);
  }
}

void Evictor::SearchDeadlines(Database& database, int64_t now_ms) {
  Hand& hand = HandOf(database);
  const EvictionRules& rules = database.eviction_rules();
  const bool by_deadline = rules.policy == EvictionPolicy::kVolatileTtl;
  // The value of each has to be looked for, which costs as much as Redis' samples do.
  const size_t wanted = by_deadline ? BucketsFor(rules, kBucketsMax) * 12 : rules.samples;
  int rounds = 0;
  while (buckets_ < kBucketsMax && met_ < wanted && rounds < 2) {
    ++buckets_;
    hand.at = database.ScanDeadlines(hand.at, [&](Database::Table::Slot& slot, int64_t at_ms) {
      if (slot.key.has_flag(CompactKey::kSticky)) return;
      const uint64_t coldness = by_deadline ? static_cast<uint64_t>(INT64_MAX - at_ms)
                                            : ColdnessOf(database, slot.value, now_ms);
      Consider(coldness, [&slot] { return slot.key.ToString(); });
    });
    rounds += hand.at == 0;  // there may be few
  }
}

bool Evictor::IsSpared(const Database& database, std::string_view key, uint64_t hash,
                       const SparedKeys& spared) const {
  if (spared.contains(hash)) return true;
  const TxQueue& transactions = shard_.transactions();
  if (transactions.empty()) [[likely]] {
    return false;
  }
  return transactions.Conflicts(
      {shard_.LockOfKey(key, hash, database.index()), LockMode::kExclusive});
}

void Evictor::Remove(Database& database, const Candidate& candidate, uint64_t hash,
                     int64_t due_ms) {
  const KeyProbe probe(candidate.key, hash);
  if (database.ExpireIfDue(probe, due_ms)) return;
  const size_t keys = database.size();
  database.Remove(database.Find(probe), probe);
  shard_.OnMutation({.db_index = database.index(),
                     .key = candidate.key,
                     .kind = MutationKind::kEvicted,
                     .event = KeyEvent::kEvicted});
  if (database.access_clock().CountEviction(keys)) HandOf(database).floor /= 2;
}

}  // namespace dfly
