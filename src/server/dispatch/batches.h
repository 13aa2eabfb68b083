// SPDX-License-Identifier: Apache-2.0
// Batches of a thread: filling and sending them, running those of others on its shards, in order
// and behind transactions, and their way home.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/hops/shard_set.h"
#include "engine/keyspace/shard_turn.h"
#include "engine/queue/slow_scripts.h"
#include "engine/queue/tx_queue.h"
#include "facade/connection.h"
#include "facade/replies/resp_writer.h"
#include "server/acl/acl_user.h"
#include "server/base/per_thread.h"
#include "server/care/pools.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/command_runner.h"
#include "server/dispatch/exclusion.h"
#include "server/dispatch/execs.h"
#include "server/dispatch/noted.h"
#include "server/dispatch/script_job.h"
#include "server/dispatch/script_jobs.h"
#include "server/dispatch/shard_batch.h"

namespace dfly {

class Session;

// Goes on with blocking commands that a batch has tried.
class TryEnd {
 public:
  // The try is back at home. False: the command waits now, and its batch is no answer.
  virtual bool OnTryBack(ShardBatch* batch) = 0;

 protected:
  ~TryEnd() = default;
};

// Owner:    a worker; on its thread, but for what says otherwise.
// Suspends: what says so.
class Batches final : public Pool, public PerThread<Batches> {
 public:
  Batches(WorkerState* worker, Pools* pools, CommandRunner* runner, Exclusion* exclusion,
          Execs* execs, ScriptJobs* jobs, TryEnd* try_end);
  ~Batches();

  // --- At home ---

  // The one that is being filled for this connection and shard.
  ShardBatch* For(Connection* connection, Session& session, ShardId shard);
  // Sends all that are being filled.
  void Send();
  // A script of `noted`, whose arguments these are, has begun in place and could not end at once:
  // it becomes a batch that is under way.
  void AddRunning(const Noted& noted, Args args, Session& session, AclCallerRef caller,
                  ScriptJob* job, bool drop_reply);
  // Sends a batch that came back before its end to its shard again.
  void Continue(ShardBatch* batch);
  // Its client has taken what was written: a batch that was cut may go on.
  void OnRoom(Connection* connection);
  void Recycle(ShardBatch* batch);
  // In the hands of other threads.
  size_t in_flight() const { return in_flight_; }
  // Of them and of those that are being filled: for shards of ours.
  size_t local() const { return local_; }

  // --- On the thread of their shard ---

  bool has_arrived() const { return !arrived_.empty(); }
  // Runs those that have come since.
  void RunArrived();
  // Commands that wait on shards for a script get BUSY, on all threads: it has become slow, or has
  // more locks than when it did. Thread: any proactor's.
  static void RefuseBusyWaitersOnAll(ServerState& server);

 private:
  static constexpr size_t kArrivedMax = 64;

  enum class EntryEnd : uint8_t {
    kNow,
    kQueues,     // its locks are others'
    kLater,      // EndScript comes
    kElsewhere,  // at home, where the batch has to be sent
  };

  // Pool
  void Halve() override { Shrink(pool_.size() / 2); }
  void Drop() override { Shrink(0); }
  bool is_empty() const override { return pool_.empty(); }
  bool has_more() const override { return in_flight_ > 0; }
  void ReleaseScratch() override { Release(&args_); }
  // Until so many are left; those first that were not used for longest.
  void Shrink(size_t left);

  ShardBatch* New(Connection* connection, Session& session, ShardId shard);
  void Delete(ShardBatch* batch);
  // What it takes counts for clients. It is at home, or about to leave.
  void Count(ShardBatch* batch);
  void Post(ShardBatch* batch);
  static uint64_t StreamOf(const ShardBatch& batch, bool to_shard);
  void OnBack(ShardBatch* batch);

  // A batch of another thread's connection has come; it is run before the iteration ends.
  void OnArrival(ShardBatch* batch);
  // Runs `batch` unless an earlier one of its connection has commands left.
  void RunInOrder(ShardBatch* batch);
  // Goes on with a batch that had commands left, and then with what waited for it.
  void Resume(ShardBatch* batch);
  // Runs a batch's commands until its replies are long, and sends it back. False: some are left.
  bool RunBatch(ShardBatch* batch);
  // The part of it that is a turn. kNow: it has no more commands, or long replies.
  EntryEnd RunEntries(ShardBatch* batch);
  void RunEntry(ShardTurn& turn, ShardBatch* batch, const ShardBatch::Entry& entry);
  // `epoch`: what its reply waits for; 0: nothing.
  void EndEntry(ShardBatch* batch, const ShardBatch::Entry& entry, size_t size_before,
                uint64_t epoch);
  void SendBack(ShardBatch* batch);

  // --- In the shard's queue ---

  void WaitInQueue(ShardBatch* batch);
  // TxEntry::run of those that wait.
  static bool RunQueued(TxEntry* entry);
  // Runs the next command, which has its locks. False: it is under way.
  bool RunNext(ShardBatch* batch);
  // The same, when a snapshot has saved what it changes.
  void RunSaved(ShardBatch* batch);
  void RefuseBusyWaiters();
  // One that waits for a slow script; null: none.
  ShardBatch* FindBusy(Shard& shard, Slow* what);
  // For which slow script the command need not wait. kNone: there is none, or it waits.
  Slow SlowBefore(Shard& shard, ShardBatch* batch, const Command& command);
  void RefuseBusy(ShardBatch* batch, const ShardBatch::Entry& entry, Slow what);

  // --- What runs at home after all ---

  // It should work in slices, which its home can do.
  static bool GoesHome(const Shard& shard, const ShardBatch& batch, const ShardBatch::Entry& entry,
                       Args args);
  EntryEnd RunScript(ShardBatch* batch, const ShardBatch::Entry& entry, TxEntry* queued);
  // ScriptJob::on_end.
  static void OnScriptEnd(ScriptJob* job);
  void EndScript(ScriptJob* job);
  // It has to be run again, at home, with what is known now.
  void NoteRestart(ShardBatch* batch, ScriptJob* job);
  // At home: runs the next command, over shards or in slices.
  void Restart(ShardBatch* batch);
  // Suspends.
  void RunInSlices(CoordinatorContext& cx, Session& session, const Command& command, Args args,
                   RespWriter& writer);

  WorkerState& worker_;
  ServerState& server_;
  ShardSet& shards_;
  Pools& pools_;
  CommandRunner& runner_;
  Exclusion& exclusion_;
  Execs& execs_;
  ScriptJobs& jobs_;
  TryEnd& try_end_;

  std::vector<ShardBatch*> open_;  // by shard: being filled for the connection that is read now
  std::vector<ShardId> open_shards_;
  Connection* open_for_ = nullptr;  // whose they are
  std::vector<ShardBatch*> pool_;
  size_t pool_bytes_ = 0;  // sum of what they count
  size_t in_flight_ = 0;
  size_t local_ = 0;

  std::vector<ShardBatch*> arrived_;
  // Batches that wait for an earlier one of their connection and shard that has commands left: its
  // replies are long, or a transaction excludes its next one.
  absl::flat_hash_map<std::pair<uint64_t, ShardId>, std::deque<ShardBatch*>> parked_;
  int64_t now_ms_ = 0;                  // Unix time, fixed for what is run together
  std::vector<std::string_view> args_;  // scratch of RunArrived
  RespWriter writer_;
};

}  // namespace dfly
