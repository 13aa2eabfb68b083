// SPDX-License-Identifier: Apache-2.0
// What the commands about scripts and those about functions have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

// SCRIPT KILL and FUNCTION KILL: each ends its own kind only.
void KillRunning(CoordinatorContext& cx, bool of_functions, ReplySink& reply);

// Rows: of what runs one, and of a subcommand.
Command RunsScript(std::string_view name, uint32_t flags, CommandDocs docs);
Command AboutScripts(std::string_view name, SessionHandler handler, int arity, uint32_t flags,
                     CommandDocs docs, std::string_view tips = {});
Command AboutScripts(std::string_view name, CoordinatorHandler handler, int arity, uint32_t flags,
                     CommandDocs docs, std::string_view tips = {});

// Of ScriptFlags.
std::vector<std::string_view> FlagNames(uint32_t flags);

}  // namespace dfly
