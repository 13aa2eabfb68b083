// SPDX-License-Identifier: Apache-2.0
// The server's ports, and what happens to those who come: all on proactor 0, which gives each
// connection to the worker that has the fewest.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "facade/error_texts.h"
#include "helio/net/address.h"
#include "server/server.h"

namespace dfly {

std::string Server::OpenListeners() {
  struct Opened {
    int fd;
    PortKind kind;
  };
  std::vector<Opened> opened;
  std::string error;
  const auto open_tcp = [&](const std::vector<std::string>& binds, uint16_t port, PortKind kind) {
    if (port == 0 || !error.empty()) return;
    const size_t count_before = opened.size();
    for (const std::string& bind : binds) {
      const bool optional = !bind.empty() && bind[0] == '-';
      std::string why;
      const int fd =
          helio::ListenTcp(optional ? bind.substr(1) : bind, port, options_.backlog, &why);
      if (fd >= 0) {
        opened.push_back({fd, kind});
      } else if (!optional) {
        error = why;
        return;
      } else {
        LOG(WARNING) << "not listening on " << why;
      }
    }
    if (opened.size() == count_before) error = "on any address";
  };
  port_ = options_.port;
  open_tcp(options_.binds, options_.port, {.is_tls = options_.tls});
  open_tcp(options_.binds, options_.tls_port, {.is_tls = true});
  open_tcp(options_.binds, options_.memcached_port, {.is_tls = options_.tls, .is_memcached = true});
  open_tcp(options_.admin_binds, options_.admin_port,
           {.is_tls = options_.tls && !options_.no_tls_on_admin_port, .is_admin = true});
  if (error.empty() && !options_.unix_socket.empty()) {
    const int fd = helio::ListenUnix(options_.unix_socket, options_.unix_socket_mode,
                                     options_.backlog, &error);
    if (fd >= 0) opened.push_back({fd, {}});
  }
  if (!error.empty()) {
    for (const Opened& each : opened) close(each.fd);
    return fmt::format("Could not create server listening socket {}", error);
  }
  pool_.at(0)->Await([&] {
    for (const auto& [fd, kind] : opened) {
      listeners_.push_back(helio::Listener::Open(
          pool_.at(0), fd, [this, kind = kind](int accepted) { OnAccept(accepted, kind); }));
    }
  });
  return "";
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
