// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/request_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "facade/parsers/request_parser.h"

namespace dfly::bench {
namespace {

using testing::ElementsAre;

class RequestSourceTest : public testing::Test {
 protected:
  RequestSource Make() {
    ScriptCall call;
    std::vector<CommandArguments> commands;
    if (options_.scenario == Scenario::kBullmq) {
      call = {"s", {"__queue__:id"}, {"__packed_queue__", "__data__"}};
    } else {
      EXPECT_EQ(ScriptOfScenario(options_, &call), "");
    }
    EXPECT_EQ(MakeCommands(options_, call, "f00", &commands), "");
    return RequestSource(options_, commands, &values_);
  }

  // The arguments of one request.
  std::vector<std::string> Write(RequestSource* source, uint32_t connection, uint64_t request) {
    helio::IoBuf out;
    source->Write(connection, request, &keys_, &random_, &out);
    RequestParser parser;
    EXPECT_EQ(parser.Parse(out.view()), RequestParser::Status::kCommand);
    EXPECT_EQ(parser.consumed(), out.size());
    return {parser.args().begin(), parser.args().end()};
  }

  LoadOptions options_;
  ValuePool values_{5, 1};
  KeySource keys_{{.distribution = KeyDistribution::kSequential, .maximum = 1000}, 1};
  helio::Random random_{1};
};

TEST_F(RequestSourceTest, SetsAndGetsFollowTheRatio) {
  options_.set_ratio = 1;
  options_.get_ratio = 3;
  RequestSource source = Make();
  std::map<std::string, int> seen;
  for (uint64_t i = 0; i < 1000; ++i) ++seen[Write(&source, 0, i)[0]];
  EXPECT_NEAR(seen["SET"], 250, 60);
  EXPECT_EQ(seen["SET"] + seen["GET"], 1000);
  EXPECT_FALSE(source.IsPreparation(0));
}

TEST_F(RequestSourceTest, BullmqKeepsAQueueForEachConnectionOrTakesARandomOne) {
  options_.scenario = Scenario::kBullmq;
  options_.queues = 3;
  options_.requests = 10;
  options_.pipeline = 4;
  RequestSource source = Make();
  EXPECT_EQ(source.Total(), 10u);
  EXPECT_EQ(source.Window(8), 4u);
  const std::vector<std::string> arguments = Write(&source, 5, 0);
  ASSERT_EQ(arguments.size(), 6u);
  EXPECT_EQ(arguments[0], "EVALSHA");
  EXPECT_EQ(arguments[1], "f00");
  EXPECT_EQ(arguments[2], "1");
  EXPECT_EQ(arguments[3], "bull:q2:id");
  EXPECT_EQ(arguments[4],
            "\xa8"
            "bull:q2:");
  EXPECT_EQ(arguments[5].size(), 5u);
  EXPECT_EQ(Write(&source, 6, 1)[3], "bull:q0:id");

  options_.random_queues = true;
  std::set<std::string> seen;
  for (uint64_t i = 0; i < 100; ++i) seen.insert(Write(&source, 0, i)[3]);
  EXPECT_THAT(seen, ElementsAre("bull:q0:id", "bull:q1:id", "bull:q2:id"));
}

TEST_F(RequestSourceTest, EachTurnPushesAsManyJobsAsItPops) {
  options_.scenario = Scenario::kBrpop;
  options_.queues = 4;
  options_.requests = 12;  // turns of 5, 5 and 2 jobs
  options_.pipeline = 5;
  RequestSource source = Make();
  ASSERT_EQ(source.Total(), 24u);
  std::string order;
  std::vector<uint64_t> windows;
  for (uint64_t sent = 0; sent < source.Total(); sent += windows.back()) {
    windows.push_back(source.Window(sent));
    for (uint64_t i = sent; i < sent + windows.back(); ++i) {
      const std::string name = Write(&source, 0, i)[0];
      order += name[0];
      EXPECT_EQ(source.IsPreparation(i), name == "LPUSH") << i;
    }
  }
  EXPECT_EQ(order, "LLLLLBBBBBLLLLLBBBBBLLBB");
  EXPECT_THAT(windows, ElementsAre(5, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1, 2, 1, 1));
}

TEST_F(RequestSourceTest, PopsWaitForAllQueuesInRotatedOrders) {
  options_.scenario = Scenario::kBrpop;
  options_.queues = 3;
  options_.pipeline = 1;
  RequestSource source = Make();
  EXPECT_EQ(source.Total(), UINT64_MAX);
  std::set<std::vector<std::string>> pops;
  std::set<std::string> pushed;
  for (uint64_t i = 0; i < 200; i += 2) {
    pushed.insert(Write(&source, 0, i)[1]);
    pops.insert(Write(&source, 0, i + 1));
  }
  EXPECT_THAT(pushed, ElementsAre("queue:0", "queue:1", "queue:2"));
  EXPECT_THAT(pops, ElementsAre(ElementsAre("BRPOP", "queue:0", "queue:1", "queue:2", "2"),
                                ElementsAre("BRPOP", "queue:1", "queue:2", "queue:0", "2"),
                                ElementsAre("BRPOP", "queue:2", "queue:0", "queue:1", "2")));
}

TEST_F(RequestSourceTest, LuaListsDrawsItsKeysAnew) {
  options_.scenario = Scenario::kLuaLists;
  options_.list_keys = "__key__ x __key__ y z";
  RequestSource source = Make();
  std::vector<std::string> arguments = Write(&source, 0, 0);
  ASSERT_EQ(arguments.size(), 9u);
  arguments.pop_back();
  EXPECT_THAT(arguments, ElementsAre("EVALSHA", "f00", "5", "key:0", "x", "key:1", "y", "z"));
  EXPECT_EQ(Write(&source, 0, 1)[3], "key:2");
}

}  // namespace
}  // namespace dfly::bench
