// SPDX-License-Identifier: Apache-2.0
// Sockets whose descriptor goes from one proactor to another while data arrives.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "helio/base/random.h"
#include "helio/net/address.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor_pool.h"

namespace helio {
namespace {

// Collects what it receives, and moves again and again.
class Traveller final : public Socket::Handler {
 public:
  Traveller(ProactorPool* pool, int fd, uint64_t seed) : pool_(*pool), random_(seed) { Settle(fd); }

  void OnRecv(std::string_view data) override {
    got_.append(TakeSome(data));
    received_.store(got_.size(), std::memory_order_relaxed);
    if (detaching_) return;
    switch (random_.Uniform(4)) {
      case 0:
        socket_->StopRecv();  // which leaves a poll behind
        socket_->StartRecv();
        break;
      case 1:
        socket_->StopRecv();
        [[fallthrough]];
      case 2:
        detaching_ = true;
        socket_->Detach();
        break;
      default:
        break;
    }
  }
  void OnRecvEnd(int error) override {
    error_ = error;
    socket_->Close();
  }
  void OnSent(int) override {}
  void OnDetached() override {
    const int fd = socket_->fd();
    socket_.reset();
    ++moves_;
    const auto next = static_cast<uint32_t>(random_.Uniform(pool_.size()));
    pool_.at(next)->Dispatch([this, fd] { Settle(fd); });
  }
  void OnClosed() override { closed_.set_value(); }

  void AwaitEnd() { closed_.get_future().wait(); }
  size_t received() const { return received_.load(std::memory_order_relaxed); }  // thread: any
  const std::string& got() const { return got_; }
  int error() const { return error_; }
  int moves() const { return moves_; }
  int given_back() const { return given_back_; }

 private:
  // Now and then some of it is for the next turn.
  std::string_view TakeSome(std::string_view data) {
    if (Proactor::Current()->engine() != Proactor::Engine::kIoUring || random_.Uniform(4) != 0)
      return data;
    while (!socket_->IsTurnOver()) {
    }
    const size_t taken = 1 + random_.Uniform(data.size());
    if (taken == data.size()) return data;
    ++given_back_;
    EXPECT_TRUE(socket_->GiveBack(data.size() - taken));
    return data.substr(0, taken);
  }

  void Settle(int fd) {
    detaching_ = false;
    socket_ = Socket::Adopt(Proactor::Current(), fd, this);
    socket_->StartRecv();
  }

  ProactorPool& pool_;
  Random random_;
  std::unique_ptr<Socket> socket_;
  std::string got_;
  std::atomic<size_t> received_{0};
  bool detaching_ = false;
  int error_ = -1;
  int moves_ = 0;
  int given_back_ = 0;
  std::promise<void> closed_;
};

using Param = std::tuple<bool, bool>;  // epoll forced, unix sockets

class DetachTest : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    pool_ = std::make_unique<ProactorPool>(
        ProactorPool::Options{.threads = 3, .force_epoll = std::get<0>(GetParam())});
    pool_->Start();
  }
  void TearDown() override { pool_->Stop(); }

  // Connected; the second one does not block.
  std::pair<int, int> Pair() {
    if (std::get<1>(GetParam())) {
      int fds[2];
      PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
      return {fds[0], SetNonBlocking(fds[1])};
    }
    std::string error;
    const int listener = ListenTcp("127.0.0.1", 0, 1, &error);
    CHECK_GE(listener, 0) << error;
    const int client = ConnectTcp("127.0.0.1", LocalPort(listener), &error);
    CHECK_GE(client, 0) << error;
    int accepted = -1;
    while (accepted < 0) accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    return {client, SetNonBlocking(accepted)};
  }
  static int SetNonBlocking(int fd) {
    PCHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
    return fd;
  }
  static void WriteAll(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::unique_ptr<ProactorPool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Engines, DetachTest, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "epoll" : "io_uring") +
                                  (std::get<1>(info.param) ? "_unix" : "_tcp");
                         });

TEST_P(DetachTest, NoByteIsLostOnTheWay) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const auto [writer, fd] = Pair();
    std::unique_ptr<Traveller> traveller;
    pool_->at(0)->Await(
        [&, fd = fd] { traveller = std::make_unique<Traveller>(pool_.get(), fd, seed); });
    Random random(seed);
    std::string sent;
    while (sent.size() < 3'000'000) {
      const size_t size = 1 + random.Uniform(random.OneIn(10) ? 200'000 : 3000);
      std::string piece(size, '\0');
      for (char& byte : piece) byte = static_cast<char>(random.Next());
      WriteAll(writer, piece);
      sent += piece;
      // While data streams in a cancellation may miss a receive again and again.
      if (random.OneIn(10)) {
        while (traveller->received() < sent.size()) std::this_thread::yield();
      }
    }
    close(writer);
    traveller->AwaitEnd();
    EXPECT_TRUE(traveller->got() == sent) << "seed " << seed;
    EXPECT_EQ(traveller->error(), 0);
    EXPECT_GT(traveller->moves(), 10);
    EXPECT_EQ(traveller->given_back() > 0, !std::get<0>(GetParam()));
  }
}

TEST_P(DetachTest, ASocketThatIsClosedMeanwhileEndsOnce) {
  // Closed in the iteration of Detach, or in one of the next.
  struct H final : Socket::Handler {
    void OnRecv(std::string_view) override {}
    void OnRecvEnd(int) override {}
    void OnSent(int) override {}
    void OnDetached() override { is_detached = true; }
    void OnClosed() override { closed.set_value(); }
    std::unique_ptr<Socket> socket;
    std::promise<void> closed;
    std::atomic<bool> is_detached{false};
  };
  for (int i = 0; i < 50; ++i) {
    const auto [writer, fd] = Pair();
    H handler;
    pool_->at(0)->Await([&, fd = fd] {
      handler.socket = Socket::Adopt(Proactor::Current(), fd, &handler);
      handler.socket->StartRecv();
      if (i % 2 == 1) handler.socket->StopRecv();
    });
    pool_->at(0)->Await([&] {
      handler.socket->Detach();
      handler.socket->Close();
    });
    handler.closed.get_future().wait();
    EXPECT_FALSE(handler.is_detached);
    pool_->at(0)->Await([&] { handler.socket.reset(); });
    close(writer);
  }
}

}  // namespace
}  // namespace helio
