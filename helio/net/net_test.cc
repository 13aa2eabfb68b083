// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "helio/base/cycle_clock.h"
#include "helio/net/address.h"
#include "helio/net/listener.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor_pool.h"

namespace helio {
namespace {

// Sends back what it receives. Stops reading while a send is pending, so its memory stays bounded.
class Echo final : public Socket::Handler {
 public:
  Echo(int fd, Socket::SendMode mode, std::atomic<int>* live) : mode_(mode), live_(live) {
    ++*live_;
    socket_ = Socket::Adopt(Proactor::Current(), fd, this);
    socket_->StartRecv();
  }

  void OnRecv(std::string_view data) override {
    input_.append(data);
    AskForNext();
    Flush();
  }
  void OnRecvInto(size_t bytes) override {
    input_.append(room_.data(), bytes);
    AskForNext();
    Flush();
  }
  void OnRecvEnd(int) override {
    ended_ = true;
    if (!sending_) socket_->Close();
  }
  void OnSent(int error) override {
    sending_ = false;
    in_kernel_.clear();
    if (ended_ || error != 0) {
      socket_->Close();
      return;
    }
    Flush();
    if (!sending_) socket_->StartRecv();
  }
  void OnClosed() override {
    --*live_;
    delete this;
  }

 private:
  // Sometimes into a room of its own.
  void AskForNext() {
    ++asked_;
    if (asked_ % 8 < 4) return socket_->ReceiveInto({});
    room_.resize(asked_ % 3 == 0 ? 1000 : 100'000);
    socket_->ReceiveInto(room_);
  }
  void Flush() {
    if (sending_ || input_.empty()) return;
    in_kernel_.swap(input_);
    switch (socket_->Send(in_kernel_, mode_)) {
      case Socket::SendResult::kDone:
        in_kernel_.clear();
        break;
      case Socket::SendResult::kPending:
        sending_ = true;
        socket_->StopRecv();
        break;
      case Socket::SendResult::kBroken:
        break;  // OnRecvEnd follows
    }
  }

  const Socket::SendMode mode_;
  std::atomic<int>* const live_;
  std::unique_ptr<Socket> socket_;
  std::string input_;
  std::string in_kernel_;
  std::string room_;
  unsigned asked_ = 0;
  bool sending_ = false;
  bool ended_ = false;
};

using Param = std::tuple<bool, Socket::SendMode>;  // epoll forced, send mode

class EchoTest : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    pool_ = std::make_unique<ProactorPool>(
        ProactorPool::Options{.threads = 1, .force_epoll = std::get<0>(GetParam())});
    pool_->Start();
    std::string error;
    const int fd = ListenTcp("127.0.0.1", 0, 1024, &error);
    ASSERT_GE(fd, 0) << error;
    port_ = LocalPort(fd);
    pool_->at(0)->Await([&] {
      listener_ = Listener::Open(Proactor::Current(), fd, [this](int accepted) {
        new Echo(accepted, std::get<1>(GetParam()), &live_);
      });
    });
  }

  void TearDown() override {
    pool_->at(0)->AwaitFiber("close", [&] {
      listener_->Close();
      listener_.reset();
      while (live_ > 0) this_fiber::SleepForMillis(1);
    });
    pool_->Stop();
  }

  int Connect() {
    std::string error;
    const int fd = ConnectTcp("127.0.0.1", port_, &error);
    EXPECT_GE(fd, 0) << error;
    return fd;
  }

  static bool WaitFor(int fd, short events) {
    pollfd entry{fd, events, 0};
    return poll(&entry, 1, 60'000) == 1;
  }

  static std::string ReadExactly(int fd, size_t bytes) {
    std::string out;
    char buffer[65536];
    while (out.size() < bytes && WaitFor(fd, POLLIN)) {
      const ssize_t got = read(fd, buffer, std::min(sizeof(buffer), bytes - out.size()));
      if (got <= 0) break;
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }

  static void WriteAll(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno != EAGAIN || !WaitFor(fd, POLLOUT)) {
        return;
      }
    }
  }

  std::unique_ptr<ProactorPool> pool_;
  std::unique_ptr<Listener> listener_;
  std::atomic<int> live_{0};
  uint16_t port_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Engines, EchoTest,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Socket::SendMode::kNow,
                                                          Socket::SendMode::kBatch)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "epoll" : "io_uring") +
                                  (std::get<1>(info.param) == Socket::SendMode::kNow ? "_now"
                                                                                     : "_batch");
                         });

TEST_P(EchoTest, ReturnsWhatWasSent) {
  const int fd = Connect();
  for (int i = 0; i < 100; ++i) {
    const std::string text = "message " + std::to_string(i);
    WriteAll(fd, text);
    ASSERT_EQ(ReadExactly(fd, text.size()), text);
  }
  close(fd);
}

TEST_P(EchoTest, ManyConnectionsAtOnceMoreThanThereAreBuffers) {
  std::vector<int> fds;
  for (int i = 0; i < 400; ++i) fds.push_back(Connect());
  for (int round = 0; round < 5; ++round) {
    for (int fd : fds) WriteAll(fd, "ping");
    for (int fd : fds) ASSERT_EQ(ReadExactly(fd, 4), "ping");
  }
  for (int fd : fds) close(fd);
}

TEST_P(EchoTest, LargeTransfersSurviveBackPressure) {
  const int fd = Connect();
  std::string sent(16 * 1024 * 1024, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 / 13);
  std::thread writer([&] { WriteAll(fd, sent); });
  const std::string got = ReadExactly(fd, sent.size());
  writer.join();
  EXPECT_TRUE(got == sent);
  close(fd);
}

TEST_P(EchoTest, APeerThatVanishesWithDataInFlightIsForgotten) {
  for (int i = 0; i < 50; ++i) {
    const int fd = Connect();
    WriteAll(fd, std::string(200'000, 'x'));
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
  }
  // TearDown waits until all of them are closed.
}

// Counts what it receives, and looks then at what another one has.
struct Counter final : Socket::Handler {
  void OnRecv(std::string_view data) override {
    got.append(data);
    // As long as a turn: how many are in it is known then.
    const int64_t start = CycleClock::Now();
    while (is_slow && CycleClock::ToMicros(CycleClock::Now() - start) < 250) {
    }
    if (other != nullptr) other_had = other->got.size();
  }
  void OnRecvEnd(int) override { socket->Close(); }
  void OnSent(int) override {}
  void OnClosed() override { closed.set_value(); }

  std::unique_ptr<Socket> socket;
  std::string got;
  const Counter* other = nullptr;
  size_t other_had = 0;
  bool is_slow = false;
  std::promise<void> closed;
};

// What has arrived for one socket, however much, does not keep the others from theirs.
TEST_P(EchoTest, SocketsReceiveInTurns) {
  int much[2];
  int little[2];
  PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, much) == 0);
  PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, little) == 0);
  std::string sent;
  while (true) {
    std::string piece(16 * 1024, '\0');
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>((sent.size() + i) % 251);
    const ssize_t taken = send(much[0], piece.data(), piece.size(), MSG_NOSIGNAL);
    if (taken <= 0) break;
    sent.append(piece, 0, static_cast<size_t>(taken));
  }
  ASSERT_GT(sent.size(), 150'000u);
  ASSERT_EQ(send(little[0], "x", 1, MSG_NOSIGNAL), 1);
  Counter of_much;
  Counter of_little;
  of_much.is_slow = true;
  of_little.other = &of_much;
  pool_->at(0)->Await([&] {
    of_much.socket = Socket::Adopt(Proactor::Current(), much[1], &of_much);
    of_little.socket = Socket::Adopt(Proactor::Current(), little[1], &of_little);
    of_much.socket->StartRecv();
    of_little.socket->StartRecv();
  });
  close(much[0]);
  close(little[0]);
  of_much.closed.get_future().wait();
  of_little.closed.get_future().wait();
  EXPECT_EQ(of_little.got, "x");
  EXPECT_LT(of_little.other_had, sent.size() / 2);
  EXPECT_TRUE(of_much.got == sent);
  pool_->at(0)->Await([&] {
    of_much.socket.reset();
    of_little.socket.reset();
  });
}

TEST(AddressTest, UnixSocketsListenAndReplaceAStaleOne) {
  char directory[] = "/tmp/net_test_XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/s.sock";
  std::string error;
  const int first = ListenUnix(path, 0700, 16, &error);
  ASSERT_GE(first, 0) << error;
  close(first);  // leaves the file behind
  const int second = ListenUnix(path, 0, 16, &error);
  EXPECT_GE(second, 0) << error;
  EXPECT_EQ(LocalAddress(second), path + ":0");
  close(second);
  unlink(path.c_str());
  rmdir(directory);
  EXPECT_EQ(ListenUnix(std::string(200, 'x'), 0, 16, &error), -1);
}

TEST(AddressTest, ErrorsNameTheAddress) {
  std::string error;
  EXPECT_EQ(ListenTcp("192.0.2.1", 1, 16, &error), -1);
  EXPECT_NE(error.find("192.0.2.1"), std::string::npos) << error;
}

}  // namespace
}  // namespace helio
