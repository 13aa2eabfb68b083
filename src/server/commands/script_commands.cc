// SPDX-License-Identifier: Apache-2.0
// EVAL EVALSHA EVAL_RO EVALSHA_RO (which dispatch carries out: script_jobs.h) and SCRIPT.
#include <fmt/format.h>

#include <atomic>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "server/base/words.h"
#include "server/care/running_scripts.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/commands/script_commands.h"

namespace dfly {

std::vector<std::string_view> FlagNames(uint32_t flags) {
  std::vector<std::string_view> names;
  for (const ScriptFlagName& known : kScriptFlagNames) {
    if ((flags & known.flag) != 0) names.push_back(known.name);
  }
  return names;
}

Command RunsScript(std::string_view name, uint32_t flags, CommandDocs docs) {
  return {.name = name,
          .runs_script = true,
          .arity = -3,
          .flags = kNoScript | kSkipMonitor | kStale | kMovableKeys | flags,
          .categories = kAclScripting,
          .effect = EffectRule::kNone,
          .keys = KeysCountedAt(2, (flags & kReadonly) != 0 ? "RO access" : "RW access update"),
          .docs = docs};
}

Command AboutScripts(std::string_view name, SessionHandler handler, int arity, uint32_t flags,
                     CommandDocs docs, std::string_view tips) {
  return {.name = name,
          .session = handler,
          .arity = arity,
          .flags = flags,
          .categories = kAclScripting,
          .docs = docs,
          .tips = tips};
}

Command AboutScripts(std::string_view name, CoordinatorHandler handler, int arity, uint32_t flags,
                     CommandDocs docs, std::string_view tips) {
  return {.name = name,
          .coordinate = handler,
          .needs_script_stack = true,
          .arity = arity,
          .flags = flags,
          .categories = kAclScripting,
          .effect = EffectRule::kNone,  // CoordinatorContext::TellOwn
          .docs = docs,
          .tips = tips};
}

// Of all that have given way, as a shorter one is over before anybody could want to kill it.
void KillRunning(CoordinatorContext& cx, bool of_functions, ReplySink& reply) {
  std::atomic<uint32_t> killed{0}, unkillable{0}, of_other_kind{0};
  AwaitOnAll<RunningScripts>(SessionOf(cx).server, [&](RunningScripts& scripts) {
    scripts.ForEach([&](LongRun& run) {
      if (!run.has_given_way()) return;
      if (run.has_written()) {
        ++unkillable;
      } else if (run.is_function() != of_functions) {
        ++of_other_kind;
      } else {
        run.Kill();
        ++killed;
      }
    });
  });
  if (killed > 0) return reply.Ok();
  if (unkillable > 0) {
    return reply.Error(
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can "
        "either wait the script termination or kill the server in a hard way using the SHUTDOWN "
        "NOSAVE command.");
  }
  if (of_other_kind > 0) return reply.Error(of_functions ? kErrBusyScript : kErrBusyFunction);
  reply.Error("NOTBUSY No scripts in execution right now.");
}

namespace {

// SCRIPT LOAD. It is compiled now, so that who loads it hears of its mistakes.
void Load(CoordinatorContext& cx, Args args, ReplySink& reply) {
  RunningScripts& scripts = RunningScripts::Here();
  ScriptStore& store = scripts.worker().server.scripts;
  std::string error;
  const ScriptRef known = store.Find(Sha1Hex(args[2]));
  if (known != nullptr && !known->is_evaluated) return reply.Bulk(known->sha);
  const ScriptRef script = store.Prepare(args[2], &error);
  if (script == nullptr) return reply.Error(error);
  // What will run, which may not be what was sent (--lua_auto_async): it is compiled once.
  const auto compile = [&] {
    ScriptLoad load(&scripts, ScriptLoad::Of::kScript, cx.outer() != nullptr);
    return load.interpreter().Load(script->sha, script->code, &error, &load);
  };
  if (!compile()) return reply.Error(error);
  reply.Bulk(store.Add(script, false)->sha);
  cx.TellOwn();
}

void Exists(Session& session, Args args, ReplySink& reply) {
  reply.Array(args.size() - 2);
  for (std::string_view sha : args.from(2)) {
    reply.Integer(session.server.scripts.Find(sha) != nullptr);
  }
}

// Scripts that run go on.
void Flush(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3 ||
      (args.size() == 3 && !IsWord(args[2], "async") && !IsWord(args[2], "sync"))) {
    return reply.Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
  }
  ServerState& server = SessionOf(cx).server;
  server.scripts.Flush();
  AwaitOnAll<RunningScripts>(server, [](RunningScripts& scripts) { scripts.RenewInterpreters(); });
  cx.TellOwn();
  reply.Ok();
}

void Kill(CoordinatorContext& cx, Args, ReplySink& reply) { KillRunning(cx, false, reply); }

// SCRIPT FLAGS sha [flag ...]
void Flags(Session& session, Args args, ReplySink& reply) {
  if (args[2].size() != 40) return reply.Error("ERR Wrong script SHA1");
  if (args.size() == 3) {
    const ScriptRef script = session.server.scripts.Find(args[2]);
    if (script == nullptr) return reply.Error(kErrNoScript);
    const std::vector<std::string_view> names = FlagNames(script->flags);
    reply.Array(names.size());
    for (std::string_view name : names) reply.Status(name);
    return;
  }
  uint32_t flags = 0;
  for (std::string_view name : args.from(3)) {
    const std::optional<ScriptFlag> flag = ScriptFlagOf(name);
    if (!flag) return reply.Error(fmt::format("ERR Unexpected flag in script: {}", Printed(name)));
    flags |= *flag;
  }
  session.server.scripts.SetFlags(args[2], flags);
  reply.Ok();
}

// With the functions of libraries.
std::vector<ScriptRef> AllOf(ServerState& server) {
  std::vector<ScriptRef> all = server.scripts.List();
  const FunctionTableRef table = server.functions.table();
  for (const auto& [name, library] : table->libraries) {
    for (const FunctionLibrary::Function& function : library->functions) {
      all.push_back(function.script);
    }
  }
  return all;
}

void List(Session& session, Args, ReplySink& reply) {
  const std::vector<ScriptRef> scripts = AllOf(session.server);
  reply.Array(scripts.size());
  for (const ScriptRef& script : scripts) {
    reply.Map(9);
    const auto number = [&](std::string_view name, uint64_t value) {
      reply.Bulk(name);
      reply.Integer(static_cast<int64_t>(value));
    };
    reply.Bulk(script->is_function() ? "function" : "sha");
    reply.Bulk(script->sha);
    reply.Bulk("flags");
    const std::vector<std::string_view> names = FlagNames(script->flags);
    reply.Array(names.size());
    for (std::string_view name : names) reply.Status(name);
    reply.Bulk("reach");
    reply.Bulk(script->watched_runs < Script::kWatchedRuns ? "unknown" : ReachName(script->reach));
    number("runs", script->runs);
    number("runs-global", script->runs_global);
    number("restarts", script->restarts);
    number("refused-keys", script->refused);
    number("bytes", script->source.size());
    number("evaluated", script->is_evaluated);
  }
}

void Latency(Session& session, Args, ReplySink& reply) {
  const std::vector<ScriptRef> scripts = AllOf(session.server);
  reply.Map(scripts.size());
  for (const ScriptRef& script : scripts) {
    const uint64_t runs = script->runs;
    reply.Bulk(script->sha);
    reply.Map(3);
    reply.Bulk("calls");
    reply.Integer(static_cast<int64_t>(runs));
    reply.Bulk("usec");
    reply.Integer(static_cast<int64_t>(script->total_us));
    reply.Bulk("usec_per_call");
    reply.Double(runs == 0 ? 0 : static_cast<double>(script->total_us) / static_cast<double>(runs));
  }
}

void Help(Session&, Args, ReplySink& reply) {
  ReplyHelp(reply, "SCRIPT",
            {"EXISTS <sha1> [<sha1> ...]", "    Tells which scripts are known by these digests.",
             "FLAGS <sha1> [<flag> ...]", "    Sets the flags of a script, or shows them.",
             "FLUSH [ASYNC|SYNC]", "    Forgets all scripts.", "KILL",
             "    Ends scripts that take long and have not written.", "LATENCY",
             "    Shows how long scripts take.", "LIST",
             "    Shows all scripts, and what was learned about the keys they use.",
             "LOAD <script>", "    Makes a script known, and does not run it."});
}

}  // namespace

void RegisterScriptCommands(CommandTable* table) {
  table->Add(RunsScript("eval", kMayReplicate,
                        {"Executes a script.", "2.6.0", "scripting", "Depends on the script."}));
  table->Add(RunsScript("evalsha", kMayReplicate,
                        {"Executes a script that is known by its SHA1.", "2.6.0", "scripting",
                         "Depends on the script."}));
  table->Add(RunsScript(
      "eval_ro", kReadonly,
      {"Executes a script that does not write.", "7.0.0", "scripting", "Depends on the script."}));
  table->Add(RunsScript("evalsha_ro", kReadonly,
                        {"Executes a script by its SHA1 that does not write.", "7.0.0", "scripting",
                         "Depends on the script."}));

  table->Add(
      {.name = "script",
       .arity = -2,
       .docs = {"A container for commands about scripts.", "2.6.0", "scripting",
                "Depends on the subcommand."},
       .subcommands = {
           AboutScripts("exists", ForSession<Exists>, -3, kNoScript,
                        {"Tells which scripts are known.", "2.6.0", "scripting", "O(N)"},
                        "request_policy:all_shards response_policy:agg_logical_and"),
           AboutScripts("flags", ForSession<Flags>, -3, kNoScript,
                        {"Sets or shows the flags of a script.", "2.6.0", "scripting", "O(1)"}),
           AboutScripts("flush", Flush, -2, kNoScript,
                        {"Forgets all scripts.", "2.6.0", "scripting", "O(N)"},
                        "request_policy:all_nodes response_policy:all_succeeded"),
           AboutScripts("help", ForSession<Help>, 2, kLoading | kStale,
                        {"Shows the subcommands.", "5.0.0", "scripting", "O(1)"}),
           AboutScripts(
               "kill", Kill, 2, kNoScript | kAllowBusy,
               {"Ends scripts that take long and have not written.", "2.6.0", "scripting", "O(1)"},
               "request_policy:all_shards response_policy:one_succeeded"),
           AboutScripts("latency", ForSession<Latency>, 2, kNoScript,
                        {"Shows how long scripts take.", "2.6.0", "scripting", "O(N)"}),
           AboutScripts("list", ForSession<List>, 2, kNoScript,
                        {"Shows all scripts.", "2.6.0", "scripting", "O(N)"}),
           AboutScripts("load", Load, 3, kNoScript | kStale,
                        {"Makes a script known.", "2.6.0", "scripting", "O(N)"},
                        "request_policy:all_nodes response_policy:all_succeeded"),
       }});
}

}  // namespace dfly
