// SPDX-License-Identifier: Apache-2.0
// SAVE BGSAVE LASTSAVE SHUTDOWN.
#include <fmt/format.h>

#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "helio/base/log_text.h"
#include "server/base/words.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/commands/families.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/run/server.h"

namespace dfly {

namespace {

constexpr std::string_view kErrIsSaving = "ERR Background save already in progress";
constexpr std::string_view kErrIsSavingLogBase =
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in "
    "order to schedule a BGSAVE whenever possible.";
constexpr std::string_view kErrDisabled =
    "ERR Snapshots are disabled: --dbfilename is empty, so there is no file to save to";

// The format that a word asks for: RDB, or DF for our own.
std::optional<SnapshotFormat> FormatOfWord(std::string_view word) {
  if (IsWord(word, "rdb")) return SnapshotFormat::kRdb;
  if (IsWord(word, "df")) return SnapshotFormat::kOurs;
  return std::nullopt;
}

// [RDB|DF] [TO name], and [SCHEDULE] if `is_scheduled` is there. Behind RDB or DF a name may stand
// alone. Empty, or an error reply.
std::string ReadTarget(Args args, SaveTarget* target, bool* is_scheduled) {
  for (size_t i = 1; i < args.size(); ++i) {
    const std::string_view word = args[i];
    const bool has_next = i + 1 < args.size();
    if (is_scheduled != nullptr && IsWord(word, "schedule") && !*is_scheduled) {
      *is_scheduled = true;
    } else if (!target->format && FormatOfWord(word)) {
      target->format = FormatOfWord(word);
    } else if (target->name.empty() && IsWord(word, "to") && has_next) {
      target->name = args[++i];
      const std::string error = CheckSnapshotName(target->name);
      if (!error.empty()) return fmt::format("ERR {}", error);
    } else if (target->name.empty() && target->format && !FormatOfWord(word) &&
               !IsWord(word, "to") && !IsWord(word, "schedule")) {
      target->name = word;
      const std::string error = CheckSnapshotName(target->name);
      if (!error.empty()) return fmt::format("ERR {}", error);
    } else {
      return std::string(kErrSyntax);
    }
  }
  return "";
}

// SAVE [RDB|DF] [TO name]. Only this client waits.
void Save(CoordinatorContext& cx, Args args, ReplySink& reply) {
  SaveTarget target;
  std::string error = ReadTarget(args, &target, nullptr);
  if (!error.empty()) return reply.Error(error);
  Persistence& persistence = Server::Here().persistence();
  bool is_saving = false;
  bool is_enabled = true;
  cx.shards().pool().at(0)->AwaitFiber("save", [&] {
    persistence.AwaitSaveAfterFlush();
    is_saving = persistence.is_saving();
    is_enabled = persistence.is_enabled();
    if (!is_saving && is_enabled) error = persistence.Save(target);
  });
  if (!is_enabled) return reply.Error(kErrDisabled);
  if (is_saving) return reply.Error(kErrIsSaving);
  if (!error.empty()) return reply.Error(fmt::format("ERR {}", error));
  reply.Ok();
}

// BGSAVE [SCHEDULE] [RDB|DF] [TO name]. Nothing else hinders a save, so there is nothing to
// schedule it for. It may be a part of an EXEC, so it waits for nothing.
void BgSave(CoordinatorContext& cx, Args args, ReplySink& reply) {
  SaveTarget target;
  bool is_scheduled = false;
  const std::string error = ReadTarget(args, &target, &is_scheduled);
  if (!error.empty()) return reply.Error(error);
  Persistence& persistence = Server::Here().persistence();
  auto started = Persistence::Start::kDisabled;
  bool is_behind_log_base = false;
  cx.shards().pool().at(0)->AwaitFiber("bgsave", [&] {
    is_behind_log_base = persistence.is_saving_log_base();
    started = persistence.StartSaveOfClient(target, is_scheduled);
  });
  switch (started) {
    case Persistence::Start::kStarted:
      // Inside EXEC it is called scheduled in redis-server.
      return reply.Status(cx.outer() == nullptr && !is_behind_log_base
                              ? "Background saving started"
                              : "Background saving scheduled");
    case Persistence::Start::kIsSaving:
      return reply.Error(kErrIsSaving);
    case Persistence::Start::kIsSavingLogBase:
      return reply.Error(kErrIsSavingLogBase);
    case Persistence::Start::kDisabled:
      return reply.Error(kErrDisabled);
  }
}

// BGREWRITEAOF. Waits for nothing.
void BgRewriteAof(CoordinatorContext& cx, Args, ReplySink& reply) {
  auto started = AppendLog::Start::kIsRewriting;
  cx.shards().pool().at(0)->AwaitFiber(
      "bgrewriteaof", [&] { started = Server::Here().append_log().StartRewrite(); });
  if (started == AppendLog::Start::kIsRewriting) {
    return reply.Error("ERR Background append only file rewriting already in progress");
  }
  // Inside EXEC it is called scheduled in redis-server.
  const bool is_scheduled = started == AppendLog::Start::kScheduled || cx.outer() != nullptr;
  reply.Status(is_scheduled ? "Background append only file rewriting scheduled"
                            : "Background append only file rewriting started");
}

void LastSave(Args, ReplySink& reply) { reply.Integer(Server::Here().persistence().last_save_s()); }

// SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]. No answer but the end of the connection.
void Shutdown(CoordinatorContext& cx, Args args, ReplySink& reply) {
  StopRule rule;
  bool abort = false;
  for (std::string_view word : args.from(1)) {
    if (IsWord(word, "save")) {
      rule.save = true;
    } else if (IsWord(word, "nosave")) {
      rule.no_save = true;
    } else if (IsWord(word, "abort")) {
      abort = true;
    } else if (IsWord(word, "force")) {
      rule.force = true;
    } else if (IsWord(word, "now")) {
      rule.now = true;
    } else {
      return reply.Error(kErrSyntax);
    }
  }
  if ((rule.save && rule.no_save) || (abort && args.size() > 2)) return reply.Error(kErrSyntax);
  ServerState& server = SessionOf(cx).server;
  if (abort) {
    if (Server::Here().AbortStop()) return reply.Ok();
    return reply.Error("ERR No shutdown in progress.");
  }
  if (server.options.request_stop == nullptr) {
    return reply.Error("ERR this server cannot be stopped by a client");
  }
  const std::string error =
      Server::Here().PrepareStop(rule, Server::Here().ShutdownPatienceNanos());
  if (!error.empty()) {
    LOG(ERROR) << "SHUTDOWN: Error trying to save the DB, can't exit: " << helio::LogText(error);
    return reply.Error("ERR Errors trying to SHUTDOWN. Check logs.");
  }
  server.options.request_stop();
}

}  // namespace

void RegisterSaveCommands(CommandTable* table) {
  table->Add({.name = "save",
              .coordinate = Save,
              .arity = -1,
              .flags = kAdmin | kNoScript | kNoAsyncLoading | kNoMulti,
              .categories = kAclDangerous,
              .docs = {"Saves all data to disk, and answers when it is there.", "1.0.0", "server",
                       "O(N) where N is the total number of keys in all databases"}});
  table->Add({.name = "bgsave",
              .coordinate = BgSave,
              .arity = -1,
              .flags = kAdmin | kNoScript | kNoAsyncLoading,
              .categories = kAclDangerous,
              .docs = {"Saves all data to disk in the background.", "1.0.0", "server", "O(1)"}});
  table->Add(
      {.name = "bgrewriteaof",
       .coordinate = BgRewriteAof,
       .arity = 1,
       .flags = kAdmin | kNoScript | kNoAsyncLoading,
       .categories = kAclDangerous,
       .docs = {"Rewrites the append-only log in the background.", "1.0.0", "server", "O(1)"}});
  table->Add({.name = "lastsave",
              .session = ForClient<LastSave>,
              .scripted = LastSave,
              .arity = 1,
              .flags = kLoading | kStale | kFast,
              .categories = kAclAdmin | kAclDangerous,
              .docs = {"Returns when the data was last saved.", "1.0.0", "server", "O(1)"},
              .tips = "nondeterministic_output"});
  table->Add({.name = "shutdown",
              .coordinate = Shutdown,
              .arity = -1,
              .flags = kAdmin | kNoScript | kLoading | kStale | kNoMulti | kAllowBusy | kBarrier,
              .categories = kAclDangerous,
              .docs = {"Ends the server.", "1.0.0", "server", "O(1)"}});
}

}  // namespace dfly
