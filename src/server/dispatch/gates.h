// SPDX-License-Identifier: Apache-2.0
// What keeps commands from being carried out: for whom they are, gates of the server, and CLIENT
// PAUSE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "commands/table/command_table.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/care/script_finder.h"
#include "server/clients/worker_state.h"

namespace dfly {

class Session;

// Owner:    a worker; on its thread.
// Suspends: never.
class Gates : public PerThread<Gates> {
 public:
  Gates(WorkerState* worker, ScriptFinder* scripts);

  // --- Refusals ---

  // Why the client may not call it (--restricted_commands, --enable_debug_command and the like);
  // empty: it may.
  std::string RefusalOf(const Command& command, const Session& session) const;
  // Why Settings::gate refuses a command; empty: it does not.
  std::string ErrorOf(const Command& command, Args args, const Session& session);

  // A write of the primary waits until the disk is well again.
  bool LacksDisk(const Command& command, Args args, const Session& session);

  // What it says of writes while no snapshot can be made, or the log cannot be written.
  // Thread: any.
  static std::string MisconfError(const Settings& settings);

  // --- What has to wait ---

  // CLIENT PAUSE: until `until_ms` (Unix time) no command, or no command that may write, is
  // executed. 0 ends it. A pause can be made longer and stricter by another one, not shorter.
  void Pause(int64_t until_ms, bool writes_only);
  // The server is about to end: no command that may write is executed. False: it goes on after all.
  void HoldWritesForStop(bool holds);
  bool is_paused() const { return paused_until_ms_ != 0 || holds_for_stop_; }
  // Of CLIENT PAUSE. 0: there is none.
  int64_t paused_until_ms() const { return paused_until_ms_; }
  bool pauses_writes_only() const { return pause_writes_only_; }
  bool holds_for_stop() const { return holds_for_stop_; }
  // For this command.
  bool IsPaused(const Command& command, Args args, const Session& session) {
    return is_paused() && ConcernsPause(command, args, session);
  }
  // By Settings::write_holds, which is not 0.
  bool IsHeld(uint32_t holds, const Command& command, Args args, const Session& session) {
    const bool holds_all = (holds & Settings::kHoldsAll) != 0;
    return (holds_all && IsOfClient(command, session)) || MayWrite(command, args, session);
  }
  // It may change keys.
  bool MayWrite(const Command& command, Args args, const Session& session);

 private:
  // ScriptFinder's; EXEC has those of what is queued.
  uint32_t FlagsOf(const Command& command, Args args, const Session& session);
  static bool IsOfClient(const Command& command, const Session& session);
  bool ConcernsPause(const Command& command, Args args, const Session& session);
  void EndPause();

  WorkerState& worker_;
  ServerState& server_;
  ScriptFinder& scripts_;
  const Command* const exec_;
  int64_t paused_until_ms_ = 0;
  bool pause_writes_only_ = false;
  bool holds_for_stop_ = false;
  OwnedTimer<&Gates::EndPause> pause_timer_;
};

}  // namespace dfly
