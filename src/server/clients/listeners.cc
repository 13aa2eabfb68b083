// SPDX-License-Identifier: Apache-2.0
#include "server/clients/listeners.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

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

}  // namespace

Listeners::Listeners(helio::Proactor* proactor, int backlog, AcceptFn on_accept)
    : proactor_(proactor), backlog_(backlog), on_accept_(std::move(on_accept)) {}

Listeners::~Listeners() { CHECK(open_.empty() && unix_ == nullptr); }

std::string Listeners::Change(const std::vector<Place>& places) {
  std::lock_guard lock(mutex_);
  if (is_closed_) return "while it stops";
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
      open_.push_back({place, helio::Listener::Open(proactor_, fd, [this, place](int accepted) {
                         on_accept_(accepted, place.kind);
                       })});
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

int Listeners::Listen(const Place& place, std::string* error) {
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
  const int fd = helio::ListenUnix(path, mode, backlog_, &error);
  if (fd < 0) return error;
  unix_path_ = path;
  unix_ = helio::Listener::Open(proactor_, fd, [this](int accepted) { on_accept_(accepted, {}); });
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
  CloseAllBut({});
  if (unix_ == nullptr) return;
  unix_->Close();
  unix_.reset();
  unlink(unix_path_.c_str());
}

}  // namespace dfly
