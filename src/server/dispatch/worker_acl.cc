// SPDX-License-Identifier: Apache-2.0
// The worker's part of ACL: who its sessions are, and what becomes of them when users change.
#include "helio/base/clock.h"
#include "server/acl/acl_store.h"
#include "server/clients/client_info.h"
#include "server/clients/server_state.h"
#include "server/dispatch/blocking.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

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

void Worker::BecomeUser(Session& session, const AclUserRef& user) {
  session.user = user->name();
  session.acl = user->may_do_everything() ? nullptr : user;
  session.acl_caller = nullptr;
  session.authenticated = true;
  session.connection.SetAuthenticated(true);
}

void Worker::BecomeDefault(Session& session) {
  const bool is_watched = !session.authenticated && session.unauthenticated_since_ns != 0;
  BecomeUser(session, default_user_);
  session.authenticated =
      default_user_->lets_in() || (session.needs_no_password && default_user_->is_on());
  session.connection.SetAuthenticated(session.authenticated);
  if (!session.authenticated && !is_watched) WatchUnauthenticated(session);
}

void Worker::OnUsersChanged() {
  default_user_ = server_.acl->default_user();
  state_.ForEachSession([this](Session& session) { RefreshUser(session); });
}

void Worker::TellUsersChanged(ServerState& server) {
  AwaitOnAllSessions<Worker>(server, [](Worker& worker) { worker.OnUsersChanged(); });
}

void Worker::RefreshUser(Session& session) {
  if (!session.authenticated) return BecomeDefault(session);
  const AclUserRef user = server_.acl->Find(session.user);
  if (user == nullptr) return CloseDenied(session);
  BecomeUser(session, user);
  if (session.acl == nullptr) return;
  if (!MayListen(*session.acl, session)) return CloseDenied(session);
  // Who waits for a key gets nothing of it that its user may not have any more.
  ClientWait* const blocked = session.blocked;
  if (blocked == nullptr || !blocked->waits()) return;
  const Command& command = *session.last_command;
  const AclVerdict verdict = session.acl->Check(command, blocked->args());
  if (!verdict.is_denied()) return;
  LogDenial(verdict, session, command, blocked->args());
  blocked->Deny(DenialError(verdict, session.user, command));
}

void Worker::CloseDenied(Session& session) {
  // It may be the one whose command this is, and gets its reply.
  if (session.coordinators > 0 && session.blocked == nullptr) {
    session.close_after_reply = true;
  } else {
    session.connection.CloseNow();
  }
}

void Worker::LogDenial(const AclVerdict& verdict, const Session& session, const Command& command,
                       Args args, std::string_view user) {
  const bool in_multi = session.multi != nullptr || session.executing != nullptr;
  server_.acl->log().Add(
      {.reason = ReasonOf(verdict.denial),
       .context = in_multi ? AclContext::kMulti : AclContext::kToplevel,
       .object = std::string(verdict.denial == AclDenial::kCommand ? command.full_name
                                                                   : args[verdict.argument]),
       .user = user.empty() ? session.user : std::string(user),
       .client = ClientText(session)},
      helio::UnixMillis());
}

void Worker::LogFailedLogin(const Session& session, std::string_view user) {
  const bool in_multi = session.multi != nullptr || session.executing != nullptr;
  const std::string_view object = session.connection.is_http()            ? "HTTP"
                                  : session.last_command->name == "hello" ? "HELLO"
                                                                          : "AUTH";
  server_.acl->log().Add({.reason = "auth",
                          .context = in_multi ? AclContext::kMulti : AclContext::kToplevel,
                          .object = std::string(object),
                          .user = std::string(user),
                          .client = ClientText(session)},
                         helio::UnixMillis());
}

AclCallerRef Worker::CallerOf(Session& session) {
  if (session.acl == nullptr) return nullptr;
  if (session.acl_caller == nullptr) {
    session.acl_caller = std::make_shared<AclCaller>(AclCaller{session.acl, ClientText(session)});
  }
  return session.acl_caller;
}

void Worker::CheckMulti(const Session& session) {
  std::vector<std::string_view> args;
  Multi& multi = *session.multi;
  for (size_t i = 0; i < multi.items().size(); ++i) {
    const Multi::Item& item = multi.items()[i];
    multi.ViewArgs(item, &args);
    if ((item.command->flags & kNoAuth) != 0) continue;
    const AclVerdict verdict = session.acl->Check(*item.command, args);
    if (!verdict.is_denied()) continue;
    multi.Deny(i, verdict.denial);
    LogDenial(verdict, session, *item.command, args);
  }
}

}  // namespace dfly
