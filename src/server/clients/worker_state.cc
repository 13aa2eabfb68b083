// SPDX-License-Identifier: Apache-2.0
#include "server/clients/worker_state.h"

#include <utility>

#include "engine/hops/shard_set.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/session.h"

namespace dfly {

WorkerState::WorkerState(ServerState* its_server, helio::Proactor* its_proactor)
    : PerThread(this),
      server(*its_server),
      proactor(*its_proactor),
      timer(proactor.index(), server.commands.id_count(), &server.slow_log_ids, server.options),
      shuffle(server.options.schedule_seed == 0
                  ? nullptr
                  : std::make_unique<MessageShuffle>(server.options.schedule_seed)) {
  buffers.bounds.input_max = server.options.client_query_buffer_limit;
  stats.commands.resize(server.commands.id_count());
  ShardSet& all = *server.shards;
  for (ShardId id = 0; id < all.size(); ++id) {
    local_shards_.push_back(all.is_local(id) ? &all.local(id) : nullptr);
    if (all.is_local(id)) own_shards_.push_back(local_shards_[id]);
  }
}

WorkerState::~WorkerState() { DCHECK_EQ(connection_count_, 0u); }

void WorkerState::Add(Connection* connection) {
  connections_.PushBack(connection);
  ++connection_count_;
}

void WorkerState::Remove(Connection* connection) {
  connection->Unlink();
  --connection_count_;
}

void WorkerState::ReleaseHeld() {
  ForEachSession([](Session& session) { session.connection.set_held(false); });
}

void WorkerState::ReleaseHeldOnAll(ServerState& server) {
  DispatchOnAll<WorkerState>(server, [](WorkerState& worker) { worker.ReleaseHeld(); });
}

void WorkerState::Forget(Session* session) {
  const bool is_listed =
      session->subscriptions != nullptr && session->subscriptions->pending_changes > 0;
  if (session->connection_closed && session->coordinators == 0 && !is_listed) delete session;
}

void WorkerState::RunOnFiber(const char* name, std::function<void()> work) {
  ++coordinators;
  helio::Fiber(name, [this, work = std::move(work)] {
    work();
    --coordinators;
    on_fiber_end();
  }).Detach();
}

}  // namespace dfly
