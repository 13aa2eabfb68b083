// SPDX-License-Identifier: Apache-2.0
// For tests: clients of a server whose schedule a seed decides. All shards and connections are on
// one thread; messages wait and overtake each other, fibers run in any order, bytes arrive in any
// pieces, clients leave in the middle. A failure is the seed's, and comes again with it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/text/hash.h"
#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "server/all_parts.h"
#include "server/dispatch/worker.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"
#include "server/schedules/test_options.h"

namespace dfly {

inline std::string Request(const std::vector<std::string>& args) {
  std::string out = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) {
    out += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  }
  return out;
}

// What it sends is decided beforehand; what comes back it checks as it comes.
class ScheduledClient {
 public:
  virtual ~ScheduledClient() {
    if (fd != -1) close(fd);
  }
  // Looks at `got` and returns what is wrong with it, or nothing.
  virtual std::string Check() = 0;
  // Replies that are still to come, and all there are.
  virtual size_t missing() const = 0;
  virtual size_t total() const = 0;

  int fd = -1;
  std::string unsent;
  std::string got;
  bool leaves = false;  // after half of the replies
};

// How many schedules, or the like: fewer where memory is watched.
constexpr uint64_t ByBuild([[maybe_unused]] uint64_t plain, [[maybe_unused]] uint64_t sanitized) {
#if defined(DFLY_SANITIZED)
  return sanitized;
#else
  return plain;
#endif
}

// How the connections, which are on the only thread, reach the shards.
enum class ShardReach {
  kByMessage,  // as if each shard were on another thread
  kInPlace     // only transactions over shards, and what waits for them, take messages
};

// For INSTANTIATE_TEST_SUITE_P.
inline std::string NameOfReach(const testing::TestParamInfo<ShardReach>& info) {
  return info.param == ShardReach::kInPlace ? "in_place" : "by_message";
}

// A server on one thread with five shards.
class ScheduledServer {
  // Of turns that bring nothing: some sleep, or wait for a helper thread that gets no processor.
  static constexpr uint64_t kStarvedNanos = 10'000'000'000;

 public:
  explicit ScheduledServer(ServerOptions options = TestOptions(),
                           ShardReach reach = ShardReach::kByMessage)
      : server_(Complete(std::move(options), reach), AllParts()) {
    const std::string error = server_.Start();
    CHECK_EQ(error, "");
  }
  Server& server() { return server_; }

  // run(seed) for many seeds, on the proactor's fiber, until it returns what went wrong.
  template <typename Function>
  void RunSeeds(uint64_t usual, Function run) {
    const helio::SeedRange seeds = helio::TestSeeds(usual);
    std::string error;
    uint64_t seed = seeds.first;
    server_.state().pool.at(0)->AwaitFiber("schedules", [&] {
      for (; seed < seeds.end(); ++seed) {
        Worker& worker = Worker::Here();
        helio::Random random(seed);
        seed_ = seed;
        worker.state().shuffle->Reseed(random.Next());
        worker.state().proactor.scheduler().UseRandomOrder(random.Next());
        error = run(seed, random);
        if (!error.empty()) break;
      }
    });
    EXPECT_EQ(error, "") << "DFLY_SEED=" << seed;
  }

  // Lets the clients send and receive until all have what they want. Returns what went wrong.
  std::string Drive(std::vector<std::unique_ptr<ScheduledClient>> clients, helio::Random& random) {
    for (auto& client : clients) {
      int fds[2];
      PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
      client->fd = fds[0];
      server_.OnAccept(fds[1]);
    }
    uint64_t idle_since_ns = helio::MonotonicNanos();
    std::string error;
    for (int idle = 0; !clients.empty() && error.empty();) {
      auto& chosen = clients[random.Uniform(clients.size())];
      ScheduledClient& client = *chosen;
      const size_t before = client.unsent.size() + client.got.size();
      if (!client.unsent.empty()) {
        const size_t most = random.OneIn(2) ? client.unsent.size() : 40;
        const size_t bytes = 1 + random.Uniform(std::min(most, client.unsent.size()));
        const ssize_t sent = send(client.fd, client.unsent.data(), bytes, MSG_NOSIGNAL);
        if (sent > 0) client.unsent.erase(0, static_cast<size_t>(sent));
      }
      char buffer[4096];
      const ssize_t got = read(client.fd, buffer, sizeof(buffer));
      if (got > 0) client.got.append(buffer, static_cast<size_t>(got));
      // It starves only if all of the loop's turns bring nothing, and not because somebody sleeps
      // or waits for a file.
      idle = client.unsent.size() + client.got.size() == before ? idle + 1 : 0;
      if (idle == 0) idle_since_ns = helio::MonotonicNanos();
      error = client.Check();
      if (error.empty() && idle > 3000 && helio::MonotonicNanos() - idle_since_ns > kStarvedNanos) {
        error = "no reply; got " + client.got;
      }
      if (client.missing() == 0 || (client.leaves && client.missing() < client.total() / 2)) {
        std::swap(chosen, clients.back());
        clients.pop_back();
      }
      for (uint64_t n = random.Uniform(3); n > 0; --n) helio::this_fiber::Yield();
    }
    clients.clear();
    AwaitTheEnd(error);
    return error.empty() ? WhatIsLeft() : error;
  }

  // Until all connections, and what they have asked for, are gone. Ends the process if that does
  // not come: nothing could be stopped in order then. `error`: what went wrong before.
  void AwaitTheEnd(const std::string& error = "") {
    constexpr int kTurnsMax = 3'000'000;
    int turns = 0;
    const uint64_t begin_ns = helio::MonotonicNanos();
    const Worker& worker = Worker::Here();
    while (server_.state().connections.all() > 0 || Batches::Here().in_flight() > 0 ||
           worker.state().coordinators > 0 || server_.persistence().is_saving() ||
           server_.append_log().is_changing() || server_.append_log().Facts().is_rewriting ||
           server_.replicas().is_busy()) {
      CHECK(++turns < kTurnsMax || helio::MonotonicNanos() - begin_ns < kStarvedNanos)
          << "DFLY_SEED=" << seed_ << " never ends; " << error << "; left: " << WhatIsLeft() << "; "
          << WhoIsLeft();
      helio::this_fiber::Yield();
    }
  }
  // After that: what should have gone with them, or nothing.
  std::string WhatIsLeft() {
    for (ShardId id = 0; id < server_.state().shards->size(); ++id) {
      Shard& shard = server_.state().shards->local(id);
      if (!shard.transactions().empty()) return "locks are left";
      if (!shard.watches().empty()) return "watches are left";
      if (!shard.waiters().empty()) return "waiters are left";
    }
    return WrongBytes();
  }
  // For a message.
  std::string WhoIsLeft() {
    const WorkerState& worker = Worker::Here().state();
    std::string text =
        fmt::format("{} in flight, {} coordinators; clients:", Batches::Here().in_flight(),
                    worker.coordinators);
    Worker::Here().state().ForEachSession([&text](Session& session) {
      const Connection& connection = session.connection;
      text += fmt::format(
          " [{}{}{}{}{}{} awaits {} has {} unsent]",
          session.last_command == nullptr ? "" : session.last_command->name,
          connection.closing() ? " closing" : "", connection.is_leaving() ? " leaving" : "",
          connection.recv_ended() ? " ended" : "", connection.busy() ? " busy" : "",
          connection.held() ? " held" : "", connection.awaited_epoch(), connection.unsent_bytes());
    });
    return text;
  }
  // When nothing runs: do the shards use what they have told?
  std::string WrongBytes() {
    uint64_t bytes = 0;
    for (ShardId id = 0; id < server_.state().shards->size(); ++id) {
      bytes += server_.state().shards->local(id).used_bytes();
    }
    const uint64_t told = server_.state().shards->used_bytes();
    if (bytes == told) return "";
    return "shards use " + std::to_string(bytes) + " bytes and have told " + std::to_string(told);
  }

 private:
  static ServerOptions Complete(ServerOptions options, ShardReach reach) {
    SetHashSeed(1);  // so that a key is in the same shard each time
    options.threads = 1;
    options.num_shards = 5;
    options.force_epoll = true;  // tells of ready sockets in an order that depends on nothing else
    options.all_remote = reach == ShardReach::kByMessage;
    options.schedule_seed = 1;
    options.slowlog_log_slower_than_us = 0;  // what logs a command knows its client for longer
    return options;
  }

  uint64_t seed_ = 0;  // that runs
  Server server_;
};

}  // namespace dfly
