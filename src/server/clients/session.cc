// SPDX-License-Identifier: Apache-2.0
#include "server/clients/session.h"

#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"

namespace dfly {

namespace {

// By what CLIENT LIST shows of it: a command that came by HTTP is its own client's.
bool IsLocal(const Session& session) {
  const std::string& unix_socket = session.server.options.unix_socket;
  const std::string_view address = session.peer_address;
  return address.starts_with("127.0.0.1:") || address.starts_with("[::1]:") ||
         (!unix_socket.empty() && session.local_address.starts_with(unix_socket));
}

}  // namespace

Session::Session(WorkerState* its_worker, Connection* its_connection)
    : server(its_worker->server), worker(*its_worker), connection(*its_connection) {}

Session::Session(WorkerState* its_worker, Session&& from)
    : MovedSession(std::move(static_cast<MovedSession&>(from))),
      server(its_worker->server),
      worker(*its_worker),
      connection(from.connection) {}

bool Session::IsAllowed(ProtectedAction action) const {
  return action == ProtectedAction::kYes || (action == ProtectedAction::kLocal && IsLocal(*this));
}

bool Session::owes_reply() const {
  const bool waits = blocked != nullptr && blocked->waits();
  return coordinators > 0 && !waits;
}

}  // namespace dfly
