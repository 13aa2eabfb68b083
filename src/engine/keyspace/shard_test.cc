// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/shard.h"

#include <gtest/gtest.h>

#include <string>

#include "core/text/colliding_keys_testing.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {
namespace {

constexpr int64_t kNow = 1'700'000'000'000;

std::string KeyOf(int i) {
  return "key:" + std::to_string(i) + (i % 3 == 0 ? ":with a tail for the heap" : "");
}

class ShardTest : public testing::Test {
 protected:
  void Fill(int db, int count, int64_t deadline_ms = 0) {
    for (int i = 0; i < count; ++i) {
      ShardContext cx(shard_, db, kNow);
      ShardContext::SetOptions options;
      if (deadline_ms != 0) options.deadline_ms = deadline_ms;
      cx.SetString(KeyOf(i), "a value that does not fit inline", options);
    }
  }

  void LoadBeside(int db, int count, int64_t deadline_ms) {
    for (int i = 0; i < count; ++i) {
      const std::string key = KeyOf(i);
      CompactValue value;
      value.SetString("another value, which does not fit inline either");
      EXPECT_TRUE(shard_.incoming().Make(db).Load(
          KeyProbe(key, HashKey(key)), std::move(value),
          deadline_ms == 0 ? std::nullopt : std::optional(deadline_ms), false, kNow));
    }
  }

  Shard shard_{0, 16};
};

TEST_F(ShardTest, EmptyDatabasesCostNothing) {
  EXPECT_EQ(shard_.used_bytes(), 0u);
  ShardContext cx(shard_, 15, kNow);
  EXPECT_FALSE(cx.FindReadOnly("a"));
  EXPECT_EQ(cx.db_size(), 0u);
  EXPECT_EQ(shard_.FindDb(15), nullptr);
}

TEST_F(ShardTest, ExpireStepRemovesWhatIsDueAndNothingElse) {
  Fill(0, 2000, kNow + 1000);
  Fill(3, 500, kNow + 5000);
  Fill(4, 100);
  Shard::ExpireProgress progress = shard_.ExpireStep(kNow + 1000, 1 << 20);
  EXPECT_EQ(progress.visited, 0u);
  EXPECT_EQ(progress.expired, 0u);
  EXPECT_FALSE(progress.is_more_due);

  progress = shard_.ExpireStep(kNow + 1001, 1 << 20);
  EXPECT_EQ(progress.expired, 2000u);
  EXPECT_EQ(shard_.next_deadline_ms(), kNow + 5000);
  EXPECT_EQ(shard_.db(0).size(), 0u);
  EXPECT_EQ(shard_.db(3).size(), 500u);
  EXPECT_EQ(shard_.db(4).size(), 100u);
  EXPECT_EQ(shard_.stats().expired_keys, 2000u);
  shard_.CheckInvariants();

  progress = shard_.ExpireStep(kNow + 5001, 1 << 20);
  EXPECT_EQ(progress.expired, 500u);
  EXPECT_FALSE(shard_.needs_steps());
  progress = shard_.ExpireStep(kNow + 5001, 1 << 20);
  EXPECT_EQ(progress.visited, 0u);
}

TEST_F(ShardTest, ADeadlineIsKnownThoughAnEarlierOneHasGoneWithItsKey) {
  for (const bool has_other_db : {false, true}) {
    if (has_other_db) Fill(3, 1, kNow + 50'000);
    ShardContext cx(shard_, 0, kNow);
    cx.SetString("a", "1", {.deadline_ms = kNow + 1000});
    EXPECT_TRUE(cx.Delete("a"));
    EXPECT_EQ(shard_.ExpireStep(kNow + 1001, 1 << 20).expired, 0u);
    cx.SetString("b", "1", {.deadline_ms = kNow + 2000});
    EXPECT_EQ(shard_.next_deadline_ms(), kNow + 2000);
    shard_.CheckInvariants();
    EXPECT_EQ(shard_.ExpireStep(kNow + 2001, 1 << 20).expired, 1u);
    EXPECT_EQ(shard_.db(0).size(), 0u);
  }
}

TEST_F(ShardTest, KeysWhoseHashesCollideHaveTheirOwnDeadlines) {
  const auto pairs = testkit::CollidingKeys();
  ASSERT_GE(pairs.size(), 2u);
  for (const bool first_is_due : {true, false}) {
    for (const auto& [first, second] : pairs) {
      ShardContext cx(shard_, 0, kNow);
      cx.SetString(first, "1", {.deadline_ms = first_is_due ? kNow + 10 : kNow + 1000});
      cx.SetString(second, "2", {.deadline_ms = first_is_due ? kNow + 1000 : kNow + 10});
    }
    ASSERT_EQ(shard_.db(0).expires(), 2 * pairs.size());
    shard_.CheckInvariants();
    EXPECT_EQ(shard_.ExpireStep(kNow + 11, 1 << 20).expired, pairs.size());
    shard_.CheckInvariants();
    for (const auto& [first, second] : pairs) {
      ShardContext cx(shard_, 0, kNow + 11);
      EXPECT_EQ(cx.GetDeadline(first).at_ms,
                first_is_due ? std::nullopt : std::optional(kNow + 1000));
      EXPECT_EQ(cx.GetDeadline(second).at_ms,
                first_is_due ? std::optional(kNow + 1000) : std::nullopt);
    }
    EXPECT_EQ(shard_.ExpireStep(kNow + 1001, 1 << 20).expired, pairs.size());
    EXPECT_EQ(shard_.db(0).size(), 0u);
    shard_.CheckInvariants();
  }
}

TEST_F(ShardTest, ExpireStepIsBoundedAndAsksForMore) {
  Fill(0, 10000, kNow + 1);
  Fill(1, 10000, kNow + 1'000'000);
  int steps = 0;
  Shard::ExpireProgress progress;
  do {
    progress = shard_.ExpireStep(kNow + 2, 200);
    EXPECT_LT(progress.visited, 800u);  // whole ranges
    ++steps;
  } while (progress.is_more_due);
  EXPECT_GT(steps, 25);
  EXPECT_EQ(shard_.db(0).size(), 0u);
  EXPECT_EQ(shard_.db(1).size(), 10000u);
}

TEST_F(ShardTest, FlushSyncFreesAtOnce) {
  Fill(0, 1000, kNow + 1000);
  Fill(1, 10);
  shard_.Flush(0, FlushMode::kSync);
  EXPECT_EQ(shard_.FindDb(0), nullptr);
  EXPECT_EQ(shard_.db(1).size(), 10u);
  shard_.FlushAll(FlushMode::kSync);
  EXPECT_EQ(shard_.used_bytes(), 0u);
  EXPECT_TRUE(shard_.FreeStep(1));
}

TEST_F(ShardTest, FlushAsyncFreesInSteps) {
  Fill(0, 5000, kNow + 1000);
  const size_t full = shard_.used_bytes();
  shard_.FlushAll(FlushMode::kAsync);
  EXPECT_EQ(shard_.used_bytes(), full);
  Fill(0, 10);
  EXPECT_EQ(shard_.db(0).size(), 10u);
  int steps = 1;
  size_t before = shard_.used_bytes();
  while (!shard_.FreeStep(100)) {
    EXPECT_LT(shard_.used_bytes(), before);
    before = shard_.used_bytes();
    ++steps;
  }
  EXPECT_GE(steps, 5);
  EXPECT_EQ(shard_.used_bytes(), shard_.db(0).bytes());
  shard_.CheckInvariants();
}

TEST_F(ShardTest, ALargeValueIsFreedInStepsThatItAccountsFor) {
  HashValue::RegisterType();
  shard_.ReapForThread();
  const KeyProbe probe("hash", HashKey("hash"));
  const auto it = shard_.db(0).Insert(probe);
  HashValue::Create(&it->value);
  for (int i = 0; i < 10'000; ++i) {
    HashValue(&it->value).Set("field" + std::to_string(i), "x", shard_.hash_limit());
  }
  shard_.db(0).AccountValue(0, it->value.HeapBytes());
  const size_t full = shard_.used_bytes();
  const size_t empty = full - it->value.HeapBytes();
  EXPECT_FALSE(shard_.needs_steps());
  shard_.db(0).Remove(shard_.db(0).Find(probe), probe);
  EXPECT_EQ(shard_.db(0).size(), 0u);
  EXPECT_EQ(shard_.used_bytes(), full);
  EXPECT_TRUE(shard_.needs_steps());
  int steps = 1;
  for (; !shard_.FreeStep(100); ++steps) EXPECT_LT(shard_.used_bytes(), full);
  EXPECT_GT(steps, 5);
  EXPECT_EQ(shard_.used_bytes(), empty);
  EXPECT_FALSE(shard_.needs_steps());
}

TEST_F(ShardTest, WhatIsLoadedBesideTheDataIsSeenByNobodyUntilItIsTaken) {
  Fill(0, 1000, kNow + 1000);
  Fill(1, 10);
  shard_.memcached().Put(KeyOf(1), {.client_flags = 7});
  ++shard_.memcached().stats().sets;
  const size_t before = shard_.used_bytes();
  LoadBeside(0, 500, kNow + 50);
  LoadBeside(3, 1, 0);
  shard_.incoming().memcached().Put(KeyOf(2), {.client_flags = 8});

  EXPECT_EQ(shard_.db(0).size(), 1000u);
  EXPECT_EQ(shard_.FindDb(3), nullptr);
  EXPECT_EQ(shard_.live_bytes(), before);
  EXPECT_GT(shard_.used_bytes(), before);
  EXPECT_TRUE(shard_.has_pending());
  EXPECT_FALSE(shard_.needs_to_free());
  EXPECT_EQ(shard_.ExpireStep(kNow + 100, 1 << 20).expired, 0u);
  shard_.CheckInvariants();

  shard_.TakeIncoming();
  EXPECT_EQ(shard_.db(0).size(), 500u);
  EXPECT_EQ(shard_.FindDb(1), nullptr);
  EXPECT_EQ(shard_.db(3).size(), 1u);
  EXPECT_EQ(shard_.memcached().Find(KeyOf(1)).client_flags, 0u);
  EXPECT_EQ(shard_.memcached().Find(KeyOf(2)).client_flags, 8u);
  EXPECT_EQ(shard_.memcached().stats().sets, 1u);
  shard_.CheckInvariants();
  EXPECT_EQ(shard_.pending_objects(), 1010u);
  int steps = 1;
  while (!shard_.FreeStep(100)) ++steps;
  EXPECT_GE(steps, 2);
  EXPECT_EQ(shard_.used_bytes(), shard_.live_bytes());
  EXPECT_FALSE(shard_.has_pending());
  EXPECT_EQ(shard_.ExpireStep(kNow + 100, 1 << 20).expired, 500u);
}

TEST_F(ShardTest, WhatIsLoadedBesideTheDataIsDropped) {
  Fill(0, 10);
  const size_t before = shard_.used_bytes();
  shard_.DropIncoming();
  EXPECT_EQ(shard_.used_bytes(), before);
  LoadBeside(0, 1000, kNow + 50);
  LoadBeside(2, 1000, 0);
  shard_.DropIncoming();
  EXPECT_TRUE(shard_.needs_to_free());
  while (!shard_.FreeStep(100)) {
  }
  EXPECT_EQ(shard_.used_bytes(), before);
  EXPECT_EQ(shard_.db(0).size(), 10u);
  // Nothing of it is there when the next load begins.
  EXPECT_TRUE(shard_.incoming().made().empty());
}

TEST_F(ShardTest, WatchesHearOfTheChangeIfTheirKeyWasThereOrIs) {
  const char* const keys[] = {"both", "old", "new", "none"};
  ShardContext cx(shard_, 0, kNow);
  for (const char* key : {"both", "old"}) cx.SetString(key, "v");
  for (uint64_t i = 0; i < 4; ++i) shard_.watches().Watch(i, 0, keys[i]);
  for (const std::string key : {"both", "new"}) {
    CompactValue value;
    value.SetString("v");
    EXPECT_TRUE(shard_.incoming().Make(0).Load(KeyProbe(key, HashKey(key)), std::move(value),
                                               std::nullopt, false, kNow - 5'000));
  }
  shard_.TakeIncoming();
  EXPECT_EQ(ShardContext(shard_, 0, kNow).IdleSeconds("new"), 5u);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(shard_.watches().is_touched(i), i != 3) << keys[i];
}

TEST_F(ShardTest, SwapsDatabases) {
  Fill(0, 10);
  shard_.SwapDatabases(0, 7);
  EXPECT_EQ(shard_.FindDb(0), nullptr);
  EXPECT_EQ(shard_.db(7).size(), 10u);
  shard_.CheckInvariants();
}

}  // namespace
}  // namespace dfly
