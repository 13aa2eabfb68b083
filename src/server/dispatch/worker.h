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
//   Batches::RunArrived  on the shard's thread: runs the commands of the batches that have come,
//                        and sends them back
//   Batches::OnBack      on the connection's thread: its replies are complete
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commands/table/command_table.h"
#include "commands/table/lookup.h"
#include "engine/hops/shard_set.h"
#include "engine/keyspace/shard_turn.h"
#include "facade/connection.h"
#include "facade/replies/resp_writer.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/base/port_kind.h"
#include "server/care/defrag_pacer.h"
#include "server/care/lock_watch.h"
#include "server/care/memory_use.h"
#include "server/care/pools.h"
#include "server/care/running_scripts.h"
#include "server/care/script_finder.h"
#include "server/care/shard_care.h"
#include "server/care/thread_rates.h"
#include "server/clients/client_limiter.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/dispatch/batches.h"
#include "server/dispatch/command_runner.h"
#include "server/dispatch/exclusion.h"
#include "server/dispatch/execs.h"
#include "server/dispatch/gates.h"
#include "server/dispatch/gathered.h"
#include "server/dispatch/noted.h"
#include "server/dispatch/script_jobs.h"
#include "server/dispatch/users.h"
#include "server/push/key_notifier.h"
#include "server/push/monitor.h"
#include "server/push/pubsub.h"
#include "server/push/tracking.h"
#include "server/quotas/quotas.h"

namespace dfly {

// Its parts have headers of their own. A part knows the parts that it uses, and none of them knows
// the Worker: what has to call back does so by a small interface (TryEnd, Pool, TurnEnd).
//
// Owner:    its proactor; on that thread.
// Suspends: what says so.
class Worker final : public CommandSink, public TryEnd, public Pool, public PerThread<Worker> {
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

  // --- The stream of this server's primary (worker_primary.cc) ---

  // Takes over a connected descriptor, of which `received` was read already. `tls`: null, or what
  // the primary speaks TLS with. `stream` has its owner and its offset.
  Session& AddPrimary(int fd, std::unique_ptr<helio::TlsSession> tls,
                      std::unique_ptr<PrimaryStream> stream, int db_index,
                      std::string_view received);
  // Tells the primary what is applied, when it is. Not from inside a command.
  void AckPrimary(Session& session);
  // Of all that was parsed.
  static int64_t ReadOffset(const Session& session);
  // Of whole units that were dispatched: a MULTI counts when its EXEC does.
  static int64_t WholeOffset(const Session& session);

  // For the TLS connections to come.
  void SetTlsContext(std::shared_ptr<const helio::TlsContext> context);
  void CloseAllConnections();
  // CONFIG RESETSTAT, for this thread's part: also the counters of its shards.
  void ResetStats();

  // notify-keyspace-events.
  void SetKeyEvents(KeyEventClasses classes);

  // --- memcached (worker_memcached.cc) ---

  // Database 0 is emptied so much later, if that is more than 0; what was scheduled before is not.
  void ScheduleMemcachedFlush(int64_t after_ms);
  // At once, from a fiber. Suspends.
  void FlushMemcached(CoordinatorContext& cx);

  // CommandSink
  Outcome OnCommand(Connection* connection, std::span<const std::string_view> args) override;
  Outcome OnLargeCommand(Connection* connection, std::span<const std::string_view> args) override;
  Outcome OnHttp(Connection* connection, const HttpRequest& request) override;
  Outcome OnMemcached(Connection* connection, MemcachedOp op,
                      std::span<const std::string_view> args) override;
  void OnInputPause(Connection* connection) override;
  bool OnProtocolError(Connection* connection, std::string_view error) override;
  void OnRoom(Connection* connection) override;
  void OnReplies(Connection* connection, helio::IoBuf* replies) override;
  void OnTakenBytes(Connection* connection, std::string_view bytes) override;
  bool OnLargeOutput(Connection* connection) override;
  bool OnHeavyInput(Connection* connection) override;
  void OnLargeInput(Connection* connection) override;
  void OnWatchedSent(Connection* connection) override;
  void OnRest(Connection* connection) override;
  void OnDetached(Connection* connection) override;
  void OnPeerShutdown(Connection* connection) override;
  void OnTlsEstablished(Connection* connection, const helio::TlsSession& tls) override;
  void OnRecvStopped(Connection* connection) override;
  void OnClosing(Connection* connection) override;
  void OnClosed(Connection* connection) override;

  // The session's connection moves to `thread`, if it can at the end of what it is doing.
  void MoveSoon(Session& session, uint32_t thread);

  // A command begins (1) or ends (-1) to wait for a key.
  void OnBlocked(int change);
  size_t blocked_clients() const { return blocked_clients_; }

 private:
  static constexpr size_t kNotedMax = 32;
  static constexpr uint32_t kMissedTriesMax = 3;
  static constexpr uint64_t kSweepMs = 5'000;
  struct StageHook : helio::LoopHook {
    using LoopHook::LoopHook;
    Worker* worker = nullptr;
  };

  Args ArgsOf(const Noted& noted) const {
    return std::span(noted_args_).subspan(noted.first_arg, noted.arg_count);
  }

  Session& NewSession(int fd, uint64_t id, std::unique_ptr<helio::TlsSession> tls);
  Outcome EndFeed(Session& session, Args args);
  // What the user's quotas and rights say of a command (null: there is no such one).
  std::optional<Outcome> CheckUser(Connection* connection, Session& session, const Command* command,
                                   Args args);
  Outcome RefuseUnfound(Connection* connection, Session& session, const Lookup& found, Args args);
  // Notes that the command (null: there is none) gets this answer.
  Outcome Refuse(Connection* connection, const Command* row, Args args, Refusal refusal,
                 Action action = Action::kRefused);
  Outcome Dispatch(Connection* connection, Session& session, const Command& row, Args args);
  // What is different for a primary's commands, before they are looked up and after that; nothing:
  // it goes on as for others.
  std::optional<Outcome> TakeOfPrimary(Connection* connection, Session& session, Args args);
  std::optional<Outcome> DispatchPrimary(Connection* connection, Session& session,
                                         const Command& command, Args args);
  Outcome EndPrimary(std::string_view why);
  Outcome RunPrivateWords(Connection* connection, Session& session, std::string_view words);
  static void NoteWhole(Session& session);
  // Writes an offset as a reply; `is_asked`: the primary gets it.
  void MarkPrimary(Session& session, int64_t offset, bool is_asked);
  void PausePrimary(Connection* connection, Session& session);
  void OnPrimaryClosed(const Connection& connection, Session& session);
  Outcome DispatchBlocking(Connection* connection, Session& session, const Command& command,
                           Args args);
  // Runs what may take long on a fiber, unless too many do so.
  Outcome CoordinateWait(Connection* connection, Session& session, const Command& command,
                         CoordinatorHandler handler, Args args);
  // Looks now and then for the ends of connections that wait or are not received from, while there
  // are any: a net below what the kernel reports.
  void SweepSoon();
  void SweepEnds();
  void AbortMulti(Session& session, const Command* refused);
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
  // What the reply of `noted`, which has just run here, waits for.
  uint64_t EpochOf(const Noted& noted, Args args) const;
  ShardTurn& Enter(Shard& shard, const Session& session, std::optional<ShardTurn>* in_place);
  // Does a command take the way of a batch? For other threads' shards always, for ours if it must.
  bool TakesBatch(const Noted& noted, const Session& session);
  // A transaction excludes it, or one before it, or much was written that the client has yet to
  // take (`is_long`).
  bool MustQueue(const Noted& noted, const Session& session, bool is_long);
  // After each of the loop's stages: runs what its messages and completions have noted.
  void RunStage();
  // Runs `command` on a fiber of its own. `counts`: those of gathered_.
  void Coordinate(Connection* connection, Session& session, const Command& command,
                  CoordinatorHandler handler, Args args, const Gathered::Counts& counts = {});
  void RunGathered(Connection* connection);
  bool TakesLong(const Session& session, const Command& command, Args args, const KeyPlace& place);
  // A barrier is open when no reply of the connection is pending. Otherwise the command has to come
  // again.
  bool BarrierIsOpen(Connection* connection);
  // A command of the session goes to `shard`, and nowhere else: perhaps its connection should, too.
  void NoteAffinity(Session& session, ShardId shard) {
    if (!migrates_ || session.primary != nullptr) return;
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
  Outcome DispatchScript(Connection* connection, Session& session, const Command& command,
                         Args args);
  // TryEnd
  bool OnTryBack(ShardBatch* batch) override;
  // Pool, of which it has scratch memory only.
  void Halve() override {}
  void Drop() override {}
  bool is_empty() const override { return true; }
  void ReleaseScratch() override;
  void OnMemcachedFlush();

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
  Execs execs_;
  ScriptJobs jobs_;
  Batches batches_;
  Gates gates_;
  Quotas quotas_;
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
  std::deque<Refusal> refusals_;  // of what is noted
  size_t noted_of_input_ = 0;     // how many of them belong to the connection that is being read
  DeferredArgs<kNotedMax> deferred_args_;
  Gathered gathered_;     // of the connection that is being read
  StageHook stage_hook_;  // queued while a command stays noted
  RespWriter writer_;
  int64_t now_ms_ = 0;         // Unix time, fixed for what is run together
  std::vector<TagLock> tags_;  // scratch of MustQueue
  size_t blocked_clients_ = 0;
  bool must_wait_ = false;  // what RunOne has just tried (kTry)

  std::shared_ptr<const helio::TlsContext> tls_context_;  // null: no TLS
  OwnedTimer<&Worker::SweepEnds> sweep_timer_;
  OwnedTimer<&Worker::OnMemcachedFlush> memcached_flush_timer_;

  ClientLimiter client_limiter_;
  PubSub pubsub_;
  KeyNotifier key_notifier_{&pubsub_};
  Tracking tracking_;
  Monitors monitors_;
};

}  // namespace dfly
