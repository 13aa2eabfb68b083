// SPDX-License-Identifier: Apache-2.0
// The worker's part of what a connection may: who may come in, how long it may take until a client
// has told who it is, and how much may wait for it and of it.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "facade/replies/error_texts.h"
#include "helio/base/block_bytes.h"
#include "helio/base/clock.h"
#include "helio/net/address.h"
#include "helio/net/socket.h"
#include "server/clients/server_state.h"
#include "server/dispatch/worker.h"

namespace dfly {

void Worker::AddConnection(int fd, uint64_t id, PortKind kind) {
  helio::SetTcpOptions(fd, server_.settings.tcp_keepalive_s.load(std::memory_order_relaxed));
  Session& session = NewSession(fd, id, kind.is_tls ? tls_context_->NewSession() : nullptr);
  Connection& connection = session.connection;
  session.peer_address = helio::PeerAddress(fd);
  session.local_address = helio::LocalAddress(fd);
  session.is_admin = kind.is_admin;
  session.is_memcached = kind.is_memcached;
  if (kind.is_memcached) connection.SpeakMemcached();
  session.needs_no_password = kind.is_admin && server_.options.admin_nopass;
  BecomeDefault(session);
  ++state_.stats.connections_received;
  connection.Start();
  if (IsRefusedByProtectedMode(session)) {
    server_.connections.CountRejected();
    // The same in both protocols, but for how errors begin.
    const std::string_view text = std::string_view(kErrProtectedMode).substr(1);
    connection.PushMessage((kind.is_memcached ? "SERVER_ERROR " : "-") + std::string(text));
    connection.CloseWhenSent();
  }
}

void Worker::AddInnerConnection(int fd, const Session& on_behalf, const AclUserRef& user) {
  server_.connections.OnInner(index(), on_behalf.is_admin);
  Session& session =
      NewSession(fd, server_.next_client_id.fetch_add(1, std::memory_order_relaxed), nullptr);
  session.peer_address = on_behalf.peer_address;
  session.local_address = on_behalf.local_address;
  session.is_admin = on_behalf.is_admin;
  session.needs_no_password = on_behalf.needs_no_password;
  session.lib_name = "http";
  session.resp3 = true;
  BecomeUser(session, user);
  session.connection.Start();
}

Session& Worker::NewSession(int fd, uint64_t id, std::unique_ptr<helio::TlsSession> tls) {
  auto* connection = new Connection(
      fd, id, this, &server_.options.limits, &state_.buffers,
      [this](PendingReplies* replies) { Recycle(static_cast<ShardBatch*>(replies)); },
      std::move(tls));
  connection->SetMaxBulkLen(shards_.string_max());
  auto* session = new Session(&state_, connection);
  session_bytes_ = helio::BlockBytes(session);
  connection->set_user_data(session);
  state_.Add(connection);
  return *session;
}

bool Worker::IsRefusedByProtectedMode(const Session& session) const {
  return server_.settings.protected_mode.load(std::memory_order_relaxed) &&
         default_user_->has_nopass() && !session.needs_no_password &&
         !helio::IsLoopbackPeer(session.connection.socket().fd());
}

// --- Clients that do not authenticate ---

uint64_t Worker::AuthDeadlineNs(const Session& session, uint64_t limit_ns) const {
  // Who asks over HTTP never does, and may go on as long as it asks.
  const uint64_t since_ns = session.connection.is_http() ? session.connection.last_active_ns()
                                                         : session.unauthenticated_since_ns;
  return since_ns + limit_ns;
}

void Worker::WatchUnauthenticated(Session& session) {
  session.unauthenticated_since_ns = helio::MonotonicNanos();
  const uint64_t limit_s = server_.settings.auth_timeout_s.load(std::memory_order_relaxed);
  if (limit_s == 0 || auth_timer_.armed()) return;
  proactor_.timers().Arm(&auth_timer_, session.unauthenticated_since_ns + limit_s * 1'000'000'000);
}

void Worker::CloseUnauthenticated() {
  const uint64_t limit_s = server_.settings.auth_timeout_s.load(std::memory_order_relaxed);
  if (limit_s == 0) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  uint64_t next_ns = UINT64_MAX;
  state_.ForEachSession([&](Session& session) {
    if (session.authenticated || session.connection.closing()) return;
    const uint64_t deadline_ns = AuthDeadlineNs(session, limit_s * 1'000'000'000);
    if (deadline_ns > now_ns) {
      next_ns = std::min(next_ns, deadline_ns);
      return;
    }
    ++state_.stats.auth_timeouts;
    session.connection.CloseNow();
  });
  if (next_ns != UINT64_MAX) proactor_.timers().Arm(&auth_timer_, next_ns);
}

void Worker::OnAuthTimeoutChanged() {
  proactor_.timers().Disarm(&auth_timer_);
  CloseUnauthenticated();
}

bool Worker::OnLargeOutput(Connection* connection) {
  return client_limiter_.CheckOutput(SessionOf(connection));
}

bool Worker::OnHeavyInput(Connection* connection) {
  return client_limiter_.EndIfAloneTooLarge(SessionOf(connection));
}

void Worker::OnLargeInput(Connection* connection) {
  ++state_.stats.large_inputs;
  LOG(WARNING) << "closing connection " << connection->id() << " of "
               << SessionOf(connection).peer_address << ": " << connection->input_bytes()
               << " bytes of its input wait, more than client-query-buffer-limit";
}

void Worker::SetIdleTimeout(uint64_t seconds) {
  if (idle_task_ != 0) proactor_.RemovePeriodic(std::exchange(idle_task_, 0));
  if (seconds == 0) return;
  idle_task_ = proactor_.AddPeriodic(1000, [this, seconds] {
    const uint64_t now_ns = helio::MonotonicNanos();
    state_.ForEachSession([&](Session& session) {
      Connection& connection = session.connection;
      const bool waits =
          connection.busy() || !connection.replies().empty() || session.is_subscribed();
      if (!waits && now_ns > connection.last_active_ns() + seconds * 1'000'000'000)
        connection.CloseNow();
    });
  });
}

}  // namespace dfly
