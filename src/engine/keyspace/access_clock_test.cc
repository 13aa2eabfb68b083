// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/access_clock.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

constexpr int64_t kMinute = 60'000;
constexpr int64_t kNow = 28'333'333 * kMinute;

class AccessClockTest : public testing::Test {
 protected:
  void Use(EvictionPolicy policy, uint32_t log_factor = 10, uint32_t decay_minutes = 1) {
    clock_.set_rules(
        {.policy = policy, .lfu_log_factor = log_factor, .lfu_decay_minutes = decay_minutes});
  }
  void Hit(int times, int64_t now_ms = kNow) {
    for (int i = 0; i < times; ++i) clock_.Touch(value_, now_ms);
  }
  void EndEpochs(int count) {
    for (int i = 0; i < count; ++i) {
      for (int evicted = 1; evicted < 80; ++evicted) ASSERT_FALSE(clock_.CountEviction(10));
      ASSERT_TRUE(clock_.CountEviction(10));
    }
  }

  AccessClock clock_;
  CompactValue value_;
};

TEST_F(AccessClockTest, EveryPolicyHasItsNameAndIsFoundByIt) {
  for (std::string_view name :
       {"noeviction", "allkeys-lru", "allkeys-lrm", "allkeys-lfu", "allkeys-random", "volatile-lru",
        "volatile-lrm", "volatile-lfu", "volatile-random", "volatile-ttl"}) {
    ASSERT_TRUE(PolicyOfName(name)) << name;
    EXPECT_EQ(PolicyName(*PolicyOfName(name)), name);
  }
  EXPECT_EQ(PolicyName(EvictionPolicy::kCache), "allkeys-lfu");
  EXPECT_EQ(PolicyOfName("allkeys-lfu"), EvictionPolicy::kAllKeysLfu);
  EXPECT_EQ(PolicyOfName("lru"), std::nullopt);
}

TEST_F(AccessClockTest, SecondsSinceTheLastUse) {
  clock_.Start(value_, kNow);
  EXPECT_EQ(clock_.IdleSeconds(value_, kNow + 70'000'000), 70'000u - 65'536u);  // 16 bits
  EXPECT_EQ(clock_.IdleSeconds(value_, kNow + 65'535'000), 65'535u);
  clock_.Touch(value_, kNow + 9'000);
  EXPECT_EQ(clock_.IdleSeconds(value_, kNow + 10'000), 1u);
  clock_.StartIdle(value_, kNow, 100);
  EXPECT_EQ(clock_.IdleSeconds(value_, kNow), 100u);
  clock_.StartIdle(value_, kNow, 1'000'000);
  EXPECT_EQ(clock_.IdleSeconds(value_, kNow), 65'535u);
}

TEST_F(AccessClockTest, AReadCountsUnlessThePolicyGoesByChanges) {
  for (EvictionPolicy policy : {EvictionPolicy::kNone, EvictionPolicy::kAllKeysLru}) {
    Use(policy);
    clock_.StartIdle(value_, kNow, 100);
    clock_.TouchRead(value_, kNow);
    EXPECT_EQ(clock_.IdleSeconds(value_, kNow), 0u);
  }
  for (EvictionPolicy policy : {EvictionPolicy::kAllKeysLrm, EvictionPolicy::kVolatileLrm}) {
    Use(policy);
    clock_.StartIdle(value_, kNow, 100);
    clock_.TouchRead(value_, kNow);
    EXPECT_EQ(clock_.IdleSeconds(value_, kNow), 100u);
    clock_.Touch(value_, kNow);
    EXPECT_EQ(clock_.IdleSeconds(value_, kNow), 0u);
  }
  Use(EvictionPolicy::kVolatileLfu);
  clock_.Start(value_, kNow);
  clock_.TouchRead(value_, kNow);
  EXPECT_EQ(clock_.Frequency(value_, kNow), AccessClock::kLfuInit + 1);
}

TEST_F(AccessClockTest, LogarithmicCounterAsInRedis) {
  Use(EvictionPolicy::kAllKeysLfu);
  clock_.Start(value_, kNow);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 5);
  Hit(1);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 6);
  // The documentation of redis.conf has 10 for 100 hits, 18 for 1000 and 142 for 100,000.
  Hit(99);
  EXPECT_NEAR(clock_.Frequency(value_, kNow), 10, 3);
  Hit(900);
  EXPECT_NEAR(clock_.Frequency(value_, kNow), 18, 5);
  Hit(99'000);
  EXPECT_NEAR(clock_.Frequency(value_, kNow), 142, 12);
  Hit(1'000'000);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 255);
}

TEST_F(AccessClockTest, WithoutAFactorEachHitCounts) {
  Use(EvictionPolicy::kVolatileLfu, 0);
  clock_.Start(value_, kNow);
  Hit(100);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 105);
}

TEST_F(AccessClockTest, CounterLosesOneInEachPeriod) {
  Use(EvictionPolicy::kAllKeysLfu, 0, 1);
  clock_.Start(value_, kNow);
  Hit(20);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 3 * kMinute), 22);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 200 * kMinute), 0);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 25) << "looking changes nothing";
  EXPECT_EQ(clock_.Settle(value_, kNow + 3 * kMinute), 22);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 4 * kMinute), 21);
  Hit(1, kNow + 5 * kMinute);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 5 * kMinute), 21);
}

TEST_F(AccessClockTest, LongerPeriodsAndNone) {
  Use(EvictionPolicy::kAllKeysLfu, 0, 10);
  clock_.Start(value_, kNow);
  Hit(20);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 30 * kMinute), 22);
  Use(EvictionPolicy::kAllKeysLfu, 0, 0);
  clock_.Start(value_, kNow);
  Hit(20);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 1000 * kMinute), 25);
}

TEST_F(AccessClockTest, CacheModeCountsEachHitAndHalvesTheCountInEachEpoch) {
  Use(EvictionPolicy::kCache);
  clock_.Start(value_, kNow);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 1);
  Hit(1);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 3);
  Hit(98);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 101);
  EXPECT_EQ(clock_.Frequency(value_, kNow + 500 * kMinute), 101) << "time does not matter";
  EndEpochs(1);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 51);
  EndEpochs(2);
  EXPECT_EQ(clock_.Settle(value_, kNow), 13);
  EndEpochs(1);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 7);
  EndEpochs(9);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 1);
  Hit(1000);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 255);
}

TEST_F(AccessClockTest, RestoredKeysSayHowOftenTheyWereUsed) {
  clock_.StartUsed(value_, kNow, 77);  // nobody counts: it was used now
  EXPECT_EQ(clock_.IdleSeconds(value_, kNow), 0u);
  Use(EvictionPolicy::kAllKeysLfu);
  clock_.StartUsed(value_, kNow, 77);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 77);
  clock_.StartIdle(value_, kNow, 1000);
  EXPECT_EQ(clock_.Frequency(value_, kNow), 5);
}

TEST(EvictionSettingsTest, SomeDatabasesMayEvictWhereOthersDoNot) {
  EvictionSettings settings;
  EXPECT_FALSE(settings.evicts(2));
  EXPECT_TRUE(settings.spares_some());
  settings.db_policies = {{1, EvictionPolicy::kVolatileTtl}};
  EXPECT_TRUE(settings.evicts(2));
  EXPECT_TRUE(settings.spares_some());
  EXPECT_EQ(settings.Of(0).policy, EvictionPolicy::kNone);
  EXPECT_EQ(settings.Of(1).policy, EvictionPolicy::kVolatileTtl);
  settings.rules.policy = EvictionPolicy::kAllKeysLru;
  EXPECT_FALSE(settings.spares_some());
  settings.db_policies = {{0, EvictionPolicy::kNone}, {1, EvictionPolicy::kNone}};
  EXPECT_TRUE(settings.evicts(3));
  EXPECT_FALSE(settings.evicts(2));  // all have a policy of their own
  EXPECT_TRUE(settings.spares_some());
}

TEST(EvictionSettingsTest, ClocksOfADatabaseMeanTheSameByRulesOfOneKind) {
  const EvictionRules lru = {.policy = EvictionPolicy::kAllKeysLru};
  const EvictionRules none = {};
  const EvictionRules lfu = {.policy = EvictionPolicy::kVolatileLfu};
  const EvictionRules other_lfu = {.policy = EvictionPolicy::kAllKeysLfu};
  const EvictionRules cache = {.policy = EvictionPolicy::kCache};
  EXPECT_TRUE(lru.KeepsClocksOf(none));
  EXPECT_TRUE(lfu.KeepsClocksOf(other_lfu));
  EXPECT_TRUE(cache.KeepsClocksOf(cache));
  EXPECT_FALSE(lru.KeepsClocksOf(lfu));
  EXPECT_FALSE(lfu.KeepsClocksOf(none));
  EXPECT_FALSE(cache.KeepsClocksOf(lfu));
  EXPECT_FALSE(lfu.KeepsClocksOf(cache));
}

}  // namespace
}  // namespace dfly
