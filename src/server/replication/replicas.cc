// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/hops/transaction.h"
#include "engine/journal/sections.h"
#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/base/random_id.h"
#include "server/clients/client_limiter.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/replication/primary_link.h"

namespace dfly {

namespace {

constexpr uint64_t kTickMillis = 1'000;

std::string AddressOf(const Replica& replica) {
  return fmt::format("{}:{}", replica.ip, replica.offer.port);
}

// And go on with the stream.
bool MayComeBack(const Replica& replica) {
  return Follows(replica) && !replica.offer.is_rdb_only && !replica.is_old_command;
}

}  // namespace

Replicas::Replicas(ServerState* server, Persistence* persistence, EffectStream* stream,
                   AppendLog* log, const ReplicationOptions& options)
    : server_(*server),
      persistence_(*persistence),
      stream_(*stream),
      log_(*log),
      options_(options),
      ids_{.id = RandomId()},
      backlog_(0, options.backlog_bytes),
      feeds_(&server->pool, server->options.threads),
      copies_(server, persistence, this),
      files_(this, log),
      sync_(server, stream) {
  persistence->SetStreamPlaces(this);
  log->SetNeededFrom([this] { return NeededFrom(); });
}

Replicas::~Replicas() { CHECK(!is_streaming_) << "Replicas::Stop was not called"; }

void Replicas::Stop() {
  ends_ = true;
  while (copies_.is_busy() || files_.is_busy() || is_applying_)
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  if (tick_task_ != 0) helio::Proactor::Current()->RemovePeriodic(std::exchange(tick_task_, 0));
  sync_.Stop();
  log_.SetNeededFrom(nullptr);
  if (!is_streaming_) return;
  CHECK(WithAllLocked(nullptr, [this] { Detach(); }));
  stream_.Close();
}

template <typename Function>
bool Replicas::WithAllLocked(const std::atomic<bool>* cancelled, Function function) {
  Transaction lock(server_.shards.get(), nullptr);
  lock.set_origin({.name = "replication"});
  lock.set_cancelled(cancelled);
  lock.LockAllShards(LockMode::kExclusive);
  if (!lock.Schedule()) return false;
  const helio::BoundedWait wait(kSnapshotFile);
  function();
  return true;
}

void Replicas::Detach() {
  is_streaming_ = server_.tells_replicas = false;
  stream_.DetachListener();
}

void Replicas::SetOptions(const ReplicationOptions& options) {
  options_ = options;
  copies_.SetOptions(options);
  backlog_.set_keeps(options.backlog_bytes);
  sync_.SetOptions(options);
  ApplySyncSoon();
  CheckGoodReplicas();
}

// ------------------------------------------------------------------------ replies wait for them

void Replicas::BeginSync() {
  if (!options_.HoldsReplies()) return;
  WorkerState::HoldWrites(server_, true);
  sync_.SetOptions(options_);
}

void Replicas::EndBeginSync() {
  if (!options_.HoldsReplies()) return;
  ApplySyncSoon();
  helio::Fiber("sync replicas", [this] {
    while (is_applying_) helio::this_fiber::SleepForMillis(kLookSoonMillis);
    WorkerState::HoldWrites(server_, false);
  }).Detach();
}

void Replicas::ApplySyncSoon() {
  applies_again_ = true;
  if (std::exchange(is_applying_, true)) return;
  helio::Fiber("sync rules", [this] {
    while (std::exchange(applies_again_, false) && !ends_) ApplySync();
    is_applying_ = false;
  }).Detach();
}

AckQuorum::Rules Replicas::SyncRules() const {
  return {.replicas = options_.min_replicas_to_ack,
          .is_durable = options_.acks_are_durable,
          .sentinels = options_.fence_sentinels,
          .fence_ns = options_.fence_ms * 1'000'000};
}

bool Replicas::is_other() const { return follows_ || link_->is_replica(); }

void Replicas::ApplySync() {
  // Promote and Demote do it themselves.
  if (is_other() || SyncRules() == sync_.rules()) return;
  CHECK(WithAllLocked(nullptr, [this] {
    if (is_other()) return;
    const AckQuorum::Rules rules = SyncRules();
    if (!is_streaming_ && !rules.holds_replies()) return;
    if (!is_streaming_) Attach(backlog_.end());
    sync_.Apply(rules);
  }));
}

void Replicas::AwaitSync() {
  while (is_applying_) helio::this_fiber::SleepForMillis(kLookSoonMillis);
}

void Replicas::TellVoters() {
  std::vector<std::shared_ptr<const AckState>> voters;
  for (const auto& replica : replicas_) {
    if (replica->offer.is_rdb_only) continue;
    voters.emplace_back(replica, &replica->acks);
  }
  sync_.SetVoters(std::move(voters));
}

// ----------------------------------------------------------------------------------------- roles

void Replicas::EndAll(std::string_view why) {
  for (const auto& replica : replicas_) {
    OnFeed(replica, [why = std::string(why)](ReplicaFeed& feed) { feed.End(why); });
  }
}

std::optional<uint64_t> Replicas::Demote() {
  follows_ = true;
  is_primary_ = false;
  CheckGoodReplicas();
  WorkerState::AwaitLetIn(server_);
  std::optional<uint64_t> end;
  bool was_streaming = false;
  const bool is_done = WithAllLocked(&ends_, [&] {
    was_streaming = is_streaming_;
    if (!was_streaming) return;
    if (stream_.journal()->Flush()) end = backlog_.end();
    sync_.FailAll();
    Detach();
    stream_.Become("", 0);
    has_backlog_ = end.has_value();
  });
  if (!is_done) return {};  // the server ends
  if (was_streaming) stream_.Close();
  EndAll("this server becomes a replica");
  return end;
}

void Replicas::AwaitNobody() {
  const auto reads = [](const auto& replica) { return replica->pin != nullptr; };
  while (!ends_ && std::any_of(replicas_.begin(), replicas_.end(), reads)) {
    helio::this_fiber::SleepForMillis(kLookSoonMillis);
  }
}

void Replicas::BeginOfPrimary(uint64_t offset) {
  if (!has_backlog_ || backlog_.end() != offset) {
    ForgetStream("the stream of the primary begins anew");
    AwaitNobody();
    if (ends_) return;
    backlog_.Restart(offset);
  }
  has_backlog_ = true;
}

void Replicas::PublishOfPrimary(uint64_t offset) {
  if (offset <= backlog_.end()) return;
  backlog_.PublishTo(offset);
  feeds_.Wake();
}

void Replicas::ForgetStream(std::string_view why) {
  has_backlog_ = false;
  absent_.Clear();
  log_.RemoveNotNeeded();
  EndAll(why);
}

void Replicas::Promote(uint64_t offset, bool continues) {
  if (continues) {
    BeginOfPrimary(offset);  // if the last link has failed, the backlog may lack something
    if (!ends_) {
      WithAllLocked(&ends_, [&] {
        Attach(offset);
        if (const AckQuorum::Rules rules = SyncRules(); rules.holds_replies()) sync_.Apply(rules);
      });
    }
  } else {
    ForgetStream("this server's data is of no stream");
    AwaitNobody();
    if (!ends_) backlog_.Restart(offset);
  }
  follows_ = false;
  is_primary_ = !link_->is_replica();
  alone_since_ns_ = helio::MonotonicNanos();
  CheckGoodReplicas();
  for (const auto& replica : std::exchange(unanswered_, {})) {
    if (IsHere(replica)) Answer(replica);
  }
}

// ------------------------------------------------------------------------------------- replicas

std::unique_ptr<ReplicaFeed> Replicas::NewFeed(Session* session, std::shared_ptr<Replica> replica) {
  replica->client_id = session->connection.id();
  replica->proactor = helio::Proactor::Current();
  replica->since_ns = replica->active_ns = helio::MonotonicNanos();
  auto feed = std::make_unique<ReplicaFeed>(this, session, replica);
  server_.pool.at(0)->Dispatch([this, replica] { OnRequest(replica); });
  return feed;
}

void Replicas::OnEnded(const std::shared_ptr<Replica>& replica) {
  server_.pool.at(0)->Dispatch([this, replica] {
    const auto it = std::find(replicas_.begin(), replicas_.end(), replica);
    if (it == replicas_.end()) return;
    replicas_.erase(it);
    std::erase(unanswered_, replica);
    TellVoters();
    if (replica->pin != nullptr) backlog_.Unpin(replica->pin);
    alone_since_ns_ = helio::MonotonicNanos();
    LOG(INFO) << "the replica " << AddressOf(*replica) << " has left";
    if (!ends_ && has_backlog_ && MayComeBack(*replica)) {
      absent_.OnLeft(AddressOf(*replica), replica->acks.received, helio::MonotonicNanos());
    }
    CheckGoodReplicas();
    waits_.Look();
  });
}

void Replicas::BeginTicks() {
  if (tick_task_ != 0) return;
  last_ping_ns_ = helio::MonotonicNanos();
  tick_task_ = helio::Proactor::Current()->AddPeriodic(kTickMillis, [this] { Tick(); });
}

void Replicas::OnRequest(const std::shared_ptr<Replica>& replica) {
  replicas_.push_back(replica);
  TellVoters();
  BeginTicks();
  if (!replica->refusal.empty()) {
    OnFeed(replica, [replica](ReplicaFeed& feed) { feed.Refuse(replica->refusal); });
  } else if (follows_ && !link_->is_replica()) {
    unanswered_.push_back(replica);  // Promote is under way
  } else if (link_->is_replica() && !(follows_ && link_->is_linked())) {
    OnFeed(replica, [](ReplicaFeed& feed) { feed.End("there is no link with the primary"); });
  } else {
    Answer(replica);
  }
}

void Replicas::Answer(const std::shared_ptr<Replica>& replica) {
  if (Continue(replica)) return;
  OnCaughtUp(*replica);  // by a copy
  copies_.Start();
}

bool Replicas::Continues(const Replica& replica) const {
  if (!has_backlog_) return false;
  if (replica.is_old_command || replica.wanted_offset < 1) return false;
  if (helio::EqualsIgnoreCase(replica.wanted_id, ids_.id)) return true;
  return helio::EqualsIgnoreCase(replica.wanted_id, ids_.id2) &&
         replica.wanted_offset <= ids_.second_offset;
}

// It would be cut off at once, and come back, for ever.
bool Replicas::IsTooFar(const Replica& replica, uint64_t bytes) {
  if (!ClientLimiter::Here().LimitOf(ClientClass::kReplica).is_above_hard(bytes)) return false;
  ++refused_partial_copies_;
  LOG(INFO) << "the replica " << replica.ip << ":" << replica.offer.port << " needs a copy: it is "
            << bytes << " bytes behind, more than client-output-buffer-limit replica";
  return true;
}

bool Replicas::Continue(const std::shared_ptr<Replica>& replica) {
  if (!Continues(*replica)) {
    TellRefused(*replica);
    return false;
  }
  const auto offset = static_cast<uint64_t>(replica->wanted_offset) - 1;
  replica->pin = backlog_.Pin(offset);
  if (replica->pin != nullptr) {
    if (IsTooFar(*replica, backlog_.end() - offset)) {
      backlog_.Unpin(std::exchange(replica->pin, nullptr));
      return false;
    }
    BeginStream(replica, offset, nullptr);
    OnCaughtUp(*replica);
    return true;
  }
  if (offset > backlog_.end() || !files_.MayHave(offset)) {
    TellRefused(*replica);
    return false;
  }
  files_.Seek(replica);
  return true;
}

void Replicas::BeginStream(const std::shared_ptr<Replica>& replica, uint64_t offset,
                           std::shared_ptr<FilePart> part) {
  LOG(INFO) << "the replica " << replica->ip << ":" << replica->offer.port
            << " goes on from offset " << offset + 1 << ", " << backlog_.end() - offset
            << " bytes behind" << (part == nullptr ? "" : ", with the log's files");
  ++partial_copies_;
  replica->acks.received = offset;
  replica->acked_ns = helio::MonotonicNanos();
  replica->state = ReplicaState::kStreams;
  CheckGoodReplicas();
  ids_.is_told = true;
  std::string reply = replica->offer.has_psync2 ? fmt::format("+CONTINUE {}\r\n", ids_.id)
                                                : std::string("+CONTINUE\r\n");
  OnFeed(replica,
         [reply, part = std::move(part)](ReplicaFeed& feed) { feed.BeginStream(reply, part); });
}

void Replicas::TellRefused(const Replica& replica) {
  const std::string who = fmt::format("the replica {}:{}", replica.ip, replica.offer.port);
  if (replica.is_old_command || replica.wanted_id == "?") {
    LOG(INFO) << who << " asks for a copy";
    return;
  }
  ++refused_partial_copies_;
  LOG(INFO) << who << " needs a copy: it has " << helio::LogText(replica.wanted_id) << " up to "
            << replica.wanted_offset << "; here are " << ids_.id << " from " << backlog_.begin() + 1
            << " to " << backlog_.end() << ", and " << ids_.id2 << " below " << ids_.second_offset;
}

// ----------------------------------------------------------------------------- the log's files

void Replicas::Resume(const StreamPlace& place) {
  LOG(INFO) << "the data is of the stream " << place.id << " up to offset " << place.offset;
  ids_.id2 = place.id;
  ids_.second_offset = static_cast<int64_t>(place.offset) + 1;
  link_->OnResumed(place);
  backlog_.Restart(place.offset);
  CHECK(WithAllLocked(nullptr, [&] { Attach(place.offset); }));
  alone_since_ns_ = helio::MonotonicNanos();
  BeginTicks();
}

void Replicas::Attach(uint64_t offset) {
  data_end_ = offset;
  stream_.Open(1);
  stream_.AttachListener(this, ids_.id, offset);
  // What the log alone has got: WAIT does not wait for that.
  streamed_epoch_ = stream_.journal()->newest();
  is_streaming_ = has_backlog_ = server_.tells_replicas = true;
}

void Replicas::GiveCopy(const std::shared_ptr<Replica>& replica) {
  TellRefused(*replica);
  OnCaughtUp(*replica);
  replica->state = ReplicaState::kWaitsForCopy;
  copies_.Start();
}

uint64_t Replicas::NeededFrom() const {
  uint64_t from = absent_.first_offset();
  for (const auto& replica : replicas_) {
    // It may leave, too.
    if (MayComeBack(*replica)) from = std::min(from, replica->acks.received.load());
  }
  return from;
}

void Replicas::OnCaughtUp(const Replica& replica) {
  absent_.OnBack(AddressOf(replica));
  log_.RemoveNotNeeded();
}

void Replicas::ForgetLongAbsent(uint64_t now_ns) {
  for (const std::string& address : absent_.Expire(now_ns, options_.backlog_ttl_s)) {
    LOG(INFO) << "the log keeps nothing more for the replica " << address << ": it has been away "
              << "for " << options_.backlog_ttl_s << " seconds";
  }
  log_.RemoveNotNeeded();
}

bool Replicas::IsHere(const std::shared_ptr<Replica>& replica) const {
  return !ends_ && std::find(replicas_.begin(), replicas_.end(), replica) != replicas_.end();
}

// ------------------------------------------------------------------------------- copies and waits

bool Replicas::MayAttach() const { return !is_streaming_ && !follows_; }

void Replicas::OpenStream() { stream_.Open(1); }

void Replicas::CloseStream() { stream_.Close(); }

bool Replicas::FindPlace(ReplicaCopy* copy) {
  if (follows_) {
    auto place = link_->held_place();
    if (!place || !has_backlog_) return false;
    DCHECK_EQ(place->offset, backlog_.end());
    copy->place = std::move(*place);
    return true;
  }
  if (link_->is_replica()) return false;  // Demote is under way
  if (!is_streaming_) {
    if (!copy->may_attach) return false;  // the role has changed
    Attach(backlog_.end());
  } else if (!stream_.journal()->Flush()) {
    return false;
  }
  copy->place = {.id = ids_.id, .offset = stream_.Cut()};  // what comes behind begins with a SELECT
  return true;
}

bool Replicas::Hold() {
  // With a log nobody starts from a snapshot.
  if (!is_other()) return is_streaming_ && !log_.is_on();
  return follows_ && link_->HoldStream();
}

StreamPlace Replicas::Place() {
  const helio::BoundedWait wait(kSnapshotFile);
  if (follows_) {
    return link_->may_have_own_writes() ? StreamPlace()
                                        : link_->held_place().value_or(StreamPlace());
  }
  if (is_other() || !is_streaming_ || !stream_.journal()->Flush()) return {};
  return {.id = ids_.id, .offset = stream_.Cut()};
}

void Replicas::LetGo() { link_->LetStreamGo(); }

std::optional<uint64_t> Replicas::NewestEpoch() const {
  if (!is_streaming_) return {};
  return stream_.journal()->newest();
}

AckSource::Streamed Replicas::NewestStreamed() const {
  const uint64_t epoch = streamed_epoch_.load(std::memory_order_seq_cst);
  return {.epoch = epoch, .offset = data_end_.load(std::memory_order_relaxed)};
}

uint64_t Replicas::CountAcked(uint64_t offset, bool is_durable) const {
  return static_cast<uint64_t>(
      std::count_if(replicas_.begin(), replicas_.end(), [&](const auto& replica) {
        if (!Follows(*replica)) return false;
        return (is_durable ? replica->acks.durable : replica->acks.received) >= offset;
      }));
}

void Replicas::Hurry() {
  if (is_streaming_) stream_.journal()->Hurry();
}

void Replicas::AskForAcks() { Send({"REPLCONF", "GETACK", "*"}); }

void Replicas::OnAck() {
  sync_.Release();
  if (waits_.WantsLook()) server_.pool.at(0)->Dispatch([this] { waits_.Look(); });
}

// --------------------------------------------------------------------------------------- stream

void Replicas::OnEpoch(const Epoch& epoch, uint64_t effects_end) {
  DCHECK_EQ(epoch.stream_offset, backlog_.end());
  for (const std::string_view piece : epoch.pieces) backlog_.Append(piece);
  backlog_.Publish();
  if (effects_end != 0) data_end_.store(effects_end, std::memory_order_relaxed);
  sync_.OnEpoch(epoch.number, data_end_.load(std::memory_order_relaxed));
  // FindTarget reads the epoch, and then the end.
  streamed_epoch_.store(epoch.number, std::memory_order_seq_cst);
  feeds_.Wake();
  OnAck();
}

void Replicas::Send(std::initializer_list<std::string_view> words) {
  Journal* const journal = stream_.journal();
  if (!is_streaming_ || journal == nullptr) return;
  journal->OnCommand(0, words);
  journal->Hurry();
}

bool Replicas::StreamsAny() const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const auto& replica) { return Follows(*replica); });
}

void Replicas::Tick() {
  const uint64_t now_ns = helio::MonotonicNanos();
  const uint64_t timeout_ns = options_.timeout_s * helio::kNanosPerSecond;
  for (const auto& replica : replicas_) {
    if (WaitsForCopy(*replica) || AwaitsSizedCopy(*replica)) {
      OnFeed(replica, [](ReplicaFeed& feed) { feed.KeepAlive(); });
    } else if (now_ns > replica->active_ns + timeout_ns) {
      OnFeed(replica, [](ReplicaFeed& feed) { feed.End("it is silent for repl-timeout"); });
    }
  }
  if (!is_quiet_ && StreamsAny() &&
      now_ns - last_ping_ns_ >= options_.ping_period_s * helio::kNanosPerSecond) {
    last_ping_ns_ = now_ns;
    Send({"PING"});
  }
  CheckGoodReplicas();
  ForgetLongAbsent(now_ns);
  FreeBacklogIfIdle(now_ns);
}

// ---------------------------------------------------------------------------- without replicas

uint64_t Replicas::CountGood() const {
  const std::vector<ReplicaFacts> all = AllFacts();
  return static_cast<uint64_t>(std::count_if(all.begin(), all.end(), [this](const auto& replica) {
    return replica.is_online && static_cast<uint64_t>(replica.lag_s) <= options_.good_lag_max_s;
  }));
}

void Replicas::CheckGoodReplicas() {
  persistence_.SetLacksReplicas(is_primary_ && needs_good() &&
                                CountGood() < options_.good_replicas_min);
}

bool Replicas::IsIdle(uint64_t now_ns) const {
  if (ends_ || !replicas_.empty() || options_.backlog_ttl_s == 0) return false;
  if (!is_streaming_ || !is_primary_ || is_other()) return false;
  if (log_.is_on() || options_.HoldsReplies()) return false;
  const uint64_t alone_ns = now_ns - std::min(now_ns, alone_since_ns_);
  return alone_ns / helio::kNanosPerSecond > options_.backlog_ttl_s;
}

void Replicas::FreeBacklogIfIdle(uint64_t now_ns) {
  if (IsIdle(now_ns)) copies_.RunAlone([this, now_ns] { FreeBacklog(now_ns); });
}

void Replicas::FreeBacklog(uint64_t now_ns) {
  bool is_free = false;
  WithAllLocked(&ends_, [&] {
    is_free = IsIdle(now_ns);  // the role may have changed, or somebody has come
    if (!is_free) return;
    LOG(INFO) << "the backlog is freed: there was no replica for " << options_.backlog_ttl_s
              << " seconds";
    // What is written from now on is in no stream: nobody may go on with this one, nor begin to
    // while Detach suspends.
    has_backlog_ = false;
    ids_.Replace(RandomId());
    Detach();
    backlog_.Restart(backlog_.end());
  });
  if (is_free) stream_.Close();
}

// ------------------------------------------------------------------------ the end of the server

bool Replicas::AreInSync() const {
  if (replicas_.empty()) return true;
  if (!is_streaming_ || streamed_epoch_.load() < stream_.journal()->newest()) return false;
  const uint64_t end = data_end_.load(std::memory_order_relaxed);
  return std::all_of(replicas_.begin(), replicas_.end(), [end](const auto& replica) {
    return replica->state == ReplicaState::kStreams && replica->acks.received >= end;
  });
}

void Replicas::LogSync() const {
  const uint64_t end = data_end_.load(std::memory_order_relaxed);
  size_t in_sync = 0;
  for (const ReplicaFacts& replica : AllFacts()) {
    if (replica.is_online && replica.offset >= end) {
      ++in_sync;
      continue;
    }
    LOG(WARNING) << "Lagging replica " << replica.ip << ":" << replica.port << " reported offset "
                 << (end - std::min(end, replica.offset)) << " behind master, lag=" << replica.lag_s
                 << ", state=" << replica.state << ".";
  }
  LOG(INFO) << in_sync << " of " << replicas_.size() << " replicas are in sync when shutting down.";
}

std::optional<ReplicaFacts> Replicas::FindInSync(uint64_t asked_ns, std::string_view host,
                                                 uint16_t port) const {
  for (const auto& replica : replicas_) {
    if (!host.empty() && (replica->ip != host || replica->offer.port != port)) continue;
    if (HasAll(*replica, asked_ns)) return FactsOf(*replica);
  }
  return {};
}

bool Replicas::HasAll(const Replica& replica, uint64_t asked_ns) const {
  if (!is_streaming_ || streamed_epoch_.load() < stream_.journal()->newest()) return false;
  if (replica.state != ReplicaState::kStreams || replica.offer.is_rdb_only) return false;
  // The acknowledgement tells what was before the question, which it has read, too.
  const bool has_all = replica.acks.received + kStreamGetAck.size() >= backlog_.end();
  return has_all && replica.acked_ns > asked_ns;
}

std::optional<bool> Replicas::IsInSync(uint64_t asked_ns, uint64_t client_id) const {
  const auto it =
      std::find_if(replicas_.begin(), replicas_.end(),
                   [client_id](const auto& replica) { return replica->client_id == client_id; });
  if (it == replicas_.end()) return {};
  return HasAll(**it, asked_ns);
}

// ---------------------------------------------------------------------------------------- facts

std::vector<ReplicaFacts> Replicas::AllFacts() const {
  std::vector<ReplicaFacts> all;
  for (const auto& replica : replicas_) all.push_back(FactsOf(*replica));
  return all;
}

void Replicas::ResetStats() {
  copies_.ResetCount();
  partial_copies_ = refused_partial_copies_ = 0;
}

ReplicasFacts Replicas::Facts() const {
  ReplicasFacts facts;
  facts.all = AllFacts();
  if (needs_good()) facts.good = CountGood();
  facts.id = ids_.id;
  facts.id2 = ids_.id2;
  facts.second_offset = ids_.second_offset;
  facts.offset = backlog_.end();
  facts.has_backlog = has_backlog_;
  facts.backlog_limit = options_.backlog_bytes;
  if (has_backlog_) {
    facts.backlog_begin = backlog_.begin() + 1;
    facts.backlog_bytes = backlog_.end() - backlog_.begin();
    facts.backlog_memory = backlog_.memory_used();
  }
  facts.full_copies = copies_.count();
  facts.partial_copies = partial_copies_;
  facts.refused_partial_copies = refused_partial_copies_;
  sync_.AddFacts(&facts);
  return facts;
}

}  // namespace dfly
