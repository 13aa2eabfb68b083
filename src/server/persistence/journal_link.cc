// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/journal_link.h"

#include "engine/hops/shard_set.h"
#include "server/clients/worker_state.h"

namespace dfly {

void LinkJournal(ServerState& server, Journal* journal, Journal::Pace pace) {
  const bool holds_replies = pace == Journal::Pace::kEach;
  // Replies first: no unit may be answered before they know.
  if (holds_replies) {
    AwaitOnAll<WorkerState>(server,
                            [journal](WorkerState& worker) { worker.SetAwaitedJournal(journal); });
  }
  server.shards->SetEffectSink(journal, holds_replies);
}

bool UnlinkJournal(ServerState& server, Journal* journal) {
  server.shards->SetEffectSink(nullptr);
  const bool is_durable = journal->Flush();
  AwaitOnAll<WorkerState>(server, [](WorkerState& worker) { worker.SetAwaitedJournal(nullptr); });
  return is_durable;
}

}  // namespace dfly
