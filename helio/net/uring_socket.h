// SPDX-License-Identifier: Apache-2.0
// Socket on io_uring: one multishot receive into the proactor's provided buffers, at most one send.
#pragma once

#include "helio/net/socket.h"
#include "helio/proactor/uring_proactor.h"

namespace helio {

class UringSocket final : public Socket {
 public:
  UringSocket(UringProactor* proactor, int fd, Handler* handler);
  ~UringSocket() override;

  void StartRecv() override;
  void StopRecv() override;
  bool Recheck() override;
  SendResult Send(std::string_view bytes, SendMode mode) override;
  void Close() override;
  void Detach() override;
  void ReceiveInto(std::span<char> room) override;
  bool IsTurnOver() override { return !uring().IsTimeLeft(); }
  bool GiveBack(size_t bytes) override {
    if (in_tail_) return false;
    given_back_ = static_cast<uint16_t>(bytes);
    return true;
  }

 private:
  struct Op : UringOp {
    using UringOp::UringOp;
    UringSocket* socket = nullptr;
  };

  // A receive into a room. What follows it closely, as the end of a line does, comes with it.
  struct Into {
    std::span<char> room;  // empty: it is not asked for
    iovec parts[2];
    msghdr message = {};
    char tail[64];
  };

  void ArmRecv();
  bool has_room() const { return into_ != nullptr && !into_->room.empty(); }
  void ArmInto(io_uring_sqe* sqe);
  void OnInto(size_t bytes);
  void CancelRecv() { Cancel(&recv_op_); }
  void Cancel(Op* op);
  void ArmHangupPoll();
  void OnHangup(int result);
  // The peer has ended its side or the connection is broken, as poll's `events` say.
  void OnEnd(int events);
  void TellPeerShutdown();
  void OnCancelled();
  void QueueSend();
  void OnRecvCompletion(int result, uint32_t flags);
  void TakeRecv(int result, uint32_t flags);
  // Gives the handler what a buffer has. False: it has given a part back, which is postponed.
  bool GiveBuffer(int result, uint32_t flags);
  void OnSendCompletion(int result);
  // What Close or Detach has begun.
  void FinishIfIdle();
  void GoOnDetaching();

  UringProactor& uring() { return *static_cast<UringProactor*>(proactor_); }

  Op recv_op_;
  Op send_op_;
  Op cancel_op_;
  // Notices the end: while nobody receives, and besides a receive. Linux, at least up to 6.18, may
  // lose the end of a stream: a multishot receive that is woken for data and for the end at once
  // only sees the data. (https://github.com/axboe/liburing/issues/1549) Of TCP's ends these are the
  // resets; of unix sockets' all.
  Op hangup_op_;
  struct Hook : LoopHook {
    using LoopHook::LoopHook;
    UringSocket* socket = nullptr;
  };
  Hook close_hook_;
  Hook tell_hook_;
  std::string_view unsent_;
  std::unique_ptr<Into> into_;  // null: it was never asked for
  bool recv_wanted_ = false;
  bool recv_armed_ = false;  // the kernel owns recv_op_
  bool recv_into_ = false;   // and the room
  uint8_t singles_ = 0;      // so many receives to come are no multishots
  uint16_t postponed_ = 0;   // completions of recv_op_, which is armed until the last one's turn
  uint16_t taken_ = 0;       // bytes of the first of them
  uint16_t given_back_ = 0;  // by the handler that is being called
  bool shutdown_told_ = false;
  bool in_tail_ : 1 = false;     // the handler is called for what is not in a buffer
  bool recv_ended_ : 1 = false;  // OnRecvEnd was called
  bool peer_ended_ : 1 = false;  // its side, or all of it: a receive will come to the end
  bool broken_ : 1 = false;  // what has arrived is all there will be: it is received, wanted or not
  bool must_renew_ : 1 = false;  // the receive that is armed may have overlooked the end
  bool cancel_armed_ : 1 = false;
  bool hangup_armed_ : 1 = false;
  bool send_armed_ : 1 = false;  // the kernel owns send_op_ and the bytes
  bool closing_ : 1 = false;
  bool detaching_ : 1 = false;
  bool closed_ : 1 = false;  // or detached
};

}  // namespace helio
