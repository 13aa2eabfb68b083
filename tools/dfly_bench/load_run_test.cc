// SPDX-License-Identifier: Apache-2.0
// Whole runs against a small server in this process, which answers as each test wants.
#include "tools/dfly_bench/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "facade/parsers/request_parser.h"
#include "helio/base/clock.h"
#include "helio/base/io_buf.h"
#include "helio/net/address.h"
#include "helio/net/listener.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor_pool.h"
#include "tools/dfly_bench/report.h"

namespace dfly::bench {
namespace {

using Arguments = std::span<const std::string_view>;
// What a request is answered with; kHangUp closes the connection, an empty string is no answer.
using AnswerFn = std::function<std::string(Arguments)>;
constexpr char kHangUp[] = "hang up";

class Peer final : public helio::Socket::Handler {
 public:
  Peer(int fd, const AnswerFn* answer, int* live) : answer_(*answer), live_(live) {
    ++*live_;
    socket_ = helio::Socket::Adopt(helio::Proactor::Current(), fd, this);
    socket_->StartRecv();
  }
  void OnRecv(std::string_view data) override {
    input_.Append(data);
    while (!closing_) {
      const RequestParser::Status status = parser_.Parse(input_.view());
      if (status == RequestParser::Status::kCommand) {
        const std::string reply = answer_(parser_.args());
        if (reply == kHangUp) return Close();
        output_ += reply;
      }
      input_.Consume(parser_.consumed());
      if (status != RequestParser::Status::kCommand) break;
    }
    Flush();
  }
  void OnRecvEnd(int) override {
    if (!closing_) Close();
  }
  void OnSent(int error) override {
    sending_ = false;
    if (error == 0 && !closing_) Flush();
  }
  void OnClosed() override {
    --*live_;
    delete this;
  }

 private:
  void Close() {
    closing_ = true;
    socket_->Close();
  }
  void Flush() {
    if (sending_ || output_.empty()) return;
    in_kernel_ = std::exchange(output_, "");
    sending_ = socket_->Send(in_kernel_, helio::Socket::SendMode::kNow) ==
               helio::Socket::SendResult::kPending;
  }

  const AnswerFn& answer_;
  int* const live_;
  std::unique_ptr<helio::Socket> socket_;
  RequestParser parser_;
  helio::IoBuf input_;
  std::string output_, in_kernel_;
  bool sending_ = false;
  bool closing_ = false;
};

class LoadRunTest : public testing::TestWithParam<bool> {  // P: epoll forced
 protected:
  void SetUp() override {
    pool_ = std::make_unique<helio::ProactorPool>(
        helio::ProactorPool::Options{.threads = 1, .force_epoll = GetParam()});
    pool_->Start();
    std::string error;
    const int fd = helio::ListenTcp("127.0.0.1", 0, 1024, &error);
    ASSERT_GE(fd, 0) << error;
    options_.port = helio::LocalPort(fd);
    options_.force_epoll = GetParam();
    options_.keys.maximum = 999;
    options_.requests = 100;
    options_.connections = 3;
    pool_->at(0)->Await([&] {
      listener_ = helio::Listener::Open(helio::Proactor::Current(), fd, [this](int accepted) {
        ++accepted_;
        new Peer(accepted, &answer_, &live_);
      });
    });
  }

  void TearDown() override {
    pool_->at(0)->AwaitFiber("close", [&] {
      listener_->Close();
      listener_.reset();
      while (live_ > 0) helio::this_fiber::Yield();
    });
    pool_->Stop();
  }

  LoadResult Run() {
    LoadResult result;
    std::string error;
    // What the test and the server's thread share (answer_ and what it counts) is handed over here.
    pool_->at(0)->Await([] {});
    EXPECT_TRUE(RunLoad(options_, &interrupt_, nullptr, &result, &error)) << error;
    pool_->at(0)->Await([] {});
    return result;
  }

  // A run that does not begin: what it says.
  std::string RunRefused() {
    LoadResult result;
    std::string error;
    pool_->at(0)->Await([] {});
    EXPECT_FALSE(RunLoad(options_, &interrupt_, nullptr, &result, &error));
    pool_->at(0)->Await([] {});
    return error;
  }

  LoadOptions options_;
  std::atomic<bool> interrupt_{false};
  AnswerFn answer_ = [](Arguments) { return "+OK\r\n"; };
  int accepted_ = 0;  // the server's thread only, or after a run
  int live_ = 0;

 private:
  std::unique_ptr<helio::ProactorPool> pool_;
  std::unique_ptr<helio::Listener> listener_;
};

INSTANTIATE_TEST_SUITE_P(Engines, LoadRunTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "epoll" : "io_uring"; });

TEST_P(LoadRunTest, EachConnectionSendsItsRequestsAndEachReplyIsCounted) {
  std::map<std::string, int> seen;
  answer_ = [&](Arguments arguments) -> std::string {
    ++seen[std::string(arguments[0])];
    return arguments[0] == "SET" ? "+OK\r\n" : seen["GET"] % 2 == 1 ? "$2\r\nab\r\n" : "$-1\r\n";
  };
  options_.threads = 2;
  options_.set_ratio = options_.get_ratio = 1;
  for (const uint32_t pipeline : {1u, 7u, 100u, 1000u}) {
    seen.clear();
    options_.pipeline = pipeline;
    const LoadResult result = Run();
    EXPECT_EQ(result.stats.replies, 600u);
    EXPECT_EQ(result.stats.latency_ns.count(), 600u);
    EXPECT_EQ(seen["SET"] + seen["GET"], 600);
    EXPECT_GT(seen["SET"], 200);
    EXPECT_GT(seen["GET"], 200);
    EXPECT_EQ(result.stats.hits + result.stats.misses, static_cast<uint64_t>(seen["GET"]));
    EXPECT_EQ(result.stats.hits, static_cast<uint64_t>(seen["GET"] + 1) / 2);
    EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
  }
  EXPECT_EQ(accepted_, 4 * 6);
}

TEST_P(LoadRunTest, SequentialKeysFillTheWholeRange) {
  std::multiset<std::string> keys;
  answer_ = [&](Arguments arguments) {
    keys.emplace(arguments[1]);
    EXPECT_EQ(arguments.back().size(), 33u);
    return "+OK\r\n";
  };
  options_.threads = 2;
  options_.connections = 5;
  options_.set_ratio = 1;
  options_.get_ratio = 0;
  options_.value_size = 33;
  options_.pipeline = 16;
  options_.keys.distribution = KeyDistribution::kSequential;
  Run();
  EXPECT_EQ(keys.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(keys.count("key:" + std::to_string(i)), 1u) << i;
}

TEST_P(LoadRunTest, AWindowLeavesOnlyWhenTheOneBeforeIsAnswered) {
  // Nine requests are swallowed and answered together with the tenth: only a client that sends ten
  // without waiting, and never eleven, gets on.
  int waiting = 0;
  answer_ = [&](Arguments) -> std::string {
    if (++waiting < 10) return "";
    waiting = 0;
    std::string replies;
    for (int i = 0; i < 10; ++i) replies += "+OK\r\n";
    return replies;
  };
  options_.connections = 1;
  options_.pipeline = 10;
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, 100u);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, LargeValuesGoBothWays) {
  const std::string large(3'000'000, 'v');
  answer_ = [&](Arguments arguments) -> std::string {
    if (arguments[0] == "GET") return "$3000000\r\n" + large + "\r\n";
    EXPECT_EQ(arguments[2].size(), large.size());
    return "+OK\r\n";
  };
  options_.requests = 5;
  options_.pipeline = 2;
  options_.value_size = 3'000'000;
  options_.set_ratio = options_.get_ratio = 1;
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, 15u);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, ThePasswordGoesFirstAndARefusalIsAFailure) {
  bool welcome = true;
  int requests = 0;
  answer_ = [&](Arguments arguments) -> std::string {
    if (arguments[0] != "AUTH") return ++requests, "+OK\r\n";
    EXPECT_EQ(arguments[1], "secret");
    return welcome ? "+OK\r\n" : "-WRONGPASS no\r\n";
  };
  options_.password = "secret";
  EXPECT_EQ(Run().stats.replies, 300u);
  EXPECT_EQ(requests, 300);
  welcome = false;
  const LoadResult refused = Run();
  EXPECT_EQ(requests, 300);
  EXPECT_EQ(refused.stats.connection_errors, 3u);
  EXPECT_EQ(refused.stats.first_error, "WRONGPASS no");
  EXPECT_FALSE(Succeeded(refused));
}

TEST_P(LoadRunTest, ErrorRepliesAreCountedAndTheFirstIsKept) {
  int count = 0;
  answer_ = [&](Arguments) -> std::string {
    return ++count == 5 ? "-OOM first\r\n" : count == 9 ? "-ERR second\r\n" : "+OK\r\n";
  };
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.error_replies, 2u);
  EXPECT_EQ(result.stats.first_error, "OOM first");
  EXPECT_EQ(result.stats.replies, 300u);
}

TEST_P(LoadRunTest, BrokenConnectionsAndProtocolErrorsFailTheRun) {
  int count = 0;
  answer_ = [&](Arguments) -> std::string { return ++count == 50 ? kHangUp : "+OK\r\n"; };
  const LoadResult broken = Run();
  EXPECT_EQ(broken.stats.connection_errors, 1u);
  EXPECT_EQ(broken.stats.unanswered, 1u);
  EXPECT_FALSE(Succeeded(broken));

  answer_ = [&](Arguments) -> std::string { return ++count % 20 == 0 ? "what?\r\n" : "+OK\r\n"; };
  const LoadResult garbage = Run();
  EXPECT_EQ(garbage.stats.protocol_errors, 3u);
  EXPECT_FALSE(Succeeded(garbage));

  answer_ = [&](Arguments) -> std::string { return "+OK\r\n+OK\r\n"; };
  EXPECT_EQ(Run().stats.protocol_errors, 3u) << "replies that nobody asked for";
}

TEST_P(LoadRunTest, ASilentServerIsGivenUp) {
  answer_ = [](Arguments) -> std::string { return ""; };
  options_.reply_timeout_s = 1;
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, 0u);
  EXPECT_EQ(result.stats.unanswered, 3u);
  EXPECT_EQ(result.stats.first_error, "the server does not answer");
  EXPECT_FALSE(Succeeded(result));
}

TEST_P(LoadRunTest, TestTimeEndsARunWithoutLosingReplies) {
  options_.requests = 0;
  options_.test_time_s = 1;
  options_.pipeline = 5;
  uint64_t answered = 0;
  answer_ = [&](Arguments) { return ++answered, "+OK\r\n"; };
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, answered);
  EXPECT_GT(result.stats.replies, 100u);
  EXPECT_NEAR(result.seconds, 1.0, 0.5);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, OpenLoopKeepsItsRate) {
  options_.qps = 1000;
  options_.requests = 500;
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, 1500u);
  EXPECT_GE(result.seconds, 0.498);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, OpenLoopChargesAStallToAllRequestsThatFellDue) {
  // The server answers nothing for the first 200 requests, which fall due over 0.2 seconds, and
  // then everything at once. A closed loop would see one slow request.
  int held = 0;
  answer_ = [&](Arguments) -> std::string {
    if (++held < 200) return "";
    std::string replies = "+OK\r\n";
    if (held == 200) {
      for (int i = 1; i < 200; ++i) replies += "+OK\r\n";
    }
    return replies;
  };
  options_.connections = 1;
  options_.qps = 1000;
  options_.requests = 400;
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, 400u);
  // The first waited 0.199 s, the hundredth half of it: a quarter of all waited for 0.1 s or more.
  EXPECT_GE(result.stats.latency_ns.max(), 195'000'000u);
  EXPECT_GE(result.stats.latency_ns.Percentile(76), 95'000'000u);
}

TEST_P(LoadRunTest, ConnectOnlySendsNothing) {
  int requests = 0;
  answer_ = [&](Arguments) { return ++requests, "+OK\r\n"; };
  options_.connect_only = true;
  options_.test_time_s = 1;
  options_.connections = 200;
  const LoadResult result = Run();
  EXPECT_EQ(requests, 0);
  EXPECT_EQ(accepted_, 200);
  EXPECT_EQ(result.connections, 200u);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, AnInterruptEndsTheRunInGoodOrder) {
  options_.requests = 0;
  options_.test_time_s = 100;
  int answered = 0;
  answer_ = [&](Arguments) {
    if (++answered == 1000) interrupt_ = true;
    return "+OK\r\n";
  };
  const LoadResult result = Run();
  EXPECT_TRUE(result.interrupted);
  EXPECT_GE(result.stats.replies, 1000u);
  EXPECT_LT(result.seconds, 50);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, AnInterruptDoesNotWaitForAPasswordToBeAccepted) {
  answer_ = [&](Arguments) -> std::string { return interrupt_ = true, ""; };
  options_.password = "secret";
  const LoadResult result = Run();
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stats.replies, 0u);
}

TEST_P(LoadRunTest, AReplayedScriptIsLoadedOnceAndThenCalledByItsSha) {
  const std::string sha(40, 'a');
  int loads = 0, calls = 0;
  answer_ = [&](Arguments arguments) -> std::string {
    if (arguments[0] == "AUTH") return "+OK\r\n";
    if (arguments[0] == "SCRIPT") return ++loads, "$40\r\n" + sha + "\r\n";
    EXPECT_EQ(arguments[0], "EVALSHA");
    EXPECT_EQ(arguments[1], sha);
    return ++calls, ":9\r\n";
  };
  options_.scenario = Scenario::kLuaLists;
  options_.password = "secret";
  const LoadResult result = Run();
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(calls, 300);
  EXPECT_EQ(result.stats.jobs, 300u);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST_P(LoadRunTest, AServerThatRefusesTheScriptIsToldBeforeTheRun) {
  std::string answer = "-ERR unknown command 'SCRIPT'\r\n";
  answer_ = [&](Arguments) { return answer; };
  options_.scenario = Scenario::kLuaLists;
  options_.reply_timeout_s = 1;
  const std::pair<const char*, const char*> cases[] = {
      {"-ERR unknown command 'SCRIPT'\r\n", "SCRIPT LOAD with: ERR unknown command 'SCRIPT'"},
      {"+OK\r\n", "no SHA1: 'OK'"},
      {kHangUp, "SCRIPT LOAD: the server closed"},
      {"what?\r\n", "SCRIPT LOAD: protocol error"},
      {"", "SCRIPT LOAD: Resource temporarily unavailable"}};
  for (const auto& [given, told] : cases) {
    answer = given;
    EXPECT_THAT(RunRefused(), testing::HasSubstr(told));
  }
}

TEST_P(LoadRunTest, AReplayEndsWithTheFirstErrorReply) {
  int calls = 0;
  answer_ = [&](Arguments arguments) -> std::string {
    if (arguments[0] == "SCRIPT") return "$40\r\n" + std::string(40, 'a') + "\r\n";
    return ++calls < 10 ? ":9\r\n" : "-ERR undeclared key\r\n";
  };
  options_.scenario = Scenario::kLuaLists;
  const LoadResult result = Run();
  EXPECT_EQ(result.stats.replies, 9u);
  EXPECT_EQ(result.stats.connection_errors, 3u);
  EXPECT_EQ(result.stats.first_error, "ERR undeclared key");
  EXPECT_FALSE(Succeeded(result));
}

TEST_P(LoadRunTest, OnlyPopsAreTimedAndCountedAsJobs) {
  int pushed = 0, popped = 0;
  answer_ = [&](Arguments arguments) -> std::string {
    if (arguments[0] == "LPUSH") return ++pushed, ":1\r\n";
    EXPECT_LT(popped, pushed) << "a pop that finds no job would wait";
    return ++popped, "*2\r\n$1\r\nq\r\n$1\r\nj\r\n";
  };
  options_.scenario = Scenario::kBrpop;
  options_.pipeline = 7;
  const LoadResult result = Run();
  EXPECT_EQ(pushed, 300);
  EXPECT_EQ(popped, 300);
  EXPECT_EQ(result.stats.replies, 600u);
  EXPECT_EQ(result.stats.jobs, 300u);
  EXPECT_EQ(result.stats.latency_ns.count(), 300u);
  EXPECT_TRUE(Succeeded(result)) << result.stats.first_error;
}

TEST(LoadOptionsTest, ARefusedConnectionIsToldWithItsAddress) {
  std::string error;
  const int fd = helio::ListenTcp("127.0.0.1", 0, 1, &error);
  LoadOptions options;
  options.port = helio::LocalPort(fd);
  options.requests = 1;
  close(fd);  // nobody listens there now
  LoadResult result;
  const std::atomic<bool> interrupt{false};
  EXPECT_FALSE(RunLoad(options, &interrupt, nullptr, &result, &error));
  EXPECT_THAT(error, testing::HasSubstr("127.0.0.1:" + std::to_string(options.port)));
}

TEST(LoadOptionsTest, UnboundedAndSenselessRunsAreRefused) {
  const auto problem = [](auto change) {
    LoadOptions options;
    options.requests = 10;
    EXPECT_EQ(CheckOptions(options), "");
    change(&options);
    return CheckOptions(options);
  };
  EXPECT_NE(problem([](LoadOptions* o) { o->requests = 0; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->connections = 0; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->pipeline = 0; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->qps = -1; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->qps = NAN; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->keys.minimum = 2; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->keys.maximum = 1ull << 60; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->connect_only = true; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->set_ratio = o->get_ratio = 0; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->command = "get '"; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->queues = 0; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->list_keys = "a b c d"; }), "");
  EXPECT_NE(problem([](LoadOptions* o) { o->scenario = Scenario::kBullmq; }), "");
  const auto problem_of_replay = [&](auto change) {
    return problem([&](LoadOptions* o) { o->scenario = Scenario::kBrpop, change(o); });
  };
  EXPECT_EQ(problem_of_replay([](LoadOptions*) {}), "");
  EXPECT_NE(problem_of_replay([](LoadOptions* o) { o->qps = 1; }), "");
  EXPECT_NE(problem_of_replay([](LoadOptions* o) { o->command = "get a"; }), "");
}

}  // namespace
}  // namespace dfly::bench
