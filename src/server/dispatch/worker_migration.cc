// SPDX-License-Identifier: Apache-2.0
// How a connection moves to another thread (--migrate_connections).
//
//   NoteAffinity   its commands keep landing there: it is asked to rest
//   OnRest         all that it has sent and was executed is answered, the rest waits in its input:
//                  it gives up its socket, which may still take what is on its way
//   OnDetached     nobody here knows its descriptor any more: it travels, as a message
//   Arrive         it goes on with its input, and with a socket of the new thread
//
// While it travels it is in no worker's list, so who looks for all clients forbids moves meanwhile
// (AwaitOnAllSessions).
#include <memory>
#include <utility>

#include "helio/base/logging.h"
#include "server/clients/server_state.h"
#include "server/dispatch/worker.h"

namespace dfly {

void Worker::MoveSoon(Session& session, uint32_t thread) {
  DCHECK_LT(thread, shards_.pool().size());
  session.move_to = thread;
  session.connection.AskForRest();
}

bool Worker::MayMove(const Session& session) const {
  const Connection& connection = session.connection;
  // A connection at rest has no replies pending, no batches and no fiber; this is what else ties it
  // to its thread, or is about to end it.
  return !gates_.is_paused() && !connection.held() && !connection.recv_ended() &&
         session.coordinators == 0 && session.blocked == nullptr && session.local_batches == 0 &&
         session.cut_batches.empty() && session.multi == nullptr && session.executing == nullptr &&
         session.watches.empty() && session.monitor == Session::Monitor::kNo &&
         session.subscriptions == nullptr && session.tracking == nullptr &&
         !session.is_redirect_target && !session.close_after_reply &&
         session.replica_offer == nullptr && session.feed == nullptr;
}

void Worker::OnRest(Connection* connection) {
  Session& session = SessionOf(connection);
  if (session.primary != nullptr) return session.primary->owner->OnRest();
  session.affinity.OnTried();
  if (session.move_to == index() || !MayMove(session)) return connection->EndRest();
  connection->Detach();
}

void Worker::OnDetached(Connection* connection) {
  Session& session = SessionOf(connection);
  if (!server_.moves.Begin()) return Attach(connection);
  state_.Remove(connection);
  client_limiter_.OnLeft(session);
  quotas_.Depart(session);
  server_.connections.OnMoved(index(), session.move_to);
  session.move.session = &session;
  session.move.run = [](helio::Message* message) {
    Worker::Here().Arrive(static_cast<Session::Move*>(message)->session);
  };
  server_.pool.at(session.move_to)->PostLazily(&session.move);
}

void Worker::Arrive(Session* from) {
  Connection* const connection = &from->connection;
  auto* const session = new Session(&state_, std::move(*from));
  session->quotas = std::move(from->quotas);
  connection->set_user_data(session);
  delete from;
  state_.Add(connection);
  quotas_.Arrive(*session);
  ++state_.stats.migrations;
  server_.moves.End();
  Attach(connection);
}

void Worker::Attach(Connection* connection) {
  connection->Attach(this, &state_.buffers, [this](PendingReplies* replies) {
    batches_.Recycle(static_cast<ShardBatch*>(replies));
  });
}

}  // namespace dfly
