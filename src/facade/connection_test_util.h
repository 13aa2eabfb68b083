// SPDX-License-Identifier: Apache-2.0
// For tests of connections: one on a real loop, a client on the other end of a socket pair, and a
// sink that answers as the commands ask: at once, noted, on another "shard", behind a barrier, by a
// fiber.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "facade/connection.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {

using helio::Random;
using namespace std::string_literals;

constexpr int kPatienceMs = 60'000;

struct RemoteBatch : PendingReplies {
  Connection* connection = nullptr;
  std::vector<std::string> replies;
};

// Commands, each answered with its last argument:
//   echo x         at once, in OnCommand
//   note x         noted; alone in its input it is deferred to the loop's next stage
//   await e x      at once, but the reply waits for epoch e
//   remote i x     on shard i, some time later; `remote i e x`: the reply waits for epoch e then
//   barrier x      at once, when all before it are answered
//   busy x         by a fiber that yields a few times, and takes the input if it can
//   big n          at once, n bytes
//   watch x        at once, and asks to hear when it is sent
//   hold x         at once; what follows waits for Release()
//   quit x         at once, and closes
//   rest x         at once; then the connection rests, and goes on with its socket or another one
//   drop x         no reply, as after CLIENT REPLY OFF
//   kill           closes now
class ScriptedSink final : public CommandSink {
 public:
  explicit ScriptedSink(uint64_t seed) : random_(seed) {
    helio::Proactor::Current()->SetStageTask([this] { RunDeferred(); });
  }
  ~ScriptedSink() { helio::Proactor::Current()->SetStageTask(nullptr); }

  Outcome OnCommand(Connection* connection, std::span<const std::string_view> args) override {
    ++commands;
    const std::string_view name = args[0];
    const std::string text(args.back());
    if (name == "note") {
      noted_.push_back({connection, text});
      return Outcome::kTaken;
    }
    RunNoted(connection);
    if (name == "remote") {
      const size_t shard = std::strtoul(args[1].data(), nullptr, 10);
      RemoteBatch*& batch = open_[shard];
      if (batch == nullptr) {
        batch = new RemoteBatch;
        ++batches_alive;
        batch->connection = connection;
      }
      batch->replies.push_back(text);
      if (args.size() == 4) batch->Await(std::strtoul(args[2].data(), nullptr, 10));
      connection->replies().AddRemote(batch);
      return Outcome::kTaken;
    }
    if (name == "busy" || name == "waits") {
      if (!connection->replies().empty()) return Outcome::kBarrier;
      ++fibers;
      Connection::TakenInput taken;
      if (connection->TakeInput(args, &taken)) ++inputs_taken;
      helio::Fiber("busy", [this, connection, text, taken = std::move(taken)] {
        for (uint64_t n = random_.Uniform(3); n > 0; --n) helio::this_fiber::Yield();
        while (stall_busy) helio::this_fiber::SleepForMillis(1);
        const std::span<const std::string_view> own(taken.args.get(), taken.arg_count);
        if (!connection->closing()) Reply(connection, own.empty() ? text : std::string(own.back()));
        connection->EndBusy();
        --fibers;
      }).Detach();
      return name == "busy" ? Outcome::kBusy : Outcome::kWaits;
    }
    if (name == "await") {
      RespWriter(connection->replies().BeginLocal()).Bulk(text);
      connection->replies().Hold(std::strtoul(args[1].data(), nullptr, 10));
      connection->replies().EndLocal();
      return Outcome::kTaken;
    }
    if (name == "barrier" && !connection->replies().empty()) return Outcome::kBarrier;
    if (name == "hold") connection->set_held(true);
    if (name == "watch") connection->WatchSend();
    if (name == "drop") return Outcome::kTaken;
    if (name == "kill") {
      connection->CloseNow();
      return Outcome::kTaken;
    }
    if (name == "rest") connection->AskForRest();
    Reply(connection, name == "big" ? std::string(std::stoul(text), 'b') : text);
    return name == "quit" ? Outcome::kClose : Outcome::kTaken;
  }

  Outcome OnHttp(Connection* connection, const HttpRequest& request) override {
    const std::string text(request.target);
    const bool keep_alive = request.keep_alive;
    const auto respond = [connection, text, keep_alive] {
      connection->replies().BeginLocal()->Append(FormatHttp({.body = text}, keep_alive));
      connection->replies().EndLocal();
      if (!keep_alive) connection->CloseWhenSent();
    };
    if (text != "/busy") {
      respond();
      return keep_alive ? Outcome::kTaken : Outcome::kClose;
    }
    ++fibers;
    helio::Fiber("http", [this, connection, respond] {
      helio::this_fiber::Yield();
      if (!connection->closing()) respond();
      connection->EndBusy();
      --fibers;
    }).Detach();
    return Outcome::kBusy;
  }

  void OnInputPause(Connection* connection) override {
    if (noted_.size() == 1) {
      connection->AddDeferred(1);
      deferred_.push_back(noted_.back());
      noted_.clear();
      // Also for input that is executed outside of the loop's stages.
      if (late) {
        ++fibers;
        helio::Fiber("late", [this] {
          RunDeferred();
          --fibers;
        }).Detach();
      } else if (!stage_hook_.queued) {
        stage_hook_.sink = this;
        helio::Proactor::Current()->AtIterationEnd(&stage_hook_);
      }
    } else {
      RunNoted(connection);
    }
    SendBatches();
  }
  bool OnProtocolError(Connection* connection, std::string_view) override {
    ++protocol_errors;
    RunNoted(connection);
    SendBatches();
    return true;
  }
  void OnRoom(Connection*) override {}
  bool OnLargeOutput(Connection* connection) override {
    ++large_outputs;
    if (closes_large_outputs) connection->CloseNow();
    return closes_large_outputs;
  }
  bool OnHeavyInput(Connection* connection) override {
    ++heavy_inputs;
    if (closes_heavy_inputs) connection->CloseNow();
    return closes_heavy_inputs;
  }
  void OnLargeInput(Connection*) override { ++large_inputs; }
  void OnWatchedSent(Connection*) override { ++watched_sent; }
  void OnPeerShutdown(Connection*) override { ++peer_shutdowns; }
  void OnRest(Connection* connection) override {
    EXPECT_TRUE(connection->replies().empty() && !connection->busy());
    ++rests;
    if (random_.OneIn(4)) return connection->EndRest();
    connection->Detach();
  }
  void OnDetached(Connection* connection) override {
    // Nobody may use it now.
    connections.erase(connection->id());
    travelling.insert(connection->id());
    ++fibers;
    helio::Fiber("travel", [this, connection] {
      for (uint64_t n = random_.Uniform(4); n > 0; --n) helio::this_fiber::Yield();
      travelling.erase(connection->id());
      connections[connection->id()] = connection;
      connection->Attach(this, buffers, [this](PendingReplies* batch) { Release(batch); });
      --fibers;
    }).Detach();
  }
  void OnClosed(Connection* connection) override {
    connections.erase(connection->id());
    --alive;
  }

  // Completes what is under way, in random order, when `paused_remotes` is off.
  void CompleteRemotes() {
    while (!sent_.empty() && !paused_remotes) {
      // One shard answers in order, the order of the shards is random.
      auto shard = std::next(sent_.begin(), static_cast<long>(random_.Uniform(sent_.size())));
      RemoteBatch* batch = shard->second.front();
      shard->second.pop_front();
      if (shard->second.empty()) sent_.erase(shard);
      for (const std::string& text : batch->replies) {
        RespWriter(&batch->bytes).Bulk(text);
        batch->EndReply();
      }
      if (batch->abandoned) {
        Release(batch);
      } else {
        Connection* connection = batch->connection;
        connection->replies().Complete(batch);
        connection->OnRepliesReady();
      }
      if (random_.OneIn(3)) helio::this_fiber::Yield();
    }
  }
  void StartCompleter() {
    if (completing_ || paused_remotes || sent_.empty()) return;
    completing_ = true;
    ++fibers;
    helio::Fiber("remote", [this] {
      CompleteRemotes();
      completing_ = false;
      --fibers;
    }).Detach();
  }
  void Release(PendingReplies* batch) {
    --batches_alive;
    delete static_cast<RemoteBatch*>(batch);
  }
  size_t batches_under_way() const {
    size_t count = 0;
    for (const auto& [shard, batches] : sent_) count += batches.size();
    return count;
  }

  std::map<uint64_t, Connection*> connections;
  std::set<uint64_t> travelling;  // they have no socket
  BufferPool* buffers = nullptr;
  std::atomic<uint64_t> rests{0};
  std::atomic<uint64_t> large_inputs{0};
  std::atomic<uint64_t> heavy_inputs{0};
  std::atomic<bool> closes_heavy_inputs{false};
  std::atomic<uint64_t> watched_sent{0};
  std::atomic<uint64_t> peer_shutdowns{0};
  std::atomic<uint64_t> large_outputs{0};
  std::atomic<bool> closes_large_outputs = false;
  std::atomic<int> alive{0};
  std::atomic<int> batches_alive{0};
  std::atomic<uint64_t> commands{0};
  std::atomic<int> protocol_errors{0};
  int fibers = 0;
  int inputs_taken = 0;
  bool paused_remotes = false;
  bool stall_busy = false;
  bool late = false;  // what is deferred is run in the next iteration

 private:
  struct NotedCommand {
    Connection* connection;
    std::string text;
  };
  struct StageHook : helio::LoopHook {
    using LoopHook::LoopHook;
    ScriptedSink* sink = nullptr;
  };

  static void Reply(Connection* connection, std::string_view text) {
    RespWriter(connection->replies().BeginLocal()).Bulk(text);
    connection->replies().EndLocal();
  }
  void RunNoted(Connection*) {
    RunDeferred();
    for (const NotedCommand& noted : noted_) Reply(noted.connection, noted.text);
    noted_.clear();
  }
  void RunDeferred() {
    for (const NotedCommand& noted : std::exchange(deferred_, {})) {
      if (!noted.connection->closing()) Reply(noted.connection, noted.text);
      noted.connection->DeferredDone(1);
    }
  }
  void SendBatches() {
    for (auto& [shard, batch] : open_) sent_[shard].push_back(batch);
    open_.clear();
    StartCompleter();
  }

  Random random_;
  std::vector<NotedCommand> noted_;
  std::vector<NotedCommand> deferred_;
  std::map<size_t, RemoteBatch*> open_;
  std::map<size_t, std::deque<RemoteBatch*>> sent_;
  bool completing_ = false;
  StageHook stage_hook_{
      [](helio::LoopHook* hook) { static_cast<StageHook*>(hook)->sink->RunDeferred(); }};
};

std::string Request(const std::vector<std::string>& args) {
  std::string out = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) {
    out += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  }
  return out;
}
std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

class ConnectionTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    pool_ = std::make_unique<helio::ProactorPool>(
        helio::ProactorPool::Options{.threads = 1, .force_epoll = GetParam()});
    pool_->Start();
    pool_->at(0)->Await([&] { sink_ = std::make_unique<ScriptedSink>(helio::TestSeed()); });
    sink_->buffers = &buffers_;
  }

  void TearDown() override {
    for (int fd : fds_) close(fd);
    WaitUntil([&] {
      for (auto& [id, connection] : sink_->connections) connection->CloseNow();
      sink_->paused_remotes = sink_->stall_busy = false;
      sink_->StartCompleter();
      return sink_->alive == 0 && sink_->batches_alive == 0 && sink_->fibers == 0;
    });
    EXPECT_EQ(sink_->batches_alive, 0) << "batches leak";
    pool_->at(0)->Await([&] { sink_.reset(); });
    pool_->Stop();
  }

  template <typename Function>
  auto OnLoop(Function function) {
    return pool_->at(0)->Await(std::move(function));
  }

  // Connects a client, and returns its end, which blocks.
  int Connect() {
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_EQ(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    fds_.push_back(fds[0]);
    OnLoop([&, id = ++last_id_] {
      connection_ = new Connection(fds[1], id, sink_.get(), &limits_, &buffers_,
                                   [this](PendingReplies* batch) { sink_->Release(batch); });
      sink_->connections[id] = connection_;
      ++sink_->alive;
      connection_->Start();
    });
    return fds[0];
  }

  // Asks on the loop, again and again.
  template <typename Condition>
  bool WaitUntil(Condition condition) {
    bool met = false;
    pool_->at(0)->AwaitFiber("wait", [&] {
      for (int i = 0; i < kPatienceMs && !(met = condition()); ++i) {
        helio::this_fiber::SleepForMillis(1);
      }
    });
    return met;
  }

  static void Send(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  static bool Readable(int fd, int patience_ms = kPatienceMs) {
    pollfd entry{fd, POLLIN, 0};
    return poll(&entry, 1, patience_ms) == 1;
  }
  static std::string Receive(int fd, size_t bytes) {
    std::string out;
    char buffer[65536];
    while (out.size() < bytes && Readable(fd)) {
      const ssize_t got = read(fd, buffer, std::min(sizeof(buffer), bytes - out.size()));
      if (got <= 0) break;
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }
  static std::string ReceiveAll(int fd) { return Receive(fd, SIZE_MAX); }
  // True if the other side has closed.
  static bool IsClosed(int fd) {
    char byte;
    return Readable(fd) && read(fd, &byte, 1) <= 0;
  }

  void ExpectExchange(int fd, const std::string& request, const std::string& reply) {
    Send(fd, request);
    EXPECT_EQ(Receive(fd, reply.size()), reply);
  }

  ConnectionLimits limits_;
  BufferPool buffers_;
  std::unique_ptr<helio::ProactorPool> pool_;
  std::unique_ptr<ScriptedSink> sink_;
  Connection* connection_ = nullptr;  // the latest
  std::vector<int> fds_;
  uint64_t last_id_ = 0;
};

}  // namespace dfly
