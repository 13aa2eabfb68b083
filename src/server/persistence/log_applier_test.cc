// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/log_applier.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "commands/testing/replica_check.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "storage/snapshot_testing.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

struct Parts final : LoadedParts {
  std::string TakeExtras(const SnapshotExtras&) override { return ""; }
  std::string Apply(Args args) override {
    seen.emplace_back(args.all().begin(), args.all().end());
    return "";
  }
  void RunScript(CoordinatorContext& cx, Args args, ReplySink& reply) override {
    seen.emplace_back(args.all().begin(), args.all().end());
    // What stands before it in the log is done, also on other shards.
    for (size_t i = 3; i < args.size(); ++i) {
      const std::string key(args[i]);
      const bool is_there =
          cx.Hop(cx.shards().ShardOfKey(key, HashKey(key)),
                 [&](ShardContext& at) { return static_cast<bool>(at.Peek(key)); });
      if (!is_there) reply.Error("ERR it is not there yet");
    }
  }
  std::vector<Words> seen;
};

struct Started : helio::ProactorPool {
  Started() : ProactorPool({.threads = 2}) { Start(); }
  ~Started() { Stop(); }
};

class LogApplierTest : public testing::TestWithParam<uint32_t> {
 protected:
  LogApplierTest() {
    RegisterStringCommands(&table_);
    RegisterKeyCommands(&table_);
    RegisterListCommands(&table_);
    RegisterZsetCommands(&table_);
    RegisterHashCommands(&table_);
    RegisterSetCommands(&table_);
    RegisterStreamCommands(&table_);
    table_.Add({.name = "ping",
                .session = [](CommandClient&, Args, ReplySink&) { FAIL() << "nobody asks"; },
                .arity = -1});
    table_.Add({.name = "function",
                .session = [](CommandClient&, Args, ReplySink&) { FAIL() << "is of the parts"; },
                .arity = -2,
                .flags = kWrite});
    table_.Add({.name = "eval", .runs_script = true, .arity = -3});
    table_.Add({.name = "publish",
                .session = [](CommandClient&, Args, ReplySink&) { FAIL() << "nobody hears it"; },
                .arity = 3});
    shards_ = std::make_unique<ShardSet>(&pool_, GetParam(), 4);
  }

  void InFiber(const std::function<void()>& function) { pool_.at(0)->AwaitFiber("test", function); }
  static std::string Apply(ShardsApplier& applier, int db_index, const Words& words) {
    const std::vector<std::string_view> args(words.begin(), words.end());
    return applier.Apply(db_index, args);
  }
  // From a fiber.
  void Ask(ShardSet& shards, int db_index, const Words& words) {
    helio::IoBuf out;
    RespWriter writer(&out, false);
    const std::vector<std::string_view> args(words.begin(), words.end());
    DispatchForTest(table_, shards, db_index, 0, Args(args), writer);
  }

  CommandTable table_;
  Started pool_;
  Parts parts_;
  std::unique_ptr<ShardSet> shards_;
};

Words RandomCommand(helio::Random* random) {
  const auto key = [random] { return fmt::format("key {}", random->Uniform(20)); };
  const std::string value = fmt::format("v{}", random->Next() % 1000);
  switch (random->Uniform(20)) {
    case 0:
      return {"DEL", key(), key(), key()};
    case 1:
      return {"MSET", key(), value, key(), value, key(), "x" + value};
    case 2:
      return {"RENAME", key(), key()};
    case 3:
      return {"SUNIONSTORE", key(), key(), key()};
    case 4:
      return {"LMOVE", key(), key(), "LEFT", "RIGHT"};
    case 5:
      return random->OneIn(40) ? Words{"FLUSHDB"} : Words{"PING", "what"};
    case 6:
      return random->OneIn(10) ? Words{"SWAPDB", "0", "1"} : Words{"PERSIST", key()};
    case 7:
      return {"COPY", key(), key(), "REPLACE"};
    case 8:
    case 9:
      return {"SADD", key(), value, "a" + value};
    case 10:
    case 11:
      return {"RPUSH", key(), value};
    case 12:
      return {"SET", key(), value, "PXAT", "1000"};
    case 13:
      return {"SET", key(), std::string(random->Uniform(random->OneIn(50) ? 200'000 : 300), 'x')};
    case 14:
      return {"MSETNX", key(), value, key(), value};
    default:
      return {"APPEND", key(), value};
  }
}

TEST_P(LogApplierTest, ShardsHaveWhatCommandsOneByOneGive) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 10; ++round) {
    auto one_by_one = std::make_unique<ShardSet>(&pool_, 3, 4);
    InFiber([&] {
      shards_->AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kSync); });
      ShardsApplier applier(&table_, shards_.get(), &parts_);
      for (int i = 0; i < 3000; ++i) {
        const Words words = RandomCommand(&random);
        const int db_index = static_cast<int>(random.Uniform(3));
        ASSERT_EQ(Apply(applier, db_index, words), "");
        if (words[0] != "PING") Ask(*one_by_one, db_index, words);
      }
      EXPECT_EQ(applier.Finish(), "");
      EXPECT_EQ(testkit::ContentOf(*shards_), testkit::ContentOf(*one_by_one));
    });
  }
}

TEST_P(LogApplierTest, NothingIsDueAndFailuresAreCounted) {
  InFiber([&] {
    ShardsApplier applier(&table_, shards_.get(), &parts_);
    EXPECT_EQ(Apply(applier, 1, {"set", "k", "v", "PXAT", "1000"}), "");
    EXPECT_EQ(Apply(applier, 1, {"persist", "k"}), "");
    EXPECT_EQ(Apply(applier, 1, {"RPUSH", "k", "v"}), "");
    EXPECT_EQ(Apply(applier, 1, {"HSET", "k", "f", "v"}), "");
    EXPECT_EQ(applier.Finish(), "");
    EXPECT_EQ(applier.failed(), 2u);
    EXPECT_THAT(applier.first_failure(), HasSubstr("rpush: WRONGTYPE"));
    const testkit::StoreModel content = testkit::ContentOf(*shards_);
    ASSERT_EQ(content.size(), 1u);
    EXPECT_EQ(content.begin()->second.back(), "0 false") << "neither a deadline nor sticky";
  });
}

TEST_P(LogApplierTest, WhatIsNotForLogsEndsTheLoad) {
  InFiber([&] {
    ShardsApplier applier(&table_, shards_.get(), &parts_);
    EXPECT_THAT(Apply(applier, 0, {"NOPE", "k"}), HasSubstr("unknown command 'NOPE'"));
    EXPECT_THAT(Apply(applier, 0, {"SET", "k"}), HasSubstr("wrong number of arguments"));
    EXPECT_EQ(Apply(applier, 0, {"FUNCTION", "LOAD", "x"}), "");
    EXPECT_THAT(parts_.seen, ElementsAre(Words{"FUNCTION", "LOAD", "x"}));
    EXPECT_EQ(applier.Finish(), "");
  });
}

TEST_P(LogApplierTest, AScriptRunsBehindWhatStandsBeforeIt) {
  InFiber([&] {
    ShardsApplier applier(&table_, shards_.get(), &parts_);
    Words script = {"EVAL", "return 1", "40"};
    for (int i = 0; i < 40; ++i) {
      script.push_back(fmt::format("key {}", i));
      EXPECT_EQ(Apply(applier, 0, {"SET", script.back(), "v"}), "");
    }
    EXPECT_EQ(Apply(applier, 0, script), "");
    EXPECT_THAT(parts_.seen, ElementsAre(script));
    EXPECT_EQ(Apply(applier, 0, {"PUBLISH", "channel", "message"}), "");
    EXPECT_EQ(Apply(applier, 0, {"EVAL", "return 1", "1", "none"}), "") << "its error ends nothing";
    EXPECT_EQ(applier.Finish(), "");
    EXPECT_EQ(applier.failed(), 1u);
  });
}

INSTANTIATE_TEST_SUITE_P(Shards, LogApplierTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
