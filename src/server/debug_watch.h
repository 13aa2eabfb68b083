// SPDX-License-Identifier: Apache-2.0
// Subcommands of DEBUG that look at what clients do now: HOTKEYS and BLOCKED.
#pragma once

#include <string_view>

#include "commands/command_table.h"

namespace dfly {

// DEBUG HOTKEYS <milliseconds> [<count>]: which keys the commands name most, from now on for so
// long. Replies with {total, error, keys: [[key, uses], ...]}. Suspends.
void DebugHotKeys(CoordinatorContext& cx, Args args, ReplySink& reply);

// DEBUG BLOCKED: the clients that wait for keys, and for which. Suspends.
void DebugBlocked(CoordinatorContext& cx, ReplySink& reply);

}  // namespace dfly
