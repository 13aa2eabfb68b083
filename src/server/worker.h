// SPDX-License-Identifier: Apache-2.0
// The server's part on one proactor: its connections, the dispatch of their commands, and the care
// for its shards.
//
// The life of a command (docs/architecture.md tells it with the files):
//   OnCommand      looks it up, finds its shard, and only notes it
//   RunNoted       runs what was noted, in order, after fetching all their buckets into the cache:
//                  local ones at once, into the output; remote ones go into a batch for their shard
//                  and take a slot
//   OnInputPause   sends the batches, one message for each shard. A connection's only command stays
//                  noted, so that the look-ups of many connections wait for memory together; it is
//                  run before the iteration ends
//   RunArrived     on the shard's thread: runs the commands of the batches that have come, and
//                  sends them back
//   OnBatchBack    on the connection's thread: its replies are complete
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/command_table.h"
#include "engine/shard_set.h"
#include "facade/connection.h"
#include "facade/resp_writer.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "helio/base/intrusive_list.h"
#include "server/client_limiter.h"
#include "server/command_runner.h"
#include "server/exclusion.h"
#include "server/gates.h"
#include "server/key_notifier.h"
#include "server/lock_watch.h"
#include "server/memory_use.h"
#include "server/monitor.h"
#include "server/noted.h"
#include "server/owned_timer.h"
#include "server/pools.h"
#include "server/port_kind.h"
#include "server/pubsub.h"
#include "server/running_scripts.h"
#include "server/script_finder.h"
#include "server/script_job.h"
#include "server/session.h"
#include "server/shard_batch.h"
#include "server/shard_care.h"
#include "server/thread_rates.h"
#include "server/tracking.h"
#include "server/users.h"
#include "server/worker_state.h"

namespace dfly {

struct ServerState;
class Transaction;

// Owner: its proactor; every method is on that thread unless it says otherwise.
class Worker final : public CommandSink, public Pool, public PerThread<Worker> {
 public:
  Worker(ServerState* server, helio::Proactor* proactor);
  ~Worker();

  WorkerState& state() { return state_; }
  const WorkerState& state() const { return state_; }
  uint32_t index() const { return proactor_.index(); }

  // Takes over an accepted descriptor.
  void AddConnection(int fd, uint64_t id, PortKind kind);
  // The server's own end of a pair of sockets: a client who is `user`, with the rest, such as its
  // address, of `on_behalf`, who speaks no RESP.
  void AddInnerConnection(int fd, const Session& on_behalf, const AclUserRef& user);
  // For the TLS connections to come.
  void SetTlsContext(std::shared_ptr<const helio::TlsContext> context) {
    tls_context_ = std::move(context);
  }
  void CloseAllConnections();
  // Batches that are in the hands of other threads.
  size_t batches_in_flight() const { return batches_in_flight_; }
  // CONFIG RESETSTAT, for this thread's part: also the counters of its shards.
  void ResetStats();

  ClientLimiter& client_limiter() { return client_limiter_; }
  PubSub& pubsub() { return pubsub_; }
  Tracking& tracking() { return tracking_; }
  Monitors& monitors() { return monitors_; }
  // notify-keyspace-events.
  void SetKeyEvents(KeyEventClasses classes);

  // They are pooled.
  std::unique_ptr<Multi> NewMulti(int db_index);
  void Recycle(std::unique_ptr<Multi> multi);
  // DISCARD, and an EXEC that was refused.
  void EndMulti(Session& session);
  // Takes effect soon: what is watched next is not concerned.
  void Unwatch(Session& session);
  uint64_t NextWatcher();

  // --- memcached (worker_memcached.cc) ---

  // Database 0 is emptied so much later, if that is more than 0; what was scheduled before is not.
  void ScheduleMemcachedFlush(int64_t after_ms);
  // At once, from a fiber. Suspends.
  void FlushMemcached(CoordinatorContext& cx);

  // CommandSink
  Outcome OnCommand(Connection* connection, std::span<const std::string_view> args) override;
  Outcome OnHttp(Connection* connection, const HttpRequest& request) override;
  Outcome OnMemcached(Connection* connection, MemcachedOp op,
                      std::span<const std::string_view> args) override;
  void OnInputPause(Connection* connection) override;
  void OnProtocolError(Connection* connection, std::string_view error) override;
  void OnRoom(Connection* connection) override;
  bool OnLargeOutput(Connection* connection) override;
  bool OnHeavyInput(Connection* connection) override;
  void OnLargeInput(Connection* connection) override;
  void OnWatchedSent(Connection* connection) override;
  void OnRest(Connection* connection) override;
  void OnDetached(Connection* connection) override;
  void OnPeerShutdown(Connection* connection) override;
  void OnRecvStopped(Connection* connection) override;
  void OnClosed(Connection* connection) override;

  // The session's connection moves to `thread`, if it can at the end of what it is doing.
  void MoveSoon(Session& session, uint32_t thread);

  // A command begins (1) or ends (-1) to wait for a key.
  void OnBlocked(int change);
  size_t blocked_clients() const { return blocked_clients_; }

  // --- For scripts (worker_scripts.cc, script_run.h) ---

  // Commands that wait on its shards for a script that has become slow get BUSY.
  void RefuseBusyWaiters();
  // The same on all threads: a script has become slow, or has more locks than when it did.
  // Thread: any proactor's. Suspends: never.
  static void RefuseBusyWaitersOnAll(ServerState& server);
  // On this worker's thread: a batch of another worker's connection has come; it is run before the
  // iteration ends.
  void OnBatch(ShardBatch* batch);

 private:
  static constexpr size_t kNotedMax = 32;
  static constexpr size_t kDeferredArgsMax = 512;  // bytes of a command that may stay noted
  static constexpr size_t kArrivedMax = 64;
  static constexpr uint32_t kMissedTriesMax = 3;
  Session& SessionOf(Connection* connection) {
    return *static_cast<Session*>(connection->user_data());
  }
  Args ArgsOf(const Noted& noted) const {
    return std::span(noted_args_).subspan(noted.first_arg, noted.arg_count);
  }

  Session& NewSession(int fd, uint64_t id, std::unique_ptr<helio::TlsSession> tls);
  Outcome NoteUnknown(Connection* connection, Session& session, Args args);
  Outcome Dispatch(Connection* connection, Session& session, const Command& row, Args args);
  Outcome DispatchBlocking(Connection* connection, Session& session, const Command& command,
                           Args args);
  // Runs what may take long on a fiber, unless too many do so.
  Outcome CoordinateWait(Connection* connection, Session& session, const Command& command,
                         CoordinatorHandler handler, Args args);
  // Looks now and then for the ends of connections that wait or are not received from, while there
  // are any: a net below what the kernel reports.
  void SweepSoon();
  void SweepEnds();
  static void AbortMulti(Session& session);
  Outcome Queue(Connection* connection, Session& session, const Command& command, Args args);
  Outcome Exec(Connection* connection, Session& session, const Command& command, Args args);
  // What is different for a client that is subscribed; nothing: go on as for others.
  std::optional<Outcome> DispatchSubscribed(Connection* connection, Session& session,
                                            const Command& command, Args args);
  // PUBLISH: as a command with a key, but that it may have to wait.
  Outcome DispatchPublish(Connection* connection, const Command& command, Args args);
  // SUBSCRIBE, UNSUBSCRIBE and their like.
  Outcome DispatchChange(Connection* connection, Session& session, const Command& command,
                         Args args);
  void Note(Connection* connection, Action action, const Command* command, Args args, ShardId shard,
            uint64_t hash, Script* script = nullptr);
  // Lets the last noted command stay, with a copy of its arguments. False if it is too large for
  // that.
  bool Defer();
  void RunNoted();
  void PrefetchNoted();
  // `in_place`: the shard of ours whose commands were the last ones, and are not finished.
  void RunOne(const Noted& noted, std::optional<ShardTurn>* in_place);
  ShardTurn& Enter(Shard& shard, const Session& session, std::optional<ShardTurn>* in_place);
  void RunArrived();
  // Runs a batch's commands until its replies are long, and sends it back. False: some are left.
  bool RunBatch(ShardBatch* batch);
  enum class EntryEnd : uint8_t {
    kNow,
    kQueues,     // its locks are others'
    kLater,      // EndScriptJob comes
    kElsewhere,  // at home, where the batch has to be sent
  };
  // The part of it that is a turn. kNow: it has no more commands, or long replies.
  EntryEnd RunEntries(ShardBatch* batch);
  // Runs `batch` unless an earlier one of its connection has commands left.
  void RunInOrder(ShardBatch* batch);
  // Goes on with a batch that had commands left, and then with what waited for it.
  void Resume(ShardBatch* batch);
  void RunEntry(ShardTurn& turn, ShardBatch* batch, const ShardBatch::Entry& entry);
  void SendBack(ShardBatch* batch);
  void RefuseBusy(ShardBatch* batch, const ShardBatch::Entry& entry, Slow what);
  void WaitInQueue(ShardBatch* batch);
  // TxEntry::run of those that wait.
  static bool RunQueued(TxEntry* entry);
  // Runs the next command, which has its locks. False: it is under way.
  bool RunNext(ShardBatch* batch);
  // The same, when a snapshot has saved what it changes.
  void RunSaved(ShardBatch* batch);
  // One that waits for a slow script; null: none.
  ShardBatch* FindBusy(Shard& shard, Slow* what);
  // Does a command take the way of a batch? For other threads' shards always, for ours if it must.
  bool TakesBatch(const Noted& noted, const Session& session);
  // A transaction excludes it, or one before it, or much was written that the client has yet to
  // take (`is_long`).
  bool MustQueue(const Noted& noted, const Session& session, bool is_long);
  // After each of the loop's stages: runs what its messages and completions have noted.
  void RunStage();
  // A blocking command's try by a batch is back. False: now it waits.
  bool EndTry(ShardBatch* batch);
  // EXEC in one shard, on its thread.
  void RunExec(ShardTurn& turn, const Command& row, const Multi& multi, RespWriter& writer);
  // What its commands use; valid until the next command is run.
  std::span<const uint64_t> SpareKeysOf(const Multi& multi);
  // EXEC over shards, a CoordinatorHandler.
  static void ExecAcross(CoordinatorContext& cx, Args args, ReplySink& sink);
  void RunInExec(CoordinatorContext& cx, Transaction& tx, const Multi::Item& item, Args args,
                 helio::IoBuf* out);
  // Runs `command` on a fiber of its own.
  void Coordinate(Connection* connection, Session& session, const Command& command,
                  CoordinatorHandler handler, Args args);
  // A barrier is open when no reply of the connection is pending. Otherwise the command has to come
  // again.
  bool BarrierIsOpen(Connection* connection);
  // A command of the session goes to `shard`, and nowhere else: perhaps its connection should, too.
  void NoteAffinity(Session& session, ShardId shard) {
    if (!migrates_) return;
    if (session.affinity.Note(shard % shards_.pool().size(), index())) [[unlikely]]
      MoveSoon(session, session.affinity.thread());
  }
  bool MayMove(const Session& session) const;
  // A connection has come from another thread; `from` was its session there.
  void Arrive(Session* from);
  // It goes on here.
  void Attach(Connection* connection);
  // What MONITOR shows.
  void FeedMonitors(const Session& session, const Command& command, Args args);
  void FeedExec(const Session& session);

  // EVAL and its like.
  Outcome DispatchScript(Connection* connection, Session& session, const Command& command,
                         Args args);
  struct ScriptPlan {
    enum class Way : uint8_t { kInPlace, kAcross, kGlobal, kAlone };
    Way way;
    ShardId shard = 0;  // kInPlace
    uint64_t hash = 0;  // of its first key
  };
  ScriptPlan PlanScript(const Script& script, std::span<const std::string_view> keys);
  ScriptJob* NewScriptJob();
  // Runs the job in its shard. False: it goes on later, or has to be run again (is_abandoned), and
  // needs a batch.
  bool RunScriptJob(ScriptJob* job);
  static void ScriptMain(void* job);
  // It did not end at once, but has now.
  void EndScriptJob(ScriptJob* job);
  void Recycle(ScriptJob* job);
  // What RunOne begins and cannot end at once becomes a batch that is under way.
  void MakeBatch(const Noted& noted, Session& session, ScriptJob* job, bool drop_reply);
  EntryEnd RunScriptEntry(ShardBatch* batch, const ShardBatch::Entry& entry, TxEntry* queued);
  void NoteRestart(ShardBatch* batch, ScriptJob* job);
  // At home.
  void RestartScript(ShardBatch* batch);
  // A CoordinatorHandler.
  static void ScriptOverShards(CoordinatorContext& cx, Args args, ReplySink& reply);
  void RunScriptOverShards(CoordinatorContext& cx, const Command& command, Script* script,
                           const ScriptArgs& call, std::vector<std::string> discovered,
                           bool wants_all_keys, ReplySink& reply);

  ShardBatch* NewBatch(Connection* connection, Session& session, ShardId shard);
  ShardBatch* BatchFor(Connection* connection, Session& session, ShardId shard);
  void EndEntry(ShardBatch* batch, const ShardBatch::Entry& entry, size_t size_before);
  void SendBatches();
  void Post(ShardBatch* batch);
  // Sends a batch that came back before its end to its shard again.
  void Continue(ShardBatch* batch);
  void OnBatchBack(ShardBatch* batch);
  static uint64_t StreamOf(const ShardBatch& batch, bool to_shard);
  void Recycle(ShardBatch* batch);
  void Delete(ShardBatch* batch);
  // What it takes counts for clients. It is at home, or about to leave.
  void CountBatch(ShardBatch* batch);
  // Pool: of batches, and of MULTIs.
  void Halve() override;
  void Drop() override;
  bool is_empty() const override { return batch_pool_.empty() && multi_pool_.empty(); }
  bool has_more() const override { return batches_in_flight_ > 0; }
  void ReleaseScratch() override;
  // Until so many are left; those first that were not used for longest.
  void ShrinkBatches(size_t left);
  void OnMemcachedFlush();
  struct StageHook : helio::LoopHook {
    using LoopHook::LoopHook;
    Worker* worker = nullptr;
  };
  WorkerState state_;
  ScriptFinder script_finder_;
  MemoryUse memory_;
  RunningScripts running_scripts_;
  Pools pools_;
  DefragPacer defrag_;
  ShardCare care_;
  LockWatch lock_watch_;
  ThreadRates rates_;
  CommandRunner runner_;
  Exclusion exclusion_;
  Gates gates_;
  Users users_;
  ServerState& server_;
  helio::Proactor& proactor_;
  ShardSet& shards_;
  const CommandTable& commands_;
  const Command* const exec_;
  const bool all_remote_;
  const bool migrates_;

  std::vector<Noted> noted_;
  std::vector<std::string_view> noted_args_;
  size_t noted_of_input_ = 0;  // how many of them belong to the connection that is being read
  char deferred_args_[kNotedMax * kDeferredArgsMax];
  size_t deferred_bytes_ = 0;
  StageHook stage_hook_;  // queued while a command stays noted
  RespWriter writer_;
  int64_t now_ms_ = 0;  // Unix time, fixed for what is run together
  std::vector<ShardBatch*> arrived_;
  // Batches that wait for an earlier one of their connection and shard that has commands left: its
  // replies are long, or a transaction excludes its next one.
  absl::flat_hash_map<std::pair<uint64_t, ShardId>, std::deque<ShardBatch*>> parked_;
  std::vector<std::string_view> batch_args_;  // scratch of RunArrived
  std::vector<std::string_view> exec_args_;   // scratch of RunExec
  std::vector<TagLock> tags_;                 // scratch of MustQueue
  RespWriter batch_writer_;
  std::vector<uint64_t> spared_;  // scratch of SpareKeysOf
  std::vector<ShardBatch*>
      open_batches_;  // by shard: being filled for the connection that is read right now
  std::vector<ShardId> open_shards_;
  Connection* batches_of_ = nullptr;  // whose they are
  std::vector<ShardBatch*> batch_pool_;
  size_t batch_pool_bytes_ = 0;  // sum of what they count
  size_t batches_in_flight_ = 0;
  size_t local_batches_ = 0;  // of them and of the open ones, those for shards of ours
  uint64_t last_watcher_ = 0;
  std::vector<std::unique_ptr<Multi>> multi_pool_;
  size_t blocked_clients_ = 0;
  bool must_wait_ = false;  // what RunOne has just tried (kTry)

  std::shared_ptr<const helio::TlsContext> tls_context_;  // null: no TLS
  static constexpr uint64_t kSweepMs = 5'000;
  OwnedTimer<&Worker::SweepEnds> sweep_timer_;
  OwnedTimer<&Worker::OnMemcachedFlush> memcached_flush_timer_;

  std::vector<std::unique_ptr<ScriptJob>> script_jobs_;  // all that there are
  std::vector<ScriptJob*> idle_script_jobs_;
  ClientLimiter client_limiter_;
  PubSub pubsub_;
  KeyNotifier key_notifier_{&pubsub_};
  Tracking tracking_;
  Monitors monitors_;
};

}  // namespace dfly
