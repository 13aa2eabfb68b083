// SPDX-License-Identifier: Apache-2.0
// What the parts of the server on one thread share: its connections, its shards, its numbers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "commands/table/command_table.h"
#include "engine/hops/tag_placement.h"
#include "facade/connection.h"
#include "helio/base/intrusive_list.h"
#include "helio/proactor/proactor.h"
#include "server/base/message_shuffle.h"
#include "server/base/per_thread.h"
#include "server/clients/command_timer.h"
#include "server/clients/let_in.h"
#include "server/clients/server_state.h"
#include "server/meters/worker_stats.h"

namespace dfly {

class Journal;
class Session;
class Shard;

// Owner: the Worker, on its thread; used on it.
class WorkerState : public PerThread<WorkerState> {
 public:
  // REQUIRES: server->shards, and all commands are known.
  WorkerState(ServerState* its_server, helio::Proactor* its_proactor);
  ~WorkerState();

  ServerState& server;
  helio::Proactor& proactor;
  BufferPool buffers;
  WorkerStats stats;
  CommandTimer timer;
  const std::unique_ptr<MessageShuffle> shuffle;  // tests only (ServerOptions::schedule_seed)
  // Fibers that run a command, or RunOnFiber; they may outlive their connection for a moment.
  size_t coordinators = 0;
  LetInList let_in;
  // A fiber has ended, and what it used may go.
  std::function<void()> on_fiber_end;

  uint32_t index() const { return proactor.index(); }

  // --- Shards of this thread ---

  // Null: it is another thread's.
  Shard* local(uint32_t shard) const { return local_shards_[shard]; }
  std::span<Shard* const> shards() const { return own_shards_; }
  // fn(Shard&), for each of them.
  template <typename Function>
  void ForEachShard(Function function) {
    for (Shard* shard : own_shards_) function(*shard);
  }

  // --- Connections of this thread ---

  void Add(Connection* connection);
  // It has ended, or goes to another thread.
  void Remove(Connection* connection);
  size_t connection_count() const { return connection_count_; }
  // fn(Session&). It may close connections; they leave the list later.
  template <typename Function>
  void ForEachSession(Function function) {
    for (auto it = connections_.begin(); it != connections_.end();) {
      Connection& connection = *it;
      ++it;
      function(*static_cast<Session*>(connection.user_data()));
    }
  }
  // Connections that are held go on, unless they still have to wait.
  void ReleaseHeld();
  // The same on all threads, soon. Thread: any proactor's.
  static void ReleaseHeldOnAll(ServerState& server);
  // A disk is behind with what its writer keeps in memory, or (false) is not any more. Meanwhile
  // commands that write wait at their connections. Thread: any proactor's. Suspends: never.
  static void HoldWrites(ServerState& server, bool holds);
  // The same for all commands, but for those of replicas and of the process that takes over.
  static void HoldAll(ServerState& server, bool holds);
  // Until the commands that may write, and were let in before this, are over, but for those that
  // wait for a key, or until `*gives_up`, if it is not null. No new ones are let in. The caller has
  // no locks. On a fiber. Suspends.
  static void AwaitLetIn(ServerState& server, const std::atomic<bool>* gives_up = nullptr);
  // Frees the session if its connection, its coordinator and its changes of subscriptions have
  // ended.
  void Forget(Session* session);

  // --- Replies that wait for the journal ---

  // From now on replies wait for what they tell to be durable in `journal`; null: nothing waits any
  // more, also of what has waited for the journal before.
  void SetAwaitedJournal(Journal* journal);
  bool awaits_journal() const { return journal_ != nullptr; }
  // What the reply of a command waits for that has just run on `shard`, one of this thread. `hash`:
  // of its first key. 0: nothing.
  uint64_t EpochOf(const Shard& shard, const Command& command, Args args, uint64_t hash) const {
    return journal_ == nullptr ? 0 : NotDurable(EpochOfKeys(shard, command, args, hash));
  }
  // The same for what may have used any key of any shard.
  uint64_t NewestEpoch() const;
  // The same for a command that says so by its row.
  uint64_t NewestEpochFor(const Command& command) const {
    return journal_ == nullptr || !TellsOfData(command) ? 0 : NewestEpoch();
  }

  // On a fiber of its own, which the worker outlives.
  void RunOnFiber(const char* name, std::function<void()> work);

 private:
  bool HasLetInBefore(const LetIn& mark);
  static bool TellsOfData(const Command& command);
  uint64_t EpochOfKeys(const Shard& shard, const Command& command, Args args, uint64_t hash) const;
  uint64_t NotDurable(uint64_t epoch) const;

  Journal* journal_ = nullptr;        // null: no reply waits
  std::vector<Shard*> local_shards_;  // by id; null: it is another thread's
  std::vector<Shard*> own_shards_;    // the same without gaps
  helio::IntrusiveList<Connection> connections_;
  size_t connection_count_ = 0;
};

}  // namespace dfly
