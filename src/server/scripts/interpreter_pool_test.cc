// SPDX-License-Identifier: Apache-2.0
#include "server/scripts/interpreter_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "facade/replies/resp_writer.h"
#include "helio/base/random.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {
namespace {

using helio::Random;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kMemoryMax = 16 << 20;

class InterpreterPoolTest : public testing::Test {
 protected:
  void SetUp() override { proactors_.Start(); }
  void TearDown() override {
    EXPECT_EQ(pool_.in_use(), 0u);
    EXPECT_LE(pool_.count(), 2u);
    proactors_.Stop();
  }

  void InFiber(std::function<void()> test) {
    proactors_.at(0)->AwaitFiber("test", std::move(test));
  }
  static void LetAllRun() {
    for (int i = 0; i < 20; ++i) helio::this_fiber::Yield();
  }
  // Takes one in a fiber of its own.
  void StartTake() {
    helio::Fiber("taker", [this] { taken_.push_back(pool_.Take(true)); }).Detach();
    LetAllRun();
  }
  // What those fibers have got since the last call.
  std::vector<Interpreter*> Taken() {
    LetAllRun();
    return std::exchange(taken_, {});
  }

  helio::ProactorPool proactors_{{.threads = 1}};
  InterpreterPool pool_{2, kMemoryMax};
  std::vector<Interpreter*> taken_;
};

TEST_F(InterpreterPoolTest, ThereAreNoMoreThanTheLimit) {
  EXPECT_EQ(pool_.count(), 0u) << "they are made when they are needed";
  Interpreter* const first = pool_.TryTake();
  Interpreter* const second = pool_.TryTake();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool_.TryTake(), nullptr);
  EXPECT_EQ(pool_.in_use(), 2u);
  pool_.GiveBack(first);
  EXPECT_EQ(pool_.in_use(), 1u);
  EXPECT_EQ(pool_.count(), 2u) << "it is kept";
  EXPECT_EQ(pool_.TryTake(), first);
  EXPECT_EQ(pool_.TryTake(), nullptr);
  pool_.GiveBack(second);
  pool_.GiveBack(first);
}

TEST_F(InterpreterPoolTest, TakeWaitsUntilOneIsGivenBack) {
  InFiber([&] {
    Interpreter* const first = pool_.Take(true);
    Interpreter* const second = pool_.Take(true);
    for (int i = 0; i < 3; ++i) StartTake();
    EXPECT_THAT(Taken(), IsEmpty());
    pool_.GiveBack(second);
    EXPECT_THAT(Taken(), ElementsAre(second));
    pool_.GiveBack(first);
    pool_.GiveBack(second);
    EXPECT_THAT(Taken(), testing::UnorderedElementsAre(first, second));
    EXPECT_EQ(pool_.count(), 2u);
    for (Interpreter* interpreter : {first, second}) pool_.GiveBack(interpreter);
  });
}

TEST_F(InterpreterPoolTest, WhileOneWaitsForLocksAnotherOneIsLetIn) {
  InFiber([&] {
    std::vector<Interpreter*> in_use = {pool_.Take(true), pool_.Take(true)};
    for (int i = 0; i < 3; ++i) StartTake();
    pool_.BeginWait();
    EXPECT_EQ(pool_.TryTake(), nullptr) << "who holds no locks is not waited for";
    std::vector<Interpreter*> extra = Taken();
    ASSERT_EQ(extra.size(), 1u);
    EXPECT_EQ(std::count(in_use.begin(), in_use.end(), extra[0]), 0);
    EXPECT_EQ(pool_.count(), 3u);
    pool_.EndWait();
    // That was one too many: the others come when there is room within the limit.
    pool_.GiveBack(in_use[0]);
    EXPECT_THAT(Taken(), IsEmpty());
    EXPECT_EQ(pool_.count(), 2u);
    pool_.GiveBack(in_use[1]);
    EXPECT_THAT(Taken(), ElementsAre(in_use[1]));
    pool_.GiveBack(in_use[1]);
    EXPECT_EQ(Taken().size(), 1u);
    EXPECT_EQ(pool_.count(), 2u);
    for (Interpreter* interpreter : {in_use[1], extra[0]}) pool_.GiveBack(interpreter);
  });
}

TEST_F(InterpreterPoolTest, WhoComesWhileOneWaitsForLocksIsLetInAtOnce) {
  InFiber([&] {
    std::vector<Interpreter*> in_use = {pool_.Take(true), pool_.Take(true)};
    for (int i = 0; i < 2; ++i) pool_.BeginWait();
    StartTake();
    StartTake();
    const std::vector<Interpreter*> extra = Taken();
    EXPECT_EQ(extra.size(), 2u);
    StartTake();
    EXPECT_THAT(Taken(), IsEmpty());
    for (Interpreter* interpreter : extra) pool_.GiveBack(interpreter);
    const std::vector<Interpreter*> last = Taken();
    EXPECT_EQ(last.size(), 1u);
    for (int i = 0; i < 2; ++i) pool_.EndWait();
    for (Interpreter* interpreter : last) pool_.GiveBack(interpreter);
    EXPECT_EQ(pool_.count(), 2u) << "those that were too many are gone";
    for (Interpreter* interpreter : in_use) pool_.GiveBack(interpreter);
    EXPECT_EQ(pool_.count(), 2u);
  });
}

TEST_F(InterpreterPoolTest, NobodyWhoHoldsNoLocksIsLetInBeyondTheLimit) {
  InFiber([&] {
    std::vector<Interpreter*> in_use = {pool_.Take(false), pool_.Take(false)};
    helio::Fiber("taker", [this] { taken_.push_back(pool_.Take(false)); }).Detach();
    LetAllRun();
    pool_.BeginWait();
    EXPECT_THAT(Taken(), IsEmpty());
    StartTake();
    const std::vector<Interpreter*> extra = Taken();
    ASSERT_EQ(extra.size(), 1u) << "he came later, and holds locks";
    pool_.GiveBack(in_use[0]);
    EXPECT_THAT(Taken(), IsEmpty()) << "it took the place of the one too many";
    pool_.EndWait();
    pool_.GiveBack(extra[0]);
    const std::vector<Interpreter*> last = Taken();
    ASSERT_EQ(last.size(), 1u);
    pool_.GiveBack(last[0]);
    pool_.GiveBack(in_use[1]);
    EXPECT_EQ(pool_.count(), 2u);
  });
}

TEST_F(InterpreterPoolTest, WhatWasCompiledIsForgottenWhenAllAreRenewed) {
  std::string error;
  Interpreter* const idle = pool_.TryTake();
  Interpreter* const busy = pool_.TryTake();
  for (Interpreter* interpreter : {idle, busy}) {
    ASSERT_TRUE(interpreter->Load("sha", "return 1", &error)) << error;
  }
  pool_.GiveBack(idle);
  ASSERT_TRUE(pool_.TryTake()->IsLoaded("sha"));
  pool_.GiveBack(idle);
  pool_.Renew();
  EXPECT_TRUE(busy->IsLoaded("sha")) << "a script runs in it";
  pool_.GiveBack(busy);
  EXPECT_EQ(pool_.count(), 2u);
  Interpreter* const both[] = {pool_.TryTake(), pool_.TryTake()};
  for (Interpreter* interpreter : both) {
    EXPECT_FALSE(interpreter->IsLoaded("sha"));
    ASSERT_TRUE(interpreter->Load("sha", "return 1", &error)) << error;
  }
  for (Interpreter* interpreter : both) pool_.GiveBack(interpreter);
  Interpreter* const again = pool_.TryTake();
  EXPECT_TRUE(again->IsLoaded("sha")) << "once only";
  pool_.GiveBack(again);
}

TEST_F(InterpreterPoolTest, MemoryIsThatOfAllInterpreters) {
  EXPECT_EQ(pool_.memory_used(), 0u);
  Interpreter* const first = pool_.TryTake();
  EXPECT_EQ(pool_.memory_used(), first->memory_used());
  Interpreter* const second = pool_.TryTake();
  EXPECT_EQ(pool_.memory_used(), first->memory_used() + second->memory_used());
  pool_.GiveBack(first);
  EXPECT_EQ(pool_.memory_used(), first->memory_used() + second->memory_used());
  pool_.GiveBack(second);
}

class NoHost : public ScriptHost {
 public:
  Verdict Call(Args, ReplySink&, bool) override { return Verdict::kAbandon; }
  Verdict Finish(ReplySink& reply) override {
    reply.Ok();
    return Verdict::kGoOn;
  }
  Verdict OnTick() override { return Verdict::kGoOn; }
  std::optional<bool> IsAllowed(Args) override { return {}; }
};

TEST_F(InterpreterPoolTest, GarbageOfScriptsIsCollectedInSteps) {
  InFiber([&] {
    Interpreter* const interpreter = pool_.TryTake();
    std::string error;
    ASSERT_TRUE(interpreter->Load(
        "sha", "local t = {} for i = 1, 50000 do t[i] = {i} end return #t", &error))
        << error;
    NoHost host;
    helio::IoBuf out;
    RespWriter reply(&out);
    interpreter->Run({.sha = "sha", .keys = {}, .args = {}}, &host, reply);
    pool_.GiveBack(interpreter);
    const InterpreterPool::Memory before = pool_.memory();
    EXPECT_GT(before.transient, 1u << 20);
    int turns = 1;
    // Until 0: the least that a turn does.
    while (pool_.Collect(InterpreterPool::kGarbageMin, 0)) ++turns;
    EXPECT_GT(turns, 10);
    EXPECT_EQ(pool_.memory().transient, 0u);
    EXPECT_LT(pool_.memory().used, before.used - (1 << 20));
    EXPECT_TRUE(interpreter->IsLoaded("sha")) << "it is not large any more";
  });
}

TEST_F(InterpreterPoolTest, ACollectionThatHasBegunEndsWithItsInterpreter) {
  InFiber([&] {
    Interpreter* const interpreter = pool_.TryTake();
    std::string error;
    const std::string large = "return '" + std::string(1 << 20, 'x') + "'";
    ASSERT_TRUE(interpreter->Load("large", large, &error)) << error;
    pool_.GiveBack(interpreter);
    EXPECT_TRUE(pool_.Collect(InterpreterPool::kGarbageMin, 0));
    pool_.Renew();
    EXPECT_FALSE(pool_.Collect(InterpreterPool::kGarbageMin, 0));
  });
}

TEST_F(InterpreterPoolTest, WhatKeepsMuchForgetsWhatItHasCompiled) {
  InterpreterPool pool(2, 256 << 20);
  InFiber([&] {
    Interpreter* const interpreter = pool.TryTake();
    std::string error;
    const std::string large = "return '" + std::string(InterpreterPool::kKeptMax + 1000, 'x') + "'";
    ASSERT_TRUE(interpreter->Load("large", large, &error)) << error;
    pool.GiveBack(interpreter);
    while (pool.Collect(InterpreterPool::kGarbageMin, 0)) continue;
    EXPECT_LT(pool.memory().used, 2u << 20);
    EXPECT_FALSE(interpreter->IsLoaded("large"));
  });
}

TEST_F(InterpreterPoolTest, AllThatIsFreeIsCollectedAndAllButOneGo) {
  Interpreter* const first = pool_.TryTake();
  Interpreter* const second = pool_.TryTake();
  pool_.GiveBack(first);
  pool_.GiveBack(second);
  pool_.Shrink();
  EXPECT_EQ(pool_.count(), 1u);
  EXPECT_EQ(pool_.TryTake(), second);
  pool_.GiveBack(second);
  pool_.Renew();
  EXPECT_EQ(pool_.memory_used(), 0u) << "at once";
}

// Scripts in an order from a seed. Those that wait for locks wait for one that has none yet and
// waits in Take, as its locks may be those: it must get one.
TEST_F(InterpreterPoolTest, AllComeToAnEndThoughSomeWaitForWhoHasNone) {
  InFiber([&] {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Random random(seed);
      int waiting_in_take = 0;
      int alive = 0;
      std::set<Interpreter*> in_use;
      for (int i = 0; i < 12; ++i) {
        ++alive;
        helio::Fiber("script", [&] {
          for (uint64_t n = random.Uniform(4); n > 0; --n) helio::this_fiber::Yield();
          ++waiting_in_take;
          Interpreter* const interpreter = pool_.Take(true);
          --waiting_in_take;
          EXPECT_TRUE(in_use.insert(interpreter).second) << "two have the same one";
          for (uint64_t n = random.Uniform(4); n > 0; --n) helio::this_fiber::Yield();
          if (random.OneIn(2)) {
            pool_.BeginWait();
            for (const int before = waiting_in_take; before > 0 && waiting_in_take >= before;) {
              helio::this_fiber::Yield();
            }
            pool_.EndWait();
          }
          in_use.erase(interpreter);
          pool_.GiveBack(interpreter);
          --alive;
        }).Detach();
      }
      int turns = 0;
      while (alive > 0 && ++turns < 10000) helio::this_fiber::Yield();
      ASSERT_EQ(alive, 0) << "seed " << seed;
      EXPECT_EQ(pool_.in_use(), 0u);
      EXPECT_LE(pool_.count(), 2u);
    }
  });
}

TEST_F(InterpreterPoolTest, WhatIsNotUsedGoesAndOneStays) {
  InterpreterPool pool(8, kMemoryMax);
  const auto use = [&pool](size_t count) {
    std::vector<Interpreter*> taken;
    for (size_t i = 0; i < count; ++i) taken.push_back(pool.TryTake());
    for (Interpreter* interpreter : taken) pool.GiveBack(interpreter);
  };
  use(5);
  EXPECT_TRUE(pool.ShrinkUnused(UINT64_MAX));
  EXPECT_EQ(pool.count(), 5u) << "all were in use";
  use(2);
  EXPECT_TRUE(pool.ShrinkUnused(UINT64_MAX));
  EXPECT_EQ(pool.count(), 3u) << "a half of those that were not";
  Interpreter* const busy = pool.TryTake();
  EXPECT_TRUE(pool.ShrinkUnused(0));
  EXPECT_EQ(pool.count(), 3u) << "no time";
  EXPECT_FALSE(pool.ShrinkUnused(UINT64_MAX));
  EXPECT_EQ(pool.count(), 2u) << "one is in use, one waits";
  pool.GiveBack(busy);
  while (pool.ShrinkUnused(UINT64_MAX)) {
  }
  EXPECT_EQ(pool.count(), 1u);
  EXPECT_FALSE(pool.ShrinkUnused(UINT64_MAX));
  EXPECT_EQ(pool.count(), 1u);
  EXPECT_EQ(pool.TryTake(), busy) << "the one that was used last";
  pool.GiveBack(busy);
}

}  // namespace
}  // namespace dfly
