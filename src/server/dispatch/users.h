// SPDX-License-Identifier: Apache-2.0
// Who the sessions of a thread are, and what becomes of them when users change, or when nobody logs
// in or says anything.
#pragma once

#include <cstdint>
#include <string_view>

#include "commands/table/command_table.h"
#include "helio/net/tls.h"
#include "server/acl/acl_user.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/clients/worker_state.h"
#include "server/quotas/quotas.h"

namespace dfly {

class Session;

// Owner:    a worker; on its thread.
// Suspends: TellChanged.
class Users : public PerThread<Users> {
 public:
  Users(WorkerState* worker, Quotas* quotas);
  ~Users();

  // The session becomes this user, who has logged in (and has a place by Quotas::EnterUser, or its
  // commands are refused until there is one).
  void Become(Session& session, const AclUserRef& user);
  // The default one, who need not log in if it lets in.
  void BecomeDefault(Session& session);
  // The process that takes over: it may do everything, whoever the users are.
  void BecomeProcess(Session& session);
  // Some users are others now: looks for those of the sessions in ServerState::acl.
  void OnChanged();
  // Tells all threads so: sessions learn what they may do now, and those whose user is gone end.
  // From a fiber. Suspends.
  static void TellChanged(ServerState& server);
  // A client from another machine may not come in, as nothing asks for a password.
  bool IsRefusedByProtectedMode(const Session& session) const;

  // tls-auth-clients-user: the client becomes the user that its certificate names, if there is such
  // a one, and it is on.
  void LogInByCertificate(Session& session, const helio::TlsSession& tls);

  // For ACL LOG. `user`: empty if it is the session's.
  void LogDenial(const AclVerdict& verdict, const Session& session, const Command& command,
                 Args args, std::string_view user = {});
  // The same of a script that `caller` runs.
  void LogScriptDenial(const AclVerdict& verdict, const AclCaller& caller, const Command& command,
                       Args args);
  void LogFailedLogin(const Session& session, std::string_view user);
  // For the audit log: it has logged in by what it runs.
  void LogLogin(const Session& session, std::string_view user);
  // For whom the session's scripts run; null: for somebody who may do everything.
  AclCallerRef CallerOf(Session& session);
  // What of the MULTI its user may not do any more gets an error (Multi::Item::denial).
  void CheckMulti(const Session& session);

  // --auth_timeout is another one.
  void OnAuthTimeoutChanged();
  // --timeout in seconds, 0: never. Closes connections that have been silent for longer.
  void SetIdleTimeout(uint64_t seconds);

 private:
  static void Put(Session& session, const AclUserRef& user);
  // As for one of them that was changed.
  void Refresh(Session& session);
  void CloseDenied(Session& session);
  // The client has --auth_timeout from now on.
  void WatchUnauthenticated(Session& session);
  uint64_t AuthDeadlineNs(const Session& session, uint64_t limit_ns) const;
  void CloseUnauthenticated();

  WorkerState& worker_;
  ServerState& server_;
  Quotas& quotas_;
  AclUserRef default_user_;
  OwnedTimer<&Users::CloseUnauthenticated> auth_timer_;  // armed while a client has not logged in
  uint64_t idle_task_ = 0;
};

}  // namespace dfly
