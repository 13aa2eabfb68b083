// SPDX-License-Identifier: Apache-2.0
// Which script a command of EVAL's kind runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "commands/table/command_table.h"
#include "server/care/script_args.h"
#include "server/clients/server_state.h"
#include "server/scripts/function_store.h"
#include "server/scripts/script_store.h"

namespace dfly {

inline bool IsReadOnly(const Command& command, const Script& script) {
  return (command.flags & kReadonly) != 0 ||
         (script.flags.load(std::memory_order_relaxed) & kNoWrites) != 0;
}

// The scripts and functions that one thread has seen in the stores that all threads share.
//
// Owner:    a worker; on its thread.
// Suspends: never.
class ScriptFinder {
 public:
  explicit ScriptFinder(ServerState* server)
      : server_(*server), scripts_(&server->scripts), functions_(&server->functions) {}

  // What it returns lives until Settle. Null: the command is refused, and `error` says why. `call`
  // gets its arguments.
  Script* Find(const Command& command, Args args, ScriptArgs* call, std::string* error);
  // The flags of this call, as Redis has them: a script that begins with flags of its own has
  // those.
  uint32_t FlagsOf(const Command& command, Args args) {
    if (!command.runs_script) [[likely]] {
      return command.flags;
    }
    return FlagsOfScript(command, args);
  }
  // Nobody uses any more what was found before.
  void Settle() {
    scripts_.Settle();
    functions_.Settle();
  }
  size_t memory_used() const { return scripts_.memory_used(); }

 private:
  // Null: there is none, or its first line makes no sense, as `error` says then.
  Script* LookUp(const Command& command, Args args, std::string* error);
  uint32_t FlagsOfScript(const Command& command, Args args);

  ServerState& server_;
  ScriptCache scripts_;
  FunctionCache functions_;
};

}  // namespace dfly
