// SPDX-License-Identifier: Apache-2.0
// Subcommands of CLIENT that look at what clients do now: HOTKEYS and BLOCKED.
#pragma once

#include <string_view>

#include "commands/table/command_table.h"

namespace dfly {

// CLIENT HOTKEYS <milliseconds> [<count>]: which keys the commands name most, from now on for so
// long. Replies with {total, error, keys: [[key, uses], ...]}. Suspends.
void ClientHotKeys(CoordinatorContext& cx, Args args, ReplySink& reply);

// CLIENT BLOCKED: the clients that wait for keys, and for which. Suspends.
void ClientBlocked(CoordinatorContext& cx, Args args, ReplySink& reply);

}  // namespace dfly
