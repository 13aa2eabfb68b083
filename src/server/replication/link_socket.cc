// SPDX-License-Identifier: Apache-2.0
#include "server/replication/link_socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "helio/base/clock.h"

namespace dfly {

using helio::Socket;

LinkSocket::LinkSocket(helio::Proactor* proactor, int fd, uint64_t timeout_ns,
                       std::unique_ptr<helio::TlsSession> tls)
    : socket_(Socket::Adopt(proactor, fd, this, std::move(tls))), timeout_ns_(timeout_ns) {
  socket_->StartRecv();
}

bool LinkSocket::Send(std::string bytes) {
  while (is_sending_ && error_.empty()) {
    if (!Await()) return false;
  }
  if (!error_.empty()) return false;
  sending_ = std::move(bytes);
  switch (socket_->Send(sending_, Socket::SendMode::kNow)) {
    case Socket::SendResult::kDone:
      return true;
    case Socket::SendResult::kPending:
      is_sending_ = true;
      break;
    case Socket::SendResult::kBroken:
      FailSocket("the connection is broken");
      return false;
  }
  while (is_sending_ && error_.empty()) {
    if (!Await()) return false;
  }
  return error_.empty();
}

void LinkSocket::SendNewline() {
  if (is_sending_ || !error_.empty() || is_closed_ || is_detached_) return;
  sending_ = "\n";
  switch (socket_->Send(sending_, Socket::SendMode::kNow)) {
    case Socket::SendResult::kDone:
      break;
    case Socket::SendResult::kPending:
      is_sending_ = true;
      break;
    case Socket::SendResult::kBroken:
      FailSocket("the connection is broken");
  }
}

std::optional<std::string> LinkSocket::ReadLine() {
  while (true) {
    // Signs of life, at once: a primary may send a million of them.
    Consume(std::min(received_.find_first_not_of("\r\n"), received_.size()));
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      Consume(end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    if (received_.size() > kLineMax) Fail("it has sent a line that is too long");
    if (!error_.empty() || !Await()) return std::nullopt;
  }
}

bool LinkSocket::AwaitBytes() {
  while (received_.empty()) {
    if (!error_.empty() || !Await()) return false;
  }
  return true;
}

void LinkSocket::Consume(size_t bytes) {
  received_.erase(0, bytes);
  if (is_receiving_ || received_.size() >= kReceivedMax || !error_.empty()) return;
  is_receiving_ = true;
  socket_->StartRecv();
}

bool LinkSocket::Await() {
  std::unique_lock lock(mutex_);
  if (changed_.WaitUntil(lock, helio::MonotonicNanos() + timeout_ns_)) return true;
  FailSocket("it has been silent for repl-timeout");
  return false;
}

void LinkSocket::Abort(std::string_view why) { Fail(why); }

void LinkSocket::Fail(std::string_view why) {
  if (error_.empty()) error_ = why;
  changed_.NotifyAll();
}

void LinkSocket::FailSocket(std::string_view why) {
  const std::string_view trouble = socket_->TlsTrouble();
  Fail(trouble.empty() ? std::string(why) : fmt::format("{} (TLS: {})", why, trouble));
}

void LinkSocket::Close() {
  if (is_closed_ || is_detached_) return;
  socket_->Close();
  std::unique_lock lock(mutex_);
  changed_.Wait(lock, [this] { return is_closed_; });
}

int LinkSocket::Detach() {
  while (is_sending_ && error_.empty()) {
    if (!Await()) break;
  }
  if (!error_.empty()) {
    Close();
    return -1;
  }
  socket_->Detach();
  std::unique_lock lock(mutex_);
  changed_.Wait(lock, [this] { return is_detached_; });
  return socket_->fd();
}

void LinkSocket::OnRecv(std::string_view data) {
  received_.append(data);
  if (received_.size() >= kReceivedMax && is_receiving_) {
    is_receiving_ = false;
    socket_->StopRecv();
  }
  changed_.NotifyAll();
}

void LinkSocket::OnRecvEnd(int error) {
  constexpr std::string_view kAlert = "\x15\x03";
  if (socket_->TlsTrouble().empty() && received_.starts_with(kAlert)) {
    return Fail("it has answered with TLS, and tls-replication is off");
  }
  FailSocket(error == 0 ? "the primary has closed the connection" : strerror(error));
}

void LinkSocket::OnSent(int error) {
  is_sending_ = false;
  if (error != 0) return FailSocket(strerror(error));
  changed_.NotifyAll();
}

void LinkSocket::OnClosed() {
  is_closed_ = true;
  changed_.NotifyAll();
}

void LinkSocket::OnDetached() {
  is_detached_ = true;
  tls_ = socket_->TakeTls();
  changed_.NotifyAll();
}

}  // namespace dfly
