// SPDX-License-Identifier: Apache-2.0
// Lifetimes and hang-ups, on both engines.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "helio/net/address.h"
#include "helio/net/listener.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor_pool.h"

namespace helio {
namespace {

class LifetimeTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Engines, LifetimeTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "epoll" : "io_uring"; });

// The handler has work under way when the peer resets, so it closes later.
struct Lingering final : Socket::Handler {
  void OnRecv(std::string_view) override {}
  void OnRecvEnd(int) override { ended.Done(); }
  void OnSent(int) override {}
  void OnClosed() override { closed.Done(); }
  std::unique_ptr<Socket> socket;
  BlockingCounter ended{1};
  BlockingCounter closed{1};
};

TEST_P(LifetimeTest, ALoopSleepsWhileAResetConnectionWaitsToBeClosed) {
  ProactorPool pool({.threads = 1, .force_epoll = GetParam()});
  pool.Start();
  std::string error;
  const int listening = ListenTcp("127.0.0.1", 0, 16, &error);
  const int client = ConnectTcp("127.0.0.1", LocalPort(listening), &error);
  const int server = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  Lingering handler;
  pool.at(0)->Await([&] {
    handler.socket = Socket::Adopt(Proactor::Current(), server, &handler);
    handler.socket->StartRecv();
  });
  const linger reset{1, 0};
  setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close(client);
  handler.ended.Wait();
  uint64_t before = 0, after = 0;
  pool.at(0)->AwaitFiber("sleep", [&] {
    before = Proactor::Current()->stats().iterations;
    this_fiber::SleepForMillis(100);
    after = Proactor::Current()->stats().iterations;
  });
  EXPECT_LE(after - before, 12u);
  pool.at(0)->Await([&] { handler.socket->Close(); });
  handler.closed.Wait();
  close(listening);
  pool.Stop();
}

TEST_P(LifetimeTest, APeriodicTaskMayRemoveItself) {
  ProactorPool pool({.threads = 1, .force_epoll = GetParam()});
  pool.Start();
  BlockingCounter ran(1);
  std::string seen;
  pool.at(0)->Await([&] {
    auto id = std::make_shared<uint64_t>();
    *id = Proactor::Current()->AddPeriodic(1, [id, &ran, &seen, text = std::string(100, 'x')] {
      Proactor::Current()->RemovePeriodic(*id);
      seen = text;
      ran.Done();
    });
  });
  ran.Wait();
  EXPECT_EQ(seen, std::string(100, 'x'));
  pool.Stop();
}

TEST_P(LifetimeTest, ThePoolStopsAlsoWhenALastFiberAsksALoopThatIsDone) {
  ProactorPool pool({.threads = 2, .force_epoll = GetParam()});
  pool.Start();
  std::atomic<bool> answered{false};
  pool.at(1)->DispatchFiber("late", [&] {
    this_fiber::SleepForMillis(50);  // at(0) has left its loop by now
    pool.at(0)->Await([] {});
    answered = true;
  });
  alarm(5);  // it hangs: the signal ends the test
  pool.Stop();
  alarm(0);
  EXPECT_TRUE(answered);
}

// Paused for back-pressure; the peer goes away for good.
TEST_P(LifetimeTest, AResetIsNoticedWhileReceivingIsStopped) {
  ProactorPool pool({.threads = 1, .force_epoll = GetParam()});
  pool.Start();
  std::string error;
  const int listening = ListenTcp("127.0.0.1", 0, 16, &error);
  const int client = ConnectTcp("127.0.0.1", LocalPort(listening), &error);
  const int server = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  struct H final : Socket::Handler {
    void OnRecv(std::string_view) override {}
    void OnRecvEnd(int) override { ended = true; }
    void OnSent(int) override {}
    void OnClosed() override { closed.Done(); }
    std::atomic<bool> ended{false};
    BlockingCounter closed{1};
    std::unique_ptr<Socket> socket;
  } handler;
  pool.at(0)->Await([&] {
    handler.socket = Socket::Adopt(Proactor::Current(), server, &handler);
    handler.socket->StartRecv();
  });
  pool.at(0)->AwaitFiber("stop", [&] {
    this_fiber::SleepForMillis(10);
    handler.socket->StopRecv();
    this_fiber::SleepForMillis(10);
  });
  const linger reset{1, 0};
  setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close(client);
  pool.at(0)->AwaitFiber("wait", [&] {
    for (int i = 0; i < 100 && !handler.ended; ++i) this_fiber::SleepForMillis(5);
  });
  EXPECT_TRUE(handler.ended);
  pool.at(0)->Await([&] { handler.socket->Close(); });
  handler.closed.Wait();
  close(listening);
  pool.Stop();
}

}  // namespace
}  // namespace helio
