// SPDX-License-Identifier: Apache-2.0
// Who was used when, or how often: the 16 bits of a value that eviction goes by.
//
//   policy           the bits
//   cache mode       how often (8), epoch (8)
//   *-lfu            how often, as a logarithm (8), decay periods since 1970 (8)
//   all others       seconds since 1970 (16), so a key that was idle for 18 hours looks new again;
//                    *-lrm: of its last change, as reads leave no trace
//
// When a database gets rules by which the bits mean something else (CONFIG SET, SWAPDB), the clocks
// of all its keys begin as new, in steps (Database::StartClocks).
//
// Cache mode counts every hit, up to 255, and halves the count of all in each epoch. An epoch ends
// when kEpochTurnovers times as many keys were evicted as the database has: so how fast a key is
// forgotten depends on how fast others come, and not on the wall clock. Redis' logarithm tells
// rarely used keys apart by chance, and these are the ones to choose from. (docs/benchmarks.md)
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/table/compact_value.h"

namespace dfly {

enum class EvictionPolicy : uint8_t {
  kNone,
  kAllKeysLru,
  kAllKeysLrm,
  kAllKeysLfu,
  kAllKeysRandom,
  kVolatileLru,
  kVolatileLrm,
  kVolatileLfu,
  kVolatileRandom,
  kVolatileTtl,
  kCache  // --cache_mode
};

// "noeviction", "allkeys-lru", ... as CONFIG knows them. Cache mode goes by the name of what it is
// closest to, "allkeys-lfu", and has none of its own.
std::string_view PolicyName(EvictionPolicy policy);
std::optional<EvictionPolicy> PolicyOfName(std::string_view name);

// Of one database.
struct EvictionRules {
  EvictionPolicy policy = EvictionPolicy::kNone;
  uint32_t samples = 5;            // maxmemory-samples
  uint32_t lfu_log_factor = 10;    // the larger, the more hits a counter can tell apart
  uint32_t lfu_decay_minutes = 1;  // after so many a counter loses one; 0: never

  bool evicts() const { return policy != EvictionPolicy::kNone; }
  bool is_volatile() const {
    return policy >= EvictionPolicy::kVolatileLru && policy <= EvictionPolicy::kVolatileTtl;
  }
  // Not who was used counts, but who was changed.
  bool counts_changes() const {
    return policy == EvictionPolicy::kAllKeysLrm || policy == EvictionPolicy::kVolatileLrm;
  }
  bool counts_hits() const {
    return policy == EvictionPolicy::kAllKeysLfu || policy == EvictionPolicy::kVolatileLfu ||
           policy == EvictionPolicy::kCache;
  }
  // What keys of a database with the other rules have in their clocks means the same here. In cache
  // mode each database has epochs of its own.
  bool ReadsClockAs(const EvictionRules& other) const {
    return counts_hits() == other.counts_hits() && policy != EvictionPolicy::kCache &&
           other.policy != EvictionPolicy::kCache;
  }
  // The same for the keys of one database, which had the rules `before`.
  bool KeepsClocksOf(const EvictionRules& before) const {
    return counts_hits() == before.counts_hits() &&
           (policy == EvictionPolicy::kCache) == (before.policy == EvictionPolicy::kCache);
  }
};

using DatabasePolicies = std::map<int, EvictionPolicy>;  // by the number of the database
// "0 allkeys-lru 5 noeviction", with other characters if you like.
std::string PolicyList(const DatabasePolicies& policies, char after_number, char between);

// Of all databases.
struct EvictionSettings {
  EvictionRules rules;           // the policy is that of databases that have none of their own
  DatabasePolicies db_policies;  // of those that have

  EvictionRules Of(int db_index) const;
  bool evicts(int db_count) const;  // one of them does
  bool spares_some() const;         // one does not
};

// Owner:    one Database; used on its shard's thread only.
// Suspends: never.
class AccessClock {
 public:
  static constexpr uint8_t kLfuInit = 5;    // of a new key, as in Redis
  static constexpr uint8_t kCacheInit = 1;  // and in cache mode
  static constexpr uint64_t kEpochTurnovers = 8;

  void set_rules(const EvictionRules& rules) {
    rules_ = rules;
    has_plain_reads_ = !rules.counts_hits() && !rules.counts_changes();
  }
  const EvictionRules& rules() const { return rules_; }

  // The key was read.
  void TouchRead(CompactValue& value, int64_t now_ms) {
    if (has_plain_reads_) [[likely]] {
      const uint16_t now = Seconds(now_ms);
      if (value.access_clock() != now) value.set_access_clock(now);
    } else if (!rules_.counts_changes()) {
      CountHit(value, now_ms);
    }
  }
  // The key was used to be changed.
  void Touch(CompactValue& value, int64_t now_ms) {
    if (!rules_.counts_hits()) [[likely]] {
      const uint16_t now = Seconds(now_ms);
      if (value.access_clock() != now) value.set_access_clock(now);
    } else {
      CountHit(value, now_ms);
    }
  }
  // The key is new, or has a new value that says nothing about its use.
  void Start(CompactValue& value, int64_t now_ms) const { value.set_access_clock(Initial(now_ms)); }
  void StartIdle(CompactValue& value, int64_t now_ms, int64_t idle_seconds) const;
  void StartUsed(CompactValue& value, int64_t now_ms, uint8_t frequency) const;

  // REQUIRES: !rules().counts_hits().
  uint32_t IdleSeconds(const CompactValue& value, int64_t now_ms) const {
    return static_cast<uint16_t>(Seconds(now_ms) - value.access_clock());
  }
  // REQUIRES: rules().counts_hits().
  uint8_t Frequency(const CompactValue& value, int64_t now_ms) const {
    return Aged(value.access_clock(), Period(now_ms));
  }
  // The same, and what has been forgotten is written down, so that the 8 bits of a period are
  // enough while somebody comes by now and then.
  uint8_t Settle(CompactValue& value, int64_t now_ms) const;

  // Eviction has removed one of `keys` keys. True: a new epoch begins.
  bool CountEviction(size_t keys);

  uint32_t Random();  // 32 random bits, the same in each run

 private:
  static uint16_t Seconds(int64_t now_ms) { return static_cast<uint16_t>(now_ms / 1000); }
  static uint16_t Pack(uint8_t count, uint8_t period) {
    return static_cast<uint16_t>(count << 8 | period);
  }
  uint8_t Period(int64_t now_ms) const {
    if (rules_.policy == EvictionPolicy::kCache) return epoch_;
    return static_cast<uint8_t>(now_ms / 60'000 / std::max(1u, rules_.lfu_decay_minutes));
  }
  uint8_t Aged(uint16_t clock, uint8_t period) const;
  uint16_t Initial(int64_t now_ms) const;
  void CountHit(CompactValue& value, int64_t now_ms);

  EvictionRules rules_;
  bool has_plain_reads_ = true;  // a read leaves its second
  uint8_t epoch_ = 0;
  uint64_t evicted_in_epoch_ = 0;
  uint64_t random_ = 0x9E3779B97F4A7C15;
};

}  // namespace dfly
