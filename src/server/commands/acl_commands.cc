// SPDX-License-Identifier: Apache-2.0
// ACL and its subcommands.
#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>
#include <string>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/lookup.h"
#include "commands/table/rows.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/shard_set.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/io/blocking_pool.h"
#include "server/acl/acl_store.h"
#include "server/acl/command_facts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/commands/families.h"
#include "server/dispatch/users.h"

namespace dfly {

namespace {

constexpr std::string_view kErrNoFile =
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users "
    "via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis "
    "configuration file set) in order to store users in the Redis configuration.";

// --- Looking ---

void WhoAmI(Session& session, Args, ReplySink& reply) { reply.Bulk(session.user.name); }

void UserNames(Session& session, Args, ReplySink& reply) {
  const std::vector<AclUserRef> users = session.server.acl->All();
  reply.Array(users.size());
  for (const AclUserRef& user : users) reply.Bulk(user->name());
}

void List(Session& session, Args, ReplySink& reply) {
  const std::vector<AclUserRef> users = session.server.acl->All();
  reply.Array(users.size());
  for (const AclUserRef& user : users) reply.Bulk(user->Describe());
}

void ReplySelector(const AclSelector& selector, ReplySink& reply) {
  reply.Bulk("commands");
  reply.Bulk(selector.commands());
  reply.Bulk("keys");
  reply.Bulk(selector.keys());
  reply.Bulk("channels");
  reply.Bulk(selector.channels());
  if (selector.has_all_dbs()) return;  // else it is as in Redis
  reply.Bulk("databases");
  reply.Bulk(selector.databases());
}

void GetUser(Session& session, Args args, ReplySink& reply) {
  const AclUserRef user = session.server.acl->Find(args[2]);
  if (user == nullptr) return reply.Null();
  reply.Map(user->selectors().front().has_all_dbs() ? 6 : 7);
  reply.Bulk("flags");
  std::vector<std::string_view> flags = {user->is_on() ? "on" : "off"};
  if (user->has_nopass()) flags.push_back("nopass");
  flags.push_back(user->sanitizing());
  reply.Set(flags.size());
  for (std::string_view flag : flags) reply.Bulk(flag);
  reply.Bulk("passwords");
  reply.Array(user->password_hashes().size());
  for (const std::string& hash : user->password_hashes()) reply.Bulk(hash);
  ReplySelector(user->selectors().front(), reply);
  reply.Bulk("selectors");
  const auto others = std::span(user->selectors()).subspan(1);
  reply.Array(others.size());
  for (const AclSelector& selector : others) {
    reply.Map(selector.has_all_dbs() ? 3 : 4);
    ReplySelector(selector, reply);
  }
}

// ACL CAT [category]
void Cat(Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(SubcommandSyntaxError("acl", args[1]));
  if (args.size() == 2) {
    const std::vector<std::string_view> categories = AclCategories();
    reply.Array(categories.size());
    for (std::string_view category : categories) reply.Bulk(category.substr(1));
    return;
  }
  const std::string category = '@' + LowerCase(args[2]);
  if (!IsAclCategory(category)) {
    return reply.Error(fmt::format("ERR Unknown category '{}'", Printed(args[2])));
  }
  std::vector<std::string_view> names;
  const auto visit = [&](const auto& self, const Command& command) -> void {
    const auto categories = AclCategoriesOf(command);
    if (std::find(categories.begin(), categories.end(), category) != categories.end()) {
      names.push_back(command.full_name);
    }
    for (const Command& subcommand : command.subcommands) self(self, subcommand);
  };
  for (const Command& command : WorkerState::Here().server.commands.all()) {
    visit(visit, command);
  }
  reply.Array(names.size());
  for (std::string_view name : names) reply.Bulk(name);
}

// ACL DRYRUN user command [argument ...]
void DryRun(Session& session, Args args, ReplySink& reply) {
  const AclUserRef user = session.server.acl->Find(args[2]);
  if (user == nullptr) {
    return reply.Error(fmt::format("ERR User '{}' not found", Printed(args[2])));
  }
  const Args inner(args.from(3));
  const Lookup found = Find(session.server.commands, inner);
  if (found.end == Lookup::End::kUnknown || found.end == Lookup::End::kUnknownSubcommand) {
    return reply.Error(fmt::format("ERR Command '{}' not found", Printed(inner.name())));
  }
  if (!found.is_found()) return reply.Error(found.Error(inner));
  const Command* const command = found.row;
  const AclVerdict verdict =
      user->Check(*command, inner, {session.db_index, session.server.shards->db_count()});
  if (!verdict.is_denied()) return reply.Ok();
  reply.Bulk(DescribeDenial(verdict, user->name(), *command, inner));
}

// ACL GENPASS [bits]
void GenPass(Args args, ReplySink& reply) {
  constexpr int64_t kBitsMax = 4096;
  if (args.size() > 3) return reply.Error(SubcommandSyntaxError("acl", args[1]));
  int64_t bits = 256;
  if (args.size() == 3) {
    const auto wanted = ParseInt64(args[2]);
    if (!wanted) return reply.Error(kErrNotInteger);
    if (*wanted <= 0 || *wanted > kBitsMax) {
      return reply.Error(
          fmt::format("ERR ACL GENPASS argument must be the number of bits for the output "
                      "password, a positive number up to {}",
                      kBitsMax));
    }
    bits = *wanted;
  }
  std::array<unsigned char, kBitsMax / 8> random;
  const auto digits = static_cast<size_t>((bits + 3) / 4);
  if (RAND_bytes(random.data(), static_cast<int>((digits + 1) / 2)) != 1) {
    return reply.Error("ERR the system gives no random numbers");
  }
  std::string password;
  for (size_t i = 0; i < digits; ++i) {
    password.push_back("0123456789abcdef"[(random[i / 2] >> (i % 2 * 4)) & 15]);
  }
  reply.Bulk(password);
}

// ACL LOG [count | RESET]
void Log(Session& session, Args args, ReplySink& reply) {
  AclLog& log = session.server.acl->log();
  if (args.size() > 3) return reply.Error(SubcommandSyntaxError("acl", args[1]));
  size_t count = 10;
  if (args.size() == 3) {
    if (IsWord(args[2], "reset")) {
      log.Reset();
      return reply.Ok();
    }
    const auto wanted = ParseInt64(args[2]);
    if (!wanted) return reply.Error(kErrNotInteger);
    count = *wanted < 0 ? 0 : static_cast<size_t>(*wanted);
  }
  static constexpr std::string_view kContexts[] = {"toplevel", "multi", "lua"};
  const std::vector<AclLog::Entry> entries = log.Newest(count);
  const int64_t now_ms = helio::UnixMillis();
  reply.Array(entries.size());
  for (const AclLog::Entry& entry : entries) {
    reply.Map(10);
    reply.Bulk("count");
    reply.Integer(static_cast<int64_t>(entry.count));
    reply.Bulk("reason");
    reply.Bulk(entry.reason);
    reply.Bulk("context");
    reply.Bulk(kContexts[static_cast<size_t>(entry.context)]);
    reply.Bulk("object");
    reply.Bulk(entry.object);
    reply.Bulk("username");
    reply.Bulk(entry.user);
    reply.Bulk("age-seconds");
    reply.Double(static_cast<double>(now_ms - entry.created_ms) / 1000);
    reply.Bulk("client-info");
    reply.Bulk(entry.client);
    reply.Bulk("entry-id");
    reply.Integer(static_cast<int64_t>(entry.id));
    reply.Bulk("timestamp-created");
    reply.Integer(entry.created_ms);
    reply.Bulk("timestamp-last-updated");
    reply.Integer(entry.updated_ms);
  }
}

// --- Changing ---

// ACL SETUSER user [rule ...]
void SetUser(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  const std::string error = server.acl->SetUser(args[2], args.from(3));
  if (!error.empty()) return reply.Error(error);
  Users::TellChanged(server);
  reply.Ok();
}

// ACL DELUSER user [user ...]
void DelUser(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  for (std::string_view name : args.from(2)) {
    if (name == AclStore::kDefaultName) {
      return reply.Error("ERR The 'default' user cannot be removed");
    }
  }
  int64_t deleted = 0;
  for (std::string_view name : args.from(2)) deleted += server.acl->Delete(name);
  if (deleted > 0) Users::TellChanged(server);
  reply.Integer(deleted);
}

void Load(CoordinatorContext& cx, Args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  if (server.acl->file().empty()) return reply.Error(kErrNoFile);
  std::string error;
  if (!helio::RunBlocking([&] { error = server.acl->LoadFile(); })) {
    error = "ERR too many files are being read";
  }
  if (!error.empty()) return reply.Error(error);
  Users::TellChanged(server);
  reply.Ok();
}

void Save(CoordinatorContext& cx, Args, ReplySink& reply) {
  AclStore& acl = *SessionOf(cx).server.acl;
  if (acl.file().empty()) return reply.Error(kErrNoFile);
  std::string error;
  if (!helio::RunBlocking([&] { error = acl.SaveFile(); })) {
    error = "ERR too many files are being written";
  }
  if (!error.empty()) return reply.Error(error);
  reply.Ok();
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "ACL",
            {"CAT [<category>]",
             "    List the categories, or the commands of one of them.",
             "DELUSER <username> [<username> ...]",
             "    Delete users; their clients are closed.",
             "DRYRUN <username> <command> [<arg> ...]",
             "    Tell whether the user may run the command, without running it.",
             "GETUSER <username>",
             "    Show what a user is and may do.",
             "GENPASS [<bits>]",
             "    Make a random password, of 256 bits if nothing else is said.",
             "LIST",
             "    Show all users as lines of an ACL file.",
             "LOAD",
             "    Read the users from the ACL file again.",
             "LOG [<count> | RESET]",
             "    Show what was refused lately.",
             "SAVE",
             "    Write the users to the ACL file.",
             "SETUSER <username> <attribute> [<attribute> ...]",
             "    Create a user, or change one.",
             "USERS",
             "    List the names of all users.",
             "WHOAMI",
             "    Tell who the client is."});
}

constexpr uint32_t kFlags = kNoScript | kLoading | kStale;

CommandDocs Docs(std::string_view summary, std::string_view since, std::string_view complexity) {
  return {summary, since, "server", complexity};
}

Command Look(std::string_view name, SessionHandler handler, int arity, uint32_t flags,
             CommandDocs docs) {
  return {.name = name, .session = handler, .arity = arity, .flags = kFlags | flags, .docs = docs};
}

Command Change(std::string_view name, CoordinatorHandler handler, int arity, CommandDocs docs) {
  return {.name = name,
          .coordinate = handler,
          .arity = arity,
          .flags = kFlags | kAdmin,
          .categories = kAclDangerous,
          .docs = docs};
}

}  // namespace

void RegisterAclCommands(CommandTable* table) {
  Command acl = {.name = "acl",
                 .arity = -2,
                 .docs = Docs("A container for Access List Control commands.", "6.0.0",
                              "Depends on subcommand.")};
  acl.subcommands = {
      Look("cat", ForClient<Cat>, -2, 0,
           Docs("Lists categories, or the commands of one.", "6.0.0", "O(1)")),
      Change("deluser", DelUser, -3, Docs("Deletes users.", "6.0.0", "O(1) for each user")),
      Look("dryrun", ForSession<DryRun>, -4, kAdmin,
           Docs("Tells whether a user may run a command.", "7.0.0", "O(1)")),
      Look("genpass", ForClient<GenPass>, -2, 0, Docs("Makes a random password.", "6.0.0", "O(1)")),
      Look("getuser", ForSession<GetUser>, 3, kAdmin,
           Docs("Shows what a user is and may do.", "6.0.0", "O(N), N rules")),
      Look("list", ForSession<List>, 2, kAdmin,
           Docs("Shows all users as lines of an ACL file.", "6.0.0", "O(N), N users")),
      Change("load", Load, 2, Docs("Reads the ACL file again.", "6.0.0", "O(N), N users")),
      Look("log", ForSession<Log>, -2, kAdmin,
           Docs("Shows what was refused lately.", "6.0.0", "O(N), N entries")),
      Change("save", Save, 2, Docs("Writes the ACL file.", "6.0.0", "O(N), N users")),
      Change("setuser", SetUser, -3, Docs("Creates or changes a user.", "6.0.0", "O(N), N rules")),
      Look("users", ForSession<UserNames>, 2, kAdmin,
           Docs("Lists the names of all users.", "6.0.0", "O(N), N users")),
      Look("whoami", ForSession<WhoAmI>, 2, 0, Docs("Tells who the client is.", "6.0.0", "O(1)")),
      HelpRow<Help>("6.0.0", "server"),
  };
  table->Add(std::move(acl));
}

}  // namespace dfly
