// SPDX-License-Identifier: Apache-2.0
// For tests: servers of this process that replicate over a network that the test plays. Each link
// of a replica goes through the test, which passes its bytes on in pieces, keeps them back, cuts
// the link, or lets nobody connect, as a seed says. The servers run on threads of their own, so a
// seed decides what happens, and not all of its order.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "facade/replies/resp_reader.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "helio/fibers/sync.h"
#include "server/all_parts.h"
#include "server/dispatch/worker.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"
#include "server/schedules/schedule_harness.h"
#include "storage/memory_files.h"
#include "storage/snapshot_testing.h"

namespace dfly {

// Owner: the test's thread. Suspends: never, but it blocks that thread.
class ReplicaNetwork {
 public:
  static constexpr size_t kServers = 3;
  static constexpr const char* kAnnouncedIp = "10.0.0.1";
  static uint16_t AnnouncedPort(size_t index) { return static_cast<uint16_t>(7000 + index); }
  static constexpr uint64_t kPatienceNanos = 120'000'000'000;

  // What is done with a link. One way: the other direction stalls, and nobody can connect.
  enum class Flow : uint8_t { kOpen, kStalls, kCut, kOnlyToPrimary, kOnlyToReplica };

  // Each server has the options that `options` changes for it.
  explicit ReplicaNetwork(const std::function<void(ServerOptions&)>& options) {
    SetHashSeed(1);
    // Without it libc frees and copies the zone's name for each line of a log, with a lock that the
    // thread sanitizer does not see; and these servers have nothing else in common.
    setenv("TZ", "UTC", 1);
    tzset();
    for (size_t i = 0; i < kServers; ++i) {
      ServerOptions own = TestOptions();
      own.persistence.files = &nodes_[i].files;
      own.threads = 1;
      own.num_shards = 3;
      own.force_epoll = true;
      own.all_remote = true;
      own.schedule_seed = i + 1;
      own.replication.copy_delay_s = 0;
      own.replication.retry_ms = 2;
      own.replication.ping_period_s = 3600;
      own.replication.announce_ip = kAnnouncedIp;
      own.replication.announce_port = AnnouncedPort(i);
      options(own);
      nodes_[i].server = std::make_unique<Server>(std::move(own), AllParts());
      const std::string error = nodes_[i].server->Start();
      CHECK_EQ(error, "");
      helio::BlockingCounter loaded(1);
      nodes_[i].server->Load([&](const std::string&) { loaded.Done(); });
      loaded.Wait();
      for (size_t to = 0; to < kServers; ++to) {
        if (to != i) Listen(&nodes_[i].doors[to]);
      }
    }
  }
  ~ReplicaNetwork() {
    links_.clear();
    for (Node& node : nodes_) {
      for (const Door& door : node.doors) {
        if (door.fd != -1) close(door.fd);
      }
    }
    for (Node& node : nodes_) node.server->Stop();
  }

  // All schedules begin anew with it.
  void Reseed(helio::Random& random) {
    for (Node& node : nodes_) {
      const uint64_t shuffle = random.Next(), order = random.Next();
      node.server->state().pool.at(0)->AwaitFiber("seed", [&] {
        Worker& worker = Worker::Here();
        worker.state().shuffle->Reseed(shuffle);
        worker.state().proactor.scheduler().UseRandomOrder(order);
      });
    }
  }

  // function(Server&) on a fiber of the server's. Returns what it does.
  template <typename Function>
  auto On(size_t index, Function function) {
    Server& server = *nodes_[index].server;
    std::optional<decltype(function(server))> result;
    server.state().pool.at(0)->AwaitFiber("test", [&] { result = function(server); });
    return *std::move(result);
  }
  void Follow(size_t replica, size_t primary) {
    On(replica, [&](Server& server) {
      return server.primary_link().Follow("127.0.0.1", nodes_[replica].doors[primary].port);
    });
  }
  void Leave(size_t index) {
    On(index, [](Server& server) {
      server.primary_link().Leave();
      return 0;
    });
  }

  // Both ways between these two.
  void SetFlow(size_t a, size_t b, Flow flow) {
    nodes_[a].doors[b].flow = nodes_[b].doors[a].flow = flow;
  }
  void SetFlows(Flow flow) {
    for (Node& node : nodes_) {
      for (Door& door : node.doors) door.flow = flow;
    }
  }
  // Those that are there end; the replica may connect again.
  void BreakLinks(size_t a, size_t b) {
    std::erase_if(links_, [&](const auto& link) {
      return (link->from == a && link->to == b) || (link->from == b && link->to == a);
    });
  }

  // A connection of a client.
  int Connect(size_t index) {
    int fds[2];
    PCHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    Server& server = *nodes_[index].server;
    server.state().pool.at(0)->Await([&] { server.OnAccept(fds[1]); });
    return fds[0];
  }

  // A moment, or until something has come.
  void AwaitBytes() {
    std::vector<pollfd> fds;
    for (const Node& node : nodes_) {
      for (const Door& door : node.doors) {
        if (door.fd != -1) fds.push_back({.fd = door.fd, .events = POLLIN, .revents = 0});
      }
    }
    for (const auto& link : links_) {
      for (const int fd : {link->near, link->far}) {
        fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      }
    }
    PCHECK(poll(fds.data(), fds.size(), 1) >= 0 || errno == EINTR);
  }
  // Some bytes and some connections move.
  void Turn(helio::Random& random) {
    for (size_t from = 0; from < kServers; ++from) {
      for (size_t to = 0; to < kServers; ++to) Accept(from, to);
    }
    std::erase_if(links_, [&](const auto& link) {
      const Flow flow = nodes_[link->from].doors[link->to].flow;
      if (flow == Flow::kCut) return true;
      if (flow == Flow::kStalls) return false;
      const bool to_primary = flow != Flow::kOnlyToReplica,
                 to_replica = flow != Flow::kOnlyToPrimary;
      return (to_primary && !Pass(link->near, link->far, &link->to_primary, random)) ||
             (to_replica && !Pass(link->far, link->near, &link->to_replica, random));
    });
  }
  // Until it is so. False: it is not, after a long time.
  template <typename Condition>
  bool Await(helio::Random& random, Condition condition) {
    const uint64_t end_ns = helio::MonotonicNanos() + kPatienceNanos;
    while (!condition()) {
      if (helio::MonotonicNanos() > end_ns) return false;
      Turn(random);
      AwaitBytes();
    }
    return true;
  }

 private:
  // Where one server finds another one.
  struct Door {
    int fd = -1;
    uint16_t port = 0;
    Flow flow = Flow::kOpen;
  };
  struct Node {
    MemoryFiles files;
    std::unique_ptr<Server> server;
    std::array<Door, kServers> doors;
  };
  struct Link {
    ~Link() {
      close(near);
      close(far);
    }
    size_t from = 0, to = 0;  // the replica, and its primary
    int near = -1, far = -1;  // their connections
    std::string to_primary, to_replica;
  };

  static void Listen(Door* door) {
    door->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    PCHECK(bind(door->fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    PCHECK(listen(door->fd, 16) == 0);
    socklen_t size = sizeof(address);
    PCHECK(getsockname(door->fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    door->port = ntohs(address.sin_port);
  }
  void Accept(size_t from, size_t to) {
    const Door& door = nodes_[from].doors[to];
    if (door.fd == -1 || (door.flow != Flow::kOpen && door.flow != Flow::kCut)) return;
    const int fd = accept4(door.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd == -1) return;
    if (door.flow == Flow::kCut) {
      close(fd);
      return;
    }
    auto link = std::make_unique<Link>();
    link->from = from;
    link->to = to;
    link->near = fd;
    link->far = Connect(to);
    links_.push_back(std::move(link));
  }
  // False: one end is closed.
  static bool Pass(int from, int to, std::string* waiting, helio::Random& random) {
    char buffer[4096];
    if (waiting->size() < 64 * 1024) {
      const ssize_t got = read(from, buffer, 1 + random.Uniform(sizeof(buffer)));
      if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
      if (got > 0) waiting->append(buffer, static_cast<size_t>(got));
    }
    if (waiting->empty() || random.OneIn(4)) return true;
    const size_t bytes = random.OneIn(3) ? 1 + random.Uniform(waiting->size()) : waiting->size();
    const ssize_t sent = send(to, waiting->data(), bytes, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    waiting->erase(0, static_cast<size_t>(sent));
    return true;
  }

  std::array<Node, kServers> nodes_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace dfly
