// SPDX-License-Identifier: Apache-2.0
// Lifetimes and hang-ups, on both engines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

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
  alarm(60);  // it hangs: the signal ends the test
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
    while (!handler.ended) this_fiber::SleepForMillis(5);
  });
  pool.at(0)->Await([&] { handler.socket->Close(); });
  handler.closed.Wait();
  close(listening);
  pool.Stop();
}

// The kernel has more to hand out than the buffers hold, whenever the loop looks.
TEST_P(LifetimeTest, StopRecvHoldsBackALongStream) {
  ProactorPool pool({.threads = 1, .force_epoll = GetParam()});
  pool.Start();
  constexpr size_t kTotal = 32 << 20;
  struct H final : Socket::Handler {
    void OnRecv(std::string_view data) override {
      received += data.size();
      if (stop && received > 100'000) socket->StopRecv();
    }
    void OnRecvEnd(int) override { ended.Done(); }
    void OnSent(int) override {}
    void OnClosed() override { closed.Done(); }
    size_t received = 0;
    bool stop = true;
    BlockingCounter ended{1};
    BlockingCounter closed{1};
    std::unique_ptr<Socket> socket;
  } handler;
  std::string error;
  const int listening = ListenTcp("127.0.0.1", 0, 16, &error);
  const int client = ConnectTcp("127.0.0.1", LocalPort(listening), &error);
  const int server = accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  const int buffer = 4 << 20;
  setsockopt(server, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
  ASSERT_EQ(fcntl(client, F_SETFL, 0), 0);  // the writer waits
  std::thread writer([&] {
    const std::string piece(1 << 20, 'x');
    for (size_t sent = 0; sent < kTotal;) {
      const ssize_t n = send(client, piece.data(), piece.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
    shutdown(client, SHUT_WR);
  });
  // When the loop begins there is more than the kernel reads in one go, if it lets us have that.
  pool.at(0)->AwaitFiber("fill", [&] {
    for (int before = -1, bytes = 0; bytes == 0 || bytes != before;) {
      before = bytes;
      this_fiber::SleepForMillis(20);
      ASSERT_EQ(ioctl(server, FIONREAD, &bytes), 0);
    }
  });
  pool.at(0)->Await([&] {
    handler.socket = Socket::Adopt(Proactor::Current(), server, &handler);
    handler.socket->StartRecv();
  });
  size_t held_at = 0;
  pool.at(0)->AwaitFiber("wait", [&] {
    while (handler.received <= 100'000) this_fiber::SleepForMillis(1);
    do {
      held_at = handler.received;
      this_fiber::SleepForMillis(50);
    } while (held_at != handler.received);
  });
  // The buffers of the loop, twice, and what the kernel reads in one go.
  EXPECT_LT(held_at, size_t{6} << 20);
  pool.at(0)->Await([&] {
    handler.stop = false;
    handler.socket->StartRecv();
  });
  handler.ended.Wait();
  EXPECT_EQ(handler.received, kTotal);
  writer.join();
  pool.at(0)->Await([&] { handler.socket->Close(); });
  handler.closed.Wait();
  close(client);
  close(listening);
  pool.Stop();
}

}  // namespace
}  // namespace helio
