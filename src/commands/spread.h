// SPDX-License-Identifier: Apache-2.0
// Commands whose keys are in several shards, made of their one-key forms.
#pragma once

#include "commands/command_table.h"
#include "engine/coordinator.h"

namespace dfly {

// Runs `command` once for each of its keys, on all their shards at once, and merges the replies as
// command.spread says. Not atomic over shards: others may see some keys changed and some not.
// Suspends. REQUIRES: the keys are the last arguments, with command.keys.step - 1 arguments between
// them.
void RunSpread(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply);

}  // namespace dfly
