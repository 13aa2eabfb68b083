// SPDX-License-Identifier: Apache-2.0
// The server's ports, and what happens to those who come: all on proactor 0, which gives each
// connection to the worker that has the fewest.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "facade/replies/error_texts.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/listeners.h"
#include "server/dispatch/worker.h"
#include "server/run/server.h"

namespace dfly {

namespace {

void WritePidFile(const std::string& path) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << getpid() << "\n";
  if (!file.flush()) LOG(WARNING) << "cannot write the pid file " << path;
}

std::vector<Listeners::Place> PlacesOf(const ServerOptions& options, const Ports& ports) {
  std::vector<Listeners::Place> places;
  const auto add = [&](const std::vector<std::string>& binds, uint16_t port, PortKind kind) {
    if (port == 0) return;
    for (const std::string& bind : binds) places.push_back({bind, port, kind});
  };
  add(ports.binds, ports.port, {.is_tls = options.tls});
  add(ports.binds, ports.tls_port, {.is_tls = true});
  add(ports.binds, options.memcached_port, {.is_tls = options.tls, .is_memcached = true});
  add(options.admin_binds, options.admin_port,
      {.is_tls = options.tls && !options.no_tls_on_admin_port, .is_admin = true});
  return places;
}

Ports PortsOf(const ServerOptions& options) {
  return {options.binds, options.port, options.tls_port};
}

}  // namespace

std::string Server::OpenListeners() {
  const std::string error = ChangePorts(PortsOf(state_.options));
  return error.empty() ? "" : fmt::format("Could not create server listening socket {}", error);
}

std::string Server::PrepareListeners(std::vector<HandedSocket> handed) {
  const ServerOptions& options = state_.options;
  listeners_ = std::make_unique<Listeners>(state_.pool.at(0), options.backlog,
                                           [this](int fd, PortKind kind) { OnAccept(fd, kind); });
  return listeners_->Prepare(PlacesOf(options, PortsOf(options)), options.unix_socket,
                             options.unix_socket_mode, std::move(handed));
}

std::string Server::ChangePorts(const Ports& ports) {
  std::string error;
  state_.pool.at(0)->AwaitFiber("open listeners", [&] {
    if (listeners_ == nullptr) {
      listeners_ =
          std::make_unique<Listeners>(state_.pool.at(0), state_.options.backlog,
                                      [this](int fd, PortKind kind) { OnAccept(fd, kind); });
    }
    error = listeners_->Change(PlacesOf(state_.options, ports));
    if (error.empty() && !has_listened_ && !state_.options.unix_socket.empty()) {
      error = listeners_->OpenUnix(state_.options.unix_socket, state_.options.unix_socket_mode);
    }
    if (!error.empty()) return;
    state_.port = ports.port;
    state_.tls_port = ports.tls_port;
    // The ports are its own now, and nobody is accepted before this fiber ends: whoever gets a
    // reply finds the file.
    if (!std::exchange(has_listened_, true)) WritePidFile(state_.options.pid_file);
  });
  return error;
}

void Server::SetTlsReload(uint64_t seconds) {
  helio::Proactor* const proactor = state_.pool.at(0);
  proactor->Await([this, proactor, seconds] {
    if (tls_reload_task_ != 0) proactor->RemovePeriodic(std::exchange(tls_reload_task_, 0));
    if (seconds == 0) return;
    tls_reload_task_ = proactor->AddPeriodic(seconds * 1000, [this, proactor] {
      if (std::exchange(tls_reloads_, true)) return;
      proactor->DispatchFiber("reload tls", [this] {
        ReloadTls();
        tls_reloads_ = false;
      });
    });
  });
}

void Server::ReloadTls() {
  std::vector<std::string> files;
  config_.WithNow(
      [&](const ServerOptions& now) { files = TlsSettings::FilesOf(now, state_.has_tls()); });
  if (files.empty()) return;
  std::optional<std::string> looks = TlsSettings::LookAt(files);
  if (!looks) return;  // the next call finds it
  config_.WithNow(
      [&](const ServerOptions& now) { tls_.Reload(now, state_.has_tls(), *std::move(looks)); });
}

void Server::AwaitTlsReload() {
  while (tls_reloads_) helio::this_fiber::SleepForMillis(1);
}

std::vector<std::string> Server::DescribeListeners() {
  std::vector<std::string> lines;
  state_.pool.at(0)->Await([&] {
    if (listeners_ != nullptr) lines = listeners_->Describe();
  });
  return lines;
}

void Server::OnAccept(int fd, PortKind kind) {
  if (!kind.is_admin &&
      state_.connections.limited() >= state_.settings.maxclients.load(std::memory_order_relaxed)) {
    state_.connections.CountRejected();
    if (!kind.is_tls) {  // else it would be taken for a broken handshake
      const std::string text = kind.is_memcached ? "ERROR Too many open connections\r\n"
                                                 : fmt::format("-{}\r\n", kErrMaxClients);
      [[maybe_unused]] const ssize_t sent =
          send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    close(fd);
    return;
  }
  const uint32_t thread = state_.connections.Accept(kind.is_admin);
  const uint64_t id = state_.next_client_id.fetch_add(1, std::memory_order_relaxed);
  state_.pool.at(thread)->Dispatch([fd, id, kind] { Worker::Here().AddConnection(fd, id, kind); });
}

void Server::OnAccept(int fd) { OnAccept(fd, PortKind{}); }

}  // namespace dfly
