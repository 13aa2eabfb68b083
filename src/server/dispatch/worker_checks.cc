// SPDX-License-Identifier: Apache-2.0
// The worker's part of who may run a command: rights and quotas.
#include <optional>
#include <string>
#include <utility>

#include "facade/replies/error_texts.h"
#include "server/dispatch/worker.h"

namespace dfly {

std::optional<CommandSink::Outcome> Worker::CheckUser(Connection* connection, Session& session,
                                                      const Command* command, Args args) {
  if (session.quotas != nullptr) {
    using End = Quotas::Verdict::End;
    // At most one reply of a connection is not paid for.
    if (Quotas::limits_bytes(*session.quotas) && !BarrierIsOpen(connection)) {
      return Outcome::kBarrier;
    }
    Quotas::Verdict verdict = quotas_.Take(session, command, args);
    if (verdict.end == End::kWaits) {
      // Everything before it is executed; it stays in the input until there are tokens.
      RunNoted();
      connection->HoldUnread();
      if (connection->recv_ended()) connection->SendAndCloseNow();  // OnPeerShutdown
      return Outcome::kBarrier;
    }
    if (verdict.end != End::kRuns) {
      AbortMulti(session, command);
      const Outcome outcome =
          Refuse(connection, command, args,
                 {.error = std::move(verdict.error), .is_of_row = command != nullptr});
      return verdict.end == End::kClosed ? Outcome::kClose : outcome;
    }
  }
  if (command == nullptr || (command->flags & kNoAuth) != 0) return std::nullopt;
  if (session.user.is_authenticated && session.user.acl == nullptr) return std::nullopt;
  AclVerdict verdict;
  if (session.user.acl != nullptr) {
    const int db = session.multi != nullptr ? session.multi->db_index() : session.db_index;
    verdict = session.user.acl->Check(*command, args, {db, shards_.db_count()});
  }
  if (session.user.is_authenticated && !verdict.is_denied()) return std::nullopt;
  AbortMulti(session, command);
  if (!session.user.is_authenticated) {
    return Refuse(connection, command, args, {.error = std::string(kErrNoAuth)});
  }
  return Refuse(connection, command, args,
                {.error = DenialError(verdict, session.user.name, *command), .verdict = verdict});
}

}  // namespace dfly
