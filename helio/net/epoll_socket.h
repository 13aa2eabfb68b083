// SPDX-License-Identifier: Apache-2.0
// Socket on epoll: level triggered; a send that does not fit waits for write readiness.
#pragma once

#include "helio/net/socket.h"
#include "helio/proactor/epoll_proactor.h"

namespace helio {

class EpollSocket final : public Socket {
 public:
  EpollSocket(EpollProactor* proactor, int fd, Handler* handler);
  ~EpollSocket() override;

  void StartRecv() override;
  void StopRecv() override;
  bool Recheck() override;
  SendResult Send(std::string_view bytes, SendMode mode) override;
  void Close() override;
  void Detach() override;
  void ReceiveInto(std::span<char> room) override { room_ = room; }

 private:
  struct Watcher : EpollWatcher {
    using EpollWatcher::EpollWatcher;
    EpollSocket* socket = nullptr;
  };

  void OnReady(uint32_t events);
  void ReceiveOnce();
  void UpdateInterest();
  void EndRecv(int error);
  // Sends what the kernel takes. Returns false if the connection is broken.
  bool SendSome();

  EpollProactor& epoll() { return *static_cast<EpollProactor*>(proactor_); }

  Watcher watcher_;
  struct CloseHook : LoopHook {
    using LoopHook::LoopHook;
    EpollSocket* socket = nullptr;
  } close_hook_;
  struct RefusedHook : LoopHook {
    using LoopHook::LoopHook;
    EpollSocket* socket = nullptr;
  } refused_hook_;  // tells the handler that the kernel would not watch the socket
  std::span<char> room_;
  std::string_view unsent_;
  uint32_t interest_ = 0;
  bool watched_;
  bool recv_wanted_ = false;
  bool recv_ended_ = false;
  bool peer_ended_ = false;  // its side, which was told; it is not watched for again
  bool closing_ = false;
  bool detaching_ = false;
  bool closed_ = false;  // or detached
};

}  // namespace helio
