// SPDX-License-Identifier: Apache-2.0
#include "helio/net/uring_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace helio {
namespace {

// Who has just sent much is likely to do so again, and a multishot would have to be cancelled, and
// copies what it gets until then.
constexpr uint8_t kSinglesMax = 16;

}  // namespace

UringSocket::UringSocket(UringProactor* proactor, int fd, Handler* handler)
    : Socket(proactor, fd, handler),
      recv_op_([](UringOp* op, int result, uint32_t flags) {
        static_cast<Op*>(op)->socket->OnRecvCompletion(result, flags);
      }),
      send_op_([](UringOp* op, int result, uint32_t) {
        static_cast<Op*>(op)->socket->OnSendCompletion(result);
      }),
      cancel_op_([](UringOp* op, int, uint32_t) { static_cast<Op*>(op)->socket->OnCancelled(); }),
      hangup_op_([](UringOp* op, int result, uint32_t) {
        static_cast<Op*>(op)->socket->OnHangup(result);
      }),
      close_hook_([](LoopHook* hook) { static_cast<Hook*>(hook)->socket->FinishIfIdle(); }),
      tell_hook_([](LoopHook* hook) { static_cast<Hook*>(hook)->socket->TellPeerShutdown(); }) {
  recv_op_.socket = send_op_.socket = cancel_op_.socket = hangup_op_.socket = this;
  close_hook_.socket = tell_hook_.socket = this;
}

UringSocket::~UringSocket() { DCHECK(closed_); }

void UringSocket::StartRecv() {
  recv_wanted_ = true;
  if (!recv_armed_ && !recv_ended_ && !closing_) ArmRecv();
  ArmHangupPoll();
}

void UringSocket::StopRecv() {
  recv_wanted_ = false;
  ArmHangupPoll();
  if (recv_armed_ && !broken_) CancelRecv();
  // The end was seen while it was received, which would have come to it.
  if (peer_ended_ && !shutdown_told_) proactor_->AtIterationEnd(&tell_hook_);
}

void UringSocket::TellPeerShutdown() {
  if (recv_wanted_ || recv_ended_ || broken_ || closing_ || detaching_) return;
  if (!std::exchange(shutdown_told_, true)) handler_->OnPeerShutdown();
}

void UringSocket::Cancel(Op* op) {
  if (cancel_armed_) return;
  cancel_armed_ = true;
  io_uring_sqe* sqe = uring().GetSqe();
  io_uring_prep_cancel64(sqe, reinterpret_cast<uint64_t>(op), 0);
  io_uring_sqe_set_data(sqe, &cancel_op_);
}

void UringSocket::ArmRecv() {
  recv_armed_ = true;
  io_uring_sqe* sqe = uring().GetSqe();
  recv_into_ = has_room();
  if (recv_into_) return ArmInto(sqe);
  // One behind the end that was seen is tried again for each piece, so that none is waited for.
  if (uring().has_multishot_recv() && !peer_ended_ && singles_ == 0) {
    io_uring_prep_recv_multishot(sqe, fd_, nullptr, 0, 0);
  } else {
    io_uring_prep_recv(sqe, fd_, nullptr, UringProactor::kBufferSize, 0);
  }
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = UringProactor::kBufferGroup;
  io_uring_sqe_set_data(sqe, &recv_op_);
}

void UringSocket::ReceiveInto(std::span<char> room) {
  if (into_ == nullptr) {
    if (room.empty()) return;
    into_ = std::make_unique<Into>();
  }
  into_->room = room;
}

void UringSocket::ArmInto(io_uring_sqe* sqe) {
  const std::span<char> room = into_->room;
  const size_t bytes = std::min(room.size(), kOnceMax);
  into_->parts[0] = {room.data(), bytes};
  into_->parts[1] = {into_->tail, sizeof(into_->tail)};
  into_->message.msg_iov = into_->parts;
  into_->message.msg_iovlen = bytes == room.size() ? 2 : 1;
  io_uring_prep_recvmsg(sqe, fd_, &into_->message, 0);
  io_uring_sqe_set_data(sqe, &recv_op_);
}

void UringSocket::OnInto(size_t bytes) {
  singles_ = kSinglesMax;
  const size_t in_room = std::min(bytes, into_->parts[0].iov_len);
  handler_->OnRecvInto(in_room);
  if (bytes > in_room && !closing_) {
    in_tail_ = true;
    handler_->OnRecv({into_->tail, bytes - in_room});
    in_tail_ = false;
  }
}

void UringSocket::OnCancelled() {
  cancel_armed_ = false;
  // It may have missed a receive that was just running: until that is over, once more.
  if (recv_armed_ && must_renew_ && !closing_ && !detaching_) CancelRecv();
  FinishIfIdle();
}

void UringSocket::ArmHangupPoll() {
  // io_uring adds POLLRDHUP to each poll. So after the peer has shut down its side, one would be
  // over at once, again and again: a reset behind that is found by a send, a receive or Recheck.
  if (hangup_armed_ || recv_ended_ || peer_ended_ || closing_ || detaching_) return;
  hangup_armed_ = true;
  io_uring_sqe* sqe = uring().GetSqe();
  io_uring_prep_poll_add(sqe, fd_, POLLRDHUP);
  io_uring_sqe_set_data(sqe, &hangup_op_);
}

void UringSocket::OnHangup(int result) {
  hangup_armed_ = false;
  if (closing_ || detaching_) return FinishIfIdle();
  if (result > 0) OnEnd(result);
}

void UringSocket::OnEnd(int events) {
  if (recv_ended_) return;
  broken_ = broken_ || (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  peer_ended_ = true;
  if (recv_armed_) {
    // It may have overlooked it. A new one begins with a look at the socket, and is no multishot.
    must_renew_ = true;
    CancelRecv();
  } else if (broken_) {
    ArmRecv();
  }
  TellPeerShutdown();
}

bool UringSocket::Recheck() {
  const int events = FindEnd();
  if (events == 0 || recv_ended_ || closing_ || detaching_) return false;
  const bool is_broken = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  // It was told, and what came before it is not wanted yet.
  if (peer_ended_ && !is_broken && !recv_armed_) return false;
  OnEnd(events);
  return true;
}

void UringSocket::OnRecvCompletion(int result, uint32_t flags) {
  if ((flags & UringProactor::kPostponed) != 0) [[unlikely]] {
    --postponed_;
  } else if (postponed_ > 0 || !uring().IsInTurn(&recv_op_)) [[unlikely]] {
    ++postponed_;
    return uring().Postpone(&recv_op_, result, flags, false);
  }
  TakeRecv(result, flags);
}

bool UringSocket::GiveBuffer(int result, uint32_t flags) {
  static_assert(UringProactor::kBufferSize <= UINT16_MAX, "taken_ and given_back_");
  const uint32_t id = flags >> IORING_CQE_BUFFER_SHIFT;
  const size_t begin = std::exchange(taken_, 0);
  if (singles_ != 0 && begin == 0) [[unlikely]]
    --singles_;
  // If a part is given back no other receive may be armed before its turn.
  const bool is_armed = std::exchange(recv_armed_, true);
  if (!closing_)
    handler_->OnRecv({uring().buffer(id) + begin, static_cast<size_t>(result) - begin});
  const uint16_t given_back = std::exchange(given_back_, 0);
  if (given_back == 0 || closing_) [[likely]] {
    recv_armed_ = is_armed;
    uring().ReturnBuffer(id);
    return true;
  }
  taken_ = static_cast<uint16_t>(result - given_back);
  uring().Postpone(&recv_op_, result, flags, postponed_++ > 0);
  return false;
}

void UringSocket::TakeRecv(int result, uint32_t flags) {
  recv_armed_ = (flags & IORING_CQE_F_MORE) != 0;
  if (!recv_armed_) must_renew_ = false;
  if (recv_into_) {
    recv_into_ = false;
    if (result > 0 && !closing_) OnInto(static_cast<size_t>(result));
  } else if (result > 0) {
    if (!GiveBuffer(result, flags)) return;
  } else if ((flags & IORING_CQE_F_BUFFER) != 0) {
    uring().ReturnBuffer(flags >> IORING_CQE_BUFFER_SHIFT);
  }
  if (closing_) return FinishIfIdle();
  if (recv_armed_) {
    // Kernels were seen whose cancellation misses a receive that is just being tried again.
    // (https://github.com/axboe/liburing/issues/1375)
    if (must_renew_ || (!recv_wanted_ && !broken_) || has_room()) CancelRecv();
    return;
  }
  // ENOBUFS: all buffers were in use; they are back before this is submitted. ECANCELED: StopRecv.
  const bool go_on = result > 0 || result == -ENOBUFS || result == -ECANCELED || result == -EINTR;
  if (go_on) {
    if ((recv_wanted_ || broken_) && !recv_ended_ && !detaching_) ArmRecv();
  } else if (!recv_ended_) {
    recv_ended_ = true;
    handler_->OnRecvEnd(-result);
  }
  if (detaching_) FinishIfIdle();
}

Socket::SendResult UringSocket::Send(std::string_view bytes, SendMode mode) {
  DCHECK(!send_armed_ && !closing_);
  DCHECK(!bytes.empty());
  if (mode == SendMode::kNow) {
    const size_t once = std::min(bytes.size(), kOnceMax);
    const ssize_t sent = send(fd_, bytes.data(), once, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return SendResult::kBroken;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    if (bytes.empty()) return SendResult::kDone;
  }
  unsent_ = bytes;
  QueueSend();
  return SendResult::kPending;
}

void UringSocket::QueueSend() {
  send_armed_ = true;
  io_uring_sqe* sqe = uring().GetSqe();
  // WAITALL: the kernel itself goes on after a short send, once the socket is writable again.
  io_uring_prep_send(sqe, fd_, unsent_.data(), std::min(unsent_.size(), kOnceMax),
                     MSG_NOSIGNAL | MSG_WAITALL);
  io_uring_sqe_set_data(sqe, &send_op_);
}

void UringSocket::OnSendCompletion(int result) {
  send_armed_ = false;
  if (closing_) return FinishIfIdle();
  if (result > 0 && static_cast<size_t>(result) < unsent_.size()) {
    unsent_.remove_prefix(static_cast<size_t>(result));
    QueueSend();
    return;
  }
  if (result == -EINTR || result == -EAGAIN) {
    QueueSend();
    return;
  }
  handler_->OnSent(result < 0 ? -result : 0);
}

void UringSocket::Close() {
  DCHECK(!closing_);
  closing_ = true;
  detaching_ = false;
  proactor_->CancelHook(&tell_hook_);
  shutdown(fd_, SHUT_RDWR);
  if (recv_armed_ || send_armed_ || hangup_armed_) {
    // The operations may still be queued here only; the cancellation is queued behind them, so it
    // meets them all.
    io_uring_sqe* sqe = uring().GetSqe();
    io_uring_prep_cancel_fd(sqe, fd_, IORING_ASYNC_CANCEL_ALL);
    io_uring_sqe_set_data(sqe, nullptr);
  }
  proactor_->AtIterationEnd(&close_hook_);
}

void UringSocket::Detach() {
  DCHECK(!send_armed_ && !closing_ && !detaching_);
  detaching_ = true;
  recv_wanted_ = false;
  proactor_->CancelHook(&tell_hook_);
  proactor_->AtIterationEnd(&close_hook_);
}

void UringSocket::FinishIfIdle() {
  if (close_hook_.queued) return;  // it was asked for in this iteration: the hook comes back here
  if (detaching_) return GoOnDetaching();
  if (!closing_) return;
  if (recv_armed_ || send_armed_ || cancel_armed_ || hangup_armed_ || closed_) return;
  closed_ = true;
  close(fd_);
  handler_->OnClosed();
}

void UringSocket::GoOnDetaching() {
  if (cancel_armed_) return;
  // Again if it has missed an operation; see OnRecvCompletion.
  if (recv_armed_) return Cancel(&recv_op_);
  if (hangup_armed_) return Cancel(&hangup_op_);
  detaching_ = false;
  closed_ = true;
  handler_->OnDetached();
}

}  // namespace helio
