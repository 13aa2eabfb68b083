// SPDX-License-Identifier: Apache-2.0
// CONFIG GET SET RESETSTAT REWRITE HELP.
#include <string>
#include <vector>

#include "commands/table/rows.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/fibers/hold.h"
#include "server/acl/acl_store.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/dispatch/worker.h"
#include "server/options/config.h"
#include "server/replication/replicas.h"
#include "server/run/server.h"

namespace dfly {

namespace {

void Get(CoordinatorContext&, Args args, ReplySink& reply) {
  const auto found = Server::Here().config().Get(args.from(2));
  reply.Map(found.size());
  for (const auto& [name, value] : found) {
    reply.Bulk(name);
    reply.Bulk(value);
  }
}

void Set(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() % 2 != 0) return reply.Error(kErrSyntax);
  ServerState& server = SessionOf(cx).server;
  const bool may_set_protected = SessionOf(cx).IsAllowed(server.options.protected_configs);
  const std::string error = Server::Here().config().Set(args.from(2), may_set_protected);
  // Of what needs the locks of all shards. An EXEC may have some, and is not to wait.
  if (error.empty() && !helio::Hold::IsAny()) Server::Here().AwaitSettings();
  if (!error.empty()) return reply.Error(error);
  reply.Ok();
}

void ResetStat(CoordinatorContext& cx, Args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  AwaitOnAllSessions<Worker>(server, [](Worker& worker) { worker.ResetStats(); });
  for (const auto& [owner, quota] : *Quotas::Here().table()) quota->ResetStats();
  server.scripts.ResetForgotten();
  server.memory.ResetOver();
  server.connections.ResetRejected();
  server.pool.at(0)->Await([] { Server::Here().replicas().ResetStats(); });
  server.client_memory.evicted.store(0, std::memory_order_relaxed);
  reply.Ok();
}

// The lines of users that a configuration file has, without "user ".
std::vector<std::string> UserLines(const AclStore& acl) {
  std::vector<std::string> lines;
  for (const AclUserRef& user : acl.All()) {
    // requirepass says it all, if nothing else was said.
    const bool is_as_new = user->name() == AclStore::kDefaultName && user->may_do_everything() &&
                           user->is_on() && user->password_hashes().size() <= 1;
    if (!is_as_new) lines.push_back(user->Describe());
  }
  return lines;
}

void Rewrite(CoordinatorContext& cx, Args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  const std::vector<std::string> users = UserLines(*server.acl);
  const bool has_acl_file = !server.acl->file().empty();
  const std::string error =
      Server::Here().config().Rewrite(server.options.config_file, has_acl_file ? nullptr : &users);
  if (!error.empty()) return reply.Error(error);
  reply.Ok();
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(
      reply, "CONFIG",
      {"GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
       "SET <directive> <value>", "    Set the configuration <directive> to <value>.", "RESETSTAT",
       "    Reset statistics reported by the INFO command.", "REWRITE",
       "    Rewrite the configuration file."});
}

constexpr uint32_t kFlags = kAdmin | kNoScript | kLoading | kStale;

CommandDocs Docs(std::string_view summary, std::string_view since, std::string_view complexity) {
  return {summary, since, "server", complexity};
}

}  // namespace

void RegisterConfigCommands(CommandTable* table) {
  Command config = {.name = "config",
                    .arity = -2,
                    .docs = Docs("A container for server configuration commands.", "2.0.0",
                                 "Depends on subcommand.")};
  config.subcommands = {
      {.name = "get",
       .coordinate = Get,
       .arity = -3,
       .flags = kFlags,
       .categories = kAclDangerous,
       .docs = Docs("Returns settings by glob pattern.", "2.0.0", "O(N), N settings")},
      {.name = "set",
       .coordinate = Set,
       .arity = -4,
       .flags = kFlags,
       .categories = kAclDangerous,
       .docs = Docs("Changes settings while the server runs.", "2.0.0", "O(N), N settings"),
       .tips = "request_policy:all_nodes response_policy:all_succeeded"},
      {.name = "resetstat",
       .coordinate = ResetStat,
       .arity = 2,
       .flags = kFlags,
       .categories = kAclDangerous,
       .docs = Docs("Resets the counters that INFO shows.", "2.0.0", "O(1)")},
      {.name = "rewrite",
       .coordinate = Rewrite,
       .arity = 2,
       .flags = kFlags,
       .categories = kAclDangerous,
       .docs = Docs("Writes what was set to the configuration file.", "2.8.0", "O(N), N settings")},
      HelpRow<Help>("5.0.0", "server"),
  };
  table->Add(std::move(config));
}

}  // namespace dfly
