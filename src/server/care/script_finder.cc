// SPDX-License-Identifier: Apache-2.0
#include "server/care/script_finder.h"

#include <atomic>
#include <optional>
#include <utility>

#include "facade/replies/error_texts.h"

namespace dfly {

Script* ScriptFinder::LookUp(const Command& command, Args args, std::string* error) {
  if (command.name.starts_with("fcall")) return functions_.Find(args[1]);
  if (command.name.starts_with("evalsha")) return scripts_.Find(args[1]);
  return scripts_.Evaluated(args[1], error);
}

uint32_t ScriptFinder::FlagsOfScript(const Command& command, Args args) {
  std::string error;
  const Script* const script = LookUp(command, args, &error);
  if (script == nullptr) return command.flags;
  uint32_t flags = command.flags;
  const uint32_t own = script->flags.load(std::memory_order_relaxed);
  const bool writes = (own & kNoWrites) == 0;
  if (script->has_shebang || !writes) flags &= ~kMayReplicate;
  if (script->has_shebang && writes) {
    flags |= kWrite;
    if ((own & kAllowOom) == 0) flags |= kDenyOom;
  }
  return flags;
}

Script* ScriptFinder::Find(const Command& command, Args args, ScriptArgs* call,
                           std::string* error) {
  Script* script = nullptr;
  const bool by_name = command.name.starts_with("fcall");
  if (by_name && (script = LookUp(command, args, error)) == nullptr) {
    *error = kErrNoFunction;
    return nullptr;
  }
  if (std::optional<std::string> wrong = CheckScriptArgs(args)) {
    *error =
        by_name && *wrong == kErrNotInteger ? "ERR Bad number of keys provided" : std::move(*wrong);
    return nullptr;
  }
  *call = ScriptArgsOf(args);
  if (!by_name) {
    script = LookUp(command, args, error);
    if (script == nullptr) {
      if (error->empty()) *error = kErrNoScript;
      return nullptr;
    }
  }
  const uint32_t flags = script->flags.load(std::memory_order_relaxed);
  if (script->has_shebang) {
    if ((command.flags & kReadonly) != 0 && (flags & kNoWrites) == 0) {
      *error = "ERR Can not execute a script with write flag using *_ro command.";
      return nullptr;
    }
    if ((flags & (kNoWrites | kAllowOom)) == 0 && server_.memory.is_exhausted()) {
      *error = kErrOutOfMemory;
      return nullptr;
    }
  }
  return script;
}

}  // namespace dfly
