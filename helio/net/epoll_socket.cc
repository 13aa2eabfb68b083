// SPDX-License-Identifier: Apache-2.0
#include "helio/net/epoll_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace helio {

EpollSocket::EpollSocket(EpollProactor* proactor, int fd, Handler* handler)
    : Socket(proactor, fd, handler),
      watcher_([](EpollWatcher* watcher, uint32_t events) {
        static_cast<Watcher*>(watcher)->socket->OnReady(events);
      }),
      close_hook_([](LoopHook* hook) {
        EpollSocket* self = static_cast<CloseHook*>(hook)->socket;
        self->closed_ = true;
        close(self->fd_);
        self->handler_->OnClosed();
      }) {
  watcher_.socket = close_hook_.socket = this;
  proactor->Watch(fd, &watcher_, 0);
}

EpollSocket::~EpollSocket() { DCHECK(closed_); }

void EpollSocket::UpdateInterest() {
  uint32_t interest = 0;
  if (recv_wanted_ && !recv_ended_) interest |= EPOLLIN | EPOLLRDHUP;
  if (!unsent_.empty()) interest |= EPOLLOUT;
  if (interest == interest_ || closing_) return;
  interest_ = interest;
  epoll().Rewatch(fd_, &watcher_, interest);
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
  if (closing_) return;
  if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 && !unsent_.empty()) {
    const bool alive = SendSome();
    const int error = alive ? 0 : errno;
    if (!alive) unsent_ = {};
    UpdateInterest();
    if (unsent_.empty()) handler_->OnSent(error);
    if (closing_) return;
  }
  // Errors and hang-ups are told whatever the interest is; when nobody reads, they are taken here
  // so that the loop does not spin on them.
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 && !recv_ended_ &&
      (recv_wanted_ || (events & (EPOLLHUP | EPOLLERR)) != 0)) {
    ReceiveOnce();
  }
}

void EpollSocket::ReceiveOnce() {
  const ssize_t received =
      recv(fd_, epoll().read_buffer(), EpollProactor::kReadBufferSize, MSG_DONTWAIT);
  if (received > 0) {
    handler_->OnRecv({epoll().read_buffer(), static_cast<size_t>(received)});
    return;
  }
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const int error = received < 0 ? errno : 0;
  recv_ended_ = true;
  UpdateInterest();
  handler_->OnRecvEnd(error);
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
  UpdateInterest();
  return SendResult::kPending;
}

bool EpollSocket::SendSome() {
  const ssize_t sent = send(fd_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  unsent_.remove_prefix(static_cast<size_t>(sent));
  return true;
}

void EpollSocket::Close() {
  DCHECK(!closing_);
  closing_ = true;
  unsent_ = {};
  epoll().Unwatch(fd_);
  shutdown(fd_, SHUT_RDWR);
  proactor_->AtIterationEnd(&close_hook_);
}

}  // namespace helio
