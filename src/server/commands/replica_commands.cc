// SPDX-License-Identifier: Apache-2.0
// REPLICAOF SLAVEOF FAILOVER ROLE.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/replication/failover.h"
#include "server/replication/peer_host.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr uint64_t kFailoverMillisMax = 1'000'000'000'000;

// On the thread that the link and the failover belong to. The client may be an EXEC, so nothing
// there waits for locks. Suspends.
template <typename Function>
void OnLink(CoordinatorContext& cx, Function function) {
  cx.shards().pool().at(0)->AwaitFiber("replicaof",
                                       [&] { function(Server::Here().primary_link()); });
}

// REPLICAOF. The reply, or an error. On the link's thread.
std::string Follow(PrimaryLink& link, std::string_view host, uint16_t port) {
  if (Server::Here().failover().is_under_way()) {
    return "-ERR REPLICAOF not allowed while failing over.";
  }
  if (host.empty()) {
    link.Leave();
  } else if (!link.Follow(host, port)) {
    return "OK Already connected to specified master";
  }
  Server::Here().config().Note("replicaof", link.primary());
  return "OK";
}

// REPLICAOF host port | NO ONE.
void ReplicaOf(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Server& server = Server::Here();
  if (server.state().options.emulates_cluster) {
    return reply.Error("ERR REPLICAOF not allowed in cluster mode.");
  }
  std::string_view host;
  uint16_t port = 0;
  if (!IsWord(args[1], "no") || !IsWord(args[2], "one")) {
    const auto number = ParseInt64(args[2]);
    if (!number || *number < 0 || *number > UINT16_MAX) {
      return reply.Error("ERR Invalid master port");
    }
    if (!IsPeerHost(args[1])) return reply.Error("ERR Invalid master host");
    host = args[1];
    port = static_cast<uint16_t>(*number);
  }
  std::string text;
  OnLink(cx, [&](PrimaryLink& link) { text = Follow(link, host, port); });
  text.starts_with('-') ? reply.Error(text.substr(1)) : reply.Status(text);
}

// An error, or nothing.
std::string ParseFailover(Args args, Failover::Request* request) {
  for (size_t i = 1; i < args.size(); ++i) {
    const bool has_value = i + 1 < args.size();
    if (IsWord(args[i], "to") && i + 2 < args.size() && request->host.empty()) {
      const auto port = ParseInt64(args[i + 2]);
      if (!port) return std::string(kErrNotInteger);
      request->host = args[i + 1];
      // No replica has another one.
      request->port = *port < 0 || *port > UINT16_MAX ? 0 : static_cast<uint16_t>(*port);
      i += 2;
    } else if (IsWord(args[i], "timeout") && has_value && request->timeout_ms == 0) {
      const auto timeout = ParseInt64(args[++i]);
      if (!timeout) return std::string(kErrNotInteger);
      if (*timeout <= 0) return "ERR FAILOVER timeout must be greater than 0";
      request->timeout_ms = std::min<uint64_t>(static_cast<uint64_t>(*timeout), kFailoverMillisMax);
    } else if (IsWord(args[i], "force") && !request->is_forced) {
      request->is_forced = true;
    } else {
      return std::string(kErrSyntax);
    }
  }
  return "";
}

// FAILOVER [TO host port [FORCE]] [TIMEOUT milliseconds] | ABORT.
void FailoverCommand(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (Server::Here().state().options.emulates_cluster) {
    return reply.Error("ERR FAILOVER not allowed in cluster mode.");
  }
  const bool aborts = args.size() == 2 && IsWord(args[1], "abort");
  Failover::Request request;
  std::string error = aborts ? "" : ParseFailover(args, &request);
  if (error.empty()) {
    OnLink(cx, [&](PrimaryLink&) {
      Failover& failover = Server::Here().failover();
      error = aborts ? failover.Abort() : failover.Begin(request);
    });
  }
  error.empty() ? reply.Ok() : reply.Error(error);
}

void RoleOfPrimary(const ReplicasFacts& facts, ReplySink& reply) {
  reply.Array(3);
  reply.Bulk("master");
  reply.Integer(static_cast<int64_t>(facts.offset));
  size_t online = 0;
  for (const ReplicaFacts& replica : facts.all) online += replica.is_online;
  reply.Array(online);
  for (const ReplicaFacts& replica : facts.all) {
    if (!replica.is_online) continue;
    reply.Array(3);
    reply.Bulk(replica.ip);
    reply.Bulk(fmt::format("{}", replica.port));
    reply.Bulk(fmt::format("{}", replica.offset));
  }
}

// Suspends.
void Role(CoordinatorContext& cx, Args, ReplySink& reply) {
  PrimaryLinkFacts facts;
  ReplicasFacts replicas;
  cx.shards().pool().at(0)->Await([&] {
    facts = Server::Here().primary_link().Facts();
    replicas = Server::Here().replicas().Facts();
  });
  if (!facts.is_replica) return RoleOfPrimary(replicas, reply);
  reply.Array(5);
  reply.Bulk("slave");
  reply.Bulk(facts.primary_host);
  reply.Integer(facts.primary_port);
  reply.Bulk(facts.state);
  reply.Integer(facts.is_up ? facts.applied_offset : -1);
}

}  // namespace

void RegisterReplicaCommands(CommandTable* table) {
  Command command{.name = "replicaof",
                  .coordinate = ReplicaOf,
                  .arity = 3,
                  .flags = kAdmin | kNoScript | kStale | kNoAsyncLoading | kEndsAsyncLoading,
                  .categories = kAclDangerous,
                  .docs = {"Makes this server a replica of another one, or a primary.", "5.0.0",
                           "server", "O(1)"}};
  table->Add(command);
  command.name = "slaveof";
  command.docs.since = "1.0.0";
  command.docs.deprecated_since = "5.0.0";
  command.docs.replaced_by = "`REPLICAOF`";
  table->Add(command);
  table->Add(
      {.name = "failover",
       .coordinate = FailoverCommand,
       .arity = -1,
       .flags = kAdmin | kNoScript | kStale,
       .categories = kAclDangerous,
       .docs = {"Hands the role of the primary over to a replica.", "6.2.0", "server", "O(1)"}});
  table->Add({.name = "role",
              .coordinate = Role,
              .arity = 1,
              .flags = kNoScript | kLoading | kStale | kFast,
              .categories = kAclAdmin | kAclDangerous,
              .docs = {"Tells whether this server is a primary or a replica.", "2.8.12", "server",
                       "O(1)"}});
}

}  // namespace dfly
