// SPDX-License-Identifier: Apache-2.0
// COMMAND and its subcommands: all they tell is made from the rows of the command table.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands/table/command_syntax.h"
#include "commands/table/command_table.h"
#include "commands/table/lookup.h"
#include "core/text/glob.h"
#include "facade/replies/error_texts.h"
#include "server/acl/command_facts.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/commands/families.h"

namespace dfly {

namespace {

void StatusSet(const std::vector<std::string_view>& words, ReplySink& reply) {
  reply.Set(words.size());
  for (std::string_view word : words) reply.Status(word);
}

// Of the keys behind `option`, or of all others.
void ReplyKeySpec(const KeySpec& keys, const std::vector<std::string_view>& flags, ReplySink& reply,
                  std::string_view option = {}) {
  reply.Map(3);
  reply.Bulk("flags");
  StatusSet(flags, reply);
  reply.Bulk("begin_search");
  reply.Map(2);
  reply.Bulk("type");
  if (option.empty()) {
    reply.Bulk("index");
    reply.Bulk("spec");
    reply.Map(1);
    reply.Bulk("index");
    reply.Integer(keys.count_at != 0 ? keys.count_at : keys.first);
  } else {
    reply.Bulk("keyword");
    reply.Bulk("spec");
    reply.Map(2);
    reply.Bulk("keyword");
    reply.Bulk(option);
    reply.Bulk("startfrom");
    reply.Integer(keys.options_from);
  }
  reply.Bulk("find_keys");
  reply.Map(2);
  reply.Bulk("type");
  if (keys.count_at != 0) {
    reply.Bulk("keynum");
    reply.Bulk("spec");
    reply.Map(3);
    reply.Bulk("keynumidx");  // this and the next one from where the search began
    reply.Integer(0);
    reply.Bulk("firstkey");
    reply.Integer(1);
    reply.Bulk("keystep");
    reply.Integer(keys.step);
    return;
  }
  reply.Bulk("range");
  reply.Bulk("spec");
  reply.Map(3);
  reply.Bulk("lastkey");                      // counted from the first one, or from the end
  const bool is_half = keys.find != nullptr;  // of what follows up to the end
  reply.Integer(keys.last < 0 ? keys.last : is_half ? -1 : keys.last - keys.first);
  reply.Bulk("keystep");
  reply.Integer(keys.step);
  reply.Bulk("limit");
  reply.Integer(is_half ? 2 : 0);
}

// As COMMAND INFO has shown keys since 7.0: where to begin, and how to go on from there.
void ReplyKeySpecs(const Command& command, ReplySink& reply) {
  const KeySpec& keys = command.keys;
  if (!keys.has_keys()) return reply.Set(0);
  if (keys.second_flags.empty()) {
    reply.Set(1);
    return ReplyKeySpec(keys, KeyFlagsOf(command), reply, keys.options);
  }
  const std::vector<std::string_view> second_flags = SplitWords(keys.second_flags);
  const std::vector<std::string_view> options = SplitWords(keys.options);
  reply.Set(options.empty() ? 2 : 1 + options.size());
  ReplyKeySpec(KeyAt(keys.first), KeyFlagsOf(command), reply);
  for (std::string_view option : options) {
    const KeySpec behind = {.last = 0, .step = 1, .options_from = keys.options_from};
    ReplyKeySpec(behind, second_flags, reply, option);
  }
  if (!options.empty()) return;
  const KeySpec rest = {keys.first + keys.step, keys.last, keys.step, {}, keys.count_at};
  ReplyKeySpec(rest, second_flags, reply);
}

void ReplyInfo(const Command& command, ReplySink& reply) {
  reply.Array(10);
  reply.Bulk(command.full_name);
  reply.Integer(command.arity);
  StatusSet(FlagsOf(command), reply);
  // What stands where, whatever the other arguments are.
  const int counted_at = command.keys.count_at;
  const bool is_fixed = counted_at == 0 && command.keys.find == nullptr;
  const KeySpec fixed = is_fixed                          ? command.keys
                        : command.keys.first < counted_at ? KeyAt(command.keys.first)
                                                          : KeySpec();
  reply.Integer(fixed.first);
  reply.Integer(fixed.last);
  reply.Integer(fixed.step);
  StatusSet(AclCategoriesOf(command), reply);
  StatusSet(SplitWords(command.tips), reply);
  ReplyKeySpecs(command, reply);
  if (command.subcommands.empty()) return reply.Set(0);  // a set when there are none, as in Redis
  reply.Array(command.subcommands.size());
  for (const Command& subcommand : command.subcommands) ReplyInfo(subcommand, reply);
}

// "get", or "config|get". Null if there is none.
const Command* FindByFullName(const CommandTable& table, std::string_view name) {
  const size_t bar = name.find('|');
  const Command* command = table.Find(name.substr(0, bar));  // by what clients call it
  if (command == nullptr || (command->flags & kMemcached) != 0) return nullptr;
  if (bar == std::string_view::npos) return command;
  return CommandTable::FindSubcommand(*command, name.substr(bar + 1));
}

// Those that a client of ours can call.
std::vector<const Command*> AllOf(const CommandTable& table) {
  std::vector<const Command*> all;
  for (const Command& command : table.all()) {
    const bool has_name = !command.called.empty();  // rename-command
    if (has_name && (command.flags & kMemcached) == 0) all.push_back(&command);
  }
  return all;
}

void ReplyAll(const CommandTable& table, ReplySink& reply) {
  const auto all = AllOf(table);
  reply.Array(all.size());
  for (const Command* command : all) ReplyInfo(*command, reply);
}

void CommandAlone(Args, ReplySink& reply) { ReplyAll(WorkerState::Here().server.commands, reply); }

void Count(Args, ReplySink& reply) {
  reply.Integer(static_cast<int64_t>(AllOf(WorkerState::Here().server.commands).size()));
}

void Info(Args args, ReplySink& reply) {
  const CommandTable& table = WorkerState::Here().server.commands;
  if (args.size() == 2) return ReplyAll(table, reply);
  reply.Array(args.size() - 2);
  for (std::string_view name : args.from(2)) {
    const Command* command = FindByFullName(table, name);
    if (command == nullptr) {
      reply.Null();
    } else {
      ReplyInfo(*command, reply);
    }
  }
}

void ReplyArguments(const std::vector<CommandArgument>& arguments, ReplySink& reply);

void ReplyArgument(const CommandArgument& argument, ReplySink& reply) {
  const auto text = [&reply](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    reply.Bulk(name);
    reply.Bulk(value);
  };
  std::vector<std::string_view> flags;
  if (argument.is_optional) flags.emplace_back("optional");
  if (argument.is_multiple) flags.emplace_back("multiple");
  if (argument.repeats_token) flags.emplace_back("multiple_token");
  const bool has_key = argument.key_spec >= 0;
  reply.Map(2u + has_key + !argument.token.empty() + !argument.since.empty() +
            !argument.deprecated_since.empty() + !flags.empty() + !argument.parts.empty());
  text("name", argument.name);
  text("type", argument.type);
  if (has_key) {
    reply.Bulk("key_spec_index");
    reply.Integer(argument.key_spec);
  }
  text("token", argument.token);
  text("since", argument.since);
  text("deprecated_since", argument.deprecated_since);
  if (!flags.empty()) {
    reply.Bulk("flags");
    StatusSet(flags, reply);
  }
  ReplyArguments(argument.parts, reply);
}

void ReplyArguments(const std::vector<CommandArgument>& arguments, ReplySink& reply) {
  if (arguments.empty()) return;
  reply.Bulk("arguments");
  reply.Array(arguments.size());
  for (const CommandArgument& argument : arguments) ReplyArgument(argument, reply);
}

void ReplyDocs(const Command& command, ReplySink& reply) {
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  const auto add = [&fields](std::string_view name, std::string_view text) {
    if (!text.empty()) fields.emplace_back(name, text);
  };
  add("summary", command.docs.summary);
  add("since", command.docs.since);
  add("group", GroupOf(command));
  add("complexity", command.docs.complexity);
  add("deprecated_since", command.docs.deprecated_since);
  add("replaced_by", command.docs.replaced_by);
  const bool is_deprecated = !command.docs.deprecated_since.empty();
  const std::vector<CommandArgument> arguments = ParseSyntax(SyntaxOf(command.full_name));
  reply.Map(fields.size() + is_deprecated + !arguments.empty() + !command.subcommands.empty());
  if (is_deprecated) {
    reply.Bulk("doc_flags");
    StatusSet({"deprecated"}, reply);
  }
  for (const auto& [name, text] : fields) {
    reply.Bulk(name);
    reply.Bulk(text);
  }
  ReplyArguments(arguments, reply);
  if (command.subcommands.empty()) return;
  reply.Bulk("subcommands");
  reply.Map(command.subcommands.size());
  for (const Command& subcommand : command.subcommands) {
    reply.Bulk(subcommand.full_name);
    ReplyDocs(subcommand, reply);
  }
}

void Docs(Args args, ReplySink& reply) {
  const CommandTable& table = WorkerState::Here().server.commands;
  std::vector<const Command*> wanted;
  if (args.size() == 2) {
    wanted = AllOf(table);
  }
  for (std::string_view name : args.from(2)) {
    if (const Command* command = FindByFullName(table, name)) wanted.push_back(command);
  }
  reply.Map(wanted.size());
  for (const Command* command : wanted) {
    reply.Bulk(command->full_name);
    ReplyDocs(*command, reply);
  }
}

// The keys of the command that begins at args[2]; an error was replied if there are none.
struct FoundKeys {
  const Command* command = nullptr;
  std::vector<std::string_view> keys;
};

bool FindKeys(Args args, ReplySink& reply, FoundKeys* found) {
  const Args inner(args.from(2));
  const Lookup lookup = Find(WorkerState::Here().server.commands, inner);
  const Command* const command = lookup.row;
  std::string_view error;
  if (command == nullptr || lookup.end == Lookup::End::kUnknownSubcommand) {
    error = "ERR Invalid command specified";
  } else if (!command->keys.has_keys() || command->keys.flags == "not_key") {
    error = "ERR The command has no key arguments";
  } else if (!lookup.is_found()) {
    error = "ERR Invalid number of arguments specified for command";
  }
  if (error.empty()) {
    if (const auto indexes = command->FindKeys(inner)) {
      for (size_t i : *indexes) found->keys.push_back(inner[i]);
    }
    found->command = command;
    // Scripts need none; in Redis also if their number makes no sense.
    if (found->keys.empty() && !command->runs_script) {
      error = "ERR Invalid arguments specified for command";
    }
  }
  if (error.empty()) return true;
  reply.Error(error);
  return false;
}

void GetKeys(Args args, ReplySink& reply) {
  FoundKeys found;
  if (!FindKeys(args, reply, &found)) return;
  reply.Array(found.keys.size());
  for (std::string_view key : found.keys) reply.Bulk(key);
}

void GetKeysAndFlags(Args args, ReplySink& reply) {
  FoundKeys found;
  if (!FindKeys(args, reply, &found)) return;
  const std::vector<std::string_view> flags = KeyFlagsOf(*found.command, Args(args.from(2)));
  const std::string_view second_flags = found.command->keys.second_flags;
  reply.Array(found.keys.size());
  for (size_t i = 0; i < found.keys.size(); ++i) {
    reply.Array(2);
    reply.Bulk(found.keys[i]);
    StatusSet(i > 0 && !second_flags.empty() ? SplitWords(second_flags) : flags, reply);
  }
}

// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]
void List(Args args, ReplySink& reply) {
  enum class Filter { kNone, kNothing, kCategory, kPattern };
  Filter filter = Filter::kNone;
  if (args.size() == 5 && IsWord(args[2], "filterby")) {
    if (IsWord(args[3], "module")) {
      filter = Filter::kNothing;  // there are no modules
    } else if (IsWord(args[3], "aclcat")) {
      filter = Filter::kCategory;
    } else if (IsWord(args[3], "pattern")) {
      filter = Filter::kPattern;
    } else {
      return reply.Error(kErrSyntax);
    }
  } else if (args.size() != 2) {
    return reply.Error(kErrSyntax);
  }
  const std::string category = filter == Filter::kCategory ? "@" + LowerCase(args[4]) : "";
  std::vector<std::string_view> names;
  const auto consider = [&](const Command& command) {
    if (filter == Filter::kNothing) return;
    if (filter == Filter::kCategory) {
      const auto categories = AclCategoriesOf(command);
      if (std::find(categories.begin(), categories.end(), category) == categories.end()) return;
    }
    if (filter == Filter::kPattern && !GlobMatch(args[4], command.full_name, GlobCase::kIgnore)) {
      return;
    }
    names.push_back(command.full_name);
  };
  for (const Command* command : AllOf(WorkerState::Here().server.commands)) {
    consider(*command);
    for (const Command& subcommand : command->subcommands) consider(subcommand);
  }
  reply.Array(names.size());
  for (std::string_view name : names) reply.Bulk(name);
}

void Help(Args, ReplySink& reply) {
  ReplyHelp(reply, "COMMAND",
            {"(no subcommand)", "    Return details about all Redis commands.", "COUNT",
             "    Return the total number of commands in this Redis server.", "LIST",
             "    Return a list of all commands in this Redis server.", "INFO [<command-name> ...]",
             "    Return details about multiple Redis commands.",
             "    If no command names are given, documentation details for all",
             "    commands are returned.", "DOCS [<command-name> ...]",
             "    Return documentation details about multiple Redis commands.",
             "    If no command names are given, documentation details for all",
             "    commands are returned.", "GETKEYS <full-command>",
             "    Return the keys from a full Redis command.", "GETKEYSANDFLAGS <full-command>",
             "    Return the keys and the access flags from a full Redis command."});
}

template <ScriptedHandler kHandler>
Command Sub(std::string_view name, int arity, std::string_view summary, std::string_view since) {
  return {.name = name,
          .session = ForClient<kHandler>,
          .scripted = kHandler,
          .arity = arity,
          .flags = kLoading | kStale,
          .categories = kAclConnection,
          .docs = {summary, since, "server", "O(N), N commands"}};
}

}  // namespace

void RegisterCommandCommands(CommandTable* table) {
  Command command = Sub<CommandAlone>("command", -1, "Describes all commands.", "2.8.13");
  command.subcommands = {
      Sub<Count>("count", 2, "Counts the commands.", "2.8.13"),
      Sub<Info>("info", -2, "Describes commands.", "2.8.13"),
      Sub<Docs>("docs", -2, "Returns summaries of commands.", "7.0.0"),
      Sub<List>("list", -2, "Lists the commands' names.", "7.0.0"),
      Sub<GetKeys>("getkeys", -3, "Finds the keys in a command line.", "2.8.13"),
      Sub<GetKeysAndFlags>("getkeysandflags", -3,
                           "Finds the keys in a command line and how they are accessed.", "7.0.0"),
      Sub<Help>("help", 2, "Lists the subcommands.", "5.0.0"),
  };
  command.tips = "nondeterministic_output_order";
  for (Command& subcommand : command.subcommands) {
    if (subcommand.name == "info" || subcommand.name == "docs" || subcommand.name == "list") {
      subcommand.tips = command.tips;
    }
  }
  table->Add(std::move(command));
}

}  // namespace dfly
