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
  SendResult Send(std::string_view bytes, SendMode mode) override;
  void Close() override;
  void Detach() override;

 private:
  struct Op : UringOp {
    using UringOp::UringOp;
    UringSocket* socket = nullptr;
  };

  void ArmRecv();
  void CancelRecv() { Cancel(&recv_op_); }
  void Cancel(Op* op);
  void ArmHangupPoll();
  void OnHangup(int result);
  void QueueSend();
  void OnRecvCompletion(int result, uint32_t flags);
  void OnSendCompletion(int result);
  // What Close or Detach has begun.
  void FinishIfIdle();
  void GoOnDetaching();

  UringProactor& uring() { return *static_cast<UringProactor*>(proactor_); }

  Op recv_op_;
  Op send_op_;
  Op cancel_op_;
  Op hangup_op_;  // while nobody receives, somebody has to notice a reset
  struct CloseHook : LoopHook {
    using LoopHook::LoopHook;
    UringSocket* socket = nullptr;
  } close_hook_;
  std::string_view unsent_;
  // Linux, at least up to 6.18, may lose the end of a unix socket's stream: a multishot receive
  // that is woken for data and for the end at once only sees the data.
  // (https://github.com/axboe/liburing/issues/1549) facade's connection_test meets it when the
  // machine is busy.
  const bool may_lose_end_;
  bool recv_wanted_ = false;
  bool recv_armed_ = false;  // the kernel owns recv_op_
  bool recv_ended_ = false;  // OnRecvEnd was called
  bool cancel_armed_ = false;
  bool hangup_armed_ = false;
  bool send_armed_ = false;  // the kernel owns send_op_ and the bytes
  bool closing_ = false;
  bool detaching_ = false;
  bool closed_ = false;  // or detached
};

}  // namespace helio
