// SPDX-License-Identifier: Apache-2.0
// The first line of a script or of a function library: "#!lua flags=no-writes,allow-oom" or
// "#!lua name=mylib". Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// What a script says about itself. The first five are Redis 7's, the last two are ours.
enum ScriptFlag : uint32_t {
  kNoWrites = 1,
  kAllowOom = 2,
  kAllowStale = 4,
  kNoCluster = 8,
  kAllowCrossSlotKeys = 16,
  kDisableAtomicity = 32,
  kAllowUndeclaredKeys = 64,
};

struct ScriptFlagName {
  std::string_view name;
  ScriptFlag flag;
};

// In the order in which FUNCTION LIST shows them.
inline constexpr std::array<ScriptFlagName, 7> kScriptFlagNames = {{
    {"no-writes", kNoWrites},
    {"allow-oom", kAllowOom},
    {"allow-stale", kAllowStale},
    {"no-cluster", kNoCluster},
    {"allow-cross-slot-keys", kAllowCrossSlotKeys},
    {"disable-atomicity", kDisableAtomicity},
    {"allow-undeclared-keys", kAllowUndeclaredKeys},
}};

// None if there is no such flag. Letters in lower case only, as in Redis.
std::optional<ScriptFlag> ScriptFlagOf(std::string_view name);

struct ScriptHeader {
  bool has_shebang = false;
  std::string name;    // of a library
  uint32_t flags = 0;  // ScriptFlags
  // Where the code begins: the first line's newline, so that lines keep their numbers.
  size_t body_begin = 0;
};

// What the name of a library and of a function may be.
bool IsFunctionName(std::string_view name);

// Returns the error, with its code, if the first line is wrong.
// A script may have flags and no name; a library must have a name and no flags.
std::optional<std::string> ParseScriptHeader(std::string_view source, ScriptHeader* header);
std::optional<std::string> ParseLibraryHeader(std::string_view source, ScriptHeader* header);

}  // namespace dfly
