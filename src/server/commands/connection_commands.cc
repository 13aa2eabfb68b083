// SPDX-License-Identifier: Apache-2.0
// Commands about the connection itself: PING ECHO SELECT QUIT RESET HELLO AUTH.
#include <fmt/format.h>

#include <limits>
#include <optional>

#include "commands/table/command_table.h"
#include "core/text/numbers.h"
#include "engine/hops/shard_set.h"
#include "facade/replies/error_texts.h"
#include "server/acl/acl_store.h"
#include "server/base/version.h"
#include "server/base/words.h"
#include "server/clients/client_info.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/commands/families.h"
#include "server/dispatch/execs.h"
#include "server/dispatch/users.h"
#include "server/push/monitor.h"
#include "server/push/tracking.h"
#include "server/quotas/quotas.h"
#include "server/replication/primary_link.h"
#include "server/run/server.h"

namespace dfly {

namespace {

void PlainPing(Args args, ReplySink& reply) {
  if (args.size() > 2) return reply.Error(WrongArityError("ping"));
  if (args.size() == 2) return reply.Bulk(args[1]);
  reply.Status("PONG");
}

void Ping(Session& session, Args args, ReplySink& reply) {
  if (args.size() <= 2 && session.is_subscribed() && !session.resp3) {
    // A subscriber's library takes all that comes for messages.
    reply.Array(2);
    reply.Bulk("pong");
    return reply.Bulk(args.size() == 2 ? args[1] : "");
  }
  PlainPing(args, reply);
}

void Echo(Args args, ReplySink& reply) { reply.Bulk(args[1]); }

void Select(Session& session, Args args, ReplySink& reply) {
  const auto index = ParseInt64(args[1]);
  if (!index) return reply.Error(kErrNotInteger);
  constexpr int kMin = std::numeric_limits<int>::min();
  constexpr int kMax = std::numeric_limits<int>::max();
  if (*index < kMin || *index > kMax) {
    return reply.Error(
        fmt::format("ERR value is out of range, value must between {} and {}", kMin, kMax));
  }
  if (*index < 0 || *index >= session.server.shards->db_count()) return reply.Error(kErrDbIndex);
  const int db_index = static_cast<int>(*index);
  Quotas& quotas = Quotas::Here();
  // What is queued behind it in a MULTI was queued for that database.
  if (session.executing == nullptr) {
    const std::string error = quotas.EnterDatabase(session, db_index);
    if (!error.empty()) return reply.Error(error);
  }
  session.db_index = db_index;
  quotas.Update(session);
  reply.Ok();
}

void Quit(Session& session, Args, ReplySink& reply) {
  session.close_after_reply = true;
  reply.Ok();
}

void Reset(Session& session, Args, ReplySink& reply) {
  Execs::Here().EndMulti(session);
  Monitors::Here().End(session);
  Tracking::Here().End(session);
  session.name = std::string();  // {} would keep its room
  session.CountTexts();
  session.db_index = 0;
  session.resp3 = false;
  session.no_touch = session.no_evict = false;
  session.reply_mode = ReplyMode::kOn;
  Users::Here().BecomeDefault(session);
  reply.Status("RESET");
}

// Null: it may not, which is logged.
AclUserRef LogIn(Session& session, std::string_view user, std::string_view password) {
  AclUserRef found = session.server.acl->LogIn(user, password);
  if (found == nullptr) {
    Users::Here().LogFailedLogin(session, user);
  } else {
    Users::Here().LogLogin(session, user);
  }
  return found;
}

void Auth(Session& session, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(kErrSyntax);
  if (args.size() == 2 && session.server.acl->default_user()->has_nopass()) {
    return reply.Error(kErrAuthWithoutPassword);
  }
  const std::string_view name = args.size() == 2 ? AclStore::kDefaultName : args[1];
  const AclUserRef user = LogIn(session, name, args[args.size() - 1]);
  if (user == nullptr) return reply.Error(kErrWrongPass);
  const std::string error = Quotas::Here().EnterUser(session, user->name());
  if (!error.empty()) return reply.Error(error);
  Users::Here().Become(session, user);
  reply.Ok();
}

// HELLO [protover [AUTH user password] [SETNAME name]]. All of it, or nothing.
void Hello(Session& session, Args args, ReplySink& reply) {
  bool resp3 = session.resp3;
  if (args.size() > 1) {
    const auto version = ParseInt64(args[1]);
    if (!version) return reply.Error(kErrProtoNotInteger);
    if (*version < 2 || *version > 3) return reply.Error(kErrNoProto);
    resp3 = *version == 3;
  }
  AclUserRef user;
  std::optional<std::string_view> name;
  for (size_t i = 2; i < args.size(); ++i) {
    const size_t left = args.size() - 1 - i;
    if (IsWord(args[i], "auth") && left >= 2) {
      user = LogIn(session, args[i + 1], args[i + 2]);
      if (user == nullptr) return reply.Error(kErrWrongPass);
      i += 2;
    } else if (IsWord(args[i], "setname") && left >= 1) {
      if (!IsValidClientText(args[i + 1])) return reply.Error(kErrClientName);
      name = args[++i];
    } else {
      return reply.Error(fmt::format("ERR Syntax error in HELLO option '{}'", Printed(args[i])));
    }
  }
  if (!session.user.is_authenticated && user == nullptr) {
    return reply.Error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  if (user != nullptr) {
    const std::string error = Quotas::Here().EnterUser(session, user->name());
    if (!error.empty()) return reply.Error(error);
    Users::Here().Become(session, user);
  }
  if (name) {
    session.name = *name;
    session.CountTexts();
  }
  session.resp3 = resp3;

  // The reply is in the protocol that was asked for already.
  reply.set_resp3(resp3);
  reply.Map(7);
  reply.Bulk("server");
  reply.Bulk("redis");
  reply.Bulk("version");
  reply.Bulk(kRedisVersion);
  reply.Bulk("proto");
  reply.Integer(resp3 ? 3 : 2);
  reply.Bulk("id");
  reply.Integer(static_cast<int64_t>(session.connection.id()));
  reply.Bulk("mode");
  reply.Bulk(session.server.options.emulates_cluster ? "cluster" : "standalone");
  reply.Bulk("role");
  reply.Bulk(Server::Here().primary_link().is_known_replica() ? "replica" : "master");
  reply.Bulk("modules");
  reply.Array(0);
}

constexpr uint32_t kAlways = kFast | kLoading | kStale;
constexpr uint32_t kWayIn = kAlways | kNoScript | kNoAuth | kAllowBusy | kBarrier;
constexpr uint32_t kWayOut = kWayIn | kNotQueued;

}  // namespace

void RegisterConnectionCommands(CommandTable* table) {
  table->Add({.name = "ping",
              .session = ForSession<Ping>,
              .scripted = PlainPing,
              .arity = -1,
              .flags = kFast | kSubscribed,
              .categories = kAclConnection,
              .docs = {"Tells that the server is there.", "1.0.0", "connection", "O(1)"},
              .tips = "request_policy:all_shards response_policy:all_succeeded"});
  table->Add({.name = "echo",
              .session = ForClient<Echo>,
              .scripted = Echo,
              .arity = 2,
              .flags = kAlways,
              .categories = kAclConnection,
              .docs = {"Returns its argument.", "1.0.0", "connection", "O(1)"}});
  table->Add({.name = "select",
              .session = ForSession<Select>,
              .arity = 2,
              .flags = kAlways | kBarrier,
              .categories = kAclConnection,
              .docs = {"Changes the database of the connection.", "1.0.0", "connection", "O(1)"}});
  table->Add({.name = "quit",
              .session = ForSession<Quit>,
              .arity = -1,
              .flags = kWayOut | kSubscribed,
              .categories = kAclConnection,
              .docs = {"Closes the connection.", "1.0.0", "connection", "O(1)"}});
  table->Add({.name = "reset",
              .session = ForSession<Reset>,
              .arity = 1,
              .flags = kWayOut | kSubscribed,
              .categories = kAclConnection,
              .docs = {"Makes the connection as new.", "6.2.0", "connection", "O(1)"}});
  table->Add({.name = "hello",
              .session = ForSession<Hello>,
              .arity = -1,
              .flags = kWayIn,
              .categories = kAclConnection,
              .docs = {"Chooses the protocol, and may authenticate and name the connection.",
                       "6.0.0", "connection", "O(1)"}});
  table->Add({.name = "auth",
              .session = ForSession<Auth>,
              .arity = -2,
              .flags = kWayIn,
              .categories = kAclConnection,
              .docs = {"Authenticates the connection.", "1.0.0", "connection", "O(1)"}});
}

}  // namespace dfly
