// SPDX-License-Identifier: Apache-2.0
#include "helio/net/epoll_socket.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace helio {

EpollSocket::EpollSocket(EpollProactor* proactor, int fd, Handler* handler)
    : Socket(proactor, fd, handler),
      watcher_([](EpollWatcher* watcher, uint32_t events) {
        static_cast<Watcher*>(watcher)->socket->OnReady(events);
      }),
      close_hook_([](LoopHook* hook) {
        EpollSocket* self = static_cast<CloseHook*>(hook)->socket;
        self->closed_ = true;
        if (std::exchange(self->detaching_, false)) return self->handler_->OnDetached();
        close(self->fd_);
        self->handler_->OnClosed();
      }),
      refused_hook_(
          [](LoopHook* hook) { static_cast<RefusedHook*>(hook)->socket->EndRecv(ENOMEM); }) {
  watcher_.socket = close_hook_.socket = refused_hook_.socket = this;
  watched_ = proactor->Watch(fd, &watcher_, 0);
  if (!watched_) proactor->AtIterationEnd(&refused_hook_);
}

EpollSocket::~EpollSocket() { DCHECK(closed_); }

void EpollSocket::UpdateInterest() {
  uint32_t interest = 0;
  if (recv_wanted_ && !recv_ended_) interest |= EPOLLIN | EPOLLRDHUP;
  if (!recv_wanted_ && !recv_ended_ && !peer_ended_) interest |= EPOLLRDHUP;
  if (!unsent_.empty()) interest |= EPOLLOUT;
  if (closing_ || !watched_) return;
  if (recv_ended_ && interest == 0) {
    // Hang-ups cannot be masked: the loop would be told of this one for ever.
    watched_ = false;
    epoll().Unwatch(fd_);
    return;
  }
  if (interest == interest_) return;
  interest_ = interest;
  epoll().Rewatch(fd_, &watcher_, interest);
}

void EpollSocket::EndRecv(int error) {
  recv_ended_ = true;
  UpdateInterest();
  handler_->OnRecvEnd(error);
}

void EpollSocket::StartRecv() {
  recv_wanted_ = true;
  UpdateInterest();
}

void EpollSocket::StopRecv() {
  recv_wanted_ = false;
  UpdateInterest();
}

void EpollSocket::OnReady(uint32_t events) {
  if (closing_ || detaching_) return;
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 && !unsent_.empty()) {
    const bool alive = SendSome();
    const int error = alive ? 0 : errno;
    if (!alive) unsent_ = {};
    UpdateInterest();
    if (unsent_.empty()) handler_->OnSent(error);
    if (closing_) return;
  }
  if (recv_ended_) return;
  const bool is_broken = (events & (EPOLLHUP | EPOLLERR)) != 0;
  const bool is_shut = (events & EPOLLRDHUP) != 0;
  // Errors and hang-ups are told whatever the interest is; when nobody reads, they are taken here
  // so that the loop does not spin on them.
  if (is_broken || (recv_wanted_ && (is_shut || (events & EPOLLIN) != 0))) {
    ReceiveOnce();
  } else if (is_shut && !std::exchange(peer_ended_, true)) {
    UpdateInterest();
    handler_->OnPeerShutdown();
  }
}

bool EpollSocket::Recheck() {
  const int events = FindEnd();
  if (events == 0 || recv_ended_ || closing_ || detaching_) return false;
  const bool is_broken = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  if (peer_ended_ && !is_broken) return false;
  // What waits to be received before the end is no reason to take it for lost.
  if (recv_wanted_ && (events & POLLNVAL) == 0) return false;
  OnReady(is_broken ? EPOLLHUP : EPOLLRDHUP);
  return true;
}

void EpollSocket::ReceiveOnce() {
  const std::span<char> to = room_.empty()
                                 ? std::span(epoll().read_buffer(), EpollProactor::kReadBufferSize)
                                 : room_.first(std::min(room_.size(), kOnceMax));
  const ssize_t received = recv(fd_, to.data(), to.size(), MSG_DONTWAIT);
  if (received > 0) {
    const auto bytes = static_cast<size_t>(received);
    if (room_.empty()) {
      handler_->OnRecv({to.data(), bytes});
    } else {
      handler_->OnRecvInto(bytes);
    }
    return;
  }
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  EndRecv(received < 0 ? errno : 0);
}

Socket::SendResult EpollSocket::Send(std::string_view bytes, SendMode) {
  DCHECK(unsent_.empty() && !closing_);
  DCHECK(!bytes.empty());
  unsent_ = bytes;
  if (!SendSome()) {
    unsent_ = {};
    return SendResult::kBroken;
  }
  if (unsent_.empty()) return SendResult::kDone;
  if (!watched_) {  // the peer shut its side down some time ago: now we want to know when it reads
    interest_ = EPOLLOUT;
    watched_ = epoll().Watch(fd_, &watcher_, interest_);
    if (!watched_) {
      unsent_ = {};
      return SendResult::kBroken;
    }
  }
  UpdateInterest();
  return SendResult::kPending;
}

bool EpollSocket::SendSome() {
  const size_t once = std::min(unsent_.size(), kOnceMax);
  const ssize_t sent = send(fd_, unsent_.data(), once, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  unsent_.remove_prefix(static_cast<size_t>(sent));
  return true;
}

void EpollSocket::Close() {
  DCHECK(!closing_);
  closing_ = true;
  detaching_ = false;
  unsent_ = {};
  if (watched_) epoll().Unwatch(fd_);
  proactor_->CancelHook(&refused_hook_);
  shutdown(fd_, SHUT_RDWR);
  proactor_->AtIterationEnd(&close_hook_);
}

void EpollSocket::Detach() {
  DCHECK(unsent_.empty() && !closing_ && !detaching_);
  detaching_ = true;
  recv_wanted_ = false;
  if (std::exchange(watched_, false)) epoll().Unwatch(fd_);
  proactor_->CancelHook(&refused_hook_);
  // Events of this iteration may still name it.
  proactor_->AtIterationEnd(&close_hook_);
}

}  // namespace helio
