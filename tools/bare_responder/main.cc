// SPDX-License-Identifier: Apache-2.0
// A floor for benchmarks: answers each command with +OK and knows no more of it than where it ends.
// What it costs is what sockets, the event loop and the reading of the protocol cost.
//
//   bare_responder --port=6380          one thread, on 127.0.0.1; until SIGTERM or SIGINT
#include <gflags/gflags.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "helio/base/logging.h"
#include "helio/net/address.h"
#include "helio/net/listener.h"
#include "helio/net/socket.h"
#include "helio/proactor/proactor_pool.h"

DEFINE_uint32(port, 6380, "Port on 127.0.0.1");

namespace {

constexpr std::string_view kReply = "+OK\r\n";

// Finds the ends of commands: arrays of bulk strings, and lines.
class CommandCounter {
 public:
  // How many end in `data`, which is what comes next.
  size_t Count(std::string_view data) {
    size_t ended = 0;
    while (!data.empty()) {
      if (skip_ > 0) {
        const size_t skipped = std::min(skip_, data.size());
        data.remove_prefix(skipped);
        skip_ -= skipped;
        if (skip_ == 0 && strings_ == 0) ++ended;
        continue;
      }
      const size_t end = data.find('\n');
      if (end == std::string_view::npos) {
        line_ += data;
        break;
      }
      std::string_view line = data.substr(0, end);
      if (!line_.empty()) line = line_ += line;
      ended += TakeLine(line);
      line_.clear();
      data.remove_prefix(end + 1);
    }
    return ended;
  }

 private:
  // 1: a command ends with it.
  size_t TakeLine(std::string_view line) {
    size_t number = 0;
    const bool is_array = line.starts_with('*');
    if (is_array || line.starts_with('$')) {
      std::from_chars(line.data() + 1, line.data() + line.size(), number);
    }
    if (is_array) {
      strings_ = number;
    } else if (strings_ > 0) {
      --strings_;
      skip_ = number + 2;
    } else {
      return line.size() > 1 ? 1 : 0;
    }
    return 0;
  }

  size_t strings_ = 0;  // of the array, that have not begun
  size_t skip_ = 0;     // bytes of a string, with its line end
  std::string line_;    // its beginning
};

class Client;
using Clients = std::unordered_set<Client*>;  // all that are open

// Deletes itself.
class Client final : public helio::Socket::Handler {
 public:
  Client(helio::Proactor* proactor, int fd, Clients* all) : all_(*all) {
    helio::SetTcpOptions(fd, 0);
    socket_ = helio::Socket::Adopt(proactor, fd, this);
    flush_hook_.client = this;
    all_.insert(this);
    socket_->StartRecv();
  }
  void Close() {
    all_.erase(this);
    socket_->proactor()->CancelHook(&flush_hook_);
    socket_->Close();
  }

 private:
  void OnRecv(std::string_view data) override {
    for (size_t count = counter_.Count(data); count > 0; --count) output_ += kReply;
    socket_->proactor()->AtIterationEnd(&flush_hook_);
  }
  void OnRecvEnd(int) override { Close(); }
  void OnSent(int error) override {
    is_pending_ = false;
    sending_.clear();
    if (error == 0) Flush();
  }
  void OnClosed() override { delete this; }

  void Flush() {
    if (is_pending_ || output_.empty()) return;
    sending_.swap(output_);
    // As Connection::Flush does.
    const auto mode = socket_->proactor()->queued_hooks() <= 1 ? helio::Socket::SendMode::kNow
                                                               : helio::Socket::SendMode::kBatch;
    const auto result = socket_->Send(sending_, mode);
    is_pending_ = result == helio::Socket::SendResult::kPending;
    if (!is_pending_) sending_.clear();
  }

  struct FlushHook : helio::LoopHook {
    using LoopHook::LoopHook;
    Client* client = nullptr;
  };

  Clients& all_;
  std::unique_ptr<helio::Socket> socket_;
  CommandCounter counter_;
  std::string output_;
  std::string sending_;
  bool is_pending_ = false;
  FlushHook flush_hook_{
      [](helio::LoopHook* hook) { static_cast<FlushHook*>(hook)->client->Flush(); }};
};

int Run() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::string error;
  const int fd = helio::ListenTcp("127.0.0.1", static_cast<uint16_t>(FLAGS_port), 511, &error);
  if (fd < 0) {
    fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  helio::ProactorPool pool({.threads = 1});
  pool.Start();
  helio::Proactor* const proactor = pool.at(0);
  Clients clients;
  std::unique_ptr<helio::Listener> listener;
  proactor->AwaitFiber("listen", [&] {
    listener = helio::Listener::Open(proactor, fd,
                                     [&](int client) { new Client(proactor, client, &clients); });
  });
  int number = 0;
  sigwait(&ends, &number);
  proactor->AwaitFiber("close", [&] {
    listener->Close();
    while (!clients.empty()) (*clients.begin())->Close();
  });
  pool.Stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return Run();
}
