// SPDX-License-Identifier: Apache-2.0
// TLS over another socket.
//
//   kernel -> inner socket -OnRecv-> TlsSession -> the thread's plain buffer -OnRecv-> handler
//   handler -Send-> TlsSession, a chunk at a time -> sending_ -> inner socket -> kernel
//
// What arrives is decrypted at once and handed on, so nothing that the handler has not seen stays
// here but a part of a record, inside the session. That makes a move to another thread easy: the
// session travels (Socket::TakeTls), and the next socket goes on with it.
//
// A large Send is encrypted a chunk at a time, the next one when the kernel has taken the last.
//
// Failures of clients are counted and logged here. Who has made a connection itself, and tries it
// again and again, asks TlsTrouble and tells it once.
#pragma once

#include "helio/net/socket.h"

namespace helio {

// `inner` is on io_uring or epoll.
class TlsSocket final : public Socket, private Socket::Handler {
 public:
  TlsSocket(Proactor* proactor, int fd, Socket::Handler* handler,
            std::unique_ptr<TlsSession> session);
  ~TlsSocket() override;

  void StartRecv() override;
  void StopRecv() override;
  bool Recheck() override { return inner_->Recheck(); }
  SendResult Send(std::string_view bytes, SendMode mode) override;
  void Close() override;
  void Detach() override;
  std::unique_ptr<TlsSession> TakeTls() override { return std::move(session_); }
  std::string_view TlsTrouble() const override;

 private:
  // Of a Send at a time: four records.
  static constexpr size_t kChunk = 64 * 1024;
  // Chunks that one call sends before others get their turn.
  static constexpr int kChunksMax = 16;
  // What a peer may make us answer (key updates, alerts) while it does not read.
  static constexpr size_t kUnaskedMax = 16 * 1024;
  // So much is decrypted between two looks at the turn; a record may have four times as much.
  static constexpr size_t kPieceBytes = 4 * 1024;

  void OnRecv(std::string_view data) override;
  void OnRecvEnd(int error) override;
  void OnPeerShutdown() override;
  void OnSent(int error) override;
  void OnClosed() override;
  void OnDetached() override;

  void Take(std::string_view data);
  void AdvanceHandshake();
  void ReadAll();
  // Hands what the session has for the peer to the inner socket.
  void Flush(SendMode mode);
  // Encrypts and sends more of unsent_.
  SendResult SendSome(SendMode mode);
  // The same, for a Send that was pending.
  void GoOnSending();
  void EndSend(int error);
  // The end of receiving, for a reason of TLS.
  void Fail(std::string_view why, int error);
  void EndRecv(int error);
  void OnHandshakeTimeout();

  struct HandshakeTimer : Timer {
    using Timer::Timer;
    TlsSocket* socket = nullptr;
  };
  struct SendHook : LoopHook {
    using LoopHook::LoopHook;
    TlsSocket* socket = nullptr;
  };

  std::unique_ptr<TlsSession> session_;
  std::unique_ptr<Socket> inner_;
  HandshakeTimer handshake_timer_;
  SendHook send_hook_;       // goes on with a large Send in the next iteration
  IoBuf sending_;            // the kernel reads from it while inner_sends_
  std::string_view unsent_;  // of the handler's Send
  bool has_begun_ = false;   // to receive
  bool recv_wanted_ = false;
  bool inner_sends_ = false;
  bool send_pending_ = false;  // the handler waits for OnSent
  bool recv_ended_ = false;
  bool broken_ = false;
  bool detaching_ = false;
  bool closing_ = false;
};

}  // namespace helio
