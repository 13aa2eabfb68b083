// SPDX-License-Identifier: Apache-2.0
#include "helio/net/tls_socket.h"

#include <atomic>
#include <cerrno>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/net/address.h"

namespace helio {
namespace {

// What was decrypted, until the handler has got it: no connection owns a buffer for that.
constexpr size_t kPlainBufferSize = 64 * 1024;
char* PlainBuffer() {
  static thread_local const auto buffer = std::make_unique<char[]>(kPlainBufferSize);
  return buffer.get();
}

// One line a second at most: anybody may connect, and send nonsense.
void LogFailure(int fd, std::string_view what, std::string_view why) {
  static std::atomic<uint64_t> next_ns{0};
  static std::atomic<uint64_t> untold{0};
  const uint64_t now_ns = MonotonicNanos();
  uint64_t expected = next_ns.load(std::memory_order_relaxed);
  if (now_ns < expected || !next_ns.compare_exchange_strong(expected, now_ns + 1'000'000'000)) {
    untold.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t others = untold.exchange(0, std::memory_order_relaxed);
  LOG(WARNING) << what << " with " << PeerAddress(fd) << " failed: " << why
               << (others == 0 ? "" : ", and " + std::to_string(others) + " before it");
}

}  // namespace

TlsSocket::TlsSocket(Proactor* proactor, int fd, Socket::Handler* handler,
                     std::unique_ptr<TlsSession> session)
    : Socket(proactor, fd, handler),
      session_(std::move(session)),
      inner_(Socket::Adopt(proactor, fd, static_cast<Socket::Handler*>(this))),
      handshake_timer_(
          [](Timer* timer) { static_cast<HandshakeTimer*>(timer)->socket->OnHandshakeTimeout(); }),
      send_hook_([](LoopHook* hook) { static_cast<SendHook*>(hook)->socket->GoOnSending(); }) {
  handshake_timer_.socket = send_hook_.socket = this;
}

TlsSocket::~TlsSocket() {
  DCHECK(!handshake_timer_.armed());
  DCHECK(!send_hook_.queued);
}

void TlsSocket::StopRecv() {
  recv_wanted_ = false;
  // The handshake needs what the peer says, as does a Send that waits for its end.
  if (session_->is_established() || !has_begun_) inner_->StopRecv();
}

void TlsSocket::StartRecv() {
  recv_wanted_ = true;
  inner_->StartRecv();
  if (std::exchange(has_begun_, true)) return;
  if (!session_->is_established()) {
    if (const uint64_t limit_ms = session_->handshake_timeout_ms(); limit_ms != 0) {
      proactor_->timers().Arm(&handshake_timer_, MonotonicNanos() + limit_ms * kNanosPerMilli);
    }
    if (session_->is_client()) (void)session_->Handshake();  // begins it; it needs input now
  }
  // Or what was left to say when the session came from another thread.
  Flush(SendMode::kNow);
}

void TlsSocket::OnRecv(std::string_view data) {
  while (!data.empty() && !closing_ && !recv_ended_) {
    const std::string_view piece = data.substr(0, kPieceBytes);
    Take(piece);
    data.remove_prefix(piece.size());
    if (!data.empty() && !closing_ && inner_->IsTurnOver() && inner_->GiveBack(data.size())) return;
  }
}

void TlsSocket::Take(std::string_view data) {
  session_->Feed(data);
  if (!session_->is_established()) AdvanceHandshake();
  if (!closing_ && !recv_ended_ && session_->is_established()) ReadAll();
  if (closing_) return;
  Flush(SendMode::kNow);
  if (inner_sends_ && session_->output().size() > kUnaskedMax && !recv_ended_) {
    Fail("the peer makes us answer, and does not read it", EPROTO);
  }
}

void TlsSocket::AdvanceHandshake() {
  switch (session_->Handshake()) {
    case TlsSession::Status::kDone:
      proactor_->timers().Disarm(&handshake_timer_);
      if (!session_->is_client()) {
        ++ThreadTlsStats().handshakes;
        handler_->OnTlsEstablished(*session_);
      }
      if (!recv_wanted_) inner_->StopRecv();
      Flush(SendMode::kNow);
      if (send_pending_) GoOnSending();
      return;
    case TlsSession::Status::kNeedsInput:
      return;
    case TlsSession::Status::kEnd:
      return EndRecv(0);
    case TlsSession::Status::kFailed:
      return Fail(session_->error(), EPROTO);
  }
}

void TlsSocket::ReadAll() {
  char* const buffer = PlainBuffer();
  auto status = TlsSession::Status::kDone;
  while (status == TlsSession::Status::kDone) {
    // Several records together, as one that handles them one by one has more to do.
    size_t filled = 0;
    while (filled < kPlainBufferSize) {
      size_t size = 0;
      status = session_->Read(buffer + filled, kPlainBufferSize - filled, &size);
      if (status != TlsSession::Status::kDone) break;
      filled += size;
    }
    if (filled > 0) handler_->OnRecv({buffer, filled});
    if (closing_) return;
  }
  if (status == TlsSession::Status::kEnd) EndRecv(0);
  if (status == TlsSession::Status::kFailed) Fail(session_->error(), EPROTO);
}

std::string_view TlsSocket::TlsTrouble() const {
  if (session_ == nullptr) return {};
  if (!session_->error().empty()) return session_->error();
  return session_->is_established() ? "" : "the handshake is not over";
}

void TlsSocket::Fail(std::string_view why, int error) {
  if (!session_->is_client()) {
    const bool is_handshake = !session_->is_established();
    if (is_handshake) ++ThreadTlsStats().handshake_failures;
    LogFailure(fd_, is_handshake ? "TLS handshake" : "TLS", why);
  }
  Flush(SendMode::kNow);  // the alert
  EndRecv(error);
}

void TlsSocket::EndRecv(int error) {
  recv_ended_ = true;
  proactor_->timers().Disarm(&handshake_timer_);
  // What else comes is nobody's; a peer that vanishes is still noticed.
  inner_->StopRecv();
  handler_->OnRecvEnd(error);
}

void TlsSocket::OnRecvEnd(int error) {
  if (closing_) return;
  proactor_->timers().Disarm(&handshake_timer_);
  if (std::exchange(recv_ended_, true)) return;  // TLS has told it already
  if (!session_->is_established() && !session_->is_client()) {
    ++ThreadTlsStats().handshake_failures;
  }
  // Without close_notify, too: commands tell themselves where they end, so nothing is taken for
  // complete that was cut off.
  handler_->OnRecvEnd(error);
}

void TlsSocket::OnPeerShutdown() {
  if (!closing_ && !recv_ended_) handler_->OnPeerShutdown();
}

void TlsSocket::OnHandshakeTimeout() {
  if (!session_->is_client()) ++ThreadTlsStats().handshake_timeouts;
  Fail("it takes too long", ETIMEDOUT);
}

void TlsSocket::Flush(SendMode mode) {
  IoBuf& output = session_->output();
  if (inner_sends_ || detaching_ || broken_ || output.empty()) return;
  sending_.Swap(output);
  switch (inner_->Send(sending_.view(), mode)) {
    case SendResult::kDone:
      sending_.Clear();
      // The next chunk of the same Send goes there again.
      if (unsent_.empty()) sending_.Release();
      break;
    case SendResult::kPending:
      inner_sends_ = true;
      break;
    case SendResult::kBroken:
      broken_ = true;
      sending_.Release();
      break;
  }
}

Socket::SendResult TlsSocket::Send(std::string_view bytes, SendMode mode) {
  DCHECK(!send_pending_ && !closing_);
  DCHECK(!bytes.empty());
  unsent_ = bytes;
  const SendResult result = SendSome(mode);
  send_pending_ = result == SendResult::kPending;
  return result;
}

Socket::SendResult TlsSocket::SendSome(SendMode mode) {
  for (int chunks = 0; !broken_; ++chunks) {
    if (inner_sends_ || !session_->is_established()) return SendResult::kPending;
    if (unsent_.empty()) return SendResult::kDone;
    if (chunks == kChunksMax) {
      proactor_->AtIterationEnd(&send_hook_);
      return SendResult::kPending;
    }
    const std::string_view chunk = unsent_.substr(0, kChunk);
    if (session_->output().empty()) session_->output().Swap(sending_);  // which has room
    if (session_->Write(chunk) != TlsSession::Status::kDone) break;
    unsent_.remove_prefix(chunk.size());
    Flush(mode);
  }
  broken_ = true;
  unsent_ = {};
  return SendResult::kBroken;
}

void TlsSocket::GoOnSending() {
  if (!send_pending_ || closing_) return;
  switch (SendSome(SendMode::kNow)) {
    case SendResult::kDone:
      return EndSend(0);
    case SendResult::kPending:
      return;
    case SendResult::kBroken:
      return EndSend(EPIPE);
  }
}

void TlsSocket::EndSend(int error) {
  send_pending_ = false;
  unsent_ = {};
  handler_->OnSent(error);
}

void TlsSocket::OnSent(int error) {
  inner_sends_ = false;
  sending_.Clear();
  if (unsent_.empty()) sending_.Release();
  if (closing_) return;
  if (detaching_) return inner_->Detach();
  if (error != 0) {
    broken_ = true;  // if it was not the handler's, the receiving side is told
    if (send_pending_) EndSend(error);
    return;
  }
  Flush(SendMode::kNow);
  GoOnSending();
}

void TlsSocket::Close() {
  DCHECK(!closing_);
  proactor_->timers().Disarm(&handshake_timer_);
  proactor_->CancelHook(&send_hook_);
  // Not in the middle of a Send's records: the peer would take it for the end of them.
  if (session_->is_established() && !send_pending_) {
    session_->Shutdown();
    Flush(SendMode::kNow);
  }
  closing_ = true;
  detaching_ = false;
  inner_->Close();
}

void TlsSocket::OnClosed() { handler_->OnClosed(); }

void TlsSocket::Detach() {
  DCHECK(!send_pending_ && !closing_ && !detaching_);
  detaching_ = true;
  proactor_->timers().Disarm(&handshake_timer_);
  // What TLS itself has to say may still be on its way.
  if (!inner_sends_) inner_->Detach();
}

void TlsSocket::OnDetached() { handler_->OnDetached(); }

}  // namespace helio
