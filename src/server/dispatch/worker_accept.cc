// SPDX-License-Identifier: Apache-2.0
// The worker's part of what a connection may: who may come in, and how much may wait for it and of
// it.
#include <memory>
#include <string>
#include <utility>

#include "facade/replies/error_texts.h"
#include "helio/base/block_bytes.h"
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
  session.user.is_admin = kind.is_admin;
  session.is_memcached = kind.is_memcached;
  if (kind.is_memcached) connection.SpeakMemcached();
  session.user.needs_no_password = kind.is_admin && server_.options.admin_nopass;
  if (kind.is_process) {
    users_.BecomeProcess(session);
  } else {
    users_.BecomeDefault(session);
  }
  ++state_.stats.connections_received;
  connection.Start();
  if (!kind.is_process && users_.IsRefusedByProtectedMode(session)) {
    server_.connections.CountRejected();
    // The same in both protocols, but for how errors begin.
    const std::string_view text = std::string_view(kErrProtectedMode).substr(1);
    connection.PushMessage((kind.is_memcached ? "SERVER_ERROR " : "-") + std::string(text));
    connection.CloseWhenSent();
  }
}

void Worker::SetTlsContext(std::shared_ptr<const helio::TlsContext> context) {
  tls_context_ = std::move(context);
}

CommandSink::Outcome Worker::OnHttp(Connection* connection, const HttpRequest& request) {
  if (server_.http == nullptr) return Outcome::kClose;
  return server_.http->OnHttp(connection, SessionOf(connection), request);
}

void Worker::OnTlsEstablished(Connection* connection, const helio::TlsSession& tls) {
  Session& session = SessionOf(connection);
  if (session.primary == nullptr) users_.LogInByCertificate(session, tls);
}

void Worker::AddInnerConnection(int fd, const Session& on_behalf, const AclUserRef& user) {
  server_.connections.OnInner(index(), on_behalf.user.is_admin);
  Session& session =
      NewSession(fd, server_.next_client_id.fetch_add(1, std::memory_order_relaxed), nullptr);
  session.peer_address = on_behalf.peer_address;
  session.local_address = on_behalf.local_address;
  session.user.is_admin = on_behalf.user.is_admin;
  session.user.needs_no_password = on_behalf.user.needs_no_password;
  session.lib_name = "http";
  session.resp3 = true;
  users_.Become(session, user);
  session.connection.Start();
}

Session& Worker::NewSession(int fd, uint64_t id, std::unique_ptr<helio::TlsSession> tls) {
  auto* connection = new Connection(
      fd, id, this, &server_.options.limits, &state_.buffers,
      [this](PendingReplies* replies) { batches_.Recycle(static_cast<ShardBatch*>(replies)); },
      std::move(tls));
  connection->SetMaxBulkLen(shards_.string_max());
  auto* session = new Session(&state_, connection);
  memory_.counted.session = helio::BlockBytes(session);
  connection->set_user_data(session);
  state_.Add(connection);
  return *session;
}

bool Worker::OnLargeOutput(Connection* connection) {
  Session& session = SessionOf(connection);
  if (session.quotas != nullptr) Quotas::OnOutput(session);
  return session.primary == nullptr && client_limiter_.CheckOutput(session);
}

bool Worker::OnHeavyInput(Connection* connection) {
  Session& session = SessionOf(connection);
  return session.primary == nullptr && client_limiter_.EndIfAloneTooLarge(session);
}

void Worker::OnLargeInput(Connection* connection) {
  ++state_.stats.large_inputs;
  LOG(WARNING) << "closing connection " << connection->id() << " of "
               << SessionOf(connection).peer_address << ": " << connection->input_bytes()
               << " bytes of its input wait, more than client-query-buffer-limit";
}

}  // namespace dfly
