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

Session::Session(WorkerState* its_worker, Session&& from) : Session(its_worker, &from.connection) {
  name = std::move(from.name);
  lib_name = std::move(from.lib_name);
  lib_version = std::move(from.lib_version);
  counted_texts = from.counted_texts;  // their connection is the same
  user = std::move(from.user);
  acl = std::move(from.acl);
  acl_caller = std::move(from.acl_caller);
  peer_address = std::move(from.peer_address);
  local_address = std::move(from.local_address);
  db_index = from.db_index;
  resp3 = from.resp3;
  is_memcached = from.is_memcached;
  authenticated = from.authenticated;
  unauthenticated_since_ns = from.unauthenticated_since_ns;
  is_admin = from.is_admin;
  needs_no_password = from.needs_no_password;
  no_touch = from.no_touch;
  no_evict = from.no_evict;
  missed_tries = from.missed_tries;
  reply_mode = from.reply_mode;
  commands = from.commands;
  last_command = from.last_command;
  affinity = from.affinity;
}

bool Session::IsAllowed(ProtectedAction action) const {
  return action == ProtectedAction::kYes || (action == ProtectedAction::kLocal && IsLocal(*this));
}

bool Session::owes_reply() const {
  const bool waits = blocked != nullptr && blocked->waits();
  return coordinators > 0 && !waits;
}

}  // namespace dfly
