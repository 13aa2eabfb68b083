// SPDX-License-Identifier: Apache-2.0
// Commands without a network: for the tests of the families.
//
//   class SetCommandsTest : public CommandsTest {};
//   TEST_P(SetCommandsTest, AddRefusesOtherTypeAndLeavesItAlone) {
//     Run("set s v");
//     EXPECT_EQ(Run("sadd s a"), kWrongType);
//     EXPECT_EQ(Run("get s"), "\"v\"");
//   }
//   INSTANTIATE_TEST_SUITE_P(Shards, SetCommandsTest, testing::Values(1, 4));
#pragma once

#include <absl/strings/str_join.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/spread.h"
#include "commands/testing/replica_check.h"
#include "engine/hops/coordinator.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/resp_reader.h"
#include "facade/replies/resp_writer.h"
#include "helio/fibers/no_suspend.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {

// One thread owns all shards; their number is the test's parameter. A command goes the way that
// dispatch takes: on the shard of its keys if they have one, else over a coordinator, on a fiber.
// The clock stands still unless a test moves it.
class CommandsTest : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr std::string_view kWrongType =
      "-WRONGTYPE Operation against a key holding the wrong kind of value";
  static constexpr std::string_view kNotInteger = "-ERR value is not an integer or out of range";
  static constexpr std::string_view kSyntaxError = "-ERR syntax error";

  explicit CommandsTest(size_t string_max = Shard::kStringMax) {
    RegisterStringCommands(&table_);
    RegisterKeyCommands(&table_);
    RegisterListCommands(&table_);
    RegisterZsetCommands(&table_);
    RegisterHashCommands(&table_);
    RegisterSetCommands(&table_);
    RegisterStreamCommands(&table_);
    RegisterBitmapCommands(&table_);
    RegisterHyperLogLogCommands(&table_);
    RegisterProbabilisticCommands(&table_);
    RegisterJsonCommands(&table_);
    pool_.Start();
    shards_ = std::make_unique<ShardSet>(&pool_, GetParam(), 16, string_max);
    replica_ = std::make_unique<ReplicaCheck>(&table_, shards_.get());
  }
  void TearDown() override { CheckReplica(); }
  ~CommandsTest() override {
    shards_->AwaitOnAll([](Shard& shard) { shard.CheckInvariants(); });
    replica_.reset();
    shards_.reset();
    pool_.Stop();
  }

  // The words stand between single spaces; '' is the empty one. The reply is RespValue's text:
  // +OK  -ERR x  :1  "bulk"  (nil)  [a, b]
  std::string Run(std::string_view line) {
    std::vector<std::string> words;
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(' ', begin), line.size());
      const std::string_view word = line.substr(begin, end - begin);
      words.emplace_back(word == "''" ? "" : word);
      begin = end + 1;
    }
    return RunWords(words);
  }
  std::string RunWords(const std::vector<std::string>& words) { return Call(words).ToString(); }
  RespValue Call(const std::vector<std::string>& words) {
    helio::IoBuf out;
    RespWriter writer(&out, resp3_);
    const std::vector<std::string_view> args(words.begin(), words.end());
    pool_.at(0)->AwaitFiber("command", [&] {
      Dispatch(args, writer);
      replica_->CatchUp();
    });
    return ReplyIn(out);
  }

  // Whoever knows only the effects of what was done has the same keys.
  void CheckReplica() {
    pool_.at(0)->AwaitFiber("check", [&] {
      EXPECT_EQ(replica_->Compare(now_ms_), "") << "the units:\n"
                                                << absl::StrJoin(replica_->TakeUnits(), "\n");
    });
  }
  // The effects of what was done since the last call.
  std::vector<std::string> Effects() { return replica_->TakeUnits(); }

  // Makes a key of a type that is no string.
  void MakeHash(std::string_view key) {
    EXPECT_EQ(RunWords({"hset", std::string(key), "field", "value"}), ":1");
  }

  int64_t now_ms_ = 1'700'000'000'000;
  int db_index_ = 0;
  bool resp3_ = false;
  CommandTable table_;
  helio::ProactorPool pool_{{.threads = 1, .force_epoll = true}};
  std::unique_ptr<ShardSet> shards_;
  std::unique_ptr<ReplicaCheck> replica_;

 private:
  static RespValue ReplyIn(const helio::IoBuf& out) {
    RespValue reply;
    EXPECT_EQ(ReadRespValue(out.view(), &reply), out.size()) << "not exactly one reply";
    return reply;
  }

  void Dispatch(Args args, ReplySink& reply) {
    DispatchForTest(table_, *shards_, db_index_, now_ms_, args, reply);
  }
};

}  // namespace dfly
