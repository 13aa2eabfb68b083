// SPDX-License-Identifier: Apache-2.0
// Commands about the connection itself: PING ECHO SELECT QUIT.
#include "commands/command_table.h"
#include "core/numbers.h"
#include "facade/error_texts.h"
#include "server/server.h"
#include "server/session.h"

namespace dfly {

namespace {

void Ping(Session&, Args args, ReplySink& reply) {
  if (args.size() > 2) return reply.Error(WrongArityError("ping"));
  if (args.size() == 2) return reply.Bulk(args[1]);
  reply.Status("PONG");
}

void Echo(Session&, Args args, ReplySink& reply) { reply.Bulk(args[1]); }

void Select(Session& session, Args args, ReplySink& reply) {
  const auto index = ParseInt64(args[1]);
  if (!index) return reply.Error(kErrNotInteger);
  if (*index < 0 || *index >= session.server.shards().db_count()) return reply.Error(kErrDbIndex);
  session.db_index = static_cast<int>(*index);
  reply.Ok();
}

void Quit(Session& session, Args, ReplySink& reply) {
  session.close_after_reply = true;
  reply.Ok();
}

}  // namespace

void RegisterConnectionCommands(CommandTable* table) {
  table->Add(
      {.name = "ping", .session = Ping, .arity = -1, .flags = kFast, .categories = kAclConnection});
  table->Add(
      {.name = "echo", .session = Echo, .arity = 2, .flags = kFast, .categories = kAclConnection});
  table->Add({.name = "select",
              .session = Select,
              .arity = 2,
              .flags = kFast | kBarrier,
              .categories = kAclConnection});
  table->Add({.name = "quit",
              .session = Quit,
              .arity = -1,
              .flags = kFast | kBarrier | kNoAuth,
              .categories = kAclConnection});
}

}  // namespace dfly
