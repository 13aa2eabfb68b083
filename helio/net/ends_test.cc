// SPDX-License-Identifier: Apache-2.0
// The peer's end is told in every state of receiving, on both engines, for TCP and unix sockets.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "helio/net/address.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor_pool.h"

namespace helio {
namespace {

enum class State : uint8_t { kReceives, kStopped, kStoppedFromTheBeginning };
enum class End : uint8_t { kClose, kReset, kHalfClose };

struct Listening final : Socket::Handler {
  explicit Listening(int fd) : socket(Socket::Adopt(Proactor::Current(), fd, this)) {}
  void OnRecv(std::string_view data) override { bytes += data.size(); }
  void OnRecvEnd(int error) override {
    end_error = error;
    ++ends;
  }
  void OnPeerShutdown() override { ++shutdowns; }
  void OnSent(int) override {}
  void OnClosed() override { closed = true; }

  void Close() {
    socket->Close();
    while (!closed) this_fiber::SleepForMillis(1);
  }

  std::unique_ptr<Socket> socket;
  std::atomic<size_t> bytes = 0;
  std::atomic<int> ends = 0;
  std::atomic<int> shutdowns = 0;
  std::atomic<int> end_error = -1;
  bool closed = false;
};

// Two ends of a connection, the first one not blocking.
std::pair<int, int> Connect(bool is_tcp) {
  int fds[2];
  if (!is_tcp) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    return {fds[0], fds[1]};
  }
  std::string error;
  const int listener = ListenTcp("127.0.0.1", 0, 16, &error);
  EXPECT_GE(listener, 0) << error;
  const int peer = ConnectTcp("127.0.0.1", LocalPort(listener), &error);
  EXPECT_GE(peer, 0) << error;
  int fd = -1;
  while ((fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK)) < 0) {
  }
  close(listener);
  return {fd, peer};
}

void EndIt(int peer, End end) {
  if (end == End::kHalfClose) {
    shutdown(peer, SHUT_WR);
    return;
  }
  if (end == End::kReset) {
    const linger hard{1, 0};
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  close(peer);
}

// Blocking writes of a peer would wait for what nobody reads.
size_t SendSome(int peer, size_t bytes) {
  const std::string data(bytes, 'x');
  const ssize_t sent = send(peer, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? 0 : static_cast<size_t>(sent);
}

class EndsTest : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  void SetUp() override {
    pool_ = std::make_unique<ProactorPool>(
        ProactorPool::Options{.threads = 1, .force_epoll = std::get<0>(GetParam())});
    pool_->Start();
  }
  void TearDown() override { pool_->Stop(); }

  static bool is_tcp() { return std::get<1>(GetParam()); }
  template <typename Fn>
  void OnFiber(Fn fn) {
    pool_->at(0)->AwaitFiber("test", fn);
  }
  // A minute is for ever: no busy machine reaches it.
  static bool WaitFor(auto condition) {
    for (int i = 0; i < 60'000 && !condition(); ++i) this_fiber::SleepForMillis(1);
    return condition();
  }

  std::unique_ptr<ProactorPool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Engines, EndsTest, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Epoll" : "Uring") +
                                  (std::get<1>(info.param) ? "Tcp" : "Unix");
                         });

TEST_P(EndsTest, EachEndIsToldInEachState) {
  for (const State state : {State::kReceives, State::kStopped, State::kStoppedFromTheBeginning}) {
    for (const End end : {End::kClose, End::kReset, End::kHalfClose}) {
      for (const size_t bytes : {0, 100, 30'000}) {
        SCOPED_TRACE(testing::Message() << "state " << static_cast<int>(state) << ", end "
                                        << static_cast<int>(end) << ", " << bytes << " bytes");
        OnFiber([&] {
          const auto [fd, peer] = Connect(is_tcp());
          Listening listening(fd);
          if (state != State::kStoppedFromTheBeginning) listening.socket->StartRecv();
          this_fiber::SleepForMillis(1);
          if (state != State::kReceives) listening.socket->StopRecv();
          this_fiber::SleepForMillis(1);
          const size_t sent = SendSome(peer, bytes);
          EndIt(peer, end);
          if (state == State::kReceives) {
            EXPECT_TRUE(WaitFor([&] { return listening.ends == 1; }));
          } else {
            EXPECT_TRUE(WaitFor([&] { return listening.ends + listening.shutdowns > 0; }));
            // A connection that is broken is told as that. A unix socket's peer that is closed is
            // the one or the other.
            if (is_tcp()) {
              EXPECT_EQ(listening.ends, end == End::kReset ? 1 : 0);
            }
            listening.socket->StartRecv();
            EXPECT_TRUE(WaitFor([&] { return listening.ends == 1; }));
          }
          EXPECT_LE(listening.shutdowns, 1);
          if (end != End::kReset) {
            EXPECT_EQ(listening.bytes, sent);
            EXPECT_EQ(listening.end_error, 0);
          }
          listening.Close();
          if (end == End::kHalfClose) close(peer);
        });
      }
    }
  }
}

// As back-pressure does it: the end may come at any moment of starting and stopping.
TEST_P(EndsTest, NoEndIsLostWhileReceivingIsStoppedAndStarted) {
  Random random(TestSeed());
  OnFiber([&] {
    for (int round = 0; round < 1000; ++round) {
      const auto [fd, peer] = Connect(is_tcp());
      const End end = random.OneIn(2) ? End::kReset : End::kClose;
      Listening listening(fd);
      listening.socket->StartRecv();
      size_t sent = 0;
      const uint64_t end_at = random.Uniform(8);
      for (uint64_t step = 0; step < 8; ++step) {
        // All of it fits into what the kernel keeps: else TCP would hold the end back behind it.
        if (step < end_at && random.OneIn(2)) sent += SendSome(peer, 1 + random.Uniform(5'000));
        if (step == end_at) EndIt(peer, end);
        if (random.OneIn(2)) listening.socket->StopRecv();
        if (random.OneIn(2)) this_fiber::Yield();
        if (random.OneIn(2)) listening.socket->StartRecv();
        if (random.OneIn(2)) this_fiber::Yield();
      }
      listening.socket->StopRecv();
      ASSERT_TRUE(WaitFor([&] { return listening.ends + listening.shutdowns > 0; }));
      listening.socket->StartRecv();
      ASSERT_TRUE(WaitFor([&] { return listening.ends == 1; }));
      if (end == End::kClose) {
        EXPECT_EQ(listening.bytes, sent);
      }
      listening.Close();
    }
  });
}

// The end lies behind what nobody reads: it must not be told again and again.
TEST_P(EndsTest, TheLoopSleepsBesideAnEndThatNobodyReadsTo) {
  OnFiber([&] {
    const auto [fd, peer] = Connect(is_tcp());
    Listening listening(fd);
    listening.socket->StartRecv();
    listening.socket->StopRecv();
    this_fiber::SleepForMillis(1);
    EXPECT_GT(SendSome(peer, 1000), 0u);
    EndIt(peer, End::kHalfClose);
    EXPECT_TRUE(WaitFor([&] { return listening.shutdowns == 1; }));
    const uint64_t before = Proactor::Current()->stats().iterations;
    constexpr int kSleeps = 200;
    for (int i = 0; i < kSleeps; ++i) this_fiber::SleepForMillis(1);
    // Each sleep is an iteration or two. A loop that spins makes some hundreds of it.
    EXPECT_LT(Proactor::Current()->stats().iterations - before, uint64_t{kSleeps} * 10);
    // A reset behind it is found by a look.
    EndIt(peer, End::kReset);
    EXPECT_TRUE(WaitFor([&] {
      if (listening.ends == 0) listening.socket->Recheck();
      return listening.ends == 1;
    }));
    listening.Close();
  });
}

// A socket that was neither started nor stopped is not watched: as if the kernel had lost the end.
TEST_P(EndsTest, ALookAtTheSocketFindsAnEndThatNothingHasTold) {
  for (const End end : {End::kClose, End::kHalfClose}) {
    OnFiber([&] {
      const auto [fd, peer] = Connect(is_tcp());
      Listening listening(fd);
      EXPECT_FALSE(listening.socket->Recheck());
      EndIt(peer, end);
      if (listening.ends == 0) {
        // The first look leaves the kernel time to tell it.
        const bool is_told_by_now = listening.socket->Recheck();
        EXPECT_FALSE(is_told_by_now);
        EXPECT_TRUE(WaitFor([&] {
          listening.socket->Recheck();
          return listening.ends + listening.shutdowns > 0;
        }));
        listening.socket->StartRecv();
        EXPECT_TRUE(WaitFor([&] { return listening.ends == 1; }));
        EXPECT_FALSE(listening.socket->Recheck());
      }
      listening.Close();
      if (end == End::kHalfClose) close(peer);
    });
  }
}

}  // namespace
}  // namespace helio
