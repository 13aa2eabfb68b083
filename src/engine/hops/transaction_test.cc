// SPDX-License-Identifier: Apache-2.0
// Transactions on schedules from a seed: several shards and many coordinators on one thread, with
// messages that overtake each other. Each operation notes which version of each key it saw; in the
// end there must be an order of all operations that explains it, and that agrees with the clock.
#include "engine/hops/transaction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {
namespace {

using helio::Random;

constexpr uint32_t kShards = 4;
constexpr int kKeysPerShard = 3;

// What an operation did with a key: it saw `version`, and perhaps wrote the next one.
struct Access {
  int key;
  int version;
  bool writes;
};
struct Operation {
  std::string kind;
  int begin = 0;
  int end = 0;
  std::vector<Access> accesses;
};

class World {
 public:
  World(ShardSet* shards, uint64_t seed) : shards_(*shards), random_(seed) {
    shards_.set_post_hook([this](ShardId id, helio::Message* message) {
      messages_.push_back({id, message});
    });
  }
  ~World() { shards_.set_post_hook(nullptr); }

  // Runs clients until all are done. Returns what went wrong, or nothing.
  std::string Run() {
    const uint64_t clients = 2 + random_.Uniform(5);
    for (uint64_t i = 0; i < clients; ++i) {
      ++alive_;
      helio::Fiber("client", [this] {
        for (uint64_t n = 1 + random_.Uniform(6); n > 0; --n) RunOperation();
        --alive_;
      }).Detach();
    }
    int idle = 0;
    while (alive_ > 0) {
      if (messages_.empty()) {
        if (++idle > 10000) return "it hangs";
      } else if (random_.OneIn(2)) {
        idle = 0;
        const size_t i = random_.Uniform(messages_.size());
        helio::Message* const message = messages_[i].message;
        messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(i));
        message->run(message);
      }
      helio::this_fiber::Yield();
    }
    for (ShardId id = 0; id < kShards; ++id) {
      const TxQueue& queue = shards_.local(id).transactions();
      if (!queue.empty() || queue.length() != 0) return "intents are left on a shard";
    }
    if (!error_.empty()) return error_;
    return FindCycle();
  }

  uint64_t retries() const { return retries_; }
  uint64_t reserved() const { return reserved_; }
  uint64_t given_up() const { return given_up_; }

 private:
  struct Waiting {
    ShardId id;
    helio::Message* message;
  };

  static ShardId ShardOf(int key) { return static_cast<ShardId>(key) % kShards; }
  TagLock TagOf(int key, bool writes) {
    return {static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15ull + 1,
            writes ? LockMode::kExclusive : LockMode::kShared};
  }
  void Touch(Operation* op, int key, bool writes) {
    int& version = versions_[key];
    op->accesses.push_back({key, version, writes});
    if (writes) ++version;
  }
  void Finish(Operation op) {
    op.end = ++clock_;
    done_.push_back(std::move(op));
  }

  void RunOperation() {
    Operation op;
    op.begin = ++clock_;
    std::map<int, bool> keys;  // and whether it writes
    for (uint64_t n = 1 + random_.Uniform(4); n > 0; --n) {
      const int key = static_cast<int>(random_.Uniform(kShards * kKeysPerShard));
      keys[key] |= random_.OneIn(2);
    }
    switch (random_.Uniform(8)) {
      case 0:
      case 1:
      case 2:
        return RunShardCommand(std::move(op), keys);
      case 3:
        if (random_.OneIn(3)) return RunGlobal(std::move(op));
        [[fallthrough]];
      case 4:
        return RunHops(std::move(op), keys);
      default:
        return RunOneHop(std::move(op), keys);
    }
  }

  // A command whose keys are in one shard: at once if nobody excludes it, else it waits in the
  // queue.
  struct Command : TxEntry, helio::Message {
    World* world;
    Operation op;
    std::map<int, bool> keys;
    std::vector<TagLock> wanted;
    helio::BlockingCounter over{1};
  };
  void RunShardCommand(Operation op, const std::map<int, bool>& keys) {
    Command command;
    command.world = this;
    command.op = std::move(op);
    command.op.kind = "shard command";
    const ShardId shard = ShardOf(keys.begin()->first);
    for (auto [key, writes] : keys) {
      if (ShardOf(key) != shard) continue;
      command.keys[key] = writes;
      command.wanted.push_back(TagOf(key, writes));
    }
    SortAndMerge(&command.wanted);
    command.Message::run = [](helio::Message* message) {
      auto* const self = static_cast<Command*>(message);
      TxQueue& queue =
          self->world->shards_.local(ShardOf(self->keys.begin()->first)).transactions();
      const bool is_free = std::none_of(self->wanted.begin(), self->wanted.end(),
                                        [&](const TagLock& tag) { return queue.Conflicts(tag); });
      if (is_free) {
        for (auto [key, writes] : self->keys) self->world->Touch(&self->op, key, writes);
        self->over.Done();
        return;
      }
      self->tags = self->wanted;
      self->TxEntry::run = [](TxEntry* entry) {
        auto* const waiting = static_cast<Command*>(entry);
        for (auto [key, writes] : waiting->keys) {
          waiting->world->Touch(&waiting->op, key, writes);
        }
        return true;
      };
      self->done = [](TxEntry* entry) { static_cast<Command*>(entry)->over.Done(); };
      queue.ScheduleLast(self);
      queue.Arm(self);
    };
    shards_.PostLazily(shard, &command);
    command.over.Wait();
    Finish(std::move(command.op));
  }

  void LockAll(Transaction* tx, const std::map<int, bool>& keys) {
    for (auto [key, writes] : keys) {
      tx->Lock(ShardOf(key), TagOf(key, writes));
      if (random_.OneIn(4)) tx->Lock(ShardOf(key), TagOf(key, false));  // the same tag again
    }
  }

  void CountRetries(const Transaction& tx) {
    retries_ += tx.attempts() - 1;
    if (tx.attempts() == Transaction::kRefusalsMax + 1) ++reserved_;
    if (tx.attempts() > Transaction::kRefusalsMax + 1)
      error_ = "it was refused in a place of its own";
  }

  // Of a command that may be refused, or not.
  CoordinatorContext NewCommand() {
    CoordinatorContext cx(&shards_, nullptr, 0, INT64_MAX);
    cx.set_may_be_refused(random_.OneIn(2));
    return cx;
  }
  void GiveUp(const CoordinatorContext& cx, const Operation& op, const Transaction& tx) {
    ++given_up_;
    CountRetries(tx);
    if (!cx.may_be_refused() || cx.refused_for() != Slow::kScript) error_ = "refused for nothing";
    if (!op.accesses.empty()) error_ = "it was refused, and has done something";
  }

  // Who holds locks becomes slow: all shards are told so, some time.
  struct Tell : helio::Message {
    World* world;
    ShardId id;
  };
  void BecomeSlow(const void* owner) {
    shards_.slow_scripts().Add(owner, Slow::kScript);
    for (ShardId id = 0; id < kShards; ++id) {
      ++alive_;
      auto* const tell = new Tell;
      tell->world = this;
      tell->id = id;
      tell->run = [](helio::Message* message) {
        const std::unique_ptr<Tell> self(static_cast<Tell*>(message));
        ShardSet& shards = self->world->shards_;
        Transaction::RefuseWaiters(shards.local(self->id), &shards.slow_scripts());
        --self->world->alive_;
      };
      shards_.PostLazily(id, tell);
    }
  }

  void RunOneHop(Operation op, const std::map<int, bool>& keys) {
    op.kind = "one hop";
    CoordinatorContext cx = NewCommand();
    Transaction tx(cx);
    LockAll(&tx, keys);
    const bool has_run = tx.Run([&](Shard& shard) {
      for (auto [key, writes] : keys) {
        if (ShardOf(key) == shard.id()) Touch(&op, key, writes);
      }
    });
    if (!has_run) return GiveUp(cx, op, tx);
    CountRetries(tx);
    Finish(std::move(op));
  }

  // Sees all its keys in a first hop, some again in others, and writes some in the last.
  void RunHops(Operation op, const std::map<int, bool>& keys) {
    op.kind = "hops";
    std::map<int, int> seen;
    CoordinatorContext cx = NewCommand();
    auto tx = std::make_unique<Transaction>(cx);
    tx->set_owner(&seen);
    LockAll(tx.get(), keys);
    if (!tx->Schedule()) return GiveUp(cx, op, *tx);
    CountRetries(*tx);
    const bool is_slow = random_.OneIn(2);
    if (is_slow) BecomeSlow(&seen);
    tx->Hop([&](Shard& shard) {
      for (auto [key, writes] : keys) {
        if (ShardOf(key) == shard.id()) seen[key] = versions_[key];
      }
    });
    for (uint64_t n = random_.Uniform(3); n > 0; --n) {
      const ShardId some[] = {ShardOf(keys.begin()->first)};
      tx->HopOn(some, [&](Shard& shard) {
        for (auto [key, version] : seen) {
          if (ShardOf(key) == shard.id() && versions_[key] != version)
            error_ = "it is not isolated";
        }
      });
    }
    auto last = [&](Shard& shard) {
      for (auto [key, writes] : keys) {
        if (ShardOf(key) != shard.id()) continue;
        if (versions_[key] != seen[key]) error_ = "it is not isolated at its end";
        Touch(&op, key, writes);
      }
    };
    switch (random_.Uniform(3)) {
      case 0:
        tx->HopAndConclude(tx->shard_ids(), last);
        break;
      case 1:
        tx->Hop(last);
        tx->Conclude();
        break;
      default:
        tx->Hop(last);
        tx.reset();  // concludes, as after an error
    }
    if (is_slow) shards_.slow_scripts().Remove(&seen);
    Finish(std::move(op));
  }

  void RunGlobal(Operation op) {
    const bool writes = random_.OneIn(2);
    op.kind = writes ? "global write" : "global read";
    CoordinatorContext cx = NewCommand();
    Transaction tx(cx);
    tx.LockAllShards(writes ? LockMode::kExclusive : LockMode::kShared);
    auto touch_all = [&](Shard& shard) {
      for (int key = 0; key < static_cast<int>(kShards) * kKeysPerShard; ++key) {
        if (ShardOf(key) == shard.id()) Touch(&op, key, writes);
      }
    };
    if (random_.OneIn(2)) {
      if (!tx.Run(touch_all)) return GiveUp(cx, op, tx);
    } else {
      if (!tx.Schedule()) return GiveUp(cx, op, tx);
      tx.Hop([](Shard&) {});
      tx.Hop(touch_all);
      tx.Conclude();
    }
    CountRetries(tx);
    Finish(std::move(op));
  }

  // An edge from each operation to those that must come after it; a cycle cannot be explained.
  std::string FindCycle() {
    const size_t count = done_.size();
    std::vector<std::vector<size_t>> after(count);
    std::map<std::pair<int, int>, size_t> writer;  // of (key, the version it saw)
    for (size_t i = 0; i < count; ++i) {
      for (const Access& access : done_[i].accesses) {
        if (!access.writes) continue;
        if (!writer.emplace(std::pair(access.key, access.version), i).second) {
          return "two operations wrote the same version";
        }
      }
    }
    for (size_t i = 0; i < count; ++i) {
      for (const Access& access : done_[i].accesses) {
        if (auto it = writer.find({access.key, access.version - 1}); it != writer.end()) {
          if (it->second != i) after[it->second].push_back(i);
        }
        if (auto it = writer.find({access.key, access.version}); it != writer.end()) {
          if (it->second != i) after[i].push_back(it->second);
        }
      }
      for (size_t j = 0; j < count; ++j) {
        if (done_[i].end < done_[j].begin) after[i].push_back(j);
      }
    }
    std::vector<int> colour(count, 0);
    std::string cycle;
    auto visit = [&](auto&& self, size_t i) -> bool {
      colour[i] = 1;
      for (size_t next : after[i]) {
        if (colour[next] == 1 || (colour[next] == 0 && self(self, next))) {
          cycle += " <- " + std::to_string(i) + " " + done_[i].kind;
          return true;
        }
      }
      colour[i] = 2;
      return false;
    };
    for (size_t i = 0; i < count; ++i) {
      if (colour[i] == 0 && visit(visit, i)) return "no order explains it:" + cycle;
    }
    return "";
  }

  ShardSet& shards_;
  Random random_;
  std::vector<Waiting> messages_;
  std::map<int, int> versions_;
  std::vector<Operation> done_;
  std::string error_;
  int clock_ = 0;
  int alive_ = 0;
  uint64_t retries_ = 0;
  uint64_t reserved_ = 0;
  uint64_t given_up_ = 0;
};

// Z is behind T on shard 2, and shard 0 does not know T yet. If Z ran on shard 1, a client could
// see that, and then another one go before T on shard 0: it would be before T, which is before Z,
// which is before it.
TEST(TransactionTest, NobodySeesOneThatStandsBehindAnotherThatIsNotAnnouncedEverywhere) {
  helio::ProactorPool pool({.threads = 1});
  pool.Start();
  {
    ShardSet shards(&pool, kShards, 1);
    pool.at(0)->AwaitFiber("test", [&] {
      std::vector<std::pair<ShardId, helio::Message*>> letters;
      shards.set_post_hook([&](ShardId id, helio::Message* message) {
        letters.push_back({id, message});
      });
      const auto deliver = [&](bool to_shard_0) {
        for (int turn = 0; turn < 20; ++turn) {
          for (auto& [id, message] : std::exchange(letters, {})) {
            if (id == 0 && !to_shard_0) {
              letters.push_back({id, message});
            } else {
              message->run(message);
            }
          }
          helio::this_fiber::Yield();
        }
      };
      std::string ran;
      int alive = 0;
      const auto start = [&](char name, ShardId first, ShardId second) {
        ++alive;
        helio::Fiber("client", [&ran, &alive, &shards, name, first, second] {
          Transaction tx(&shards, nullptr);
          tx.Lock(first, {first + 1, LockMode::kExclusive});
          tx.Lock(second, {second + 1, LockMode::kExclusive});
          const auto note = [&](Shard& shard) { (ran += name) += std::to_string(shard.id()); };
          EXPECT_TRUE(tx.Run(note));
          --alive;
        }).Detach();
      };
      start('T', 0, 2);
      deliver(false);
      start('Z', 1, 2);
      deliver(false);
      EXPECT_EQ(ran, "");
      deliver(true);
      EXPECT_EQ(alive, 0);
      EXPECT_TRUE(ran == "T0T2Z1Z2" || ran == "T2T0Z1Z2" || ran == "T0T2Z2Z1") << ran;
      shards.set_post_hook(nullptr);
    });
  }
  pool.Stop();
}

// What waits for a slow script is refused, also while it is still being announced; what may not be
// refused, or waits for somebody else, is not.
TEST(TransactionTest, ThoseThatWaitForASlowScriptGiveUp) {
  helio::ProactorPool pool({.threads = 1});
  pool.Start();
  {
    ShardSet shards(&pool, kShards, 1);
    pool.at(0)->AwaitFiber("test", [&] {
      std::vector<std::pair<ShardId, helio::Message*>> letters;
      shards.set_post_hook([&](ShardId id, helio::Message* message) {
        letters.push_back({id, message});
      });
      ShardId closed = kShards;  // what is for it waits
      const auto deliver = [&] {
        for (int turn = 0; turn < 20; ++turn) {
          for (auto& [id, message] : std::exchange(letters, {})) {
            if (id == closed) {
              letters.push_back({id, message});
            } else {
              message->run(message);
            }
          }
          helio::this_fiber::Yield();
        }
      };
      std::string ends;  // a capital letter: it has run
      const auto start = [&](char name, std::vector<ShardId> ids, bool may_be_refused) {
        helio::Fiber("client", [&ends, &shards, name, ids, may_be_refused] {
          CoordinatorContext cx(&shards, nullptr, 0, INT64_MAX);
          cx.set_may_be_refused(may_be_refused);
          Transaction tx(cx);
          for (ShardId id : ids) tx.Lock(id, {id + 1, LockMode::kExclusive});
          const bool has_run = tx.Run([](Shard&) {});
          EXPECT_EQ(has_run, cx.refused_for() == Slow::kNone);
          ends += static_cast<char>(has_run ? name - 'a' + 'A' : name);
        }).Detach();
        deliver();
      };
      const auto take_ends = [&] {
        std::string taken = std::exchange(ends, "");
        std::sort(taken.begin(), taken.end());
        return taken;
      };

      Transaction script(&shards, nullptr);
      script.set_owner(&script);
      script.Lock(0, {1, LockMode::kExclusive});
      script.Lock(1, {2, LockMode::kExclusive});
      bool has_locks = false;
      bool may_end = false;
      helio::Fiber("script", [&] {
        has_locks = script.Schedule();
        while (!may_end) {
          const helio::BoundedWait wait(helio::kItsTurn);
          helio::this_fiber::Yield();
        }
        script.Conclude();
      }).Detach();
      deliver();
      EXPECT_TRUE(has_locks);

      start('a', {0, 2}, true);
      start('b', {1}, true);
      start('c', {0, 1, 3}, false);
      start('d', {2, 3}, true);  // waits for those two
      closed = 3;
      start('e', {1, 3}, true);
      EXPECT_EQ(take_ends(), "");
      shards.slow_scripts().Add(&script, Slow::kFunction);
      for (ShardId id = 0; id < kShards; ++id) {
        Transaction::RefuseWaiters(shards.local(id), &shards.slow_scripts());
      }
      deliver();
      EXPECT_EQ(take_ends(), "ab") << "e has yet to hear from its other shard";
      closed = kShards;
      deliver();
      EXPECT_EQ(take_ends(), "e");

      start('f', {0}, true);
      start('g', {0, 1, 2, 3}, true);
      start('h', {1}, false);
      start('i', {2}, true);  // behind d
      EXPECT_EQ(take_ends(), "fg");
      may_end = true;
      deliver();
      EXPECT_EQ(take_ends(), "CDHI");
      shards.slow_scripts().Remove(&script);
      for (ShardId id = 0; id < kShards; ++id) {
        EXPECT_TRUE(shards.local(id).transactions().empty());
      }
      shards.set_post_hook(nullptr);
    });
  }
  pool.Stop();
}

TEST(TransactionScheduleTest, EverySchedulesOperationsHaveAnOrder) {
#ifdef DFLY_SANITIZED
  const helio::SeedRange seeds = helio::TestSeeds(3000);
#else
  const helio::SeedRange seeds = helio::TestSeeds(60000);
#endif
  helio::ProactorPool pool({.threads = 1});
  pool.Start();
  {
    ShardSet shards(&pool, kShards, 1);
    std::string error;
    uint64_t seed = seeds.first;
    uint64_t retries = 0;
    uint64_t reserved = 0;
    uint64_t given_up = 0;
    pool.at(0)->AwaitFiber("schedules", [&] {
      for (; seed < seeds.end(); ++seed) {
        Random random(seed);
        pool.at(0)->scheduler().UseRandomOrder(random.Next());
        World world(&shards, random.Next());
        error = world.Run();
        retries += world.retries();
        reserved += world.reserved();
        given_up += world.given_up();
        if (!error.empty()) break;
      }
    });
    EXPECT_EQ(error, "") << "DFLY_SEED=" << seed;
    RecordProperty("retries", std::to_string(retries));
    RecordProperty("reserved", std::to_string(reserved));
    RecordProperty("given_up", std::to_string(given_up));
    if (!helio::IsReplay()) {
      EXPECT_GT(retries, seeds.count / 100) << "refusals were not tested";
      EXPECT_GT(given_up, seeds.count / 100) << "slow scripts were not tested";
      EXPECT_GT(reserved, 0u) << "places in advance were not tested";
    }
  }
  pool.Stop();
}

}  // namespace
}  // namespace dfly
