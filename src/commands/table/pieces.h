// SPDX-License-Identifier: Apache-2.0
// Commands with very many arguments, in pieces: others run in between.
#pragma once

#include <cstddef>

#include "commands/table/command_table.h"
#include "engine/hops/coordinator.h"

namespace dfly {

// So many items, of some 0.3 us each, are a piece; fewer if they are long.
inline constexpr size_t kPieceItems = 256;

// Runs `command`, which can run in pieces. If its row says how it spreads over shards that is
// RunSpreadInPieces. Else it has one key, and runs with some of its items after the other, in a hop
// for each piece. The key is locked all the time, so it is one command for everybody else: what is
// wrong is found before the first piece; the keyspace, caches, the log and replicas hear of it
// once; and who waits for the key is served behind the last piece. Suspends.
void RunInPieces(CoordinatorContext& cx, const Command& command, Args args, ReplySink& reply,
                 size_t items_each = kPieceItems);

}  // namespace dfly
