// SPDX-License-Identifier: Apache-2.0
// Replies that wait for what they tell to be durable.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "facade/connection_test_util.h"

namespace dfly {
namespace {

// A log that is as durable as a test says.
class ConnectionGateTest : public ConnectionTest {
 protected:
  void SetUp() override {
    ConnectionTest::SetUp();
    OnLoop([&] {
      buffers_.gate.Start([this](uint64_t) {
        ++asked_;
        return durable_;
      });
    });
  }
  void TearDown() override {
    OnLoop([&] { buffers_.gate.Stop(UINT64_MAX); });
    ConnectionTest::TearDown();
    EXPECT_FALSE(buffers_.gate.has_waiters());
  }
  void SetDurable(uint64_t epoch) {
    OnLoop([&] {
      durable_ = epoch;
      buffers_.gate.Open(epoch);
    });
  }
  void AwaitWaiters() {
    EXPECT_TRUE(WaitUntil([&] { return buffers_.gate.has_waiters(); }));
  }
  bool HasWaiters() {
    return OnLoop([&] { return buffers_.gate.has_waiters(); });
  }

  uint64_t durable_ = 0;
  std::atomic<int> asked_{0};
};

INSTANTIATE_TEST_SUITE_P(Engines, ConnectionGateTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "epoll" : "io_uring"; });

TEST_P(ConnectionGateTest, RepliesWaitForTheirEpochsAndCommandsDoNot) {
  const int fd = Connect();
  Send(fd, Request({"echo", "a"}) + Request({"await", "2", "b"}) + Request({"await", "1", "c"}) +
               Request({"await", "5", "d"}) + Request({"echo", "e"}));
  EXPECT_EQ(Receive(fd, Bulk("a").size()), Bulk("a"));
  AwaitWaiters();
  EXPECT_EQ(sink_->commands, 5u) << "all were executed";
  SetDurable(1);
  EXPECT_TRUE(HasWaiters());
  SetDurable(3);
  EXPECT_EQ(Receive(fd, 2 * Bulk("b").size()), Bulk("b") + Bulk("c"));
  AwaitWaiters();
  Send(fd, Request({"echo", "f"}));
  EXPECT_TRUE(WaitUntil([&] { return sink_->commands == 6; }));
  EXPECT_FALSE(Readable(fd, 0));
  SetDurable(5);
  EXPECT_EQ(Receive(fd, 3 * Bulk("d").size()), Bulk("d") + Bulk("e") + Bulk("f"));
  EXPECT_FALSE(HasWaiters());
}

TEST_P(ConnectionGateTest, WhatIsDurableMeanwhileIsSentAtOnce) {
  const int fd = Connect();
  OnLoop([&] { durable_ = 7; });
  ExpectExchange(fd, Request({"await", "7", "a"}), Bulk("a"));
  EXPECT_EQ(asked_, 1);
  ExpectExchange(fd, Request({"await", "6", "b"}), Bulk("b"));
  EXPECT_EQ(asked_, 1) << "the gate knows";
}

TEST_P(ConnectionGateTest, RepliesOfOtherShardsWaitToo) {
  const int fd = Connect();
  Send(fd, Request({"remote", "1", "4", "a"}) + Request({"echo", "b"}) +
               Request({"await", "6", "c"}) + Request({"remote", "2", "1", "d"}));
  AwaitWaiters();
  EXPECT_TRUE(WaitUntil([&] { return sink_->batches_alive == 0; }));
  EXPECT_FALSE(Readable(fd, 0));
  SetDurable(4);
  EXPECT_EQ(Receive(fd, 2 * Bulk("a").size()), Bulk("a") + Bulk("b"));
  SetDurable(6);
  EXPECT_EQ(Receive(fd, 2 * Bulk("c").size()), Bulk("c") + Bulk("d"));
}

TEST_P(ConnectionGateTest, ABarrierDoesNotWaitForEpochsNorDoesABusyCommand) {
  const int fd = Connect();
  Send(fd, Request({"remote", "1", "4", "a"}) + Request({"barrier", "b"}) + Request({"busy", "c"}) +
               Request({"echo", "d"}));
  EXPECT_TRUE(WaitUntil([&] { return sink_->commands >= 4 && sink_->fibers == 0; }));
  AwaitWaiters();
  SetDurable(4);
  EXPECT_EQ(Receive(fd, 4 * Bulk("a").size()), Bulk("a") + Bulk("b") + Bulk("c") + Bulk("d"));
}

TEST_P(ConnectionGateTest, AClientThatHasShutDownIsClosedWhenItHasItsReplies) {
  const int fd = Connect();
  Send(fd, Request({"await", "1", "a"}) + Request({"quit", "b"}));
  shutdown(fd, SHUT_WR);
  AwaitWaiters();
  SetDurable(1);
  EXPECT_EQ(ReceiveAll(fd), Bulk("a") + Bulk("b"));
}

TEST_P(ConnectionGateTest, AConnectionRestsWhenItsRepliesAreSent) {
  const int fd = Connect();
  Send(fd, Request({"await", "1", "a"}) + Request({"rest", "b"}));
  AwaitWaiters();
  EXPECT_EQ(sink_->rests, 0u);
  SetDurable(1);
  EXPECT_EQ(Receive(fd, 2 * Bulk("a").size()), Bulk("a") + Bulk("b"));
  EXPECT_TRUE(WaitUntil([&] { return sink_->rests > 0; }));
}

TEST_P(ConnectionGateTest, WhoIsClosedNowGetsOnlyWhatIsDurable) {
  const int fd = Connect();
  Send(fd, Request({"await", "1", "a"}) + Request({"await", "2", "b"}));
  AwaitWaiters();
  OnLoop([&] {
    durable_ = 1;
    connection_->SendAndCloseNow();
  });
  EXPECT_EQ(ReceiveAll(fd), Bulk("a"));
  EXPECT_FALSE(HasWaiters());
}

TEST_P(ConnectionGateTest, TheWaitOfWhatIsWatchedIsTimed) {
  const int fd = Connect();
  Send(fd, Request({"await", "1", "a"}));
  AwaitWaiters();
  SetDurable(1);
  EXPECT_EQ(Receive(fd, Bulk("a").size()), Bulk("a"));
  EXPECT_EQ(OnLoop([&] { return connection_->TakeGateCycles(); }), 0) << "nobody has asked";
  OnLoop([&] { connection_->WatchSend(); });
  Send(fd, Request({"await", "2", "b"}));
  AwaitWaiters();
  SetDurable(2);
  EXPECT_EQ(Receive(fd, Bulk("b").size()), Bulk("b"));
  EXPECT_GT(OnLoop([&] { return connection_->TakeGateCycles(); }), 0);
  EXPECT_EQ(OnLoop([&] { return connection_->TakeGateCycles(); }), 0);
}

TEST_P(ConnectionGateTest, WhenTheLogStopsNothingWaits) {
  const int fd = Connect();
  Send(fd, Request({"await", "9", "a"}));
  AwaitWaiters();
  OnLoop([&] { buffers_.gate.Stop(9); });
  EXPECT_EQ(Receive(fd, Bulk("a").size()), Bulk("a"));
  ExpectExchange(fd, Request({"await", "10", "b"}), Bulk("b"));
}

// Many connections with random commands, while epochs become durable one by one. Each reply comes,
// in order, and none before its epoch.
TEST_P(ConnectionGateTest, RandomEpochsKeepTheOrder) {
  Random random(helio::TestSeed());
  constexpr int kClients = 8;
  constexpr int kCommands = 60;
  struct Client {
    int fd;
    std::string expected;
    std::vector<std::pair<size_t, uint64_t>> ends;  // of replies, each with what it waits for
    std::string got;
  };
  std::vector<Client> clients(kClients);
  for (Client& client : clients) client.fd = Connect();
  uint64_t newest = 0;
  for (int i = 0; i < kCommands; ++i) {
    for (Client& client : clients) {
      const std::string text = std::to_string(i);
      const uint64_t epoch = random.OneIn(3) ? 0 : random.Between(newest / 2, newest + 1);
      newest = std::max(newest, epoch);
      const std::string e = std::to_string(epoch);
      switch (random.Uniform(4)) {
        case 0:
          Send(client.fd, Request({"remote", std::to_string(random.Uniform(3)), e, text}));
          break;
        case 1:
          Send(client.fd, Request({"echo", text}));
          client.expected += Bulk(text);
          continue;
        default:
          Send(client.fd, Request({"await", e, text}));
      }
      client.expected += Bulk(text);
      client.ends.emplace_back(client.expected.size(), epoch);
    }
  }
  for (uint64_t durable = 0; durable <= newest; ++durable) {
    SetDurable(durable);
    for (Client& client : clients) {
      while (Readable(client.fd, 0)) {
        char buffer[4096];
        const ssize_t got = read(client.fd, buffer, sizeof(buffer));
        ASSERT_GT(got, 0);
        client.got.append(buffer, static_cast<size_t>(got));
      }
      for (const auto& [end, epoch] : client.ends) {
        if (epoch > durable) {
          ASSERT_LT(client.got.size(), end) << "epoch " << epoch << " of " << durable;
        }
      }
    }
  }
  for (Client& client : clients) {
    client.got += Receive(client.fd, client.expected.size() - client.got.size());
    EXPECT_EQ(client.got, client.expected);
  }
}

}  // namespace
}  // namespace dfly
