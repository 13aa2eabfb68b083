// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/access_clock.h"

#include <algorithm>
#include <iterator>

namespace dfly {

namespace {

// By EvictionPolicy.
constexpr std::string_view kPolicyNames[] = {"noeviction",   "allkeys-lru",    "allkeys-lrm",
                                             "allkeys-lfu",  "allkeys-random", "volatile-lru",
                                             "volatile-lrm", "volatile-lfu",   "volatile-random",
                                             "volatile-ttl", "allkeys-lfu"};

// The first hit counts twice, for the same reason: in a loop through more keys than there is room
// for, it is all that tells those that survived a round from those that will not.
constexpr uint8_t kCacheFirstHit = AccessClock::kCacheInit + 2;

}  // namespace

std::string_view PolicyName(EvictionPolicy policy) {
  return kPolicyNames[static_cast<size_t>(policy)];
}

std::optional<EvictionPolicy> PolicyOfName(std::string_view name) {
  for (size_t i = 0; i < std::size(kPolicyNames); ++i) {
    if (kPolicyNames[i] == name) return static_cast<EvictionPolicy>(i);
  }
  return std::nullopt;
}

EvictionRules EvictionSettings::Of(int db_index) const {
  EvictionRules its = rules;
  const auto it = db_policies.find(db_index);
  if (it != db_policies.end()) its.policy = it->second;
  return its;
}

bool EvictionSettings::evicts(int db_count) const {
  const auto evicts = [](const auto& its) { return its.second != EvictionPolicy::kNone; };
  return std::ranges::any_of(db_policies, evicts) ||
         (rules.evicts() && db_policies.size() < static_cast<size_t>(db_count));
}

bool EvictionSettings::spares_some() const {
  const auto spares = [](const auto& its) { return its.second == EvictionPolicy::kNone; };
  return !rules.evicts() || std::ranges::any_of(db_policies, spares);
}

std::string PolicyList(const DatabasePolicies& policies, char after_number, char between) {
  std::string list;
  for (const auto& [db_index, policy] : policies) {
    if (!list.empty()) list += between;
    list.append(std::to_string(db_index)).append(1, after_number).append(PolicyName(policy));
  }
  return list;
}

uint8_t AccessClock::Aged(uint16_t clock, uint8_t period) const {
  const auto count = static_cast<uint8_t>(clock >> 8);
  const auto passed = static_cast<uint8_t>(period - static_cast<uint8_t>(clock));
  if (rules_.policy == EvictionPolicy::kCache) {
    // Rounded up: what was used once must not look like what is new after one epoch.
    if (passed >= 8) return count != 0;
    return static_cast<uint8_t>((count + (1u << passed) - 1) >> passed);
  }
  if (rules_.lfu_decay_minutes == 0) return count;
  return count > passed ? static_cast<uint8_t>(count - passed) : 0;
}

uint16_t AccessClock::Initial(int64_t now_ms) const {
  if (!rules_.counts_hits()) return Seconds(now_ms);
  const bool is_cache = rules_.policy == EvictionPolicy::kCache;
  return Pack(is_cache ? kCacheInit : kLfuInit, Period(now_ms));
}

void AccessClock::StartIdle(CompactValue& value, int64_t now_ms, int64_t idle_seconds) const {
  if (rules_.counts_hits()) return Start(value, now_ms);
  idle_seconds = std::min<int64_t>(idle_seconds, UINT16_MAX);
  value.set_access_clock(static_cast<uint16_t>(now_ms / 1000 - idle_seconds));
}

void AccessClock::StartUsed(CompactValue& value, int64_t now_ms, uint8_t frequency) const {
  if (!rules_.counts_hits()) return Start(value, now_ms);
  value.set_access_clock(Pack(frequency, Period(now_ms)));
}

void AccessClock::CountHit(CompactValue& value, int64_t now_ms) {
  const uint8_t period = Period(now_ms);
  uint8_t count = Aged(value.access_clock(), period);
  if (rules_.policy == EvictionPolicy::kCache && count <= kCacheInit) {
    count = kCacheFirstHit;
  } else if (count < UINT8_MAX) {
    bool counts = true;
    if (rules_.policy != EvictionPolicy::kCache) {
      // Each step is rarer than the one before: 1 in (count - 5) * factor + 1.
      const uint64_t base = count > kLfuInit ? count - kLfuInit : 0u;
      counts = Random() % (base * rules_.lfu_log_factor + 1) == 0;
    }
    count = static_cast<uint8_t>(count + counts);
  }
  const uint16_t clock = Pack(count, period);
  if (clock != value.access_clock()) value.set_access_clock(clock);
}

uint8_t AccessClock::Settle(CompactValue& value, int64_t now_ms) const {
  const uint8_t period = Period(now_ms);
  const uint8_t count = Aged(value.access_clock(), period);
  const uint16_t clock = Pack(count, period);
  // Only when something has passed: it is a write to a line that is only read otherwise.
  if (clock != value.access_clock()) value.set_access_clock(clock);
  return count;
}

bool AccessClock::CountEviction(size_t keys) {
  if (++evicted_in_epoch_ < kEpochTurnovers * keys) return false;
  evicted_in_epoch_ = 0;
  ++epoch_;
  return true;
}

uint32_t AccessClock::Random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<uint32_t>(random_ >> 32);
}

}  // namespace dfly
