// SPDX-License-Identifier: Apache-2.0
#include "server/protected_action.h"

#include <string>

#include "server/server_state.h"
#include "server/session.h"
#include "server/words.h"

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

std::optional<ProtectedAction> ParseProtectedAction(std::string_view text) {
  if (IsWord(text, "no")) return ProtectedAction::kNo;
  if (IsWord(text, "local")) return ProtectedAction::kLocal;
  if (IsWord(text, "yes")) return ProtectedAction::kYes;
  return {};
}

std::string_view ToText(ProtectedAction action) {
  switch (action) {
    case ProtectedAction::kNo:
      return "no";
    case ProtectedAction::kLocal:
      return "local";
    case ProtectedAction::kYes:
      return "yes";
  }
  return "";
}

bool IsAllowed(ProtectedAction action, const Session& session) {
  return action == ProtectedAction::kYes || (action == ProtectedAction::kLocal && IsLocal(session));
}

}  // namespace dfly
