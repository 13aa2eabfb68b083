// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/late_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/hops/transaction.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {
namespace {

using helio::Random;
using testing::ElementsAre;
using testing::IsEmpty;

TagLock Write(uint64_t fingerprint) { return {fingerprint, LockMode::kExclusive}; }
TagLock Read(uint64_t fingerprint) { return {fingerprint, LockMode::kShared}; }

// Lets all fibers of this thread run until each of them waits for another one.
void LetAllRun() {
  for (int i = 0; i < 20; ++i) helio::this_fiber::Yield();
}

// Fibers of one thread that ask for the upgrade: who has got it, in order.
class UpgradeTest : public testing::Test {
 protected:
  void SetUp() override { pool_.Start(); }
  void TearDown() override { pool_.Stop(); }

  void OnThread(std::function<void()> test) { pool_.at(0)->AwaitFiber("test", std::move(test)); }

  // Takes it in a fiber of its own.
  void Ask(const std::string& name) {
    helio::Fiber(name.c_str(), [this, name] {
      events_.push_back(name + (upgrade_.Take() ? " has it" : " is refused"));
    }).Detach();
    LetAllRun();
  }
  std::vector<std::string> Happened() {
    LetAllRun();
    return std::exchange(events_, {});
  }

  helio::ProactorPool pool_{{.threads = 1}};
  Upgrade upgrade_;
  std::vector<std::string> events_;
};

TEST_F(UpgradeTest, OneHasItAndTheOthersFollowInOrder) {
  OnThread([&] {
    for (const char* name : {"a", "b", "c"}) Ask(name);
    EXPECT_THAT(Happened(), ElementsAre("a has it"));
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), ElementsAre("b has it"));
    Ask("d");
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), ElementsAre("c has it"));
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), ElementsAre("d has it"));
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), IsEmpty());
    Ask("e");
    EXPECT_THAT(Happened(), ElementsAre("e has it"));
    upgrade_.GiveBack();
  });
}

TEST_F(UpgradeTest, WhoIsGivenItIsTheHolderAtOnce) {
  OnThread([&] {
    ASSERT_TRUE(upgrade_.Take());
    Ask("a");
    upgrade_.GiveBack();
    // `a` has not run since then.
    helio::Fiber("b", [&] {
      events_.push_back(upgrade_.Take() ? "b has it" : "b is refused");
    }).Detach();
    EXPECT_THAT(Happened(), ElementsAre("a has it"));
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), ElementsAre("b has it"));
    upgrade_.GiveBack();
  });
}

TEST_F(UpgradeTest, WhoWaitsForItIsRefusedAsSoonAsItsHolderWaits) {
  OnThread([&] {
    for (const char* name : {"a", "b", "c"}) Ask(name);
    EXPECT_THAT(Happened(), ElementsAre("a has it"));
    upgrade_.BeginWait();
    EXPECT_THAT(Happened(), ElementsAre("b is refused", "c is refused"));
    upgrade_.EndWait();
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), IsEmpty());
    Ask("d");
    EXPECT_THAT(Happened(), ElementsAre("d has it"));
    upgrade_.GiveBack();
  });
}

TEST_F(UpgradeTest, WhoComesWhileItsHolderWaitsIsRefusedAtOnce) {
  OnThread([&] {
    ASSERT_TRUE(upgrade_.Take());
    upgrade_.BeginWait();
    EXPECT_FALSE(upgrade_.Take());
    Ask("a");
    EXPECT_THAT(Happened(), ElementsAre("a is refused"));
    upgrade_.EndWait();
    Ask("b");
    EXPECT_THAT(Happened(), IsEmpty()) << "its holder ends by itself now";
    upgrade_.BeginWait();
    EXPECT_THAT(Happened(), ElementsAre("b is refused"));
    upgrade_.EndWait();
    Ask("c");
    upgrade_.GiveBack();
    EXPECT_THAT(Happened(), ElementsAre("c has it"));
    upgrade_.GiveBack();
  });
}

// Two shards, each on a thread of its own.
class LateLocksTest : public testing::Test {
 protected:
  void SetUp() override {
    pool_.Start();
    shards_ = std::make_unique<ShardSet>(&pool_, 2, 1);
  }
  void TearDown() override {
    for (ShardId id = 0; id < shards_->size(); ++id) {
      shards_->Await(id, [](Shard& shard) {
        EXPECT_TRUE(shard.transactions().empty()) << shard.transactions().Describe();
        EXPECT_EQ(shard.transactions().length(), 0u);
      });
    }
    shards_.reset();
    pool_.Stop();
  }

  // Somebody who runs, on thread `on`. It does one thing after another, each in a fiber there.
  class Runner {
   public:
    Runner(LateLocksTest* test, uint32_t on, int64_t clock_ms = INT64_MAX)
        : proactor_(*test->pool_.at(on)),
          locks_(std::in_place, test->shards_.get(), &test->upgrade_, this, clock_ms) {}
    ~Runner() {
      Await();
      proactor_.AwaitFiber("runner", [this] { locks_.reset(); });
    }

    bool Try(ShardId shard, TagLock tag) {
      return Do([=](LateLocks& locks) { return locks.Try(shard, tag); });
    }
    bool Lock(ShardId shard, TagLock tag) {
      return Do([=](LateLocks& locks) { return locks.Lock(shard, tag); });
    }
    bool LockAllShards() {
      return Do([](LateLocks& locks) { return locks.LockAllShards(); });
    }
    // Goes on without us; Await has its result.
    void BeginLock(ShardId shard, TagLock tag) {
      Begin([=](LateLocks& locks) { return locks.Lock(shard, tag); });
    }
    void BeginLockAllShards() {
      Begin([](LateLocks& locks) { return locks.LockAllShards(); });
    }
    bool Await() {
      if (is_over_ != nullptr) is_over_->Wait();
      is_over_.reset();
      return result_;
    }
    bool is_over() const { return is_over_now_; }
    void Release() {
      Do([](LateLocks& locks) {
        locks.Release();
        EXPECT_TRUE(locks.empty());
        return true;
      });
    }

   private:
    bool Do(std::function<bool(LateLocks&)> what) {
      Begin(std::move(what));
      return Await();
    }
    void Begin(std::function<bool(LateLocks&)> what) {
      ASSERT_EQ(is_over_, nullptr);
      is_over_now_ = false;
      is_over_ = std::make_unique<helio::BlockingCounter>(1);
      proactor_.DispatchFiber("runner", [this, what = std::move(what)] {
        result_ = what(*locks_);
        is_over_now_ = true;
        is_over_->Done();
      });
    }

    helio::Proactor& proactor_;
    std::optional<LateLocks> locks_;  // ended on its thread
    std::unique_ptr<helio::BlockingCounter> is_over_;
    bool result_ = false;
    std::atomic<bool> is_over_now_{false};
  };

  size_t LengthOf(ShardId id) {
    return shards_->Await(id, [](Shard& shard) { return shard.transactions().length(); });
  }
  bool Conflicts(ShardId id, TagLock tag) {
    return shards_->Await(id, [&](Shard& shard) { return shard.transactions().Conflicts(tag); });
  }
  // Waits until so many stand in a shard's queue. Others bring that about without us.
  void AwaitLength(ShardId id, size_t length) {
    while (LengthOf(id) != length) std::this_thread::yield();
  }
  // Returns once the upgrade's holder waits for a lock: until then, Take waits for its turn.
  // REQUIRES: it has the upgrade.
  void AwaitThatItsHolderWaits() {
    pool_.at(0)->AwaitFiber("test", [&] { EXPECT_FALSE(upgrade_.Take()); });
  }
  // Who stands in a shard's queue and has one of these.
  std::vector<const void*> WhoHas(ShardId id, const std::vector<TagLock>& tags) {
    return shards_->Await(id, [&](Shard& shard) {
      std::vector<const void*> owners;
      shard.transactions().ForEach([&](const TxEntry& entry) {
        const bool has_one = std::any_of(tags.begin(), tags.end(), [&](const TagLock& tag) {
          return std::any_of(entry.tags.begin(), entry.tags.end(), [&](const TagLock& its) {
            return its.fingerprint == tag.fingerprint;
          });
        });
        if (has_one && entry.owner != nullptr) owners.push_back(entry.owner);
      });
      return owners;
    });
  }

  helio::ProactorPool pool_{{.threads = 2}};
  std::unique_ptr<ShardSet> shards_;
  Upgrade upgrade_;
};

TEST_F(LateLocksTest, TryTakesWhatIsFree) {
  Runner a(this, 0);
  Runner b(this, 1);
  EXPECT_TRUE(a.Try(0, Write(1)));
  EXPECT_TRUE(a.Try(1, Write(1)));
  EXPECT_TRUE(b.Try(1, Read(2)));
  EXPECT_TRUE(a.Try(1, Read(2)));
  EXPECT_FALSE(b.Try(0, Read(1)));
  EXPECT_FALSE(b.Try(1, Write(1)));
  EXPECT_FALSE(b.Try(1, Write(2)));
  EXPECT_EQ(LengthOf(0), 1u) << "who has not got it has left nothing";
  EXPECT_EQ(LengthOf(1), 2u);
  a.Release();
  EXPECT_FALSE(Conflicts(0, Write(1)));
  EXPECT_TRUE(Conflicts(1, Write(2)));
  EXPECT_FALSE(Conflicts(1, Read(2)));
  EXPECT_TRUE(b.Try(0, Write(1)));
}

TEST_F(LateLocksTest, AllThatItHasTriedOnAShardIsOneEntry) {
  Runner a(this, 0);
  for (uint64_t tag : {5, 3, 9, 1, 7}) EXPECT_TRUE(a.Try(1, Write(tag)));
  EXPECT_EQ(LengthOf(1), 1u);
  for (uint64_t tag = 0; tag < 11; ++tag) {
    const bool has_it = tag % 2 == 1;
    EXPECT_EQ(Conflicts(1, Read(tag)), has_it) << tag;
    // Finds it only if all are in order.
    EXPECT_EQ(WhoHas(1, {Read(tag)}).size(), has_it) << tag;
  }
}

TEST_F(LateLocksTest, LockTakesWhatIsFreeToo) {
  Runner a(this, 0);
  EXPECT_TRUE(a.Lock(0, Write(1)));
  EXPECT_TRUE(a.Lock(1, Read(2)));
  EXPECT_TRUE(a.Try(1, Write(3)));
  EXPECT_TRUE(Conflicts(0, Read(1)));
  EXPECT_TRUE(Conflicts(1, Write(2)));
  EXPECT_FALSE(Conflicts(1, Read(2)));
  a.Release();
  Runner b(this, 1);
  EXPECT_TRUE(b.Lock(0, Write(1))) << "the upgrade was given back";
}

TEST_F(LateLocksTest, TheEndOfALateLocksReleasesIt) {
  {
    Runner a(this, 0);
    EXPECT_TRUE(a.Try(0, Write(1)));
    EXPECT_TRUE(a.Lock(1, Write(1)));
  }
  Runner b(this, 1);
  EXPECT_TRUE(b.LockAllShards());
}

TEST_F(LateLocksTest, LockWaitsForWhoHasItAndGoesBeforeWhoWaits) {
  Runner holder(this, 1);
  ASSERT_TRUE(holder.Try(1, Write(1)));
  std::atomic<bool> has_run{false};
  helio::BlockingCounter is_over(1);
  pool_.at(0)->DispatchFiber("transaction", [&] {
    Transaction tx(shards_.get(), nullptr);
    tx.Lock(0, Write(2));
    tx.Lock(1, Write(1));
    EXPECT_TRUE(tx.Run([&](Shard&) { has_run = true; }));
    is_over.Done();
  });
  AwaitLength(1, 2);
  Runner late(this, 0);
  late.BeginLock(1, Write(1));
  AwaitLength(1, 3);
  EXPECT_FALSE(late.is_over());
  holder.Release();
  EXPECT_TRUE(late.Await());
  EXPECT_THAT(WhoHas(1, {Write(1)}), ElementsAre(&late));
  EXPECT_FALSE(has_run);
  late.Release();
  is_over.Wait();
  EXPECT_TRUE(has_run);
}

TEST_F(LateLocksTest, LockTakesWhatATransactionHasNotBegunToUse) {
  Runner holder(this, 0);
  ASSERT_TRUE(holder.Try(0, Write(2)));
  std::atomic<bool> has_run{false};
  helio::BlockingCounter is_over(1);
  pool_.at(0)->DispatchFiber("transaction", [&] {
    Transaction tx(shards_.get(), nullptr);
    tx.Lock(0, Write(2));
    tx.Lock(1, Write(1));
    EXPECT_TRUE(tx.Run([&](Shard&) { has_run = true; }));
    is_over.Done();
  });
  // Shard 1 has granted it, shard 0 has not.
  AwaitLength(0, 2);
  AwaitLength(1, 1);
  Runner late(this, 1);
  EXPECT_TRUE(late.Lock(1, Write(1))) << "it does not wait for who waits for others";
  holder.Release();
  EXPECT_TRUE(Conflicts(0, Read(2))) << "it has one grant, and waits for the other one again";
  EXPECT_FALSE(has_run);
  late.Release();
  is_over.Wait();
  EXPECT_TRUE(has_run);
}

TEST_F(LateLocksTest, LockWaitsForATransactionThatHasAllItsGrants) {
  helio::BlockingCounter has_locks(1);
  helio::BlockingCounter may_end(1);
  helio::BlockingCounter is_over(1);
  pool_.at(0)->DispatchFiber("transaction", [&] {
    Transaction tx(shards_.get(), nullptr);
    tx.Lock(0, Write(2));
    tx.Lock(1, Write(1));
    EXPECT_TRUE(tx.Schedule());
    has_locks.Done();
    {
      constexpr static helio::WaitReason kTest = {"the test", "it lets it end"};
      const helio::BoundedWait wait(kTest);
      may_end.Wait();
    }
    tx.Hop([](Shard&) {});
    tx.Conclude();
    is_over.Done();
  });
  has_locks.Wait();
  Runner late(this, 1);
  late.BeginLock(1, Write(1));
  AwaitLength(1, 2);
  AwaitThatItsHolderWaits();
  EXPECT_FALSE(late.is_over());
  may_end.Done();
  EXPECT_TRUE(late.Await());
  is_over.Wait();
}

TEST_F(LateLocksTest, OneAtATimeMayLock) {
  Runner a(this, 0);
  Runner b(this, 1);
  ASSERT_TRUE(a.Lock(0, Write(1)));
  b.BeginLock(1, Write(2));
  pool_.at(1)->AwaitFiber("test", LetAllRun);
  EXPECT_FALSE(b.is_over()) << "it might wait for the other one, and that for it";
  EXPECT_EQ(LengthOf(1), 0u);
  EXPECT_TRUE(a.Lock(1, Write(2))) << "who has the upgrade goes on";
  a.Release();
  EXPECT_TRUE(b.Await());
  EXPECT_THAT(WhoHas(1, {Write(2)}), ElementsAre(&b));
}

TEST_F(LateLocksTest, WhoMayNotWaitIsRefused) {
  Runner holder(this, 1);
  Runner a(this, 0);
  Runner b(this, 1);
  ASSERT_TRUE(holder.Try(1, Write(1)));
  ASSERT_TRUE(a.Lock(0, Write(2)));
  b.BeginLock(0, Write(9));
  a.BeginLock(1, Write(1));
  EXPECT_FALSE(b.Await()) << "it has the upgrade, and waits";
  EXPECT_FALSE(b.Lock(0, Write(9)));
  EXPECT_FALSE(b.LockAllShards());
  EXPECT_FALSE(a.is_over());
  EXPECT_FALSE(Conflicts(0, Write(9)));
  EXPECT_TRUE(b.Try(0, Write(9))) << "that makes nobody wait";
  holder.Release();
  EXPECT_TRUE(a.Await());
  a.Release();
  EXPECT_TRUE(b.Lock(1, Write(1)));
}

TEST_F(LateLocksTest, AllShardsAreLockedWhenAllWhoRunHaveEnded) {
  Runner holder(this, 0);
  Runner a(this, 0);
  ASSERT_TRUE(holder.Try(1, Read(1)));
  ASSERT_TRUE(a.Try(0, Write(2)));
  ASSERT_TRUE(a.Try(1, Read(1)));
  a.BeginLockAllShards();
  AwaitLength(1, 3);
  AwaitThatItsHolderWaits();
  EXPECT_FALSE(a.is_over());
  holder.Release();
  EXPECT_TRUE(a.Await());
  for (ShardId id : {0, 1}) {
    EXPECT_TRUE(Conflicts(id, Read(77)));
    EXPECT_EQ(LengthOf(id), 2u);
  }
  EXPECT_FALSE(holder.Try(1, Read(77)));
  a.Release();
  EXPECT_TRUE(holder.Try(1, Read(77)));
}

TEST_F(LateLocksTest, ItsEntriesHaveItsClock) {
  const auto oldest = [&](ShardId id) {
    return shards_->Await(id, [](Shard& shard) { return shard.transactions().oldest_clock_ms(); });
  };
  Runner a(this, 0, 1000);
  Runner b(this, 1, 2000);
  ASSERT_TRUE(b.Try(0, Write(1)));
  EXPECT_EQ(oldest(0), 2000);
  ASSERT_TRUE(a.Try(0, Write(2)));
  ASSERT_TRUE(a.Lock(1, Write(2)));
  EXPECT_EQ(oldest(0), 1000);
  EXPECT_EQ(oldest(1), 1000);
  a.Release();
  EXPECT_EQ(oldest(0), 2000);
  EXPECT_EQ(oldest(1), INT64_MAX);
}

// Scripts and transactions on two threads and three shards. A value is written by who has its lock
// only; no atomic helps, so the thread sanitizer sees whether a lock orders what is done under it.
class Jostle {
 public:
  Jostle(ShardSet* shards, uint64_t seed) : shards_(*shards), seed_(seed) {}

  // Returns when all clients are done.
  void Run() {
    helio::BlockingCounter done(kClients);
    for (uint32_t i = 0; i < kClients; ++i) {
      shards_.pool().at(i % shards_.pool().size())->DispatchFiber("client", [this, i, &done] {
        Random random(seed_ * kClients + i);
        const int id = static_cast<int>(i) + 1;
        for (int round = 0; round < kRounds; ++round) {
          if (random.OneIn(3)) {
            RunTransaction(id, random);
          } else {
            RunScript(id, random);
          }
        }
        done.Done();
      });
    }
    done.Wait();
  }

  int wrong() const { return wrong_; }
  int locked() const { return locked_; }
  int refused() const { return refused_; }
  int all_locked() const { return all_locked_; }

 private:
  static constexpr uint32_t kClients = 8;
  static constexpr int kRounds = 150;
  static constexpr uint32_t kShards = 3;
  static constexpr size_t kTags = 3;

  struct Use {
    ShardId shard;
    size_t tag;
    bool writes;
  };

  int& writer(ShardId shard, size_t tag) { return writers_[shard][tag]; }
  static TagLock TagOf(const Use& use) { return use.writes ? Write(use.tag) : Read(use.tag); }
  void Expect(bool is_right) { wrong_ += !is_right; }

  static Use RandomUse(Random& random) {
    return {static_cast<ShardId>(random.Uniform(kShards)), random.Uniform(kTags), random.OneIn(2)};
  }

  void RunScript(int id, Random& random) {
    std::vector<Use> uses;
    LateLocks locks(&shards_, &upgrade_, &uses, INT64_MAX);  // any address names their owner
    bool has_all = false;
    for (uint64_t n = 1 + random.Uniform(4); n > 0; --n) {
      if (random.OneIn(12)) {
        has_all = locks.LockAllShards();
        ++(has_all ? all_locked_ : refused_);
        break;
      }
      const Use use = RandomUse(random);
      if (std::any_of(uses.begin(), uses.end(), [&](const Use& own) {
            return own.shard == use.shard && own.tag == use.tag;
          })) {
        continue;
      }
      if (!locks.Try(use.shard, TagOf(use))) {
        const bool has_it = locks.Lock(use.shard, TagOf(use));
        ++(has_it ? locked_ : refused_);
        if (!has_it) break;
      }
      Expect(writer(use.shard, use.tag) == 0);
      if (use.writes) writer(use.shard, use.tag) = id;
      uses.push_back(use);
      if (random.OneIn(2)) helio::this_fiber::Yield();
    }
    for (const Use& use : uses) {
      Expect(writer(use.shard, use.tag) == (use.writes ? id : 0));
      if (use.writes) writer(use.shard, use.tag) = 0;
    }
    if (has_all) {
      for (auto& shard : writers_) {
        for (int& value : shard) {
          Expect(value == 0);
          value = id;
        }
      }
      helio::this_fiber::Yield();
      for (auto& shard : writers_) {
        for (int& value : shard) Expect(std::exchange(value, 0) == id);
      }
    }
    locks.Release();
  }

  void RunTransaction(int id, Random& random) {
    std::vector<Use> uses = {RandomUse(random), RandomUse(random)};
    if (uses[0].shard == uses[1].shard && uses[0].tag == uses[1].tag) uses.pop_back();
    Transaction tx(&shards_, nullptr);
    for (const Use& use : uses) tx.Lock(use.shard, TagOf(use));
    const auto hop = [&](int expected, int next) {
      return [this, &uses, expected, next](Shard& shard) {
        for (const Use& use : uses) {
          if (use.shard != shard.id()) continue;
          Expect(writer(use.shard, use.tag) == (use.writes ? expected : 0));
          if (use.writes) writer(use.shard, use.tag) = next;
        }
      };
    };
    EXPECT_TRUE(tx.Schedule());
    tx.Hop(hop(0, id));
    if (random.OneIn(2)) {
      const helio::BoundedWait wait(helio::kItsTurn);
      helio::this_fiber::Yield();
    }
    tx.Hop(hop(id, 0));
    tx.Conclude();
  }

  ShardSet& shards_;
  const uint64_t seed_;
  Upgrade upgrade_;
  std::array<std::array<int, kTags>, kShards> writers_ = {};
  std::atomic<int> wrong_{0};
  std::atomic<int> locked_{0};
  std::atomic<int> refused_{0};
  std::atomic<int> all_locked_{0};
};

// The seed sets what they want, not the timing.
TEST(LateLocksThreadsTest, WhoHasALockHasItAloneAndAllComeToAnEnd) {
  helio::ProactorPool pool({.threads = 2});
  pool.Start();
  {
    ShardSet shards(&pool, 3, 1);
    Jostle jostle(&shards, helio::TestSeed());
    jostle.Run();
    EXPECT_EQ(jostle.wrong(), 0);
    EXPECT_GT(jostle.locked(), 0) << "nobody has waited for a lock";
    EXPECT_GT(jostle.refused(), 0) << "nobody was refused";
    EXPECT_GT(jostle.all_locked(), 0);
    RecordProperty("locked", jostle.locked());
    RecordProperty("refused", jostle.refused());
    for (ShardId id = 0; id < shards.size(); ++id) {
      shards.Await(id, [](Shard& shard) {
        EXPECT_TRUE(shard.transactions().empty()) << shard.transactions().Describe();
      });
    }
  }
  pool.Stop();
}

}  // namespace
}  // namespace dfly
