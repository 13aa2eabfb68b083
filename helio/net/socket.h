// SPDX-License-Identifier: Apache-2.0
// A connected stream socket of one proactor: data arrives by callback, sending never waits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "helio/net/tls.h"
#include "helio/proactor/proactor.h"

namespace helio {

// Owner:    the proactor it was opened on; every call and every callback is on that thread.
// Suspends: never.
class Socket {
 public:
  // What the owner of a socket implements. All of it is called as briefs, never from inside a call
  // to the socket.
  class Handler {
   public:
    // `data` dies on return.
    virtual void OnRecv(std::string_view data) = 0;
    // So many bytes are where ReceiveInto has asked for them.
    virtual void OnRecvInto(size_t bytes) { (void)bytes; }
    // Nothing more will arrive: `error` is 0 at the peer's orderly end, else an errno. It comes
    // behind what arrived before the end. A connection that is broken is told also while receiving
    // is stopped, and then OnRecv may come before it.
    virtual void OnRecvEnd(int error) = 0;
    // The peer has ended its side while receiving is stopped: what it sent before is still to be
    // received, and OnRecvEnd comes behind that. At most once.
    virtual void OnPeerShutdown() {}
    // A Send that was kPending is over: all of it is sent (0), or the connection is broken (an
    // errno).
    virtual void OnSent(int error) = 0;
    // The handshake of TLS with a client is over; nothing of it was received yet.
    virtual void OnTlsEstablished(const TlsSession& session) { (void)session; }
    // After Close: no call will follow, and the kernel has let go of all buffers. The socket may be
    // destroyed in it.
    virtual void OnClosed() = 0;
    // After Detach: no call will follow, and the kernel has let go of all buffers. The socket may
    // be destroyed in it.
    virtual void OnDetached() {}

   protected:
    ~Handler() = default;
  };

  enum class SendMode : uint8_t {
    kNow,    // try a system call at once: best when few sockets have something to send
    kBatch,  // hand it to the kernel with the loop's other operations: best when many have
             // (io_uring only)
  };
  enum class SendResult : uint8_t {
    kDone,     // all of it is in the kernel
    kPending,  // OnSent will tell; until then the bytes must stay where they are, and no other Send
               // may start
    kBroken,   // the connection is broken; the receiving side will be told too
  };

  // Takes over `fd`, a connected, non-blocking socket. The handler must outlive OnClosed.
  static std::unique_ptr<Socket> Adopt(Proactor* proactor, int fd, Handler* handler);
  // The same, and with a session it speaks TLS. Null: none.
  static std::unique_ptr<Socket> Adopt(Proactor* proactor, int fd, Handler* handler,
                                       std::unique_ptr<TlsSession> tls);
  // REQUIRES: OnClosed or OnDetached was called.
  virtual ~Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // From now on, and again after StopRecv.
  virtual void StartRecv() = 0;
  // Back-pressure: stops asking for data. What the kernel has already handed out still arrives. The
  // peer's end is watched for, also if it never received before.
  virtual void StopRecv() = 0;
  // The next bytes that arrive shall go there and nowhere else, for as long as that has room for
  // them, without a copy; `room` lives until they have, or another one takes its place, or OnClosed
  // or OnDetached. Empty: into buffers of the socket's own. A hint: some still come by OnRecv, and
  // whoever has got them there asks again with what is left of the room. From inside OnRecv and
  // OnRecvInto only.
  virtual void ReceiveInto(std::span<char> room) { (void)room; }
  // From inside OnRecv only, for the next two. Whether the handler has had the thread for so long
  // that others should have it.
  virtual bool IsTurnOver() { return false; }
  // Once IsTurnOver: the last so many bytes of `data`, not all of it, come again, by OnRecv, when
  // others have had their turn. False: this kind of socket has nowhere to keep them.
  virtual bool GiveBack(size_t bytes) {
    (void)bytes;
    return false;
  }
  // A net below the kernel's reports: looks at the socket itself. True: the peer's end was there in
  // the last call already and nothing had told so; it is told now, also from inside this call.
  virtual bool Recheck() = 0;

  [[nodiscard]] virtual SendResult Send(std::string_view bytes, SendMode mode) = 0;

  // Breaks the connection off. Once, and then OnClosed comes, in a later iteration.
  virtual void Close() = 0;

  // Gives the descriptor up, open as it is, so that another socket can adopt it, on any proactor.
  // Data and the end of it may still come; once OnDetached is called, in a later iteration, the
  // rest is the other socket's. Close() before that ends it instead.
  // REQUIRES: no Send is pending.
  virtual void Detach() = 0;
  // In OnDetached: the TLS session, for the socket that goes on. Null: it has none.
  virtual std::unique_ptr<TlsSession> TakeTls() { return nullptr; }
  // Why TLS has failed, or that its handshake is not over. Empty: neither, or there is no TLS.
  virtual std::string_view TlsTrouble() const { return {}; }

  int fd() const { return fd_; }
  Proactor* proactor() const { return proactor_; }

 protected:
  // Bytes that one system call receives (ReceiveInto) or sends at most. Others of the loop want to
  // go on, too, and to a peer that reads at once the kernel sends 10 MB in one go.
  static constexpr size_t kOnceMax = 256 << 10;

  Socket(Proactor* proactor, int fd, Handler* handler)
      : proactor_(proactor), fd_(fd), handler_(handler) {}

  // For Recheck: the poll events of an end that is there now, as it was in the call before; else 0.
  // What has just happened is about to be told by itself.
  short FindEnd();

  Proactor* const proactor_;
  const int fd_;
  Handler* const handler_;

 private:
  bool end_seen_ = false;  // by FindEnd
};

// TCP_NODELAY, and keepalive probes after `keepalive_s` seconds of silence (0: none). No effect on
// unix sockets.
void SetTcpOptions(int fd, uint32_t keepalive_s);

}  // namespace helio
