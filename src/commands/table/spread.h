// SPDX-License-Identifier: Apache-2.0
// Commands whose keys are in several shards, made of their forms for one shard.
#pragma once

#include <cstdint>
#include <span>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"

namespace dfly {

// Runs `command` as one transaction on all shards that have keys of it, on each with its own keys,
// and merges the replies as command.spread says. Suspends. REQUIRES: the keys are the last
// arguments, with command.keys.step - 1 arguments between them.
// `counts`: the keys are those of several commands, of each so many, and each gets its reply.
// REQUIRES: none, or Spread::kKeepOrder or kAllOk.
void RunSpread(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply,
               std::span<const uint32_t> counts = {});
// The same with `keys_each` keys of a shard in a hop, so that others run in between. All keys are
// locked all the time. Suspends.
void RunSpreadInPieces(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply,
                       size_t keys_each);

}  // namespace dfly
