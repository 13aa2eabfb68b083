// SPDX-License-Identifier: Apache-2.0
// What a thread keeps for reuse goes before a key is evicted or a write refused. (That it goes by
// itself when nobody uses it takes seconds: tests/test_memory_returns.py.)
#include <gtest/gtest.h>

#include <vector>

#include "server/all_parts.h"
#include "server/care/memory_use.h"
#include "server/care/pools.h"
#include "server/care/running_scripts.h"
#include "server/care/shard_care.h"
#include "server/run/server.h"
#include "server/schedules/test_options.h"

namespace dfly {
namespace {

TEST(PoolsTest, GoAtOnceWhenMemoryIsShort) {
  constexpr size_t kStates = 4;
  ServerOptions options = TestOptions();
  options.threads = 1;
  options.num_shards = 1;
  Server server(options, AllParts());
  ASSERT_EQ(server.Start(), "");
  server.state().pool.at(0)->Await([&] {  // one brief: no timer comes in between
    RunningScripts& scripts = RunningScripts::Here();
    helio::StackPool& stacks = scripts.worker().proactor.scheduler().stacks();
    std::vector<helio::Stack> in_use;
    for (int i = 0; i < 8; ++i) in_use.push_back(stacks.Get(64 << 10));
    for (helio::Stack stack : in_use) stacks.Put(stack);
    std::vector<Interpreter*> states;
    for (size_t i = 0; i < kStates; ++i) states.push_back(scripts.interpreters().TryTake());
    for (Interpreter* state : states) scripts.interpreters().GiveBack(state);
    EXPECT_TRUE(scripts.interpreters().ShrinkUnused(UINT64_MAX));
    EXPECT_EQ(scripts.interpreters().count(), kStates) << "they were in use until now";
    EXPECT_GE(stacks.kept(), 8u);
    scripts.CountInterpreters();
    MemoryUse::Here().Settle();

    server.state().settings.maxmemory = 1;
    scripts.worker().ForEachShard(
        [](Shard& shard) { EXPECT_FALSE(ShardCare::Here().MakeRoom(shard, {})); });
    EXPECT_EQ(stacks.kept(), 0u);
    EXPECT_LT(scripts.interpreters().count(), kStates);
    server.state().settings.maxmemory = 0;
  });
  server.Stop();
}

class Scratch final : public Pool {
 public:
  void Halve() override {}
  void Drop() override {}
  bool is_empty() const override { return true; }
  void ReleaseScratch() override { Release(&elements); }

  std::vector<int> elements;
};

TEST(PoolsTest, OnlyLargeScratchMemoryIsFreed) {
  Scratch scratch;
  scratch.elements.resize(100);
  scratch.ReleaseScratch();
  EXPECT_EQ(scratch.elements.size(), 100u);
  scratch.elements.resize(100'000);
  scratch.ReleaseScratch();
  EXPECT_EQ(scratch.elements.capacity(), 0u);
}

}  // namespace
}  // namespace dfly
