// SPDX-License-Identifier: Apache-2.0
// REPLICAOF SLAVEOF ROLE.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/replication/peer_host.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"

namespace dfly {

namespace {

// On the thread that the link belongs to. The client may be an EXEC, so nothing there waits for
// locks. Suspends.
template <typename Function>
void OnLink(CoordinatorContext& cx, Function function) {
  cx.shards().pool().at(0)->AwaitFiber("replicaof",
                                       [&] { function(Server::Here().primary_link()); });
}

// REPLICAOF host port | NO ONE.
void ReplicaOf(CoordinatorContext& cx, Args args, ReplySink& reply) {
  Server& server = Server::Here();
  if (server.state().options.emulates_cluster) {
    return reply.Error("ERR REPLICAOF not allowed in cluster mode.");
  }
  std::string primary;
  if (IsWord(args[1], "no") && IsWord(args[2], "one")) {
    OnLink(cx, [](PrimaryLink& link) { link.Leave(); });
  } else {
    const auto port = ParseInt64(args[2]);
    if (!port || *port < 0 || *port > 65535) return reply.Error("ERR Invalid master port");
    if (!IsPeerHost(args[1])) return reply.Error("ERR Invalid master host");
    bool is_new = false;
    OnLink(cx,
           [&](PrimaryLink& link) { is_new = link.Follow(args[1], static_cast<uint16_t>(*port)); });
    if (!is_new) return reply.Status("OK Already connected to specified master");
    primary = fmt::format("{} {}", args[1], *port);
  }
  server.config().Note("replicaof", primary);
  reply.Ok();
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
                  .flags = kAdmin | kNoScript | kStale | kNoAsyncLoading,
                  .categories = kAclDangerous,
                  .docs = {"Makes this server a replica of another one, or a primary.", "5.0.0",
                           "server", "O(1)"}};
  table->Add(command);
  command.name = "slaveof";
  command.docs.since = "1.0.0";
  command.docs.deprecated_since = "5.0.0";
  command.docs.replaced_by = "`REPLICAOF`";
  table->Add(command);
  table->Add({.name = "role",
              .coordinate = Role,
              .arity = 1,
              .flags = kNoScript | kLoading | kStale | kFast,
              .categories = kAclAdmin | kAclDangerous,
              .docs = {"Tells whether this server is a primary or a replica.", "2.8.12", "server",
                       "O(1)"}});
}

}  // namespace dfly
