// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/effects.h"

#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/types/hash_value.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/key_tag.h"
#include "engine/keyspace/shard_turn.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// "0 SET k v; 1 DEL k" for each unit.
class Log final : public EffectSink {
 public:
  uint64_t OnUnit(const Effects& effects, UnitOrigin) override {
    std::string text;
    effects.ForEach([&](int db_index, std::string_view resp) {
      if (!text.empty()) text += "; ";
      text += std::to_string(db_index);
      // Lines of "*n" and "$n" stand before what they are of.
      const std::vector<std::string> lines = absl::StrSplit(std::string(resp), "\r\n");
      for (size_t i = 2; i < lines.size(); i += 2) text += " " + lines[i];
    });
    const std::lock_guard guard(mutex_);
    units_.push_back(std::move(text));
    return ++epoch_;
  }
  std::vector<std::string> Units() {
    const std::lock_guard guard(mutex_);
    return std::exchange(units_, {});
  }

 private:
  helio::SpinLock mutex_;
  std::vector<std::string> units_;
  uint64_t epoch_ = 0;
};

using Words = std::vector<std::string_view>;

TEST(EffectsTest, CountsHaveAnyNumberOfDigits) {
  for (const size_t size : {0, 1, 9, 10, 99, 100, 999, 1000, 100'000}) {
    const std::string word(size, 'x');
    const Words words(size / 100 + 1, word);
    std::string expected = "*" + std::to_string(words.size()) + "\r\n";
    for (size_t i = 0; i < words.size(); ++i) {
      expected += "$" + std::to_string(size) + "\r\n" + word + "\r\n";
    }
    EXPECT_GE(CommandBytesMax(words), expected.size());
    Effects effects;
    effects.Add(0, words);
    effects.ForEach([&](int, std::string_view resp) { EXPECT_TRUE(resp == expected) << size; });
  }
}

TEST(EffectsTest, KeepsCommandsInTheirOrder) {
  Effects effects;
  effects.Add(0, Words{"SET", "k", ""});
  Effects others;
  others.Add(3, Words{"DEL", "\r\n"});
  effects.Append(others);
  std::vector<std::pair<int, std::string>> seen;
  const auto note = [&](int db_index, std::string_view resp) { seen.emplace_back(db_index, resp); };
  effects.ForEach(note);
  EXPECT_THAT(seen, ElementsAre(std::pair(0, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"),
                                std::pair(3, "*2\r\n$3\r\nDEL\r\n$2\r\n\r\n\r\n")));
  effects.Truncate(1);
  EXPECT_EQ(effects.size(), 1u);
  effects.Add(1, Words{"PING"});
  seen.clear();
  effects.ForEach(note);
  EXPECT_EQ(seen.back(), std::pair(1, std::string("*1\r\n$4\r\nPING\r\n")));
  effects.Clear();
  EXPECT_TRUE(effects.empty());
}

// Commands on one shard, as dispatch runs them.
class RecorderTest : public testing::Test {
 protected:
  RecorderTest() { shard_.set_recorder(&recorder_); }

  // `told`: what the handler says.
  template <typename Function>
  void Run(ShardTurn& turn, Words args, Function handler, EffectRule rule = EffectRule::kOwn) {
    ShardContext& cx = turn.Begin(0, now_ms_);
    const EffectScope scope(cx, rule, args);
    handler(cx);
  }
  void Set(ShardTurn& turn, std::string_view key) {
    Run(turn, {"set", key, "v"}, [&](ShardContext& cx) { cx.SetString(key, "v"); });
  }

  Log log_;
  EffectRecorder recorder_{&log_, true};
  Shard shard_{0, 2};
  int64_t now_ms_ = 1'000'000;
};

TEST_F(RecorderTest, ACommandIsItsOwnEffectUnlessItsHandlerSaysAnother) {
  ShardTurn turn(shard_);
  Set(turn, "a");
  Run(turn, {"setex", "b", "1", "v"}, [](ShardContext& cx) {
    cx.SetString("b", "v", {.deadline_ms = 1'001'000});
    cx.Tell("SET", "b", "v", "PXAT", 1001000);
  });
  EXPECT_THAT(log_.Units(), ElementsAre("0 set a v", "0 SET b v PXAT 1001000"));
}

TEST_F(RecorderTest, WhatChangesNothingHasNoEffect) {
  ShardTurn turn(shard_);
  Run(turn, {"del", "a"}, [](ShardContext& cx) { cx.Delete("a"); });
  Run(turn, {"spop", "a"}, [](ShardContext& cx) { cx.Tell("SREM", "a", "m"); });
  EXPECT_THAT(log_.Units(), ElementsAre());
}

TEST_F(RecorderTest, AnExecIsOneUnit) {
  {
    ShardTurn turn(shard_);
    turn.BeginUnit(nullptr);
    Set(turn, "a");
    Run(turn, {"del", "none"}, [](ShardContext& cx) { cx.Delete("none"); });
    Set(turn, "b");
    EXPECT_THAT(log_.Units(), ElementsAre());
    turn.EndUnit();
    Set(turn, "c");
  }
  EXPECT_THAT(log_.Units(), ElementsAre("0 set a v; 0 set b v", "0 set c v"));
}

TEST_F(RecorderTest, ATurnEndsOnlyTheUnitThatItHasBegun) {
  ShardTurn turn(shard_);
  turn.BeginUnit(nullptr);
  Set(turn, "a");
  { const ShardTurn inner(shard_); }
  Set(turn, "b");
  turn.EndUnit();
  EXPECT_THAT(log_.Units(), ElementsAre("0 set a v; 0 set b v"));
}

TEST_F(RecorderTest, WhatIsDueGoesFirst) {
  ShardTurn turn(shard_);
  Run(turn, {"set", "due", "v"},
      [&](ShardContext& cx) { cx.SetString("due", "v", {.deadline_ms = now_ms_ + 5}); });
  log_.Units();
  now_ms_ += 10;
  turn.BeginUnit(nullptr);
  Set(turn, "a");
  Run(turn, {"copy", "due", "b"}, [](ShardContext& cx) {
    cx.FindReadOnly("due");
    cx.SetString("b", "v");
  });
  turn.EndUnit();
  EXPECT_THAT(log_.Units(), ElementsAre("0 DEL due", "0 set a v; 0 copy due b"));
}

// A command has a key locked, and has seen it, or a member of it. Another one whose clock is later
// must not remove it before the effect of the first one is told.
TEST_F(RecorderTest, WhatIsLockedStaysUntilWhoHasSeenItEnds) {
  HashValue::RegisterType();
  const TagRules rules = {.locks_tags = true};
  shard_.set_tag_rules(&rules);
  ShardTurn turn(shard_);
  Run(turn, {"set", "{tag}k", "v"},
      [&](ShardContext& cx) { cx.SetString("{tag}k", "v", {.deadline_ms = now_ms_ + 5}); });
  Run(turn, {"hset", "{tag}h", "f", "v"}, [&](ShardContext& cx) {
    const auto value = cx.FindOrCreate("{tag}h", ValueType::kHash);
    HashValue::Create(&*value);
    HashValue hash(&*value, cx.now_ms());
    for (const char* field : {"f", "g"}) hash.Set(field, "v", cx.shard().hash_limit());
    hash.SetDeadline("f", now_ms_ + 5);
    cx.Changed("{tag}h", KeyEvent::kHSet);
  });
  turn.EndUnit();
  log_.Units();

  const std::vector<TagLock> tags = {{TagFingerprint(HashKey("tag"), 0), LockMode::kShared}};
  TxEntry entry;
  entry.tags = tags;
  entry.clock_ms = now_ms_;
  shard_.transactions().Hold(&entry);
  now_ms_ += 10;
  const auto sees_all = [&] {
    bool sees_all = false;
    Run(turn, {"hget", "{tag}h", "f"}, [&](ShardContext& cx) {
      const auto value = cx.FindReadOnly("{tag}h");
      sees_all = HashValue(*value, cx.now_ms()).Has("f") && cx.FindReadOnly("{tag}k");
    });
    return sees_all;
  };
  EXPECT_TRUE(sees_all());
  Run(turn, {"get", "{tag}k"}, [](ShardContext& cx) {
    EXPECT_TRUE(cx.FindReadOnly("{tag}k"));
    EXPECT_GE(*cx.GetDeadline("{tag}k").at_ms, cx.now_ms()) << "it has time left for all";
  });
  Set(turn, "b");
  EXPECT_THAT(log_.Units(), ElementsAre("0 set b v"));

  shard_.transactions().Release(&entry);
  EXPECT_FALSE(sees_all());
  Run(turn, {"get", "{tag}k"}, [](ShardContext& cx) { EXPECT_FALSE(cx.FindReadOnly("{tag}k")); });
  EXPECT_THAT(log_.Units(), ElementsAre("0 HDEL {tag}h f", "0 DEL {tag}k"));
}

TEST_F(RecorderTest, AnEvictionIsAUnitOrAPartOfTheOneThatGoesOn) {
  const auto evict = [&](std::string_view key) {
    shard_.OnMutation({.db_index = 0, .key = key, .kind = MutationKind::kEvicted});
  };
  ShardTurn turn(shard_);
  evict("x");
  turn.BeginUnit(nullptr);
  Set(turn, "a");
  evict("a");
  turn.EndUnit();
  EXPECT_THAT(log_.Units(), ElementsAre("0 DEL x", "0 set a v; 0 DEL a"));
}

TEST_F(RecorderTest, NotesTheEpochsOfKeys) {
  const FreshKeys& fresh = *recorder_.fresh_keys();
  const uint64_t a = HashKey("a");
  const uint64_t b = HashKey("b");
  ASSERT_NE(a % FreshKeys::kSlots, b % FreshKeys::kSlots);
  {
    ShardTurn turn(shard_);
    Set(turn, "a");
  }
  EXPECT_EQ(fresh.EpochOf(a), 1u);
  EXPECT_EQ(fresh.EpochOf(b), 0u);
  {
    ShardTurn turn(shard_);
    Set(turn, "b");
    Run(turn, {"DEL", "a"}, [](ShardContext& cx) { cx.Delete("a"); });
  }
  EXPECT_EQ(fresh.EpochOf(b), 2u);
  EXPECT_EQ(fresh.EpochOf(a), 3u);
  // A part of a unit that somebody else delivers.
  Unit unit;
  {
    ShardTurn turn(shard_);
    turn.BeginUnit(&unit);
    Set(turn, "a");
    turn.EndUnit();
  }
  EXPECT_EQ(fresh.EpochOf(a), FreshKeys::kUnknown);
  EXPECT_EQ(fresh.EpochOf(b), 2u);
}

TEST_F(RecorderTest, NotesTheEpochOfAFlush) {
  const FreshKeys& fresh = *recorder_.fresh_keys();
  const uint64_t hash = HashKey("b");
  {
    ShardTurn turn(shard_);
    Set(turn, "a");
    Run(turn, {"FLUSHDB"}, [](ShardContext& cx) { cx.shard().Flush(0, FlushMode::kSync); });
  }
  EXPECT_EQ(fresh.EpochOf(hash), 2u);
  Unit unit;
  {
    ShardTurn turn(shard_);
    Set(turn, "a");
    turn.BeginUnit(&unit);
    Run(turn, {"FLUSHDB"}, [](ShardContext& cx) { cx.shard().Flush(0, FlushMode::kSync); });
    turn.EndUnit();
  }
  EXPECT_EQ(fresh.EpochOf(hash), FreshKeys::kUnknown);
  // The unit is over once the shard has another one.
  {
    ShardTurn turn(shard_);
    Set(turn, "a");
  }
  EXPECT_EQ(fresh.EpochOf(hash), 4u);
}

TEST_F(RecorderTest, NobodyListens) {
  shard_.set_recorder(nullptr);
  ShardTurn turn(shard_);
  turn.BeginUnit(nullptr);
  Set(turn, "a");
  turn.EndUnit();
  EXPECT_FALSE(turn.cx().wants_effects());
  EXPECT_THAT(log_.Units(), ElementsAre());
}

// Over two shards.
class TransactionEffectsTest : public testing::Test {
 protected:
  TransactionEffectsTest() {
    pool_.Start();
    shards_ = std::make_unique<ShardSet>(&pool_, 2, 1);
    shards_->SetEffectSink(&log_);
  }
  ~TransactionEffectsTest() override {
    shards_.reset();
    pool_.Stop();
  }
  void Run(Words args, EffectRule rule, std::function<void(CoordinatorContext&)> command) {
    pool_.at(0)->AwaitFiber("command", [&] {
      CoordinatorContext cx(shards_.get(), nullptr, 0, 1000);
      cx.set_command(rule, args);
      command(cx);
    });
  }
  static void LockBoth(Transaction& tx, LockMode mode = LockMode::kExclusive) {
    for (ShardId id : {0u, 1u}) tx.Lock(id, {id, mode});
  }
  static void SetHere(ShardTurn& turn) {
    turn.Begin(0, 1000).SetString("k" + std::to_string(turn.shard().id()), "v");
  }

  // Calls command(cx) of MSET, and the sink becomes another one while that waits for its locks.
  void RunWhileSinkChanges(EffectSink* before, EffectSink* after,
                           const std::function<void(CoordinatorContext&)>& command) {
    pool_.at(0)->AwaitFiber("change", [&] {
      shards_->SetEffectSink(before);
      Transaction all(shards_.get(), nullptr);
      all.LockAllShards(LockMode::kExclusive);
      EXPECT_TRUE(all.Schedule());
      static constexpr helio::WaitReason kChange = {"the change", "it needs no locks"};
      std::optional<helio::BoundedWait> wait(kChange);
      const Words args = {"mset", "k0", "v", "k1", "v"};
      helio::Fiber fiber("command", [&] {
        CoordinatorContext cx(shards_.get(), nullptr, 0, 1000);
        cx.set_command(EffectRule::kOwn, args);
        command(cx);
      });
      while (HasNoWaiter(0)) helio::this_fiber::SleepForMillis(1);
      shards_->SetEffectSink(after);
      wait.reset();
      all.Conclude();
      fiber.Join();
    });
  }
  bool HasNoWaiter(ShardId id) {
    return shards_->Await(id, [](Shard& shard) {
      int count = 0;
      shard.transactions().ForEach([&count](const TxEntry&) { ++count; });
      return count < 2;
    });
  }

  Log log_;
  helio::ProactorPool pool_{{.threads = 2, .force_epoll = true}};
  std::unique_ptr<ShardSet> shards_;
};

TEST_F(TransactionEffectsTest, ACommandOverShardsIsOneEffectWhateverItsHops) {
  Run({"mset", "k0", "v", "k1", "v"}, EffectRule::kOwn, [&](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx);
    EXPECT_TRUE(tx.Run([&](ShardTurn& turn) { SetHere(turn); }));
    EXPECT_THAT(log_.Units(), ElementsAre("0 mset k0 v k1 v"));
  });
  Run({"rename", "k0", "k1"}, EffectRule::kOwn, [&](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx);
    EXPECT_TRUE(tx.Schedule());
    const ShardId ids[] = {0, 1};
    tx.HopOn({ids, 1}, [](ShardTurn& turn) { turn.Begin(0, 1000).Delete("k0"); });
    EXPECT_THAT(log_.Units(), ElementsAre());
    tx.HopAndConclude({ids + 1, 1}, [&](ShardTurn& turn) { SetHere(turn); });
    EXPECT_THAT(log_.Units(), ElementsAre("0 rename k0 k1"));
  });
}

TEST_F(TransactionEffectsTest, WhatReadsHasNone) {
  Run({"mget", "k0", "k1"}, EffectRule::kOwn, [&](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx, LockMode::kShared);
    EXPECT_TRUE(tx.Run([](ShardTurn& turn) { turn.Begin(0, 1000).FindReadOnly("k0"); }));
    EXPECT_FALSE(tx.records());
  });
  Run({"msetnx", "k0", "v"}, EffectRule::kOwn, [&](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx);
    EXPECT_TRUE(tx.Schedule());
    tx.Hop([](Shard&) {});
  });
  EXPECT_THAT(log_.Units(), ElementsAre());
}

TEST_F(TransactionEffectsTest, CommandsOfAnExecAreOneUnit) {
  Run({"exec"}, EffectRule::kNone, [&](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx);
    EXPECT_TRUE(tx.ScheduleAndHop([](ShardTurn& turn) {  // a command on each
      ShardContext& shard_cx = turn.Begin(0, 1000);
      const Words args = {"set", turn.shard().id() == 0 ? "k0" : "k1", "v"};
      const EffectScope scope(shard_cx, EffectRule::kOwn, args);
      shard_cx.SetString(args[1], "v");
    }));
    CoordinatorContext inner_cx(shards_.get(), nullptr, 0, 1000, &tx);
    const Words args = {"mset", "k0", "v", "k1", "v"};
    inner_cx.set_command(EffectRule::kOwn, args);
    {
      Transaction inner(inner_cx);
      LockBoth(inner);
      EXPECT_TRUE(inner.Run([](ShardTurn& turn) { SetHere(turn); }));
    }
    const Words popped = {"lmpop", "2", "k0", "k1", "LEFT"};
    inner_cx.set_command(EffectRule::kTold, popped);
    {
      Transaction inner(inner_cx);
      LockBoth(inner);
      EXPECT_TRUE(inner.Schedule());
      inner.Tell(0, "LPOP", "k0", 1);
      inner.Hop([](ShardTurn& turn) { SetHere(turn); });
    }
    EXPECT_THAT(log_.Units(), ElementsAre());
    tx.Conclude();
    EXPECT_THAT(log_.Units(), ElementsAre("0 set k0 v; 0 set k1 v; 0 mset k0 v k1 v; 0 LPOP k0 1"));
  });
}

TEST_F(TransactionEffectsTest, WhoHasAllLocksCollectsForItself) {
  Run({}, EffectRule::kNone, [&](CoordinatorContext& cx) {
    Unit unit;
    Transaction locked(&cx.shards(), Transaction::IsLocked(), &unit);
    CoordinatorContext inner_cx(shards_.get(), nullptr, 0, 1000, &locked);
    const Words args = {"mset", "k0", "v", "k1", "v"};
    inner_cx.set_command(EffectRule::kOwn, args);
    Transaction inner(inner_cx);
    LockBoth(inner);
    EXPECT_TRUE(inner.Run([](ShardTurn& turn) { SetHere(turn); }));
    EXPECT_EQ(unit.effects().size(), 1u);
  });
  EXPECT_THAT(log_.Units(), ElementsAre());
}

// The sink changes while all shards are locked, so who waits for locks has not asked yet.
TEST_F(TransactionEffectsTest, WhoWaitsForLocksTellsTheSinkThatIsThereThen) {
  const auto run = [](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx);
    EXPECT_TRUE(tx.Run([](ShardTurn& turn) { SetHere(turn); }));
  };
  const auto hop = [](CoordinatorContext& cx) {
    Transaction tx(cx);
    LockBoth(tx);
    EXPECT_TRUE(tx.Schedule());
    tx.Hop([](ShardTurn& turn) { SetHere(turn); });
  };
  const auto run_on_one = [](CoordinatorContext& cx) {
    Transaction tx(cx);
    tx.Lock(0, {0, LockMode::kExclusive});
    EXPECT_TRUE(tx.Run([](ShardTurn& turn) { SetHere(turn); }));
  };
  const auto hop_on_one = [](CoordinatorContext& cx) {
    Transaction tx(cx);
    tx.Lock(0, {0, LockMode::kExclusive});
    EXPECT_TRUE(tx.Schedule());
    tx.Hop([](ShardTurn& turn) { SetHere(turn); });
  };
  const std::function<void(CoordinatorContext&)> all[] = {run, hop, run_on_one, hop_on_one};
  Log other;
  for (const auto& command : all) {
    RunWhileSinkChanges(nullptr, &log_, command);
    EXPECT_THAT(log_.Units(), ElementsAre("0 mset k0 v k1 v"));
    RunWhileSinkChanges(&log_, &other, command);
    EXPECT_THAT(log_.Units(), ElementsAre());
    EXPECT_THAT(other.Units(), ElementsAre("0 mset k0 v k1 v"));
    RunWhileSinkChanges(&log_, nullptr, command);
    EXPECT_THAT(log_.Units(), ElementsAre());
  }
}

}  // namespace
}  // namespace dfly
