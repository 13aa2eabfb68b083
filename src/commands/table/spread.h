// SPDX-License-Identifier: Apache-2.0
// Commands whose keys are in several shards, made of their forms for one shard.
#pragma once

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"

namespace dfly {

// Runs `command` as one transaction on all shards that have keys of it, on each with its own keys,
// and merges the replies as command.spread says. Suspends. REQUIRES: the keys are the last
// arguments, with command.keys.step - 1 arguments between them.
void RunSpread(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply);

}  // namespace dfly
