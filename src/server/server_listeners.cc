// SPDX-License-Identifier: Apache-2.0
// The server's ports, and what happens to those who come: all on proactor 0, which gives each
// connection to the worker that has the fewest.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "facade/error_texts.h"
#include "server/listeners.h"
#include "server/server.h"

namespace dfly {

std::string Server::OpenListeners() {
  const std::string error = ChangePorts({options_.binds, options_.port, options_.tls_port});
  return error.empty() ? "" : fmt::format("Could not create server listening socket {}", error);
}

std::string Server::ChangePorts(const Ports& ports) {
  std::vector<Listeners::Place> places;
  const auto add = [&](const std::vector<std::string>& binds, uint16_t port, PortKind kind) {
    if (port == 0) return;
    for (const std::string& bind : binds) places.push_back({bind, port, kind});
  };
  add(ports.binds, ports.port, {.is_tls = options_.tls});
  add(ports.binds, ports.tls_port, {.is_tls = true});
  add(ports.binds, options_.memcached_port, {.is_tls = options_.tls, .is_memcached = true});
  add(options_.admin_binds, options_.admin_port,
      {.is_tls = options_.tls && !options_.no_tls_on_admin_port, .is_admin = true});
  std::string error;
  pool_.at(0)->AwaitFiber("open listeners", [&] {
    const bool is_start = listeners_ == nullptr;
    if (is_start) {
      listeners_ = std::make_unique<Listeners>(
          pool_.at(0), options_.backlog, [this](int fd, PortKind kind) { OnAccept(fd, kind); });
    }
    error = listeners_->Change(places);
    if (error.empty() && is_start && !options_.unix_socket.empty()) {
      error = listeners_->OpenUnix(options_.unix_socket, options_.unix_socket_mode);
    }
  });
  if (!error.empty()) return error;
  port_ = ports.port;
  tls_port_ = ports.tls_port;
  return "";
}

std::vector<std::string> Server::DescribeListeners() {
  std::vector<std::string> lines;
  pool_.at(0)->Await([&] {
    if (listeners_ != nullptr) lines = listeners_->Describe();
  });
  return lines;
}

void Server::OnAccept(int fd, PortKind kind) {
  const uint64_t counted = connections() - admin_connections_.load(std::memory_order_relaxed);
  if (!kind.is_admin && counted >= settings_.maxclients.load(std::memory_order_relaxed)) {
    CountRejectedConnection();
    if (!kind.is_tls) {  // else it would be taken for a broken handshake
      const std::string text = kind.is_memcached ? "ERROR Too many open connections\r\n"
                                                 : fmt::format("-{}\r\n", kErrMaxClients);
      [[maybe_unused]] const ssize_t sent =
          send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    close(fd);
    return;
  }
  connections_.fetch_add(1, std::memory_order_relaxed);
  if (kind.is_admin) admin_connections_.fetch_add(1, std::memory_order_relaxed);
  // To the worker that has the fewest, so that closed connections do not leave the rest uneven.
  const auto least = std::min_element(connections_of_.begin(), connections_of_.end());
  ++*least;
  Worker* worker = workers_[static_cast<size_t>(least - connections_of_.begin())].get();
  worker->proactor().Dispatch(
      [worker, fd, id = NextClientId(), kind] { worker->AddConnection(fd, id, kind); });
}

void Server::OnInnerConnection(uint32_t worker, bool is_admin) {
  connections_.fetch_add(1, std::memory_order_relaxed);
  if (is_admin) admin_connections_.fetch_add(1, std::memory_order_relaxed);
  pool_.at(0)->Dispatch([this, worker] { ++connections_of_[worker]; });
}

void Server::OnConnectionClosed(uint32_t worker, bool is_admin) {
  connections_.fetch_sub(1, std::memory_order_relaxed);
  if (is_admin) admin_connections_.fetch_sub(1, std::memory_order_relaxed);
  pool_.at(0)->Dispatch([this, worker] { --connections_of_[worker]; });
}

void Server::OnConnectionMoved(uint32_t from, uint32_t to) {
  pool_.at(0)->Dispatch([this, from, to] {
    --connections_of_[from];
    ++connections_of_[to];
  });
}

}  // namespace dfly
