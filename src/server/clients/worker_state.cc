// SPDX-License-Identifier: Apache-2.0
#include "server/clients/worker_state.h"

#include <algorithm>
#include <utility>

#include "core/text/hash.h"
#include "engine/hops/shard_set.h"
#include "engine/journal/journal.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/client_wait.h"
#include "server/clients/session.h"

namespace dfly {

WorkerState::WorkerState(ServerState* its_server, helio::Proactor* its_proactor)
    : PerThread(this),
      server(*its_server),
      proactor(*its_proactor),
      timer(proactor.index(), server.commands.id_count(), server.log_ids, server.options),
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

void WorkerState::HoldWrites(ServerState& server, bool holds) {
  if (holds) {
    server.settings.write_holds.fetch_add(1);
  } else if (server.settings.write_holds.fetch_sub(1) == 1) {
    ReleaseHeldOnAll(server);
  }
}

void WorkerState::HoldAll(ServerState& server, bool holds) {
  if (holds) {
    server.settings.write_holds.fetch_or(Settings::kHoldsAll);
  } else {
    server.settings.write_holds.fetch_and(~Settings::kHoldsAll);
    ReleaseHeldOnAll(server);  // whoever has to wait for something else is held again
  }
}

void WorkerState::AwaitLetIn(ServerState& server, const std::atomic<bool>* gives_up) {
  for (uint32_t i = 0; i < server.pool.size(); ++i) {
    server.pool.at(i)->AwaitFiber("let in", [gives_up] {
      WorkerState& worker = Here();
      helio::this_fiber::SleepForMillis(1);  // what is noted in this iteration gets into batches
      LetIn mark;
      mark.is_mark = true;
      worker.let_in.PushBack(&mark);
      while (worker.HasLetInBefore(mark) && !(gives_up != nullptr && *gives_up)) {
        helio::this_fiber::SleepForMillis(1);
      }
    });
  }
}

bool WorkerState::HasLetInBefore(const LetIn& mark) {
  bool has_any = false;
  std::vector<Connection*> cut;
  for (const LetIn& command : let_in) {
    if (&command == &mark) break;
    const bool waits = command.session != nullptr && command.session->blocked != nullptr &&
                       command.session->blocked->waits();
    if (command.is_mark || waits) continue;
    has_any = true;
    if (command.cut_for != nullptr) cut.push_back(command.cut_for);
  }
  for (Connection* connection : cut) {
    if (connection->closing()) continue;
    LOG(WARNING) << "closing the connection of a client that does not read its replies: a change "
                    "of the role waits for its commands";
    connection->CloseNow();
  }
  return has_any;
}

void WorkerState::Forget(Session* session) {
  const bool is_listed =
      session->subscriptions != nullptr && session->subscriptions->pending_changes > 0;
  if (session->connection_closed && session->coordinators == 0 && !is_listed) delete session;
}

// --- Replies that wait for the journal ---

void WorkerState::SetAwaitedJournal(Journal* journal) {
  if (journal == journal_) return;  // what waits goes on waiting
  Journal* const before = std::exchange(journal_, journal);
  if (before != nullptr) {
    before->SetListener(index(), nullptr);
    buffers.gate.Stop(before->newest());
  }
  if (journal == nullptr) return;
  journal->SetListener(index(), [this](uint64_t released) {
    buffers.gate.Open(released);
    return buffers.gate.has_waiters();
  });
  buffers.gate.Start([journal](uint64_t epoch) { return journal->Watch(epoch); });
}

uint64_t WorkerState::NotDurable(uint64_t epoch) const {
  return epoch > journal_->released() ? epoch : 0;
}

uint64_t WorkerState::NewestEpoch() const {
  return journal_ == nullptr ? 0 : NotDurable(journal_->newest());
}

bool WorkerState::TellsOfData(const Command& command) {
  // A message is no data. And Sentinel publishes on the connection that it pings on: if its PING
  // waited for a replica that is gone it would take this server for dead.
  if (command.channel_at != 0) return false;
  return command.runs_script || (command.flags & (kWrite | kReadonly | kMayReplicate)) != 0 ||
         command.name == "exec";
}

uint64_t WorkerState::EpochOfKeys(const Shard& shard, const Command& command, Args args,
                                  uint64_t hash) const {
  if (!command.keys.has_keys()) return TellsOfData(command) ? journal_->newest() : 0;
  // The unit of a command that has written is among this thread's.
  uint64_t epoch = (command.flags & kWrite) != 0 ? journal_->newest(index()) : 0;
  if (shard.recorder() == nullptr) return journal_->newest();  // the journal is being linked
  const FreshKeys& fresh = *shard.recorder()->fresh_keys();
  if (command.has_one_key) {
    epoch = std::max(epoch, fresh.EpochOf(hash));
  } else {
    for (const size_t i : command.KeysOf(args)) {
      epoch = std::max(epoch, fresh.EpochOf(HashKey(args[i])));
    }
  }
  return epoch == FreshKeys::kUnknown ? journal_->newest() : epoch;
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
