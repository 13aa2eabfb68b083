// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/text/hash.h"
#include "engine/keyspace/shard.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {
namespace {

constexpr int64_t kNow = 28'333'333 * int64_t{60'000};
constexpr size_t kAll = 1 << 20;

std::string KeyOf(int i) { return "a key that is on the heap:" + std::to_string(i); }

class EvictionTest : public testing::Test {
 protected:
  EvictionTest() { SetHashSeed(1); }  // who is evicted depends on the layout

  void Use(EvictionPolicy policy, uint32_t samples = 10) {
    shard_.SetEviction({.rules = {.policy = policy, .samples = samples}, .db_policies = policies_});
  }
  void Set(const std::string& key, int db = 0, std::optional<int64_t> deadline_ms = {},
           int64_t now_ms = kNow) {
    ShardContext cx(shard_, db, now_ms);
    cx.SetString(key, std::string(50, 'x'), {.deadline_ms = deadline_ms});
  }
  void Fill(int begin, int end, int db = 0) {
    for (int i = begin; i < end; ++i) Set(KeyOf(i), db);
  }
  void Get(const std::string& key, int times, int64_t now_ms = kNow) {
    for (int i = 0; i < times; ++i) {
      ShardContext cx(shard_, 0, now_ms);
      ASSERT_TRUE(cx.FindReadOnly(key)) << key;
    }
  }
  void Stick(const std::string& key, int db = 0) {
    ShardContext cx(shard_, db, kNow);
    ASSERT_TRUE(cx.SetSticky(key, true));
  }
  bool Exists(const std::string& key, int db = 0) {
    ShardContext cx(shard_, db, kNow);
    return static_cast<bool>(cx.Peek(key));
  }
  int CountIn(int begin, int end) {
    int count = 0;
    for (int i = begin; i < end; ++i) count += Exists(KeyOf(i));
    return count;
  }
  Evictor::Progress Evict(size_t keys, int64_t now_ms = kNow) {
    const Evictor::Progress progress =
        shard_.evictor().Evict(SIZE_MAX, keys, {spared_}, now_ms, now_ms);
    shard_.CheckInvariants();
    return progress;
  }

  Shard shard_{0, 16};
  DatabasePolicies policies_;  // for Use
  std::vector<uint64_t> spared_;
};

TEST_F(EvictionTest, WithoutAPolicyNothingGoes) {
  Fill(0, 100);
  EXPECT_EQ(Evict(10).keys, 0u);
  EXPECT_EQ(Evict(10).end, Evictor::End::kBarren);
  EXPECT_EQ(CountIn(0, 100), 100);
}

TEST_F(EvictionTest, AnEmptyShardHasNothingToGive) {
  for (int policy = 1; policy <= static_cast<int>(EvictionPolicy::kCache); ++policy) {
    Use(static_cast<EvictionPolicy>(policy));
    EXPECT_EQ(Evict(10).end, Evictor::End::kBarren);
  }
  EXPECT_EQ(shard_.stats().evicted_keys, 0u);
}

TEST_F(EvictionTest, FreesAsManyBytesAsAreAskedForAndNoMore) {
  Use(EvictionPolicy::kAllKeysLru);
  Fill(0, 10'000);
  const size_t before = shard_.used_bytes();
  const Evictor::Progress progress = shard_.evictor().Evict(50'000, kAll, {}, kNow, kNow);
  EXPECT_EQ(progress.end, Evictor::End::kDone);
  EXPECT_GE(progress.bytes, 50'000u);
  EXPECT_EQ(progress.bytes, before - shard_.used_bytes());
  EXPECT_EQ(progress.keys, shard_.stats().evicted_keys);
  EXPECT_EQ(shard_.db(0).size(), 10'000 - progress.keys);
  EXPECT_LT(progress.keys, 50'000u / 60) << "each has more than 60 bytes";
  EXPECT_EQ(shard_.evictor().Evict(0, kAll, {}, kNow, kNow).keys, 0u);
}

TEST_F(EvictionTest, EndsAtTheLimitOfKeys) {
  Use(EvictionPolicy::kAllKeysRandom);
  Fill(0, 1000);
  EXPECT_EQ(Evict(100).end, Evictor::End::kMore);
  EXPECT_EQ(shard_.db(0).size(), 900u);
  EXPECT_EQ(Evict(kAll).keys, 900u);
  EXPECT_EQ(shard_.db(0).size(), 0u);
}

TEST_F(EvictionTest, LruTakesWhatWasNotUsedForTheLongestTime) {
  Use(EvictionPolicy::kAllKeysLru);
  Fill(0, 4000);
  const int64_t later = kNow + 1'000'000;
  for (int i = 2000; i < 4000; ++i) Get(KeyOf(i), 1, later);
  EXPECT_EQ(Evict(1000, later).keys, 1000u);
  EXPECT_EQ(CountIn(2000, 4000), 2000) << "of some dozens of candidates one is old";
  EXPECT_EQ(CountIn(0, 2000), 1000);
}

TEST_F(EvictionTest, LfuTakesWhatWasUsedTheLeast) {
  Use(EvictionPolicy::kAllKeysLfu);
  Fill(0, 4000);
  for (int i = 0; i < 2000; ++i) Get(KeyOf(i), 200);                // fewer may count as one
  for (int i = 2000; i < 4000; ++i) Get(KeyOf(i), 1, kNow + 1000);  // used later
  EXPECT_EQ(Evict(1000).keys, 1000u);
  EXPECT_EQ(CountIn(0, 2000), 2000);
}

TEST_F(EvictionTest, LfuForgetsWhatIsNotUsedAnyMore) {
  Use(EvictionPolicy::kAllKeysLfu);
  Fill(0, 4000);
  for (int i = 0; i < 2000; ++i) Get(KeyOf(i), 100);
  const int64_t later = kNow + 60 * 60'000;
  for (int i = 2000; i < 4000; ++i) Get(KeyOf(i), 3, later);
  EXPECT_EQ(Evict(1000, later).keys, 1000u);
  EXPECT_EQ(CountIn(2000, 4000), 2000);
}

TEST_F(EvictionTest, CacheModeKeepsWhatIsUsedWhileOthersPassThrough) {
  Use(EvictionPolicy::kCache);
  Fill(0, 1000);
  for (int i = 0; i < 1000; ++i) Get(KeyOf(i), 2);
  // 20 times as many keys come, and each is used once.
  for (int i = 1000; i < 21'000; ++i) {
    if (const std::string used = KeyOf(i / 4 % 1000); i % 4 == 0 && Exists(used)) Get(used, 1);
    Set(KeyOf(i));
    if (shard_.db(0).size() > 2000) {
      ASSERT_EQ(shard_.evictor().Evict(SIZE_MAX, 1, {}, kNow, kNow).keys, 1u);
    }
  }
  EXPECT_GE(CountIn(0, 1000), 950);
  shard_.CheckInvariants();
}

TEST_F(EvictionTest, CacheModeForgetsWhatWasPopularOnce) {
  Use(EvictionPolicy::kCache);
  Fill(0, 1000);
  for (int i = 0; i < 1000; ++i) Get(KeyOf(i), 100);
  // Others come that are used now and then; the first ones are not any more.
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 1000; ++i) {
      const std::string key = KeyOf(1000 + round * 500 + i);
      if (Exists(key)) {
        Get(key, 1);
        continue;
      }
      Set(key);
      if (shard_.db(0).size() > 1000) shard_.evictor().Evict(SIZE_MAX, 1, {}, kNow, kNow);
    }
  }
  EXPECT_LT(CountIn(0, 1000), 200);
}

TEST_F(EvictionTest, RandomTakesFromAll) {
  Use(EvictionPolicy::kAllKeysRandom);
  Fill(0, 4000);
  for (int i = 0; i < 2000; ++i) Get(KeyOf(i), 30, kNow + 1000);
  EXPECT_EQ(Evict(2000).keys, 2000u);
  EXPECT_NEAR(CountIn(0, 2000), 1000, 120);
}

class VolatileTest : public EvictionTest, public testing::WithParamInterface<EvictionPolicy> {};

TEST_P(VolatileTest, OnlyKeysWithADeadlineGo) {
  Use(GetParam());
  Fill(0, 3000);
  for (int i = 3000; i < 3100; ++i) Set(KeyOf(i), 0, kNow + 100'000 + i);
  EXPECT_EQ(Evict(60).keys, 60u);
  EXPECT_EQ(CountIn(0, 3000), 3000);
  EXPECT_EQ(CountIn(3000, 3100), 40);
  const Evictor::Progress progress = Evict(kAll);
  EXPECT_EQ(progress.keys, 40u);
  EXPECT_EQ(progress.end, Evictor::End::kBarren);
  EXPECT_EQ(CountIn(0, 3000), 3000);
  EXPECT_EQ(shard_.db(0).expires(), 0u);
  // And at once when there is one again.
  Set("new", 0, kNow + 1);
  EXPECT_EQ(Evict(1).keys, 1u);
}

INSTANTIATE_TEST_SUITE_P(Policies, VolatileTest,
                         testing::Values(EvictionPolicy::kVolatileLru, EvictionPolicy::kVolatileLfu,
                                         EvictionPolicy::kVolatileRandom,
                                         EvictionPolicy::kVolatileTtl));

TEST_F(EvictionTest, TtlTakesWhatIsDueFirst) {
  Use(EvictionPolicy::kVolatileTtl);
  for (int i = 0; i < 4000; ++i) Set(KeyOf(i), 0, kNow + (i < 2000 ? 1000 : 1'000'000) + i);
  EXPECT_EQ(Evict(1000).keys, 1000u);
  EXPECT_EQ(CountIn(2000, 4000), 2000);
}

TEST_F(EvictionTest, VolatileLruAndLfuChooseAmongThoseWithADeadline) {
  Use(EvictionPolicy::kVolatileLru);
  for (int i = 0; i < 2000; ++i) Set(KeyOf(i), 0, kNow + 10'000'000);
  const int64_t later = kNow + 100'000;
  for (int i = 0; i < 1000; ++i) Get(KeyOf(i), 1, later);
  EXPECT_EQ(Evict(300, later).keys, 300u);
  EXPECT_GE(CountIn(0, 1000), 990);
}

TEST_F(EvictionTest, DueKeysAreExpiredNotEvicted) {
  Use(EvictionPolicy::kVolatileTtl);
  for (int i = 0; i < 10; ++i) Set(KeyOf(i), 0, kNow + 5);
  EXPECT_EQ(Evict(3, kNow + 6).keys, 3u);
  EXPECT_EQ(shard_.stats().expired_keys, 3u);
  EXPECT_EQ(shard_.stats().evicted_keys, 0u);
}

TEST_F(EvictionTest, StickyKeysStay) {
  for (int policy = 1; policy <= static_cast<int>(EvictionPolicy::kCache); ++policy) {
    shard_.FlushAll(FlushMode::kSync);
    Use(static_cast<EvictionPolicy>(policy));
    for (int i = 0; i < 500; ++i) {
      Set(KeyOf(i), 0, kNow + 1'000'000);
      if (i % 5 != 0) Stick(KeyOf(i));
    }
    EXPECT_EQ(Evict(kAll).keys, 100u) << policy;
    EXPECT_EQ(Evict(kAll).end, Evictor::End::kBarren);
    EXPECT_TRUE(shard_.evictor().found_nothing());
    EXPECT_EQ(CountIn(0, 500), 400);
  }
}

TEST_F(EvictionTest, AShardOfStickyKeysIsSearchedInPartsAndThenLeftAlone) {
  Use(EvictionPolicy::kAllKeysLru);
  Fill(0, 20'000);
  for (int i = 0; i < 20'000; ++i) Stick(KeyOf(i));
  int searches = 0;
  while (!shard_.evictor().is_barren(kNow)) {
    EXPECT_EQ(shard_.evictor().Evict(1, 1, {}, kNow, kNow).keys, 0u);
    ASSERT_LT(++searches, 100);
  }
  EXPECT_GT(searches, 5) << "each of them is bounded";
  Set("free");
  EXPECT_EQ(Evict(1).keys, 0u) << "it is looked at";
  for (int i = 0; i < 1000; ++i) Set(KeyOf(i));
  EXPECT_FALSE(shard_.evictor().is_barren(kNow));
  int64_t later = kNow + 200;
  for (int i = 0; i < 1000 && Exists("free"); ++i) Evict(1, later += 200);
  EXPECT_FALSE(Exists("free"));
}

// Which database is searched first goes by how many keys it has.
TEST_F(EvictionTest, ADatabaseOfStickyKeysHidesNoOtherOne) {
  for (const EvictionPolicy policy :
       {EvictionPolicy::kAllKeysLru, EvictionPolicy::kAllKeysRandom, EvictionPolicy::kCache}) {
    shard_.FlushAll(FlushMode::kSync);
    Use(policy);
    for (int db : {0, 9}) {
      Fill(0, 5'000, db);
      for (int i = 0; i < 5'000; ++i) Stick(KeyOf(i), db);
    }
    Fill(0, 10, 5);
    EXPECT_EQ(Evict(10).keys, 10u) << PolicyName(policy);
    EXPECT_EQ(shard_.db(5).size(), 0u);
    for (int db : {0, 9}) EXPECT_EQ(shard_.db(db).size(), 5'000u);
    EXPECT_EQ(Evict(10).keys, 0u);
    shard_.evictor().Reset();
  }
}

TEST_F(EvictionTest, KeysOfTheCommandStay) {
  for (int policy = 1; policy <= static_cast<int>(EvictionPolicy::kCache); ++policy) {
    shard_.FlushAll(FlushMode::kSync);
    Use(static_cast<EvictionPolicy>(policy));
    for (int i = 0; i < 8; ++i) Set(KeyOf(i), 0, kNow + 1'000'000);
    spared_ = {HashKey(KeyOf(2)), HashKey(KeyOf(5))};
    for (int i = 0; i < 200; ++i) Evict(1);
    EXPECT_EQ(shard_.db(0).size(), 2u) << policy;
    EXPECT_TRUE(Exists(KeyOf(2)) && Exists(KeyOf(5)));
    EXPECT_EQ(Evict(1).end, Evictor::End::kBusy);
  }
}

TEST_F(EvictionTest, LockedKeysStayInTheirDatabaseOnly) {
  Use(EvictionPolicy::kAllKeysLru);
  Set("locked", 0);
  Set("locked", 1);
  const std::vector<TagLock> tags = {{TagFingerprint(HashKey("locked"), 1), LockMode::kShared}};
  TxEntry entry;
  entry.tags = tags;
  shard_.transactions().Hold(&entry);
  for (int i = 0; i < 100; ++i) Evict(1);
  EXPECT_FALSE(Exists("locked", 0));
  EXPECT_TRUE(Exists("locked", 1));
  shard_.transactions().Release(&entry);
  EXPECT_EQ(Evict(1).keys, 1u);
}

TEST_F(EvictionTest, WhoLocksTagsProtectsAllKeysThatHaveThem) {
  const TagRules rules = {.locks_tags = true};
  shard_.set_tag_rules(&rules);
  Use(EvictionPolicy::kAllKeysLru);
  Set("{tag}:1");
  Set("{tag}:2");
  Set("other");
  const std::vector<TagLock> tags = {{TagFingerprint(HashKey("tag"), 0), LockMode::kExclusive}};
  TxEntry entry;
  entry.tags = tags;
  shard_.transactions().Hold(&entry);
  for (int i = 0; i < 100; ++i) Evict(1);
  EXPECT_TRUE(Exists("{tag}:1") && Exists("{tag}:2"));
  EXPECT_FALSE(Exists("other"));
  shard_.transactions().Release(&entry);
}

TEST_F(EvictionTest, AllDatabasesGiveInProportion) {
  Use(EvictionPolicy::kAllKeysRandom);
  Fill(0, 3000, 2);
  Fill(0, 1000, 7);
  EXPECT_EQ(Evict(2000).keys, 2000u);
  EXPECT_NEAR(static_cast<double>(shard_.db(2).size()), 1500, 150);
  EXPECT_NEAR(static_cast<double>(shard_.db(7).size()), 500, 150);
}

TEST_F(EvictionTest, OnlyDatabasesWhosePolicyEvictsGive) {
  policies_ = {{3, EvictionPolicy::kNone}, {5, EvictionPolicy::kVolatileRandom}};
  Use(EvictionPolicy::kAllKeysLru);
  Fill(0, 300);
  Fill(0, 300, 3);
  Fill(0, 300, 5);
  for (int i = 300; i < 400; ++i) Set(KeyOf(i), 5, kNow + 1'000'000);
  EXPECT_EQ(shard_.evictable_bytes(), shard_.db(0).bytes() + shard_.db(5).bytes());
  EXPECT_EQ(Evict(kAll).keys, 400u);
  EXPECT_EQ(shard_.db(0).size(), 0u);
  EXPECT_EQ(shard_.db(3).size(), 300u);
  EXPECT_EQ(shard_.db(5).size(), 300u);
  EXPECT_EQ(Evict(1).end, Evictor::End::kBarren);
}

TEST_F(EvictionTest, ADatabaseMayEvictWhereTheOthersDoNot) {
  policies_ = {{2, EvictionPolicy::kAllKeysRandom}};
  Use(EvictionPolicy::kNone);
  Fill(0, 100);
  Fill(0, 100, 2);
  EXPECT_EQ(Evict(kAll).keys, 100u);
  EXPECT_EQ(CountIn(0, 100), 100);
}

TEST_F(EvictionTest, EachDatabaseChoosesByItsOwnPolicy) {
  shard_.SetEviction(
      {.rules = {.samples = 1000, .lfu_decay_minutes = 0},
       .db_policies = {{0, EvictionPolicy::kAllKeysLfu}, {1, EvictionPolicy::kAllKeysLru}}});
  for (int db : {0, 1}) {
    for (int i = 0; i < 200; ++i) Set(KeyOf(i), db, {}, kNow - 1000 * (200 - i));
  }
  // In both the oldest half is read, and long ago; only its frequency speaks for it.
  for (int db : {0, 1}) {
    for (int i = 0; i < 100; ++i) {
      for (int hit = 0; hit < 50; ++hit) {
        ShardContext cx(shard_, db, kNow - 300'000);
        ASSERT_TRUE(cx.FindReadOnly(KeyOf(i)));
      }
    }
  }
  EXPECT_EQ(Evict(200).keys, 200u);
  int frequent = 0;
  int recent = 0;
  for (int i = 0; i < 100; ++i) frequent += Exists(KeyOf(i), 0);
  for (int i = 100; i < 200; ++i) recent += Exists(KeyOf(i), 1);
  EXPECT_GT(frequent, 80);
  EXPECT_GT(recent, 80);
}

TEST_F(EvictionTest, ThePolicyStaysWithTheNumberWhenDatabasesAreSwapped) {
  policies_ = {{1, EvictionPolicy::kNone}, {2, EvictionPolicy::kAllKeysLfu}};
  Use(EvictionPolicy::kAllKeysLru);
  Fill(0, 100);
  Fill(0, 50, 1);
  shard_.SwapDatabases(0, 1);
  EXPECT_EQ(Evict(kAll).keys, 50u);
  EXPECT_EQ(shard_.db(1).size(), 100u);
  shard_.SwapDatabases(1, 2);
  EXPECT_TRUE(shard_.db(2).eviction_rules().counts_hits());
  EXPECT_EQ(Evict(kAll).keys, 100u);
}

TEST_F(EvictionTest, WhatIsMadeLaterHasItsPolicy) {
  policies_ = {{1, EvictionPolicy::kNone}};
  Use(EvictionPolicy::kAllKeysLru);
  shard_.incoming().Make(0);
  shard_.incoming().Make(1);
  shard_.TakeIncoming();
  EXPECT_TRUE(shard_.db(0).eviction_rules().evicts());
  EXPECT_FALSE(shard_.db(1).eviction_rules().evicts());
  shard_.FlushAll(FlushMode::kSync);
  EXPECT_TRUE(shard_.db(0).eviction_rules().evicts());
  EXPECT_FALSE(shard_.db(1).eviction_rules().evicts());
}

TEST_F(EvictionTest, AKeyThatMovesToADatabaseThatCountsHitsBeginsAsNew) {
  policies_ = {{0, EvictionPolicy::kAllKeysLru},
               {1, EvictionPolicy::kAllKeysLfu},
               {2, EvictionPolicy::kVolatileLfu}};
  Use(EvictionPolicy::kNone);
  Set("k");
  const auto move = [this](int from, int to) {
    ShardContext source(shard_, from, kNow);
    ShardContext target(shard_, to, kNow);
    target.Put("k", *source.Take("k", KeyEvent::kMoveFrom), KeyEvent::kMoveTo);
  };
  move(0, 1);
  for (int i = 0; i < 3; ++i) {
    ShardContext cx(shard_, 1, kNow);
    ASSERT_TRUE(cx.FindReadOnly("k"));
    if (i == 0) {
      EXPECT_EQ(cx.Frequency("k"), AccessClock::kLfuInit + 1);
    }
  }
  const auto before = ShardContext(shard_, 1, kNow).Frequency("k");
  move(1, 2);
  EXPECT_GE(ShardContext(shard_, 2, kNow).Frequency("k"), before);  // both read it in the same way
  move(2, 0);
  EXPECT_EQ(ShardContext(shard_, 0, kNow + 5'000).IdleSeconds("k"), 5u);
}

TEST_F(EvictionTest, WatchersHearOfIt) {
  Use(EvictionPolicy::kAllKeysLru);
  Set("k");
  shard_.watches().Watch(1, 0, "k");
  EXPECT_EQ(Evict(1).keys, 1u);
  EXPECT_TRUE(shard_.watches().is_touched(1));
  shard_.watches().Unwatch(1);
}

TEST_F(EvictionTest, WhatIsCountedOtherwiseEvictsBeforeItBeginsAnew) {
  Use(EvictionPolicy::kAllKeysLru);
  Fill(0, 500);
  Use(EvictionPolicy::kCache);
  EXPECT_EQ(Evict(250).keys, 250u);
  Use(EvictionPolicy::kAllKeysLru);
  EXPECT_EQ(Evict(kAll).keys, 250u);
}

TEST_F(EvictionTest, KeysBeginAsNewWhenTheirDatabaseCountsOtherwise) {
  policies_ = {{0, EvictionPolicy::kAllKeysLru}, {1, EvictionPolicy::kAllKeysLfu}};
  Use(EvictionPolicy::kNone);
  Fill(0, 3000);
  Fill(0, 1000, 1);
  for (int i = 0; i < 1000; ++i) ShardContext(shard_, 1, kNow).FindReadOnly(KeyOf(i));
  EXPECT_FALSE(shard_.needs_steps());
  shard_.SwapDatabases(0, 1);
  EXPECT_TRUE(shard_.needs_steps());
  int steps = 1;
  while (shard_.StartClocks(kNow + 7'000, 256)) ++steps;
  EXPECT_GT(steps, 4000 / 512);
  shard_.ExpireStep(kNow, 1);
  EXPECT_FALSE(shard_.needs_steps());
  for (int i = 0; i < 3000; ++i) {
    ShardContext cx(shard_, 1, kNow + 7'000);
    ASSERT_EQ(cx.Frequency(KeyOf(i)), AccessClock::kLfuInit) << i;
  }
  for (int i = 0; i < 1000; ++i) {
    ShardContext cx(shard_, 0, kNow + 8'000);
    ASSERT_EQ(cx.IdleSeconds(KeyOf(i)), 1u) << i;
  }
}

TEST_F(EvictionTest, ClocksThatMeanTheSameStay) {
  policies_ = {{0, EvictionPolicy::kAllKeysLfu},
               {1, EvictionPolicy::kVolatileLfu},
               {2, EvictionPolicy::kAllKeysLru},
               {3, EvictionPolicy::kNone}};
  Use(EvictionPolicy::kCache);
  for (int db = 0; db < 6; ++db) Set("k", db);
  shard_.SwapDatabases(0, 1);
  shard_.SwapDatabases(2, 3);
  shard_.SwapDatabases(4, 5);  // cache mode
  EXPECT_FALSE(shard_.needs_steps());
  shard_.SwapDatabases(1, 4);
  EXPECT_TRUE(shard_.needs_steps());
}

}  // namespace
}  // namespace dfly
