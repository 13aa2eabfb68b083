// SPDX-License-Identifier: Apache-2.0
// The table by itself: waiters of the test's own take elements that the test counts.
#include "engine/keyspace/waiter_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "engine/keyspace/shard.h"

namespace dfly {
namespace {

class WaiterTableTest : public testing::Test {
 protected:
  struct TestWaiter final : Waiter {
    WaiterTableTest* test = nullptr;
    std::string name;
    bool holds = false;
    bool wants_other = false;  // a type that nothing has
    bool minds_absence = false;
    int asked = 0;
    WaiterNode node;

    bool IsReady(Shard&, const WaiterNode&) const override { return test->elements_ > 0; }
    Outcome Serve(Shard& shard, WaiterNode& its_node) override {
      ++asked;
      if (test->elements_ == 0 && minds_absence) {
        test->served_ += name;
        shard.waiters().Remove(&its_node);
        return Outcome::kServed;
      }
      if (test->elements_ == 0) return Outcome::kAbsent;
      if (wants_other) return Outcome::kNotReady;
      if (!Claim()) return Outcome::kGone;
      if (holds) return Outcome::kHolds;
      --test->elements_;
      test->served_ += name;
      shard.waiters().Remove(&its_node);
      return Outcome::kServed;
    }
    using Waiter::Release;
  };

  // It waits for the only key, in database 0.
  TestWaiter& Wait(const std::string& name, bool minds_absence = false) {
    TestWaiter& waiter = all_.emplace_back();
    waiter.minds_absence = waiter.node.minds_absence = minds_absence;
    waiter.test = this;
    waiter.name = name;
    waiter.node.waiter = &waiter;
    waiter.node.name = {0, "k"};
    waiter.node.locks.push_back(kLock);
    table().Add(&waiter.node);
    return waiter;
  }
  // The key gets so many elements more. Returns who was served.
  std::string Push(int elements) {
    elements_ += elements;
    table().OnChanged(0, "k");
    return Serve();
  }
  std::string Serve() {
    table().Serve(shard_);
    return std::exchange(served_, {});
  }
  WaiterTable& table() { return shard_.waiters(); }

  static constexpr uint64_t kLock = 77;
  Shard shard_{0, 16};
  std::deque<TestWaiter> all_;
  int elements_ = 0;
  std::string served_;
};

TEST_F(WaiterTableTest, WhoCameFirstIsServedFirstAndNobodyWithoutAnElement) {
  for (const char* name : {"a", "b", "c", "d"}) Wait(name);
  EXPECT_EQ(Push(1), "a");
  EXPECT_EQ(Push(2), "bc");
  EXPECT_EQ(Serve(), "");
  EXPECT_EQ(Push(5), "d");
  EXPECT_TRUE(table().empty());
  EXPECT_FALSE(table().has_ready());
}

TEST_F(WaiterTableTest, WhoHasLeftOrEndedHidesNobody) {
  TestWaiter& a = Wait("a");
  TestWaiter& b = Wait("b");
  Wait("c");
  table().Remove(&a.node);
  table().Remove(&a.node);  // nothing
  EXPECT_TRUE(b.Claim());   // elsewhere
  EXPECT_EQ(Push(1), "c");
  EXPECT_FALSE(b.node.linked());
  EXPECT_TRUE(table().empty());
}

TEST_F(WaiterTableTest, WhoWantsAnotherTypeIsPassedAndAskedOnce) {
  for (int i = 0; i < 1000; ++i) Wait("x").wants_other = true;
  Wait("a");
  Wait("y").wants_other = true;
  Wait("b");
  EXPECT_EQ(Push(3), "ab");
  for (const TestWaiter& waiter : all_) EXPECT_EQ(waiter.asked, 1);
  EXPECT_EQ(table().CountReady(shard_, 10), 1u);
}

TEST_F(WaiterTableTest, WhoMindsThatAKeyIsAbsentIsAskedWhoeverIsInFront) {
  TestWaiter& a = Wait("a");
  Wait("m", true);
  TestWaiter& b = Wait("b");
  Wait("n", true);
  EXPECT_EQ(Push(0), "mn");
  EXPECT_EQ(a.asked + b.asked, 2);
  // From now on the first one decides for all.
  EXPECT_EQ(Push(0), "");
  EXPECT_EQ(a.asked, 2);
  EXPECT_EQ(b.asked, 1);
  EXPECT_EQ(Push(2), "ab");
}

TEST_F(WaiterTableTest, WhoHoldsKeepsThoseBehindItWaiting) {
  TestWaiter& holder = Wait("h");
  holder.holds = true;
  Wait("a");
  EXPECT_EQ(Push(1), "");
  EXPECT_EQ(Push(1), "");
  EXPECT_EQ(holder.asked, 1);

  holder.Release();
  table().EndHold(&holder.node);  // it has found nothing, and is the first again
  EXPECT_EQ(Serve(), "");
  EXPECT_EQ(holder.asked, 2);

  table().Remove(&holder.node);  // it has got something, or goes: what is left is the next one's
  EXPECT_EQ(Serve(), "a");
  EXPECT_TRUE(table().empty());
}

TEST_F(WaiterTableTest, ItsMemoryGoesWithTheWaiters) {
  constexpr size_t kKeys = 20'000;
  const size_t before = table().memory_used();
  for (size_t i = 0; i < kKeys; ++i) {
    TestWaiter& waiter = all_.emplace_back();
    waiter.test = this;
    waiter.node.waiter = &waiter;
    waiter.node.name = {0, std::string(40, 'x') + std::to_string(i)};
    table().Add(&waiter.node);
  }
  EXPECT_GT(table().memory_used(), before + kKeys * 100);
  for (TestWaiter& waiter : all_) table().Remove(&waiter.node);
  EXPECT_LT(table().memory_used(), before + 100'000);
}

TEST_F(WaiterTableTest, OnlyChangesOfItsKeyAndDatabaseConcernAWaiter) {
  TestWaiter& a = Wait("a");
  elements_ = 1;
  table().OnChanged(0, "other");
  table().OnChanged(1, "k");
  table().OnChangedAll(1);
  EXPECT_FALSE(table().has_ready());
  EXPECT_EQ(a.asked, 0);
  table().OnChangedAll(0);
  EXPECT_EQ(Serve(), "a");
}

// A transaction that has the key's lock holds its waiters back until its end; then they come before
// the one that waits for the lock.
TEST_F(WaiterTableTest, ATransactionThatHasTheLockHoldsWaitersBackNotOneThatWaitsForIt) {
  Wait("a");
  Wait("b");
  const TagLock tag{kLock, LockMode::kExclusive};
  TxEntry entries[2];
  for (TxEntry& entry : entries) {
    entry.number = static_cast<uint64_t>(&entry - entries) + 1;
    entry.tags = {&tag, 1};
    entry.done = [](TxEntry*) {};
    entry.granted = [](TxEntry*) {};
    entry.run = [](TxEntry*) { return false; };
    ASSERT_TRUE(shard_.transactions().Schedule(&entry));
  }
  EXPECT_TRUE(entries[0].is_granted);
  EXPECT_FALSE(entries[1].is_granted);
  EXPECT_EQ(Push(1), "");
  shard_.Arm(&entries[0]);
  EXPECT_EQ(served_, "");
  EXPECT_TRUE(table().has_ready());

  for (const char* expected : {"a", "b"}) {
    TxEntry& entry = entries[*expected - 'a'];
    entry.run = [](TxEntry*) { return true; };
    elements_ = 1;
    shard_.Arm(&entry);
    EXPECT_EQ(std::exchange(served_, ""), expected);
    table().OnChanged(0, "k");
  }
}

TEST_F(WaiterTableTest, WhoTouchesASecondTagWaitsForWhatIsAnnouncedThereToo) {
  Wait("a").node.locks.push_back(kLock + 1);
  const TagLock tag{kLock + 1, LockMode::kShared};
  TxEntry entry;
  entry.number = 1;
  entry.tags = {&tag, 1};
  entry.done = [](TxEntry*) {};
  ASSERT_TRUE(shard_.transactions().Schedule(&entry));
  EXPECT_EQ(Push(1), "");
  shard_.Cancel(&entry);
  EXPECT_EQ(served_, "a");
}

// Two clients wait for the keys of two shards, and each shard gets two elements at the same moment.
// One of the shards has to serve both clients: had each served one, no order of the two pushes
// would explain it.
TEST(SpanningWaitersTest, OneOfTwoShardsServesAllThatWaitForBoth) {
  struct Both final : Waiter {
    std::atomic<int>* claimed = nullptr;
    WaiterNode nodes[2];
    int served_by = -1;

    bool IsReady(Shard&, const WaiterNode&) const override { return true; }
    Outcome Serve(Shard& shard, WaiterNode& node) override {
      if (!Claim()) return Outcome::kGone;
      served_by = static_cast<int>(shard.id());
      shard.waiters().Remove(&node);
      // The other shard gets the time to claim the next one.
      claimed->fetch_add(1);
      for (int i = 0; i < 100'000 && claimed->load() < 2; ++i) std::this_thread::yield();
      return Outcome::kServed;
    }
  };
  std::atomic<int> claimed{0};
  WaiterTable::SpanningMutex mutex;
  Shard first(0, 1), second(1, 1);
  Shard* const shards[] = {&first, &second};
  Both waiters[2];
  for (Shard* shard : shards) {
    shard->waiters().set_spanning_mutex(&mutex);
    for (Both& waiter : waiters) {
      WaiterNode& node = waiter.nodes[shard->id()];
      waiter.claimed = &claimed;
      node.waiter = &waiter;
      node.shard = shard->id();
      node.name = {0, "k" + std::to_string(shard->id())};
      node.locks.push_back(shard->id());
      node.spans_shards = true;
    }
  }
  // They came in different orders, so that each shard begins with another one.
  for (int i : {0, 1}) first.waiters().Add(&waiters[i].nodes[0]);
  for (int i : {1, 0}) second.waiters().Add(&waiters[i].nodes[1]);
  std::barrier begin(2);
  const auto push = [&](Shard& shard) {
    shard.waiters().OnChanged(0, "k" + std::to_string(shard.id()));
    begin.arrive_and_wait();
    shard.waiters().Serve(shard);
  };
  std::thread other([&] { push(second); });
  push(first);
  other.join();
  EXPECT_NE(waiters[0].served_by, -1);
  EXPECT_EQ(waiters[0].served_by, waiters[1].served_by);
  for (Shard* shard : shards) EXPECT_TRUE(shard->waiters().empty());
}

}  // namespace
}  // namespace dfly
