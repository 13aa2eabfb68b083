// SPDX-License-Identifier: Apache-2.0
// Those that follow this server: who gets the stream of effects, and from where.
//
//   EffectStream --OnEpoch--> backlog --> ReplicaFeed --> the output of each replica's connection
//   Persistence  --RDB------> ReplicaCopy ----^
//
// The stream begins when the first replica asks for a copy: all shards are locked for a moment,
// what was before is in the copy, what comes after is in the backlog. From then on it has offsets,
// and goes on also while there is no replica, so that one that comes back needs no copy.
//
// While this server is itself a replica the backlog has its primary's bytes, at their offsets, and
// replicas of this one get those:
//
//   PrimaryLink --AppendOfPrimary--> backlog --> ReplicaFeed
//
// A promotion goes on behind them with effects, a demotion the other way round.
//
// The protocol is Redis': PSYNC, shared/journal.md section 2.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/meters/replicas_facts.h"
#include "server/options/options.h"
#include "server/persistence/effect_stream.h"
#include "server/persistence/persistence.h"
#include "server/replication/absent_replicas.h"
#include "server/replication/acks/ack_waits.h"
#include "server/replication/acks/sync_replies.h"
#include "server/replication/feed_threads.h"
#include "server/replication/replica_copies.h"
#include "server/replication/replica_feed.h"
#include "server/replication/replica_files.h"
#include "server/replication/replication_ids.h"
#include "server/replication/stream_buffer.h"

namespace dfly {

class AppendLog;
class PrimaryLink;
struct ServerState;

// Owner:    the server. Its state belongs to proactor 0, and so do all methods that say nothing
// else. Suspends: what says so.
class Replicas final : private EffectStream::Listener, private AckSource, private StreamPlaces {
 public:
  // All outlive it.
  Replicas(ServerState* server, Persistence* persistence, EffectStream* stream, AppendLog* log,
           const ReplicationOptions& options);
  ~Replicas();

  // What is loaded (a log or a snapshot) is of a stream up to there: replicas can go on from there,
  // and this server, if it becomes one itself. Once, before anybody is served. Suspends.
  void Resume(const StreamPlace& place);
  // Before anything else: where this server's primary is heard. It outlives it.
  void SetLink(PrimaryLink* link) { link_ = link; }
  // The server ends: no copy begins any more, and the role stays.
  void BeginStop() { ends_ = true; }
  // REQUIRES: it serves nobody any more. Suspends.
  void Stop();
  void SetOptions(const ReplicationOptions& options);
  // Replies are to wait for replicas (--min_replicas_to_ack): before anybody is served, and when
  // the data is there. Between them writes are held. Suspends: never.
  void BeginSync();
  void EndBeginSync();
  // Until what the options say of that is in force. REQUIRES: the caller has no locks. Suspends.
  void AwaitSync();
  // Writes are refused, or not, as min-replicas-to-write says.
  void CheckGoodReplicas();

  // --- The end of the server ---

  bool has_any() const { return !replicas_.empty(); }
  // All have acknowledged all that was done; true, too, if there are none.
  bool AreInSync() const;
  // They are to acknowledge what they have, now.
  void AskForAcks() override;
  // Which are in sync, and which not.
  void LogSync() const;
  // No PING is sent, so that the stream has an end.
  void SetQuiet(bool is_quiet) { is_quiet_ = is_quiet; }
  // The replica at that address, or the first one if there is no host, if it has answered what was
  // asked last, at that time, and then had all of the stream.
  std::optional<ReplicaFacts> FindInSync(uint64_t asked_ns, std::string_view host,
                                         uint16_t port) const;

  // The same of the replica that is this client. None: there is no such.
  std::optional<bool> IsInSync(uint64_t asked_ns, uint64_t client_id) const;

  // PSYNC or SYNC of a session, on its thread: the feed answers. The caller keeps it.
  std::unique_ptr<ReplicaFeed> NewFeed(Session* session, std::shared_ptr<Replica> replica);

  // Of WAIT.
  AckWaits& waits() { return waits_; }
  ReplicasFacts Facts() const;
  // CONFIG RESETSTAT.
  void ResetStats();

  // A copy is being made, or the backlog is freed.
  bool is_busy() const { return copies_.is_busy(); }

  // --- What PrimaryLink says ---

  // Of the data that this server has.
  ReplicationIds& ids() { return ids_; }
  // All who follow leave, and may come back. `why`: for the log.
  void EndAll(std::string_view why);
  // Until nobody reads the backlog any more. Suspends.
  void AwaitNobody();
  // The server has become a replica, and nobody is let write any more: ends the stream of effects.
  // Returns its end, which is that of the data; none if there was no stream. Suspends.
  std::optional<uint64_t> Demote();
  // The stream of the primary begins behind `offset` of ids(): the backlog goes on, if it ends
  // there. Suspends.
  void BeginOfPrimary(uint64_t offset);
  // Its next bytes.
  void AppendOfPrimary(std::string_view bytes) { backlog_.Append(bytes); }
  // Up to `offset` they are whole units: replicas may have them.
  void PublishOfPrimary(uint64_t offset);
  // It has ended for now: what stands behind the last whole unit comes again.
  void EndOfPrimary() { backlog_.Rewind(); }
  // What the backlog has is worth nothing: the data is replaced. Who follows leaves.
  void ForgetStream(std::string_view why);
  // As repl-backlog-ttl says. Each second; `now_ns` is monotonic, and tests say a later one.
  void FreeBacklogIfIdle(uint64_t now_ns);
  // The server has become a primary, and nobody is let write yet: effects go on behind `offset` of
  // the backlog. `continues`: the data is of its stream. Suspends.
  void Promote(uint64_t offset, bool continues);

  // --- What ReplicaCopies asks ---

  const std::vector<std::shared_ptr<Replica>>& all() const { return replicas_; }
  // Thread: any.
  bool ends() const { return ends_; }
  // There is no stream, and a copy can begin it.
  bool MayAttach() const;
  // Around a copy that may begin it: making the journal suspends, and is not done with locks.
  void OpenStream();
  void CloseStream();
  // Where the copy is in the stream. False: nowhere, the role has changed. REQUIRES: all shards are
  // locked, if MayAttach exclusively. Suspends.
  bool FindPlace(ReplicaCopy* copy);

  // --- What ReplicaFiles asks ---

  // It has not left, and the server does not end.
  bool IsHere(const std::shared_ptr<Replica>& replica) const;
  // It goes on behind `offset`; `part`, if it is not null, comes before what its pin is at.
  void BeginStream(const std::shared_ptr<Replica>& replica, uint64_t offset,
                   std::shared_ptr<FilePart> part);
  // It needs the log's files no more.
  void OnCaughtUp(const Replica& replica);
  // It cannot go on.
  void GiveCopy(const std::shared_ptr<Replica>& replica);

  // --- For feeds. Thread: any ---

  StreamBuffer& backlog() { return backlog_; }
  // A replica has acknowledged something, or the stream has grown: some WAIT may be over.
  void OnAck();
  FeedThreads& feeds() { return feeds_; }
  void OnEnded(const std::shared_ptr<Replica>& replica);

 private:
  // EffectStream::Listener
  void OnEpoch(const Epoch& epoch, uint64_t effects_end) override;
  // AckSource
  std::optional<uint64_t> NewestEpoch() const override;
  Streamed NewestStreamed() const override;
  uint64_t CountAcked(uint64_t offset, bool is_durable) const override;
  void Hurry() override;
  // StreamPlaces
  bool Hold() override;
  StreamPlace Place() override;
  void LetGo() override;

  void BeginTicks();
  void OnRequest(const std::shared_ptr<Replica>& replica);
  void Answer(const std::shared_ptr<Replica>& replica);
  bool Continues(const Replica& replica) const;
  void TellRefused(const Replica& replica);
  bool IsTooFar(const Replica& replica, uint64_t bytes);
  bool Continue(const std::shared_ptr<Replica>& replica);
  // REQUIRES: all shards are locked.
  void Attach(uint64_t offset);
  AckQuorum::Rules SyncRules() const;
  // The data is another server's, or about to be.
  bool is_other() const;
  void ApplySyncSoon();
  void ApplySync();
  void TellVoters();
  // Of the stream; for the log.
  uint64_t NeededFrom() const;
  void ForgetLongAbsent(uint64_t now_ns);
  bool StreamsAny() const;
  // It has answered what was asked last, at that time, and had all of the stream.
  bool HasAll(const Replica& replica, uint64_t asked_ns) const;
  void Tick();
  std::vector<ReplicaFacts> AllFacts() const;
  // As min-replicas-max-lag says.
  uint64_t CountGood() const;
  bool needs_good() const { return options_.good_replicas_min > 0 && options_.good_lag_max_s > 0; }
  bool IsIdle(uint64_t now_ns) const;
  void FreeBacklog(uint64_t now_ns);
  // Calls it while nothing changes. False: it did not, as `*cancelled` was set. Suspends.
  template <typename Function>
  bool WithAllLocked(const std::atomic<bool>* cancelled, Function function);
  // No stream is read any more; stream_.Close has to follow. REQUIRES: all shards are locked.
  void Detach();
  void Send(std::initializer_list<std::string_view> words);

  ServerState& server_;
  Persistence& persistence_;
  EffectStream& stream_;
  AppendLog& log_;
  ReplicationOptions options_;
  ReplicationIds ids_;
  PrimaryLink* link_ = nullptr;
  bool is_streaming_ = false;  // it gets effects
  bool has_backlog_ = false;   // of ids_, up to where the data is; always while is_streaming_
  bool follows_ = false;       // between Demote and Promote: the data is another one's
  std::atomic<bool> ends_{false};
  std::vector<std::shared_ptr<Replica>> replicas_;
  std::vector<std::shared_ptr<Replica>> unanswered_;  // of these, until Promote is over
  uint64_t tick_task_ = 0;
  uint64_t last_ping_ns_ = 0;
  bool is_quiet_ = false;
  uint64_t alone_since_ns_ = 0;  // there is no replica; monotonic
  bool is_primary_ = true;
  uint64_t partial_copies_ = 0;
  uint64_t refused_partial_copies_ = 0;

  // Who appends: the journal's leader while is_streaming_, else proactor 0.
  StreamBuffer backlog_;
  std::atomic<uint64_t> data_end_{0};  // behind the last effect; PING and GETACK may follow
  std::atomic<uint64_t> streamed_epoch_{0};

  FeedThreads feeds_;
  ReplicaCopies copies_;
  ReplicaFiles files_;
  AbsentReplicas absent_;
  AckWaits waits_{this};
  SyncReplies sync_;
  bool is_applying_ = false;  // ApplySyncSoon
  bool applies_again_ = false;
};

}  // namespace dfly
