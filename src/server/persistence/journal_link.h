// SPDX-License-Identifier: Apache-2.0
// Lets the shards tell a journal what they do, and replies wait for it.
#pragma once

#include "engine/journal/journal.h"
#include "server/clients/server_state.h"

namespace dfly {

// From now on all units go to `journal`, which lives until UnlinkJournal; with Journal::Pace::kEach
// replies wait for it. REQUIRES: no unit is under way, and none begins meanwhile: nobody is served
// yet, or the caller has locked all shards. From a fiber or a plain thread. Suspends.
void LinkJournal(ServerState& server, Journal* journal, Journal::Pace pace);

// Ends that, once all units are durable, and lets go the replies that have waited. False: the log
// had stopped before that, and they tell of what is not there. REQUIRES and Suspends: as above.
[[nodiscard]] bool UnlinkJournal(ServerState& server, Journal* journal);

}  // namespace dfly
