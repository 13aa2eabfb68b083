// SPDX-License-Identifier: Apache-2.0
// FCALL and FCALL_RO (which dispatch carries out: script_jobs.h) and FUNCTION.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/table/command_table.h"
#include "core/text/glob.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "scripting/source/script_header.h"
#include "server/base/words.h"
#include "server/care/load_libraries.h"
#include "server/care/running_scripts.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/commands/script_commands.h"
#include "server/dispatch/script_run.h"
#include "server/scripts/function_store.h"

namespace dfly {

namespace {

void ReplyTooManyArguments(Args args, ReplySink& reply) {
  reply.Error(fmt::format(
      "ERR unknown subcommand or wrong number of arguments for '{}'. Try FUNCTION HELP.",
      Printed(args[1], 128)));
}

// What was deleted stays in interpreters otherwise, although nobody can call it.
void FreeInterpreters(ServerState& server) {
  AwaitOnAll<RunningScripts>(server, [](RunningScripts& scripts) { scripts.RenewInterpreters(); });
}

std::string AlreadyExists(std::string_view library) {
  return fmt::format("ERR Library '{}' already exists", library);
}

// FUNCTION LOAD [REPLACE] source
void Load(CoordinatorContext& cx, Args args, ReplySink& reply) {
  bool may_replace = false;
  for (std::string_view option : args.from(2).first(args.size() - 3)) {
    if (!IsWord(option, "replace")) {
      return reply.Error(fmt::format("ERR Unknown option given: {}", Printed(option, 128)));
    }
    may_replace = true;
  }
  FunctionStore& store = SessionOf(cx).server.functions;
  const std::string_view source = args[args.size() - 1];
  ScriptHeader header;
  if (const std::optional<std::string> wrong = ParseLibraryHeader(source, &header)) {
    return reply.Error(*wrong);
  }
  if (!may_replace && store.table()->libraries.contains(header.name)) {
    return reply.Error(AlreadyExists(header.name));
  }
  std::string error;
  const auto compile = [&] {
    ScriptLoad load(&RunningScripts::Here(), ScriptLoad::Of::kLibrary, cx.outer() != nullptr);
    return store.Compile(source, header, &load.interpreter(), &load, &error);
  };
  const LibraryRef library = compile();
  if (library == nullptr) return reply.Error(error);
  const auto policy =
      may_replace ? FunctionStore::Policy::kReplace : FunctionStore::Policy::kAppend;
  if (const std::optional<std::string> wrong = store.Add({library}, policy)) {
    const bool is_there = !may_replace && store.table()->libraries.contains(header.name);
    return reply.Error(is_there ? AlreadyExists(header.name) : *wrong);  // it has come meanwhile
  }
  cx.TellOwn();
  reply.Bulk(header.name);
}

// FUNCTION RESTORE payload [FLUSH|APPEND|REPLACE]
void Restore(CoordinatorContext& cx, Args args, ReplySink& reply) {
  using Policy = FunctionStore::Policy;
  if (args.size() > 4) return ReplyTooManyArguments(args, reply);
  Policy policy = Policy::kAppend;
  if (args.size() == 4) {
    if (IsWord(args[3], "flush")) {
      policy = Policy::kFlush;
    } else if (IsWord(args[3], "replace")) {
      policy = Policy::kReplace;
    } else if (!IsWord(args[3], "append")) {
      return reply.Error(
          "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
    }
  }
  Session& session = SessionOf(cx);
  std::vector<std::string> sources;
  if (const std::optional<std::string> wrong =
          FunctionStore::SourcesIn(args[2], cx.shards().string_max(), &sources)) {
    return reply.Error(*wrong);
  }
  if (const std::optional<std::string> wrong =
          LoadLibraries(RunningScripts::Here(), ScriptLoad::Of::kLibrary, cx.outer() != nullptr,
                        sources, policy)) {
    return reply.Error(*wrong);
  }
  if (policy == Policy::kFlush) FreeInterpreters(session.server);
  cx.TellOwn();
  reply.Ok();
}

void Delete(CoordinatorContext& cx, Args args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  if (!server.functions.Delete(args[2])) return reply.Error("ERR Library not found");
  FreeInterpreters(server);
  cx.TellOwn();
  reply.Ok();
}

// Functions that run go on.
void Flush(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return ReplyTooManyArguments(args, reply);
  if (args.size() == 3 && !IsWord(args[2], "async") && !IsWord(args[2], "sync")) {
    return reply.Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
  }
  ServerState& server = SessionOf(cx).server;
  server.functions.Flush();
  FreeInterpreters(server);
  cx.TellOwn();
  reply.Ok();
}

void Kill(CoordinatorContext& cx, Args, ReplySink& reply) { KillRunning(cx, true, reply); }

void Dump(Session& session, Args, ReplySink& reply) { reply.Bulk(session.server.functions.Dump()); }

void ReplyWithLibrary(const FunctionLibrary& library, bool with_code, ReplySink& reply) {
  reply.Map(with_code ? 4 : 3);
  reply.Bulk("library_name");
  reply.Bulk(library.code->name);
  reply.Bulk("engine");
  reply.Bulk("LUA");
  reply.Bulk("functions");
  reply.Array(library.functions.size());
  for (const auto& [info, script] : library.functions) {
    reply.Map(3);
    reply.Bulk("name");
    reply.Bulk(info.name);
    reply.Bulk("description");
    if (info.has_description) {
      reply.Bulk(info.description);
    } else {
      reply.Null();
    }
    reply.Bulk("flags");
    const std::vector<std::string_view> flags = FlagNames(info.flags);
    reply.Set(flags.size());
    for (std::string_view flag : flags) reply.Status(flag);
  }
  if (!with_code) return;
  reply.Bulk("library_code");
  reply.Bulk(library.source);
}

// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
void List(Session& session, Args args, ReplySink& reply) {
  bool with_code = false;
  std::optional<std::string_view> pattern;
  for (size_t i = 2; i < args.size(); ++i) {
    if (!with_code && IsWord(args[i], "withcode")) {
      with_code = true;
    } else if (!pattern && IsWord(args[i], "libraryname")) {
      if (++i == args.size()) return reply.Error("ERR library name argument was not given");
      pattern = args[i];
    } else {
      return reply.Error(fmt::format("ERR Unknown argument {}", Printed(args[i], 128)));
    }
  }
  const FunctionTableRef table = session.server.functions.table();
  std::vector<const FunctionLibrary*> libraries;
  for (const auto& [name, library] : table->libraries) {
    if (!pattern || GlobMatch(*pattern, name, GlobCase::kIgnore)) {
      libraries.push_back(library.get());
    }
  }
  reply.Array(libraries.size());
  for (const FunctionLibrary* library : libraries) ReplyWithLibrary(*library, with_code, reply);
}

// Of those that have given way: a shorter one is over before anybody could ask for it.
struct RunningFunction {
  std::string name;
  std::vector<std::string> command;
  uint64_t begin_ns = UINT64_MAX;

  void Note(const LongRun& run) {
    const auto* const script = run.is_script() ? static_cast<const ScriptRun*>(&run) : nullptr;
    if (script == nullptr || !run.is_function() || !run.has_given_way() ||
        run.begin_ns() >= begin_ns) {
      return;
    }
    name = script->script().sha;
    command.assign(script->command().begin(), script->command().end());
    begin_ns = run.begin_ns();
  }
};

// Several may run: it tells of the one that has run for longest.
void Stats(CoordinatorContext& cx, Args, ReplySink& reply) {
  ServerState& server = SessionOf(cx).server;
  std::vector<RunningFunction> by_worker(server.pool.size());
  AwaitOnAll<RunningScripts>(server, [&](RunningScripts& scripts) {
    scripts.ForEach([&](LongRun& run) { by_worker[scripts.worker().index()].Note(run); });
  });
  const RunningFunction& longest =
      *std::min_element(by_worker.begin(), by_worker.end(),
                        [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  reply.Map(2);
  reply.Bulk("running_script");
  if (longest.begin_ns == UINT64_MAX) {
    reply.Null();
  } else {
    reply.Map(3);
    reply.Bulk("name");
    reply.Bulk(longest.name);
    reply.Bulk("command");
    reply.Array(longest.command.size());
    for (const std::string& arg : longest.command) reply.Bulk(arg);
    reply.Bulk("duration_ms");
    reply.Integer(
        static_cast<int64_t>((helio::MonotonicNanos() - longest.begin_ns) / helio::kNanosPerMilli));
  }
  const FunctionTableRef table = server.functions.table();
  reply.Bulk("engines");
  reply.Map(1);
  reply.Bulk("LUA");
  reply.Map(2);
  reply.Bulk("libraries_count");
  reply.Integer(static_cast<int64_t>(table->libraries.size()));
  reply.Bulk("functions_count");
  reply.Integer(static_cast<int64_t>(table->functions.size()));
}

void Help(Session&, Args, ReplySink& reply) {
  ReplyHelp(reply, "FUNCTION",
            {"DELETE <LIBRARY NAME>", "    Deletes a library and its functions.", "DUMP",
             "    Returns all libraries in the form that RESTORE takes.", "FLUSH [ASYNC|SYNC]",
             "    Deletes all libraries.", "KILL",
             "    Ends functions that take long and have not written.",
             "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
             "    Shows libraries and their functions, and their code, too.",
             "LOAD [REPLACE] <FUNCTION CODE>", "    Makes a library of that source.",
             "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
             "    Makes the libraries that DUMP has returned, here or elsewhere. With FLUSH, all "
             "others go;",
             "    with REPLACE, those of the same names; with APPEND there may be none of these.",
             "STATS", "    Shows which function runs, and how many there are."});
}

}  // namespace

void RegisterFunctionCommands(CommandTable* table) {
  table->Add(RunsScript("fcall", kMayReplicate,
                        {"Calls a function.", "7.0.0", "scripting", "Depends on the function."}));
  table->Add(RunsScript(
      "fcall_ro", kReadonly,
      {"Calls a function that does not write.", "7.0.0", "scripting", "Depends on the function."}));

  constexpr std::string_view kTipsOfChange =
      "request_policy:all_shards response_policy:all_succeeded";
  table->Add(
      {.name = "function",
       .arity = -2,
       .docs = {"A container for commands about functions.", "7.0.0", "scripting",
                "Depends on the subcommand."},
       .subcommands = {
           AboutScripts("delete", Delete, 3, kNoScript | kWrite,
                        {"Deletes a library.", "7.0.0", "scripting", "O(1)"}, kTipsOfChange),
           AboutScripts("dump", ForSession<Dump>, 2, kNoScript,
                        {"Returns all libraries in the form that RESTORE takes.", "7.0.0",
                         "scripting", "O(N)"}),
           AboutScripts("flush", Flush, -2, kNoScript | kWrite,
                        {"Deletes all libraries.", "7.0.0", "scripting", "O(N)"}, kTipsOfChange),
           AboutScripts("help", ForSession<Help>, 2, kLoading | kStale,
                        {"Shows the subcommands.", "7.0.0", "scripting", "O(1)"}),
           AboutScripts("kill", Kill, 2, kNoScript | kAllowBusy,
                        {"Ends functions that take long and have not written.", "7.0.0",
                         "scripting", "O(1)"},
                        "request_policy:all_shards response_policy:one_succeeded"),
           AboutScripts("list", ForSession<List>, -2, kNoScript,
                        {"Shows libraries and their functions.", "7.0.0", "scripting", "O(N)"},
                        "nondeterministic_output_order"),
           AboutScripts("load", Load, -3, kNoScript | kWrite | kDenyOom,
                        {"Makes a library.", "7.0.0", "scripting", "O(1)"}, kTipsOfChange),
           AboutScripts(
               "restore", Restore, -3, kNoScript | kWrite | kDenyOom,
               {"Makes the libraries that DUMP has returned.", "7.0.0", "scripting", "O(N)"},
               kTipsOfChange),
           AboutScripts(
               "stats", Stats, 2, kNoScript | kAllowBusy,
               {"Shows which function runs, and how many there are.", "7.0.0", "scripting", "O(1)"},
               "nondeterministic_output request_policy:all_shards response_policy:special"),
       }});
}

}  // namespace dfly
