// SPDX-License-Identifier: Apache-2.0
// The arguments of EVAL and its like.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "commands/table/command_table.h"

namespace dfly {

// Taken apart.
struct ScriptArgs {
  std::span<const std::string_view> command;  // all of them
  std::span<const std::string_view> keys;
  std::span<const std::string_view> args;
};

// REQUIRES: their number of keys makes sense.
ScriptArgs ScriptArgsOf(Args args);
// An error if it does not.
std::optional<std::string> CheckScriptArgs(Args args);

}  // namespace dfly
