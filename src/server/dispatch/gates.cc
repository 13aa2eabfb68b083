// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/gates.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <system_error>

#include "facade/replies/error_texts.h"
#include "helio/base/clock.h"
#include "server/care/shard_care.h"
#include "server/clients/multi.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/options/protected_action.h"

namespace dfly {

Gates::Gates(WorkerState* worker, ScriptFinder* scripts)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      scripts_(*scripts),
      exec_(server_.commands.FindByName("exec")),
      pause_timer_(this, &worker->proactor) {}

// --- Refusals that concern the server as a whole ---

std::string Gates::ErrorOf(const Command& command, Args args, const Session& session) {
  const uint16_t gate = server_.settings.gate.load(std::memory_order_relaxed);
  // EXEC may do what all that is queued may do.
  const bool is_exec = &command == exec_ && session.multi != nullptr;
  const uint32_t allowed = is_exec ? session.multi->common_flags() & command.flags : command.flags;
  if ((gate & Settings::kLoadingGate) != 0 && (allowed & kLoading) == 0) {
    return std::string(kErrLoading);
  }
  if ((gate & Settings::kAsyncLoadingGate) != 0) {
    const uint32_t flags = is_exec ? session.multi->command_flags() : command.flags;
    if ((flags & (kNoAsyncLoading | kEndsAsyncLoading)) == kNoAsyncLoading) {
      return std::string(kErrLoading);
    }
  }
  if ((gate & Settings::kNoDiskGates) != 0) {
    const bool writes = (FlagsOf(command, args, session) & kWrite) != 0;
    if (writes || command.name == "ping") return MisconfError(server_.settings);
  }
  if ((gate & Settings::kNoReplicasGate) != 0 && (FlagsOf(command, args, session) & kWrite) != 0) {
    return std::string(kErrNoReplicas);
  }
  if ((gate & Settings::kReadOnlyGate) != 0 && (FlagsOf(command, args, session) & kWrite) != 0) {
    return std::string(command.runs_script ? kErrReadOnlyScript : kErrReadOnly);
  }
  if ((gate & Settings::kStaleGate) != 0 && (allowed & kStale) == 0) {
    return std::string(kErrMasterDown);
  }
  return "";
}

bool Gates::LacksDisk(const Command& command, Args args, const Session& session) {
  if (server_.settings.ignores_disk_errors.load(std::memory_order_relaxed)) return false;
  const uint16_t gate = server_.settings.gate.load(std::memory_order_relaxed);
  return (gate & Settings::kNoDiskGates) != 0 && (FlagsOf(command, args, session) & kWrite) != 0;
}

std::string Gates::MisconfError(const Settings& settings) {
  const int error = settings.log_errno;
  if (error == 0) return std::string(kErrMisconf);
  return absl::StrCat("MISCONF Errors writing to the AOF file: ",
                      std::generic_category().message(error));
}

uint32_t Gates::FlagsOf(const Command& command, Args args, const Session& session) {
  if (&command == exec_ && session.multi != nullptr) return session.multi->command_flags();
  return scripts_.FlagsOf(command, args);
}

std::string Gates::RefusalOf(const Command& command, const Session& session) const {
  if ((command.flags & kProtected) != 0) {
    const ServerOptions& options = server_.options;
    const bool is_debug = command.full_name == "debug";
    if (!session.IsAllowed(is_debug ? options.debug_command : options.module_command)) {
      return ProtectedError(command.full_name);
    }
  }
  if ((command.flags & kAdminPort) != 0 && !session.user.is_admin) {
    return std::string(kErrAdminPortOnly);
  }
  return {};
}

// --- Pause ---

bool Gates::MayWrite(const Command& command, Args args, const Session& session) {
  if (&command == exec_) return session.multi != nullptr && session.multi->may_write();
  return command.MayWrite(scripts_.FlagsOf(command, args));
}

bool Gates::IsOfClient(const Command& command, const Session& session) {
  return !session.user.is_process && command.name != "replconf";
}

bool Gates::ConcernsPause(const Command& command, Args args, const Session& session) {
  if (paused_until_ms_ != 0 && !pause_writes_only_) return true;
  return (FlagsOf(command, args, session) & (kWrite | kMayReplicate)) != 0;
}

void Gates::Pause(int64_t until_ms, bool writes_only) {
  if (until_ms == 0) {
    if (paused_until_ms_ == 0) return;
    // The connections go on in the next iteration: this one may be in the middle of a command.
    paused_until_ms_ = 0;
    pause_timer_.ArmIn(0);
    return;
  }
  ShardCare::Here().SetKeepsDue(ShardCare::KeepsDueFor::kPause, true);
  pause_writes_only_ = writes_only && (paused_until_ms_ == 0 || pause_writes_only_);
  paused_until_ms_ = std::max(paused_until_ms_, until_ms);
  const int64_t left_ms = std::max<int64_t>(0, paused_until_ms_ - helio::UnixMillis());
  pause_timer_.ArmIn(static_cast<uint64_t>(left_ms) * helio::kNanosPerMilli);
}

void Gates::HoldWritesForStop(bool holds) {
  holds_for_stop_ = holds;
  if (!holds) worker_.ReleaseHeld();
}

void Gates::EndPause() {
  paused_until_ms_ = 0;
  ShardCare::Here().SetKeepsDue(ShardCare::KeepsDueFor::kPause, false);
  pause_timer_.Disarm();
  worker_.ReleaseHeld();
}

}  // namespace dfly
