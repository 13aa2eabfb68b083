// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/loaded_parts.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "helio/base/ascii.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/care/load_libraries.h"
#include "server/care/running_scripts.h"
#include "server/care/shard_care.h"
#include "server/clients/server_state.h"
#include "server/dispatch/script_jobs.h"

namespace dfly {

namespace {

using Policy = FunctionStore::Policy;

bool IsWord(std::string_view text, std::string_view word) {
  return helio::EqualsIgnoreCase(text, word);
}

std::string LoadAll(const std::vector<std::string>& sources, Policy policy) {
  const auto error = LoadLibraries(RunningScripts::Here(), ScriptLoad::Of::kSnapshot,
                                   /*holds_locks=*/true, sources, policy);
  return error ? fmt::format("a function library is not one: {}", *error) : "";
}

}  // namespace

void AddScripts(ServerState& server, const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    std::string error;
    if (server.scripts.Add(source, false, &error) == nullptr) {
      LOG(WARNING) << "a script of the snapshot is left out: " << helio::LogText(error);
    }
  }
}

std::string CompileFunctions(ServerState& server, const std::vector<std::string>& sources,
                             const std::atomic<bool>& is_cancelled, FunctionTableRef* functions) {
  std::vector<LibraryRef> libraries;
  auto error = CompileLibraries(RunningScripts::Here(), ScriptLoad::Of::kSnapshot,
                                /*holds_locks=*/false, sources, &libraries);
  if (is_cancelled) return "cancelled";
  if (!error) error = server.functions.MakeTable(libraries, functions);
  return error ? fmt::format("a function library is not one: {}", *error) : "";
}

std::string TakeSnapshotExtras(ServerState& server, const SnapshotExtras& extras,
                               const std::atomic<bool>& is_cancelled) {
  AddScripts(server, extras.scripts);
  const std::string error = LoadAll(extras.functions, Policy::kFlush);
  if (!error.empty() && is_cancelled) return "cancelled";
  return error;
}

LoadedKeys::LoadedKeys(ServerState* server) : server_(*server) {
  server_.memory.set_holds_eviction(true);
  SetExpiry(false);
}

LoadedKeys::~LoadedKeys() {
  server_.memory.set_holds_eviction(false);
  SetExpiry(true);
}

void LoadedKeys::SetExpiry(bool is_on) {
  AwaitOnAll<ShardCare>(server_, [is_on](ShardCare& care) { care.SetActiveExpiry(is_on); });
}

ServerParts::ServerParts(ServerState* server, const std::atomic<bool>* is_cancelled)
    : server_(*server), is_cancelled_(*is_cancelled) {}

std::string ServerParts::TakeExtras(const SnapshotExtras& extras) {
  return TakeSnapshotExtras(server_, extras, is_cancelled_);
}

std::string ServerParts::Apply(Args args) {
  if (IsWord(args.name(), "function")) return ApplyFunction(args);
  // SCRIPT LOAD; all else of SCRIPT changes nothing that lasts.
  if (args.size() != 3 || !IsWord(args[1], "load")) return "";
  std::string error;
  return server_.scripts.Add(args[2], false, &error) == nullptr ? error : "";
}

void ServerParts::RunScript(CoordinatorContext& cx, Args args, ReplySink& reply) {
  helio::FiberOptions options{.name = "script of a log", .stack_size = RunningScripts::kStackBytes};
  helio::Fiber(std::move(options), [&] { ScriptJobs::OverShards(cx, args, reply); }).Join();
}

std::string ServerParts::ApplyFunction(Args args) {
  FunctionStore& functions = server_.functions;
  const std::string_view last = args[args.size() - 1];
  if (IsWord(args[1], "load")) return LoadAll({std::string(last)}, Policy::kReplace);
  if (IsWord(args[1], "delete")) {
    functions.Delete(last);  // if it is not there that is as good
    return "";
  }
  if (IsWord(args[1], "flush")) {
    functions.Flush();
    return "";
  }
  if (!IsWord(args[1], "restore") || args.size() < 3) return "";
  std::vector<std::string> sources;
  if (const auto wrong =
          FunctionStore::SourcesIn(args[2], server_.shards->string_max(), &sources)) {
    return *wrong;
  }
  const bool is_flush = args.size() == 4 && IsWord(last, "flush");
  return LoadAll(sources, is_flush ? Policy::kFlush : Policy::kReplace);
}

}  // namespace dfly
