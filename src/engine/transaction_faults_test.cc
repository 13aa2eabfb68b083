// SPDX-License-Identifier: Apache-2.0
// Every way out of a transaction concludes. Each shape gives up at each of its steps,
// as a coordinator does whose handler replies an error, among others that want the same; then all
// of those come to their end, and no intent, entry or waiter is left on any shard.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/transaction.h"
#include "helio/base/random.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {
namespace {

using helio::Random;

constexpr uint32_t kShards = 4;
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
      shards_.RunWork(id, [&](Shard& shard) {
        shard.waiters().Remove(&nodes[id]);
        shard.ServeWaiters();
      });
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

  void Compete() {
    for (uint64_t n = 1 + random_.Uniform(3); n > 0; --n) {
      switch (random_.Uniform(5)) {
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
