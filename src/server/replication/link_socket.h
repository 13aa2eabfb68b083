// SPDX-License-Identifier: Apache-2.0
// A replica's connection to its primary, until the stream begins: a fiber reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "helio/fibers/sync.h"
#include "helio/net/socket.h"
#include "helio/net/tls.h"
#include "helio/proactor/proactor.h"

namespace dfly {

// Owner:    a fiber of the proactor, which calls it; Abort may come from others of that thread.
// Suspends: what says so.
class LinkSocket final : private helio::Socket::Handler {
 public:
  // Takes over `fd`, which is connected. A silence of `timeout_ns` is an error. `tls`: null, or the
  // primary speaks TLS.
  LinkSocket(helio::Proactor* proactor, int fd, uint64_t timeout_ns,
             std::unique_ptr<helio::TlsSession> tls);
  // REQUIRES: Close or Detach.
  ~LinkSocket() = default;

  // A command in RESP, or what else is to be sent. Suspends until the kernel has it. False:
  // error().
  bool Send(std::string bytes);
  // A newline, if nothing else is on its way: a sign of life.
  void SendNewline();
  // Without its end. Empty lines are skipped. None: error(). Suspends.
  std::optional<std::string> ReadLine();
  // Waits until received() is not empty. False: error(). Suspends.
  bool AwaitBytes();
  std::string_view received() const { return received_; }
  void Consume(size_t bytes);

  const std::string& error() const { return error_; }
  // Ends what waits, with this error.
  void Abort(std::string_view why);

  // Suspends until nothing uses it any more.
  void Close();
  // Gives up the descriptor; received() is what has come meanwhile. Suspends. -1: error(), and it
  // is closed.
  int Detach();
  // Behind Detach: what goes on with the descriptor speaks TLS with it. Null: no TLS.
  std::unique_ptr<helio::TlsSession> TakeTls() { return std::move(tls_); }

 private:
  static constexpr size_t kReceivedMax = 1 << 20;  // then the primary has to wait
  static constexpr size_t kLineMax = 64 * 1024;

  void OnRecv(std::string_view data) override;
  void OnRecvEnd(int error) override;
  void OnSent(int error) override;
  void OnClosed() override;
  void OnDetached() override;
  void Fail(std::string_view why);
  // The same, and what TLS has to do with it.
  void FailSocket(std::string_view why);
  // Until something changes or the time is over. False: it is, or there was an error.
  bool Await();

  std::unique_ptr<helio::Socket> socket_;
  std::unique_ptr<helio::TlsSession> tls_;  // once it is detached
  const uint64_t timeout_ns_;
  std::string received_;
  std::string sending_;
  bool is_sending_ = false;
  bool is_receiving_ = true;
  bool is_closed_ = false;
  bool is_detached_ = false;
  std::string error_;
  helio::Mutex mutex_;  // CondVar wants one; all is on one thread
  helio::CondVar changed_;
};

}  // namespace dfly
