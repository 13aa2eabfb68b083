// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/users.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/hops/shard_set.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/net/address.h"
#include "server/acl/acl_store.h"
#include "server/clients/audit_log.h"
#include "server/clients/client_info.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/blocking.h"
#include "server/push/pubsub.h"

namespace dfly {

namespace {

// What the client is logging in by.
std::string_view WayOf(const Session& session) {
  if (session.connection.is_http()) return "HTTP";
  if (session.is_memcached) return "memcached";
  return session.last_command->name == "hello" ? "HELLO" : "AUTH";
}

std::string ClientText(const Session& session) {
  std::string text = FormatClient(InfoOfClient(session, helio::MonotonicNanos()));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool MayListen(const AclUser& user, const Session& session) {
  if (session.subscriptions == nullptr) return true;
  for (ChannelKind kind : {ChannelKind::kChannel, ChannelKind::kPattern, ChannelKind::kShard}) {
    const auto subscription =
        kind == ChannelKind::kPattern ? AclSubscription::kPattern : AclSubscription::kName;
    for (const auto& [topic, place] : session.subscriptions->topics[IndexOf(kind)]) {
      if (!user.AllowsChannel(topic->name, subscription)) return false;
    }
  }
  return true;
}

}  // namespace

Users::Users(WorkerState* worker, Quotas* quotas)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      quotas_(*quotas),
      auth_timer_(this, &worker->proactor) {}

Users::~Users() {
  if (idle_task_ != 0) worker_.proactor.RemovePeriodic(idle_task_);
}

void Users::Become(Session& session, const AclUserRef& user) {
  Put(session, user);
  quotas_.Update(session);
}

void Users::Put(Session& session, const AclUserRef& user) {
  session.user.name = user->name();
  session.user.acl = user->may_do_everything() ? nullptr : user;
  session.user.caller = nullptr;
  session.user.is_authenticated = true;
  session.connection.SetAuthenticated(true);
}

void Users::BecomeDefault(Session& session) {
  const bool is_watched =
      !session.user.is_authenticated && session.user.unauthenticated_since_ns != 0;
  Put(session, default_user_);
  session.user.is_authenticated =
      default_user_->lets_in() || (session.user.needs_no_password && default_user_->is_on());
  session.connection.SetAuthenticated(session.user.is_authenticated);
  quotas_.Update(session);
  if (!session.user.is_authenticated && !is_watched) WatchUnauthenticated(session);
}

void Users::BecomeProcess(Session& session) {
  session.user.is_process = true;
  session.user.name = "(take-over)";
  session.user.acl = nullptr;
  session.user.is_authenticated = true;
  session.connection.SetAuthenticated(true);
}

void Users::OnChanged() {
  default_user_ = server_.acl->default_user();
  worker_.ForEachSession([this](Session& session) {
    if (session.primary == nullptr && !session.user.is_process) Refresh(session);
  });
}

void Users::TellChanged(ServerState& server) {
  AwaitOnAllSessions<Users>(server, [](Users& users) { users.OnChanged(); });
}

void Users::Refresh(Session& session) {
  if (!session.user.is_authenticated) return BecomeDefault(session);
  const AclUserRef user = server_.acl->Find(session.user.name);
  if (user == nullptr) return CloseDenied(session);
  Become(session, user);
  if (session.user.acl == nullptr) return;
  if (!MayListen(*session.user.acl, session)) return CloseDenied(session);
  // Who waits for a key gets nothing of it that its user may not have any more.
  ClientWait* const blocked = session.blocked;
  if (blocked == nullptr || !blocked->waits()) return;
  const Command& command = *session.last_command;
  const AclVerdict verdict = session.user.acl->Check(
      command, blocked->args(), {session.db_index, server_.shards->db_count()});
  if (!verdict.is_denied()) return;
  LogDenial(verdict, session, command, blocked->args());
  blocked->Deny(DenialError(verdict, session.user.name, command));
}

void Users::CloseDenied(Session& session) {
  // It may be the one whose command this is, and gets its reply.
  if (session.coordinators > 0 && session.blocked == nullptr) {
    session.close_after_reply = true;
  } else {
    session.connection.CloseNow();
  }
}

void Users::LogDenial(const AclVerdict& verdict, const Session& session, const Command& command,
                      Args args, std::string_view user) {
  const bool in_multi = session.multi != nullptr || session.executing != nullptr;
  if (user.empty()) user = session.user.name;
  const std::string_view object = DeniedObject(verdict, command, args);
  server_.acl->log().Add({.reason = ReasonOf(verdict.denial),
                          .context = in_multi ? AclContext::kMulti : AclContext::kToplevel,
                          .object = std::string(object),
                          .user = std::string(user),
                          .client = ClientText(session)},
                         helio::UnixMillis());
  if (server_.audit == nullptr) return;
  server_.audit->OnDenied(session, user, command, ReasonOf(verdict.denial), object);
}

void Users::LogScriptDenial(const AclVerdict& verdict, const AclCaller& caller,
                            const Command& command, Args args) {
  const std::string_view object = DeniedObject(verdict, command, args);
  server_.acl->log().Add({.reason = ReasonOf(verdict.denial),
                          .context = AclContext::kLua,
                          .object = std::string(object),
                          .user = caller.name,
                          .client = caller.client},
                         helio::UnixMillis());
  if (server_.audit == nullptr) return;
  server_.audit->OnScriptDenied(caller, command, ReasonOf(verdict.denial), object);
}

void Users::LogFailedLogin(const Session& session, std::string_view user) {
  const bool in_multi = session.multi != nullptr || session.executing != nullptr;
  const std::string_view way = WayOf(session);
  server_.acl->log().Add({.reason = "auth",
                          .context = in_multi ? AclContext::kMulti : AclContext::kToplevel,
                          .object = std::string(session.is_memcached ? "AUTH" : way),
                          .user = std::string(user),
                          .client = ClientText(session)},
                         helio::UnixMillis());
  if (server_.audit != nullptr) server_.audit->OnLogin(session, user, way, false);
}

void Users::LogLogin(const Session& session, std::string_view user) {
  if (server_.audit != nullptr) server_.audit->OnLogin(session, user, WayOf(session), true);
}

void Users::LogInByCertificate(Session& session, const helio::TlsSession& tls) {
  const CertificateUser from = server_.settings.certificate_user.load(std::memory_order_relaxed);
  if (from == CertificateUser::kOff || !tls.has_peer_certificate()) return;
  const std::vector<std::string> names =
      tls.PeerNames(from == CertificateUser::kCommonName ? helio::TlsNameField::kCommonName
                                                         : helio::TlsNameField::kUri);
  for (const std::string& name : names) {
    const AclUserRef user = server_.acl->Find(name);
    if (user == nullptr || !user->is_on()) continue;
    Become(session, user);
    if (server_.audit != nullptr) {
      server_.audit->OnLogin(session, user->name(), "certificate", true);
    }
    VLOG(1) << "connection " << session.connection.id() << " is user "
            << helio::LogText(user->name()) << " by its certificate";
    return;
  }
  server_.acl->log().Add({.reason = "tls-cert",
                          .object = "",
                          .user = names.empty() ? "" : names.front(),
                          .client = ClientText(session)},
                         helio::UnixMillis());
  if (server_.audit != nullptr) {
    server_.audit->OnLogin(session, names.empty() ? "" : names.front(), "certificate", false);
  }
}

AclCallerRef Users::CallerOf(Session& session) {
  // The audit log tells whose scripts they are.
  if (session.user.acl == nullptr && server_.audit == nullptr) return nullptr;
  AclCallerRef& caller = session.user.caller;
  if (caller == nullptr || caller->db_index != session.db_index ||
      caller->client_name != session.name) {
    caller = std::make_shared<AclCaller>(AclCaller{.user = session.user.acl,
                                                   .name = session.user.name,
                                                   .client_id = session.connection.id(),
                                                   .address = std::string(session.peer_address),
                                                   .client_name = std::string(session.name),
                                                   .db_index = session.db_index,
                                                   .client = ClientText(session)});
  }
  return caller;
}

void Users::CheckMulti(const Session& session) {
  std::vector<std::string_view> args;
  Multi& multi = *session.multi;
  for (size_t i = 0; i < multi.items().size(); ++i) {
    const Multi::Item& item = multi.items()[i];
    multi.ViewArgs(item, &args);
    if ((item.command->flags & kNoAuth) != 0) continue;
    const AclVerdict verdict =
        session.user.acl->Check(*item.command, args, {item.db_index, server_.shards->db_count()});
    if (!verdict.is_denied()) continue;
    multi.Deny(i, verdict.denial);
    LogDenial(verdict, session, *item.command, args);
  }
}

bool Users::IsRefusedByProtectedMode(const Session& session) const {
  return server_.settings.protected_mode.load(std::memory_order_relaxed) &&
         default_user_->has_nopass() && !session.user.needs_no_password &&
         !helio::IsLoopbackPeer(session.connection.socket().fd());
}

// --- Clients that do not authenticate ---

uint64_t Users::AuthDeadlineNs(const Session& session, uint64_t limit_ns) const {
  // Who asks over HTTP never does, and may go on as long as it asks.
  const uint64_t since_ns = session.connection.is_http() ? session.connection.last_active_ns()
                                                         : session.user.unauthenticated_since_ns;
  return since_ns + limit_ns;
}

void Users::WatchUnauthenticated(Session& session) {
  session.user.unauthenticated_since_ns = helio::MonotonicNanos();
  const uint64_t limit_s = server_.settings.auth_timeout_s.load(std::memory_order_relaxed);
  if (limit_s == 0 || auth_timer_.armed()) return;
  auth_timer_.ArmAt(session.user.unauthenticated_since_ns + limit_s * 1'000'000'000);
}

void Users::CloseUnauthenticated() {
  const uint64_t limit_s = server_.settings.auth_timeout_s.load(std::memory_order_relaxed);
  if (limit_s == 0) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  uint64_t next_ns = UINT64_MAX;
  worker_.ForEachSession([&](Session& session) {
    if (session.user.is_authenticated || session.connection.closing()) return;
    const uint64_t deadline_ns = AuthDeadlineNs(session, limit_s * 1'000'000'000);
    if (deadline_ns > now_ns) {
      next_ns = std::min(next_ns, deadline_ns);
      return;
    }
    ++worker_.stats.auth_timeouts;
    session.connection.CloseNow();
  });
  if (next_ns != UINT64_MAX) auth_timer_.ArmAt(next_ns);
}

void Users::OnAuthTimeoutChanged() {
  auth_timer_.Disarm();
  CloseUnauthenticated();
}

void Users::SetIdleTimeout(uint64_t seconds) {
  if (idle_task_ != 0) worker_.proactor.RemovePeriodic(std::exchange(idle_task_, 0));
  if (seconds == 0) return;
  idle_task_ = worker_.proactor.AddPeriodic(1000, [this, seconds] {
    const uint64_t now_ns = helio::MonotonicNanos();
    worker_.ForEachSession([&](Session& session) {
      Connection& connection = session.connection;
      const bool waits = connection.busy() || connection.held() || !connection.replies().empty() ||
                         session.is_subscribed() || session.primary != nullptr ||
                         session.feed != nullptr;
      if (!waits && now_ns > connection.last_active_ns() + seconds * 1'000'000'000)
        connection.CloseNow();
    });
  });
}

}  // namespace dfly
