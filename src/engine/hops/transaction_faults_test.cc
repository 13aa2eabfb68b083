// SPDX-License-Identifier: Apache-2.0
// Every way out of a transaction concludes. Each shape gives up at each of its steps,
// as a coordinator does whose handler replies an error, among others that want the same; then all
// of those come to their end, and no intent, entry or waiter is left on any shard.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/hops/transaction.h"
#include "helio/base/random.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {
namespace {

using helio::Random;

constexpr uint32_t kShards = 4;
constexpr helio::WaitReason kTestWait = {"the test", "it sees to it"};
constexpr int kNever = -1;

// A command that waits for a key of each of its shards, which never comes.
struct PatientWaiter final : Waiter {
  bool IsReady(Shard&, const WaiterNode&) const override { return false; }
  Outcome Serve(Shard&, WaiterNode&) override { return Outcome::kAbsent; }
};

struct Shape {
  const char* name;
  std::vector<ShardId> ids;  // of its keys; empty: all shards as a whole
  int hops;                  // 0: Run, else Schedule and as many
  bool in_exec = false;      // its hops are those of an EXEC around it
  bool waits = false;        // its last hop leaves a waiter
};

const Shape kShapes[] = {
    {"one hop on one shard", {1}, 0},
    {"one hop on several", {0, 1, 2}, 0},
    {"one hop, global", {}, 0},
    {"hops on one shard", {1}, 3},
    {"hops on several", {0, 1, 2}, 3},
    {"hops, global", {}, 3},
    {"one hop in an EXEC", {0, 1}, 0, true},
    {"hops in an EXEC", {0, 1, 2}, 3, true},
    {"hops in an EXEC of one shard", {1}, 2, true},
    {"waits on one shard", {1}, 1, false, true},
    {"waits on several", {0, 1, 2}, 2, false, true},
};

class World {
 public:
  World(ShardSet* shards, const Shape& shape, uint64_t seed)
      : shards_(*shards), shape_(shape), random_(seed) {
    shards_.set_post_hook([this](ShardId id, helio::Message* message) {
      letters_.push_back({id, message});
    });
  }
  ~World() { shards_.set_post_hook(nullptr); }

  // One of the shape that gives up before hop `at`, among others. Returns what went wrong.
  std::string Run(int at) {
    const uint64_t victim_at = random_.Uniform(5);
    for (uint64_t i = 0; i < 5; ++i) {
      Start([this, at, is_victim = i == victim_at] {
        if (is_victim) {
          Act(at);
        } else {
          Compete();
        }
      });
      for (uint64_t n = random_.Uniform(4); n > 0; --n) Turn();
    }
    for (int idle = 0; alive_ > 0; Turn()) {
      idle = letters_.empty() ? idle + 1 : 0;
      if (idle > 1000) return "somebody waits for ever";
    }
    // Others can use all of it.
    Start([this] { OneHop(LockMode::kExclusive); });
    for (int turns = 0; alive_ > 0; Turn()) {
      if (++turns > 1000) return "somebody who comes later waits for ever";
    }
    for (ShardId id = 0; id < kShards; ++id) {
      const Shard& shard = shards_.local(id);
      const TxQueue& queue = shard.transactions();
      if (!queue.empty() || queue.length() != 0 || queue.locks().tags() != 0) {
        return "left on a shard: " + queue.Describe();
      }
      if (const_cast<Shard&>(shard).waiters().keys() != 0) return "a waiter is left";
    }
    return error_;
  }

 private:
  static TagLock Tag(ShardId id, LockMode mode) { return {id + 1, mode}; }

  void Start(std::function<void()> what) {
    ++alive_;
    helio::Fiber("client", [this, what = std::move(what)] {
      what();
      --alive_;
    }).Detach();
  }
  // A letter or none arrives, and who has got one goes on.
  void Turn() {
    if (!letters_.empty() && !random_.OneIn(3)) {
      const size_t i = random_.Uniform(letters_.size());
      helio::Message* const message = letters_[i].second;
      letters_.erase(letters_.begin() + static_cast<ptrdiff_t>(i));
      message->run(message);
    }
    helio::this_fiber::Yield();
  }

  void LockKeys(Transaction* tx) {
    if (shape_.ids.empty()) return tx->LockAllShards(LockMode::kExclusive);
    for (ShardId id : shape_.ids) tx->Lock(id, Tag(id, LockMode::kExclusive));
  }

  void Act(int at) {
    if (!shape_.in_exec) return ActWithin(nullptr, at);
    Transaction exec(&shards_, nullptr);
    LockKeys(&exec);
    EXPECT_TRUE(exec.Schedule());
    exec.Hop([this](Shard& shard) { seen_[shard.id()] = writes_[shard.id()]; });
    ActWithin(&exec, at);
    // The error of a command in it is its own; the next one has the same locks.
    if (random_.OneIn(2)) ActWithin(&exec, kNever);
    if (random_.OneIn(2)) exec.Conclude();
  }

  void ActWithin(Transaction* exec, int at) {
    Transaction tx(&shards_, exec);
    LockKeys(&tx);
    if (shape_.hops == 0) {
      const auto write = [this](Shard& shard) { seen_[shard.id()] = ++writes_[shard.id()]; };
      if (at == kNever) {
        EXPECT_TRUE(tx.Run(write));
      }
      return;
    }
    if (at == 0) return;
    EXPECT_TRUE(tx.Schedule());
    if (at == 1) return;
    for (int hop = 1; hop <= shape_.hops; ++hop) {
      const bool is_last = hop == shape_.hops;
      if (is_last && shape_.waits) return Wait(&tx, at == hop + 1);
      const auto look = [&](Shard& shard) {
        int& seen = seen_[shard.id()];
        if (hop == 1 && exec == nullptr) seen = writes_[shard.id()];
        if (seen != writes_[shard.id()]) error_ = "somebody has written between its hops";
      };
      if (is_last && random_.OneIn(2)) {
        tx.HopAndConclude(tx.shard_ids().first(1), look);
      } else if (hop % 2 == 0) {
        tx.HopOn(tx.shard_ids().last(1), look);
      } else {
        tx.Hop(look);
      }
      if (at == hop + 1) return;
    }
  }

  // As a BLPOP that has found nothing. Its wait ends at once (`is_gone`), or after a while.
  void Wait(Transaction* tx, bool is_gone) {
    PatientWaiter waiter;
    std::array<WaiterNode, kShards> nodes;
    tx->HopAndConclude(tx->shard_ids(), [&](Shard& shard) {
      WaiterNode& node = nodes[shard.id()];
      node.waiter = &waiter;
      node.shard = shard.id();
      node.name = {0, "key"};
      node.locks.push_back(Tag(shard.id(), LockMode::kExclusive).fingerprint);
      shard.waiters().Add(&node);
    });
    if (!is_gone) helio::this_fiber::Yield();
    if (!waiter.Claim()) error_ = "somebody else has claimed it";
    for (ShardId id : shape_.ids) {
      ShardTurn turn(shards_.local(id));
      turn.shard().waiters().Remove(&nodes[id]);
    }
  }

  void OneHop(LockMode mode) {
    Transaction tx(&shards_, nullptr);
    for (ShardId id = 0; id < kShards; ++id) tx.Lock(id, Tag(id, mode));
    const auto change = [&](Shard& shard) {
      if (mode == LockMode::kExclusive) ++writes_[shard.id()];
      shard.waiters().OnChanged(0, "key");
    };
    EXPECT_TRUE(tx.Run(change));
  }

  // A command of one shard.
  struct Command : TxEntry, helio::Message {
    World* world;
    ShardId id;
    TagLock wanted;
    helio::BlockingCounter over{1};

    void Carry() { ++world->writes_[id]; }
  };
  void ShardCommand() {
    Command command;
    command.world = this;
    command.id = static_cast<ShardId>(random_.Uniform(kShards));
    command.wanted = Tag(command.id, LockMode::kExclusive);
    command.Message::run = [](helio::Message* message) {
      auto* const self = static_cast<Command*>(message);
      Shard& shard = self->world->shards_.local(self->id);
      if (!shard.transactions().Conflicts(self->wanted)) {
        self->Carry();
        return self->over.Done();
      }
      self->tags = {&self->wanted, 1};
      self->TxEntry::run = [](TxEntry* entry) {
        static_cast<Command*>(entry)->Carry();
        return true;
      };
      self->done = [](TxEntry* entry) { static_cast<Command*>(entry)->over.Done(); };
      shard.transactions().ScheduleLast(self);
      shard.Arm(self);
    };
    shards_.PostLazily(command.id, &command);
    command.over.Wait();
  }

  // One that somebody cancels at some moment: it runs everywhere, or nowhere.
  void Cancelled() {
    const auto flag = std::make_shared<std::atomic<bool>>(false);
    Start([this, flag] {
      for (uint64_t n = random_.Uniform(8); n > 0; --n) helio::this_fiber::Yield();
      *flag = true;
      for (ShardId id = 0; id < kShards; ++id) Transaction::CancelWaiters(shards_.local(id));
    });
    Transaction tx(&shards_, nullptr);
    tx.set_cancelled(flag.get());
    const bool is_of_one = random_.OneIn(3);
    const bool is_global = random_.OneIn(2);
    if (is_of_one) {
      tx.Lock(1, Tag(1, LockMode::kExclusive));
    } else if (is_global) {
      tx.LockAllShards(LockMode::kExclusive);
    } else {
      for (ShardId id = 0; id < kShards; ++id) tx.Lock(id, Tag(id, LockMode::kExclusive));
    }
    uint32_t count = 0;
    const auto write = [&](Shard& shard) {
      ++writes_[shard.id()];
      ++count;
    };
    const bool has_run = random_.OneIn(2) ? tx.Run(write) : tx.ScheduleAndHop(write);
    EXPECT_EQ(count, !has_run ? 0u : is_of_one ? 1u : kShards);
  }

  void Compete() {
    for (uint64_t n = 1 + random_.Uniform(3); n > 0; --n) {
      switch (random_.Uniform(6)) {
        case 0:
          OneHop(LockMode::kShared);
          break;
        case 1:
          OneHop(LockMode::kExclusive);
          break;
        case 2: {
          Transaction tx(&shards_, nullptr);
          tx.LockAllShards(LockMode::kExclusive);
          EXPECT_TRUE(tx.Run([this](Shard& shard) { ++writes_[shard.id()]; }));
          break;
        }
        case 3:
          Cancelled();
          break;
        default:
          ShardCommand();
      }
    }
  }

  ShardSet& shards_;
  const Shape& shape_;
  Random random_;
  std::vector<std::pair<ShardId, helio::Message*>> letters_;
  std::array<int, kShards> writes_ = {};
  std::array<int, kShards> seen_ = {};
  std::string error_;
  int alive_ = 0;
};

class TransactionFaultsTest : public testing::Test {
 protected:
  TransactionFaultsTest() : pool_({.threads = 1}) {
    pool_.Start();
    shards_.emplace(&pool_, kShards, 1);
  }
  ~TransactionFaultsTest() override {
    shards_.reset();
    pool_.Stop();
  }

  helio::ProactorPool pool_;
  std::optional<ShardSet> shards_;
};

TEST_F(TransactionFaultsTest, EachShapeConcludesWhereverItGivesUp) {
#ifdef DFLY_SANITIZED
  constexpr uint64_t kSeeds = 40;
#else
  constexpr uint64_t kSeeds = 300;
#endif
  for (const Shape& shape : kShapes) {
    for (int at = kNever; at <= shape.hops + 1; ++at) {
      std::string error;
      uint64_t seed = 1;
      pool_.at(0)->AwaitFiber("schedules", [&] {
        for (; seed <= kSeeds; ++seed) {
          Random random(seed);
          pool_.at(0)->scheduler().UseRandomOrder(random.Next());
          World world(&*shards_, shape, random.Next());
          error = world.Run(at);
          if (!error.empty()) break;
        }
      });
      ASSERT_EQ(error, "") << shape.name << ", gives up at " << at << ", seed " << seed;
    }
  }
}

// Who waits for locks that do not come is told to wait no longer, and leaves nothing behind.
TEST_F(TransactionFaultsTest, OneThatIsCancelledWaitsNoMore) {
  for (const Shape& shape : kShapes) {
    if (shape.in_exec || shape.waits) continue;
    pool_.at(0)->AwaitFiber("holder", [&] {
      const auto lock = [&](Transaction* tx) {
        if (shape.ids.empty()) tx->LockAllShards(LockMode::kExclusive);
        for (ShardId id : shape.ids) tx->Lock(id, {id + 1, LockMode::kExclusive});
      };
      Transaction holder(&*shards_, nullptr);
      lock(&holder);
      ASSERT_TRUE(holder.Schedule());
      const helio::BoundedWait wait(kTestWait);
      std::atomic<bool> flag{false};
      bool has_run = false;
      helio::Fiber waiter("waiter", [&] {
        Transaction tx(&*shards_, nullptr);
        lock(&tx);
        tx.set_cancelled(&flag);
        if (shape.hops == 0) {
          has_run = tx.Run([](Shard&) {});
        } else {
          has_run = tx.Schedule();
        }
      });
      const auto waits = [&] { return shards_->local(1).transactions().length() == 2; };
      while (!waits()) helio::this_fiber::Yield();
      flag = true;
      shards_->AwaitOnAll(&Transaction::CancelWaiters);
      waiter.Join();  // while the other one still has its locks
      EXPECT_FALSE(has_run) << shape.name;
      EXPECT_EQ(shards_->local(1).transactions().length(), 1u);
      // The flag is enough for who comes later.
      Transaction late(&*shards_, nullptr);
      lock(&late);
      late.set_cancelled(&flag);
      EXPECT_FALSE(late.Run([](Shard&) {})) << shape.name;
    });
    for (ShardId id = 0; id < kShards; ++id) {
      EXPECT_EQ(shards_->Await(id, [](Shard& shard) { return shard.transactions().length(); }), 0u);
    }
  }
}

TEST_F(TransactionFaultsTest, WhoHasLocksMayWaitForHops) {
  pool_.at(0)->AwaitFiber("holder", [&] {
    Transaction tx(&*shards_, nullptr);
    tx.Lock(0, {1, LockMode::kExclusive});
    tx.Lock(1, {1, LockMode::kExclusive});
    ASSERT_TRUE(tx.ScheduleAndHop([](Shard&) {}));
    EXPECT_TRUE(helio::Hold::IsAny());
    tx.Hop([](Shard&) {});
    Transaction inner(&*shards_, &tx);
    inner.Lock(1, {1, LockMode::kExclusive});
    EXPECT_TRUE(inner.Run([](Shard&) {}));
    shards_->AwaitOnAll([](Shard&) {});
    pool_.at(0)->AwaitFiber("helper", [&] { shards_->AwaitOnAll([](Shard&) {}); });
    const ShardId one = 0;
    tx.HopAndConclude({&one, 1}, [](Shard&) {});
    EXPECT_FALSE(helio::Hold::IsAny());
    helio::this_fiber::Yield();
  });
}
// For who asks why nobody else gets them.
TEST_F(TransactionFaultsTest, WhoHasLocksSaysWhatItWaitsFor) {
  std::vector<helio::Message*> letters;
  const auto deliver = [&] {
    while (!letters.empty()) {
      for (helio::Message* const message : std::exchange(letters, {})) message->run(message);
    }
  };
  const auto wait_of = [&] {
    std::string text;
    shards_->local(1).transactions().ForEach(
        [&](const TxEntry& entry) { text = entry.hold->DescribeWait(); });
    return text.substr(0, text.find(" since"));
  };
  pool_.at(0)->AwaitFiber("test", [&] {
    shards_->set_post_hook([&](ShardId, helio::Message* message) { letters.push_back(message); });
    helio::Fiber holder("holder", [&] {
      Transaction tx(&*shards_, nullptr);
      for (ShardId id : {1u, 3u}) tx.Lock(id, {id + 1, LockMode::kExclusive});
      ASSERT_TRUE(tx.ScheduleAndHop([](Shard&) {}));
      tx.Hop([](Shard&) {});
      const ShardId last = 3;
      tx.HopOn({&last, 1}, [](Shard&) {});
    });
    helio::this_fiber::Yield();
    for (helio::Message* const message : std::exchange(letters, {})) message->run(message);
    EXPECT_EQ(letters.size(), 2u);  // the first hop
    EXPECT_EQ(wait_of(), "its first hop to 2 shards");
    for (const char* wait : {"hops to 2 shards", "a hop to shard 3"}) {
      deliver();
      while (letters.empty()) helio::this_fiber::Yield();
      EXPECT_EQ(wait_of(), wait);
    }
    while (shards_->local(1).transactions().length() > 0) {
      deliver();
      helio::this_fiber::Yield();
    }
    holder.Join();
    shards_->set_post_hook(nullptr);
  });
}

#ifndef NDEBUG
using TransactionFaultsDeathTest = TransactionFaultsTest;

// The rule of helio/fibers/hold.h: who has locks waits for hops only.
TEST_F(TransactionFaultsDeathTest, WhoHasLocksMayNotWaitForAnythingElse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::function<void(Transaction & tx)> waits[] = {
      [](Transaction&) { helio::this_fiber::Yield(); },
      [](Transaction&) { helio::BlockingCounter(0).Wait(); },
      // Other locks: it is none of the outer one's.
      [this](Transaction&) {
        Transaction other(&*shards_, nullptr);
        other.Lock(2, {1, LockMode::kExclusive});
        (void)other.Run([](Shard&) {});
      },
      // Also a fiber that works for it.
      [this](Transaction&) {
        pool_.at(0)->AwaitFiber("helper", [] { helio::this_fiber::Yield(); });
      },
  };
  for (const auto& wait : waits) {
    EXPECT_DEATH(pool_.at(0)->AwaitFiber("holder",
                                         [&] {
                                           Transaction tx(&*shards_, nullptr);
                                           tx.Lock(0, {1, LockMode::kExclusive});
                                           tx.Lock(1, {1, LockMode::kExclusive});
                                           (void)tx.Schedule();
                                           wait(tx);
                                         }),
                 "holds what others wait for");
  }
}

#endif

// There is no way to take back half a hop, and to go on with it would tell clients what is not so.
// So an exception on a shard, be it that of operator new, ends the process where it is thrown: no
// lock is left behind that anybody could wait for, and no reply is sent.
TEST_F(TransactionFaultsTest, AHopThatThrowsEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(pool_.at(0)->AwaitFiber("throws",
                                       [&] {
                                         try {
                                           Transaction tx(&*shards_, nullptr);
                                           tx.Lock(0, {1, LockMode::kExclusive});
                                           tx.Lock(1, {1, LockMode::kExclusive});
                                           (void)tx.Run([](Shard& shard) {
                                             if (shard.id() == 1) throw std::bad_alloc();
                                           });
                                         } catch (const std::exception&) {
                                           exit(0);  // no death: it must not come so far
                                         }
                                       }),
               "bad_alloc");
}

}  // namespace
}  // namespace dfly
