// SPDX-License-Identifier: Apache-2.0
// Why the waits of this layer end that a fiber with locks may come by (helio/fibers/hold.h). Those
// of the layers below stand there: kHop in engine/hops/shard_set.h, engine/hops/late_locks.cc,
// kSnapshotFile in storage/snapshot_output.h. docs/internals/transactions.md has the whole list.
#pragma once

#include "helio/fibers/hold.h"

namespace dfly {

inline constexpr helio::WaitReason kConfigTurn = {
    "another CONFIG command", "its lock is a HoldableMutex, so the rule is for that one, too"};
inline constexpr helio::WaitReason kListenersTurn = {"another change of the ports",
                                                     "as kConfigTurn"};
inline constexpr helio::WaitReason kInterpreter = {
    "a Lua interpreter",
    "who has one ends, or waits for locks and says so: then there is one more "
    "(InterpreterPool::BeginWait)"};
inline constexpr helio::WaitReason kMoves = {
    "connections that move to another thread",
    "each needs one message to arrive, and none begins meanwhile (Moves::Begin)"};
inline constexpr helio::WaitReason kItsTime = {"the time that it sleeps for",
                                               "it passes, and a client that leaves ends it"};

}  // namespace dfly
