// SPDX-License-Identifier: Apache-2.0
#include "server/clients/listeners.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/io/blocking_pool.h"
#include "helio/net/address.h"

namespace dfly {

namespace {

bool MayBeMissing(const Listeners::Place& place) { return place.address.starts_with('-'); }

// To find out what a name means may take seconds.
bool IsName(const std::string& host) {
  in6_addr ignored;
  return host != "*" && inet_pton(AF_INET, host.c_str(), &ignored) != 1 &&
         inet_pton(AF_INET6, host.c_str(), &ignored) != 1;
}

// As the other process has it. What connections there are is each one's own matter.
std::string NameOf(const Listeners::Place& place) {
  return fmt::format("tcp {} {}", place.port, place.address);
}

std::string NameOfUnix(const std::string& path) { return "unix " + path; }

}  // namespace

Listeners::Listeners(helio::Proactor* proactor, int backlog, AcceptFn on_accept)
    : proactor_(proactor), backlog_(backlog), on_accept_(std::move(on_accept)) {}

Listeners::~Listeners() { CHECK(open_.empty() && unix_ == nullptr); }

std::string Listeners::Change(const std::vector<Place>& places) {
  std::lock_guard lock(mutex_);
  if (is_closed_) return "while it stops";
  if (is_resting_) return "while another process takes over";
  std::vector<Place> before;
  for (const Open& open : open_) before.push_back(open.place);
  CloseAllBut(places);
  std::string error = OpenMissing(places);
  if (error.empty()) return "";
  const std::string lost = OpenMissing(before);
  LOG_IF(ERROR, !lost.empty()) << "no longer listening " << helio::LogText(lost);
  return error;
}

std::string Listeners::OpenMissing(const std::vector<Place>& places) {
  const size_t open_before = open_.size();
  std::string error;
  for (const Place& place : places) {
    if (IsOpen(place)) continue;
    std::string why;
    const int fd = Listen(place, &why);
    if (fd >= 0) {
      OpenAt(place, fd);
    } else if (MayBeMissing(place)) {
      LOG(WARNING) << "not listening on " << helio::LogText(why);
    } else {
      error = why;
      break;
    }
  }
  for (const Place& place : places) {
    const bool has_one = std::any_of(open_.begin(), open_.end(), [&](const Open& open) {
      return open.place.port == place.port && open.place.kind == place.kind;
    });
    if (error.empty() && !has_one) error = "on any address";
  }
  if (!error.empty()) {
    for (size_t i = open_before; i < open_.size(); ++i) open_[i].listener->Close();
    open_.resize(open_before);
  }
  return error;
}

void Listeners::OpenAt(const Place& place, int fd) {
  listen(fd, backlog_);  // one that was handed has the other process' backlog
  open_.push_back({place, helio::Listener::Open(proactor_, fd, [this, place](int accepted) {
                     on_accept_(accepted, place.kind);
                   })});
}

void Listeners::OpenUnixAt(int fd) {
  listen(fd, backlog_);  // and whoever asks who listens there is told of this process
  unix_ = helio::Listener::Open(proactor_, fd, [this](int accepted) { on_accept_(accepted, {}); });
}

int Listeners::Listen(const Place& place, std::string* error) {
  if (const int handed = TakeHanded(NameOf(place)); handed >= 0) return handed;
  const std::string host = place.address.substr(MayBeMissing(place) ? 1 : 0);
  int fd = -1;
  const auto listen = [&] { fd = helio::ListenTcp(host, place.port, backlog_, error); };
  if (!IsName(host)) {
    listen();
  } else if (!helio::RunBlocking(listen)) {
    *error = host + ": no thread to look it up";
  }
  return fd;
}

void Listeners::CloseAllBut(const std::vector<Place>& places) {
  std::erase_if(open_, [&](const Open& open) {
    const bool stays = std::find(places.begin(), places.end(), open.place) != places.end();
    if (!stays) open.listener->Close();
    return !stays;
  });
}

bool Listeners::IsOpen(const Place& place) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const Open& open) { return open.place == place; });
}

std::string Listeners::OpenUnix(const std::string& path, uint32_t mode) {
  std::string error;
  int fd = TakeHanded(NameOfUnix(path));
  if (fd < 0) fd = helio::ListenUnix(path, mode, backlog_, &error);
  if (fd < 0) return error;
  unix_path_ = path;
  OpenUnixAt(fd);
  return "";
}

std::vector<std::string> Listeners::Describe() const {
  std::vector<std::string> lines;
  std::vector<const Open*> told;
  for (const Open& open : open_) {
    const auto is_told = [&](const Open* other) {
      return other->place.port == open.place.port && other->place.kind == open.place.kind;
    };
    if (std::any_of(told.begin(), told.end(), is_told)) continue;
    told.push_back(&open);
    const PortKind& kind = open.place.kind;
    std::string line = fmt::format("name={}", kind.is_memcached ? "memcached"
                                              : kind.is_admin   ? "admin"
                                              : kind.is_tls     ? "tls"
                                                                : "tcp");
    for (const Open& other : open_) {
      if (is_told(&other)) line += ",bind=" + other.place.address;
    }
    lines.push_back(fmt::format("{},port={}", line, open.place.port));
  }
  if (unix_ != nullptr) lines.push_back("name=unix,bind=" + unix_path_);
  return lines;
}

void Listeners::Close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const HandedSocket& handed : std::exchange(handed_, {})) close(handed.fd);
  if (std::exchange(is_resting_, false)) open_.clear();
  CloseAllBut({});
  if (unix_ != nullptr) unix_->Close();
  unix_.reset();
  if (!unix_path_.empty() && !is_given_away_) unlink(unix_path_.c_str());
}

// ------------------------------------------------------- one process takes over from another

std::vector<HandedSocket> Listeners::Rest() {
  std::lock_guard lock(mutex_);
  if (is_closed_ || is_resting_) return {};
  // One descriptor of each stays open, so the kernel goes on to take connections.
  const auto keep = [this](std::string name, const helio::Listener& listener) {
    handed_.push_back({std::move(name), fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0)});
    return handed_.back().fd >= 0;
  };
  bool has_all = true;
  for (const Open& open : open_) has_all = keep(NameOf(open.place), *open.listener) && has_all;
  if (unix_ != nullptr) has_all = keep(NameOfUnix(unix_path_), *unix_) && has_all;
  if (!has_all) {
    for (const HandedSocket& handed : std::exchange(handed_, {})) close(handed.fd);
    return {};
  }
  is_resting_ = true;
  for (Open& open : open_) {
    open.listener->Close();
    open.listener.reset();
  }
  if (unix_ != nullptr) unix_->Close();
  unix_.reset();
  return handed_;
}

void Listeners::GoOn() {
  std::lock_guard lock(mutex_);
  if (!std::exchange(is_resting_, false)) return;
  for (const Open& open : std::exchange(open_, {})) {
    OpenAt(open.place, TakeHanded(NameOf(open.place)));
  }
  if (!unix_path_.empty()) OpenUnixAt(TakeHanded(NameOfUnix(unix_path_)));
}

int Listeners::TakeHanded(const std::string& name) {
  const auto it = std::find_if(handed_.begin(), handed_.end(),
                               [&](const HandedSocket& handed) { return handed.name == name; });
  if (it == handed_.end()) return -1;
  const int fd = it->fd;
  handed_.erase(it);
  return fd;
}

std::string Listeners::Prepare(const std::vector<Place>& places, const std::string& unix_path,
                               uint32_t unix_mode, std::vector<HandedSocket> handed) {
  std::lock_guard lock(mutex_);
  handed_ = std::move(handed);
  std::vector<HandedSocket> wanted;
  std::string error;
  for (const Place& place : places) {
    std::string why;
    const int fd = Listen(place, &why);
    if (fd >= 0) {
      wanted.push_back({NameOf(place), fd});
    } else if (!MayBeMissing(place)) {
      error = why;
    }
  }
  if (!unix_path.empty()) {
    int fd = TakeHanded(NameOfUnix(unix_path));
    if (fd >= 0 && unix_mode != 0) (void)chmod(unix_path.c_str(), unix_mode);
    if (fd < 0 && error.empty()) fd = helio::ListenUnix(unix_path, unix_mode, backlog_, &error);
    if (fd >= 0) wanted.push_back({NameOfUnix(unix_path), fd});
  }
  for (const HandedSocket& other : std::exchange(handed_, std::move(wanted))) close(other.fd);
  return error;
}

}  // namespace dfly
