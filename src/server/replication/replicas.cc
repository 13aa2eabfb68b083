// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replicas.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <utility>

#include "engine/hops/transaction.h"
#include "engine/journal/sections.h"
#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/clients/worker_state.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/replication/primary_link.h"
#include "storage/summary.h"

namespace dfly {

namespace {

constexpr uint64_t kNanosPerSecond = 1'000'000'000;
constexpr uint64_t kTickMillis = 1'000;
constexpr uint64_t kLookMillis = 20;
constexpr uint64_t kRoomMillis = 1;
// Of a copy, that its slowest reader has not taken yet.
constexpr uint64_t kCopyWindow = 4 << 20;
constexpr size_t kPieceBytes = 64 * 1024;  // of a copy's file
// So often the log's files are looked at for what they do not have yet; kLookMillis between.
constexpr int kFileTriesMax = 250;

// 40 of them, in hexadecimal.
std::string RandomDigits() {
  std::random_device random;
  std::string digits;
  for (int i = 0; i < 5; ++i) digits += fmt::format("{:08x}", random());
  return digits;
}

bool IsWaiting(const Replica& replica) { return replica.state == ReplicaState::kWaitsForCopy; }
// The last part of the copy before this one may still be on its way to others.
bool Copies(const Replica& replica, const ReplicaCopy* copy) {
  return replica.state == ReplicaState::kCopies && replica.copy == copy;
}
CopyForm FormOf(const Replica& replica) {
  const ReplicaOffer& offer = replica.offer;
  return {.has_keys = offer.wants_keys,
          .has_functions = offer.wants_functions,
          .is_sized = !offer.has_eof};
}
// Its copy is being made, and nothing of it was sent.
bool AwaitsSizedCopy(const Replica& replica) {
  return replica.state == ReplicaState::kCopies && !replica.offer.has_eof &&
         replica.copy_pin->offset == 0;
}
bool Follows(const Replica& replica) {
  return replica.state == ReplicaState::kStreams || replica.state == ReplicaState::kLoads;
}

// Calls function(ReplicaFeed&) on the feed's thread, if it is still there then.
template <typename Function>
void OnFeed(const std::shared_ptr<Replica>& replica, Function function) {
  replica->proactor->Dispatch([replica, function = std::move(function)] {
    if (replica->feed != nullptr) function(*replica->feed);
  });
}

}  // namespace

// What feeds have on each thread.
struct alignas(64) Replicas::FeedThread : helio::Message {
  FeedThread()
      : Message([](helio::Message* message) {
          auto* const self = static_cast<FeedThread*>(message);
          self->is_posted.store(false, std::memory_order_seq_cst);
          for (size_t i = 0; i < self->feeds.size(); ++i) self->feeds[i]->Pump();
        }) {}

  std::vector<ReplicaFeed*> feeds;  // the thread's own
  std::atomic<bool> waits{false};
  std::atomic<bool> is_posted{false};
};

// The RDB, on its way to the replicas.
class Replicas::CopyOutput final : public OutputFile {
 public:
  // `file`: where it goes first, if its size is to be known; else null.
  CopyOutput(Replicas* replicas, std::shared_ptr<ReplicaCopy> copy,
             std::unique_ptr<OutputFile> file, const std::atomic<bool>* is_cancelled)
      : replicas_(*replicas),
        copy_(std::move(copy)),
        file_(std::move(file)),
        is_cancelled_(is_cancelled) {}

  std::error_code Write(std::string_view bytes) override {
    const helio::BoundedWait wait(kSnapshotFile);
    if (file_ == nullptr) return replicas_.AppendToCopy(*copy_, bytes, is_cancelled_);
    if (copy_->readers == 0) return std::make_error_code(std::errc::operation_canceled);
    return file_->Write(bytes);
  }

  std::error_code SyncAndClose() override {
    if (file_ != nullptr) return file_->SyncAndClose();
    copy_->bytes.Append(copy_->mark);
    copy_->bytes.Publish();
    copy_->is_complete = true;
    replicas_.WakeFeeds();
    return {};
  }

 private:
  Replicas& replicas_;
  const std::shared_ptr<ReplicaCopy> copy_;
  const std::unique_ptr<OutputFile> file_;
  const std::atomic<bool>* const is_cancelled_;
};

Replicas::Replicas(ServerState* server, Persistence* persistence, EffectStream* stream,
                   AppendLog* log, const ReplicationOptions& options)
    : server_(*server),
      persistence_(*persistence),
      stream_(*stream),
      log_(*log),
      options_(options),
      ids_{.id = RandomDigits()},
      backlog_(0, options.backlog_bytes),
      sync_(server, stream),
      threads_(std::make_unique<FeedThread[]>(server->options.threads)) {}

Replicas::~Replicas() { CHECK(!is_streaming_) << "Replicas::Stop was not called"; }

void Replicas::Stop() {
  ends_ = true;
  while (is_copying_ || seeks_ > 0 || is_applying_) helio::this_fiber::SleepForMillis(kRoomMillis);
  if (tick_task_ != 0) helio::Proactor::Current()->RemovePeriodic(std::exchange(tick_task_, 0));
  sync_.Stop();
  if (std::exchange(is_streaming_, false)) Detach();
}

void Replicas::Detach() {
  server_.tells_replicas = false;
  {
    Transaction lock(server_.shards.get(), nullptr);
    lock.set_origin({.name = "replication"});
    lock.LockAllShards(LockMode::kExclusive);
    CHECK(lock.Schedule());
    const helio::BoundedWait wait(kSnapshotFile);
    stream_.DetachListener();
  }
  stream_.Close();
}

void Replicas::SetOptions(const ReplicationOptions& options) {
  options_ = options;
  backlog_.set_keeps(options.backlog_bytes);
  sync_.SetTimeout(options.ack_timeout_ms);
  ApplySyncSoon();
  CheckGoodReplicas();
}

// ------------------------------------------------------------------------ replies wait for them

void Replicas::BeginSync() {
  if (!options_.HoldsReplies()) return;
  WorkerState::HoldWrites(server_, true);
  sync_.SetTimeout(options_.ack_timeout_ms);
}

void Replicas::EndBeginSync() {
  if (!options_.HoldsReplies()) return;
  ApplySyncSoon();
  helio::Fiber("sync replicas", [this] {
    while (is_applying_) helio::this_fiber::SleepForMillis(kRoomMillis);
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
  Transaction lock(server_.shards.get(), nullptr);
  lock.set_origin({.name = "replication"});
  lock.LockAllShards(LockMode::kExclusive);
  CHECK(lock.Schedule());
  const helio::BoundedWait wait(kSnapshotFile);
  if (is_other()) return;
  const AckQuorum::Rules rules = SyncRules();
  if (!is_streaming_) {
    if (!rules.holds_replies()) return;
    stream_.Open(1);
    Attach(backlog_.end());
  }
  sync_.Apply(rules);
}

void Replicas::AwaitSync() {
  while (is_applying_) helio::this_fiber::SleepForMillis(kRoomMillis);
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
  if (is_streaming_) {
    Transaction lock(server_.shards.get(), nullptr);
    lock.set_origin({.name = "replicaof"});
    lock.set_cancelled(&ends_);
    lock.LockAllShards(LockMode::kExclusive);
    if (!lock.Schedule()) return {};  // the server ends
    const helio::BoundedWait wait(kSnapshotFile);
    if (stream_.journal()->Flush()) end = backlog_.end();
    sync_.FailAll();
    stream_.DetachListener();
    stream_.Become("", 0, [] {});
    is_streaming_ = server_.tells_replicas = false;
    has_backlog_ = end.has_value();
  }
  stream_.Close();
  EndAll("this server becomes a replica");
  return end;
}

void Replicas::AwaitNobody() {
  const auto reads = [](const auto& replica) { return replica->pin != nullptr; };
  while (!ends_ && std::any_of(replicas_.begin(), replicas_.end(), reads)) {
    helio::this_fiber::SleepForMillis(kRoomMillis);
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
  WakeFeeds();
}

void Replicas::ForgetStream(std::string_view why) {
  has_backlog_ = false;
  EndAll(why);
}

void Replicas::Promote(uint64_t offset, bool continues) {
  if (continues) {
    BeginOfPrimary(offset);  // if the last link has failed, the backlog may lack something
    Transaction lock(server_.shards.get(), nullptr);
    lock.set_origin({.name = "replicaof"});
    lock.set_cancelled(&ends_);
    lock.LockAllShards(LockMode::kExclusive);
    if (!ends_ && lock.Schedule()) {
      const helio::BoundedWait wait(kSnapshotFile);
      stream_.Open(1);
      Attach(offset);
      if (const AckQuorum::Rules rules = SyncRules(); rules.holds_replies()) sync_.Apply(rules);
    }
  } else {
    ForgetStream("this server's data is of no stream");
    AwaitNobody();
    if (!ends_) backlog_.Restart(offset);
  }
  if (!is_streaming_) stream_.Close();
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

void Replicas::Register(ReplicaFeed* feed) {
  threads_[helio::Proactor::Current()->index()].feeds.push_back(feed);
}

void Replicas::Unregister(ReplicaFeed* feed) {
  std::erase(threads_[helio::Proactor::Current()->index()].feeds, feed);
}

void Replicas::WantsWake() {
  threads_[helio::Proactor::Current()->index()].waits.store(true, std::memory_order_seq_cst);
}

void Replicas::WakeFeeds() {
  for (uint32_t i = 0; i < server_.pool.size(); ++i) {
    FeedThread& thread = threads_[i];
    if (!thread.waits.load(std::memory_order_seq_cst)) continue;
    thread.waits.store(false, std::memory_order_seq_cst);
    Wake(i);
  }
}

void Replicas::Wake(uint32_t thread) {
  if (threads_[thread].is_posted.exchange(true, std::memory_order_seq_cst)) return;
  server_.pool.at(thread)->Post(&threads_[thread]);
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
    LOG(INFO) << "the replica " << replica->ip << ":" << replica->offer.port << " has left";
    CheckGoodReplicas();
    LookAtWaits();
  });
}

void Replicas::OnRequest(const std::shared_ptr<Replica>& replica) {
  replicas_.push_back(replica);
  TellVoters();
  if (tick_task_ == 0) {
    last_ping_ns_ = helio::MonotonicNanos();
    tick_task_ = helio::Proactor::Current()->AddPeriodic(kTickMillis, [this] { Tick(); });
  }
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
  if (!Continue(replica)) StartCopies();
}

bool Replicas::Continues(const Replica& replica) const {
  if (!has_backlog_) return false;
  if (replica.is_old_command || replica.wanted_offset < 1) return false;
  if (helio::EqualsIgnoreCase(replica.wanted_id, ids_.id)) return true;
  return helio::EqualsIgnoreCase(replica.wanted_id, ids_.id2) &&
         replica.wanted_offset <= ids_.second_offset;
}

bool Replicas::Continue(const std::shared_ptr<Replica>& replica) {
  if (!Continues(*replica)) {
    TellRefused(*replica);
    return false;
  }
  const auto offset = static_cast<uint64_t>(replica->wanted_offset) - 1;
  replica->pin = backlog_.Pin(offset);
  if (replica->pin != nullptr) {
    BeginStream(replica, offset, nullptr);
    return true;
  }
  if (offset > backlog_.end() || offset < no_files_before_ || !log_.is_on()) {
    TellRefused(*replica);
    return false;
  }
  SeekInFiles(replica);
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

void Replicas::Resume(const std::string& id, uint64_t offset) {
  ids_.id2 = id;
  ids_.second_offset = static_cast<int64_t>(offset) + 1;
  backlog_.Restart(offset);
  Transaction lock(server_.shards.get(), nullptr);
  lock.set_origin({.name = "replication"});
  lock.LockAllShards(LockMode::kExclusive);
  CHECK(lock.Schedule());
  const helio::BoundedWait wait(kSnapshotFile);
  Attach(offset);
}

void Replicas::Attach(uint64_t offset) {
  data_end_ = offset;
  stream_.AttachListener(this, ids_.id, offset);
  // What the log alone has got: WAIT does not wait for that.
  streamed_epoch_ = stream_.journal()->newest();
  is_streaming_ = has_backlog_ = server_.tells_replicas = true;
}

bool Replicas::IsHere(const std::shared_ptr<Replica>& replica) const {
  return !ends_ && std::find(replicas_.begin(), replicas_.end(), replica) != replicas_.end();
}

void Replicas::SeekInFiles(const std::shared_ptr<Replica>& replica) {
  replica->state = ReplicaState::kSeeks;
  ++seeks_;
  helio::Fiber("log for replica", [this, replica] {
    SendFiles(replica);
    --seeks_;
  }).Detach();
}

void Replicas::SendFiles(const std::shared_ptr<Replica>& replica) {
  LogStream files(&log_.files(), [this] { return log_.StreamFiles(); });
  const auto offset = static_cast<uint64_t>(replica->wanted_offset) - 1;
  const bool is_own = helio::EqualsIgnoreCase(replica->wanted_id, ids_.id);
  const bool is_found = files.Seek(is_own ? ids_.id : ids_.id2, offset);
  if (!IsHere(replica)) return;
  if (!is_found) {
    TellRefused(*replica);
    replica->state = ReplicaState::kWaitsForCopy;
    return StartCopies();
  }
  const auto part = std::make_shared<FilePart>(offset);
  BeginStream(replica, offset, part);
  if (SendFilePart(replica, files, *part) || !IsHere(replica)) return;
  // It comes back, and then gets a copy.
  no_files_before_ = backlog_.begin();
  OnFeed(replica, [](ReplicaFeed& feed) { feed.End("the log's files lack a part of the stream"); });
}

bool Replicas::SendFilePart(const std::shared_ptr<Replica>& replica, LogStream& files,
                            FilePart& part) {
  int tries = 0;
  while (IsHere(replica)) {
    if (part.bytes.end() - part.bytes.FirstPinned() > kCopyWindow) {
      helio::this_fiber::SleepForMillis(kRoomMillis);
      continue;
    }
    replica->pin = backlog_.Pin(files.offset());
    if (replica->pin != nullptr) {
      part.is_complete = true;
      WakeFeeds();
      return true;
    }
    const std::string_view bytes = files.Next();
    if (!bytes.empty()) {
      tries = 0;
      part.bytes.Append(bytes);
      part.bytes.Publish();
      WakeFeeds();
      continue;
    }
    // The log is some epochs behind the backlog, or has gone on under this server's id.
    if (static_cast<int64_t>(files.offset()) + 1 == ids_.second_offset &&
        files.Seek(ids_.id, files.offset())) {
      continue;
    }
    if (++tries > kFileTriesMax) return false;
    helio::this_fiber::SleepForMillis(kLookMillis);
  }
  return false;
}

// --------------------------------------------------------------------------------------- copies

bool Replicas::HasWaiting() const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const auto& replica) { return IsWaiting(*replica); });
}

bool Replicas::HasWaiting(const CopyForm& form) const {
  return std::any_of(replicas_.begin(), replicas_.end(), [&form](const auto& replica) {
    return IsWaiting(*replica) && FormOf(*replica) == form;
  });
}

void Replicas::StartCopies() {
  if (is_copying_) return;
  is_copying_ = true;
  helio::Fiber("copies", [this] {
    RunCopies();
    is_copying_ = false;
  }).Detach();
}

void Replicas::RunCopies() {
  while (!ends_ && HasWaiting()) {
    AwaitOthers();
    if (!ends_ && HasWaiting()) RunCopy();
  }
}

// One copy is for all that come within some time.
void Replicas::AwaitOthers() {
  const uint64_t end_ns = helio::MonotonicNanos() + options_.copy_delay_s * kNanosPerSecond;
  while (!ends_ && HasWaiting() && helio::MonotonicNanos() < end_ns) {
    const auto count = std::count_if(replicas_.begin(), replicas_.end(),
                                     [](const auto& replica) { return IsWaiting(*replica); });
    const uint64_t enough = options_.copy_replicas_max;
    if (enough != 0 && static_cast<uint64_t>(count) >= enough) return;
    helio::this_fiber::SleepForMillis(kLookMillis);
  }
}

void Replicas::RunCopy() {
  const auto copy = std::make_shared<ReplicaCopy>();
  const auto first = std::find_if(replicas_.begin(), replicas_.end(),
                                  [](const auto& replica) { return IsWaiting(*replica); });
  copy->form = FormOf(**first);
  copy->mark = RandomDigits();
  if (!is_streaming_ && !follows_) stream_.Open(1);
  const std::string& directory = persistence_.directory();
  const std::string path =
      fmt::format("{}temp-copy-{}.{}.rdb", directory.empty() ? "" : directory + "/",
                  helio::UnixMillis() / 1000, getpid());
  std::string error = follows_ ? SaveCopyOfReplica(copy, path) : SaveCopy(copy, path);
  if (error.empty() && copy->form.is_sized) error = SendSizedCopy(*copy, path);
  if (copy->form.is_sized) {
    LOG_IF(WARNING, server_.options.persistence.files->Remove(path))
        << helio::LogText(path) << " cannot be removed";
  }
  EndCopy(copy, error);
}

std::string Replicas::SaveCopyOfReplica(const std::shared_ptr<ReplicaCopy>& copy,
                                        const std::string& path) {
  while (!ends_ && persistence_.is_saving()) helio::this_fiber::SleepForMillis(kLookMillis);
  if (!link_->HoldStream()) {
    helio::this_fiber::SleepForMillis(kLookMillis);
    return "there is no link with the primary";
  }
  const std::string error = SaveCopy(copy, path);
  link_->LetStreamGo();  // there may have been no cut
  return error;
}

std::string Replicas::SaveCopy(const std::shared_ptr<ReplicaCopy>& copy, const std::string& path) {
  std::unique_ptr<OutputFile> file;
  if (copy->form.is_sized) {
    if (auto error = server_.options.persistence.files->Create(path, &file)) {
      return fmt::format("{}: {}", path, error.message());
    }
  }
  LogBase base;
  base.make_output = [this, copy, &file](const std::atomic<bool>* is_cancelled) {
    return std::make_unique<CopyOutput>(this, copy, std::move(file), is_cancelled);
  };
  copy->may_attach = !is_streaming_ && !follows_;
  base.has_keys = copy->form.has_keys;
  base.has_functions = copy->form.has_functions;
  base.cut_lock = copy->may_attach ? LockMode::kExclusive : LockMode::kShared;
  base.before_cut = [this, copy] { return BeginCopy(copy); };
  base.facts_at_cut = [this, copy] {
    return std::vector<std::pair<std::string, std::string>>{
        {std::string(kAuxStreamDb), fmt::format("{}", copy->db_index)},
        {"repl-id", ids_.id},
        {"repl-offset", fmt::format("{}", copy->offset)}};
  };
  return persistence_.SaveLogBase(std::move(base));
}

std::string Replicas::SendSizedCopy(ReplicaCopy& copy, const std::string& path) {
  std::unique_ptr<InputFile> file;
  std::error_code error = server_.options.persistence.files->Open(path, &file);
  if (!error) error = AppendToCopy(copy, fmt::format("${}\r\n", file->size()), nullptr);
  const auto piece = std::make_unique<char[]>(kPieceBytes);
  for (uint64_t at = 0; !error && at < file->size();) {
    size_t size = 0;
    error = file->ReadAt(at, piece.get(), kPieceBytes, &size);
    if (!error && size == 0) error = std::make_error_code(std::errc::io_error);
    if (!error) error = AppendToCopy(copy, {piece.get(), size}, nullptr);
    at += size;
  }
  if (error) return fmt::format("{}: {}", path, error.message());
  copy.is_complete = true;
  WakeFeeds();
  return "";
}

std::error_code Replicas::AppendToCopy(ReplicaCopy& copy, std::string_view bytes,
                                       const std::atomic<bool>* is_cancelled) {
  copy.bytes.Append(bytes);
  copy.bytes.Publish();
  WakeFeeds();
  while (true) {
    if (ends_ || copy.readers == 0 || (is_cancelled != nullptr && *is_cancelled)) {
      return std::make_error_code(std::errc::operation_canceled);
    }
    if (copy.bytes.end() - copy.bytes.FirstPinned() <= kCopyWindow) return {};
    if (persistence_.shards_behind() > 0) {
      // Compared only: who is in another copy is not meant.
      server_.pool.at(0)->Dispatch(
          [this, &copy, end = copy.bytes.end()] { EndSlowReaders(&copy, end); });
    }
    helio::this_fiber::SleepForMillis(kRoomMillis);
  }
}

bool Replicas::BeginCopy(const std::shared_ptr<ReplicaCopy>& copy) {
  if (ends_ || !HasWaiting(copy->form)) return false;
  const helio::BoundedWait wait(kSnapshotFile);
  if (!FindPlace(copy.get())) return false;
  SendCopy(copy);
  if (follows_) link_->LetStreamGo();
  return true;
}

bool Replicas::FindPlace(ReplicaCopy* copy) {
  if (follows_) {
    const auto place = link_->held_place();
    if (!place || !has_backlog_) return false;
    copy->offset = static_cast<uint64_t>(place->offset);
    copy->db_index = place->db_index;
    DCHECK_EQ(copy->offset, backlog_.end());
    return true;
  }
  if (link_->is_replica()) return false;  // Demote is under way
  if (!is_streaming_) {
    if (!copy->may_attach || stream_.journal() == nullptr) return false;  // the role has changed
    Attach(backlog_.end());
  } else if (!stream_.journal()->Flush()) {
    return false;
  }
  copy->offset = stream_.Cut();  // the first thing behind a copy is a SELECT
  return true;
}

void Replicas::SendCopy(const std::shared_ptr<ReplicaCopy>& copy) {
  copy->has_begun = true;
  for (const auto& replica : replicas_) {
    if (!IsWaiting(*replica) || FormOf(*replica) != copy->form) continue;
    replica->pin = backlog_.Pin(copy->offset);
    if (replica->pin == nullptr) continue;  // no: nothing was trimmed past the end
    replica->state = ReplicaState::kCopies;
    ++full_copies_;
    copy->readers.fetch_add(1);
    std::string reply =
        replica->is_old_command ? "" : fmt::format("+FULLRESYNC {} {}\r\n", ids_.id, copy->offset);
    if (!copy->form.is_sized) reply += fmt::format("$EOF:{}\r\n", copy->mark);
    const std::shared_ptr<StreamPin> pin = copy->bytes.Pin(0);
    replica->copy = copy.get();
    replica->copy_pin = pin;
    replica->proactor->Dispatch([replica, reply, copy, pin] {
      if (replica->feed != nullptr) return replica->feed->BeginCopy(reply, copy, pin);
      copy->bytes.Unpin(pin);
      copy->readers.fetch_sub(1);
    });
  }
}

void Replicas::EndCopy(const std::shared_ptr<ReplicaCopy>& copy, const std::string& error) {
  if (!is_streaming_) stream_.Close();
  if (error.empty()) return;
  LOG(WARNING) << "no copy for the replicas: " << helio::LogText(error);
  for (const auto& replica : replicas_) {
    // Who has come since it began gets the next one.
    const bool is_concerned =
        Copies(*replica, copy.get()) ||
        (!copy->has_begun && IsWaiting(*replica) && FormOf(*replica) == copy->form);
    if (!is_concerned) continue;
    OnFeed(replica, [](ReplicaFeed& feed) { feed.End("there is no copy for it"); });
  }
}

void Replicas::EndSlowReaders(const ReplicaCopy* copy, uint64_t end) {
  for (const auto& replica : replicas_) {
    if (!Copies(*replica, copy) || end - replica->copy_pin->offset <= kCopyWindow) continue;
    OnFeed(replica, [](ReplicaFeed& feed) {
      feed.End(
          "it takes its copy so slowly that clients that write would have to wait: more than "
          "snapshot_buffer_limit is kept for it");
    });
  }
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
  WakeFeeds();
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
  const uint64_t timeout_ns = options_.timeout_s * kNanosPerSecond;
  for (const auto& replica : replicas_) {
    if (IsWaiting(*replica) || AwaitsSizedCopy(*replica)) {
      OnFeed(replica, [](ReplicaFeed& feed) { feed.KeepAlive(); });
    } else if (now_ns > replica->active_ns + timeout_ns) {
      OnFeed(replica, [](ReplicaFeed& feed) { feed.End("it is silent for repl-timeout"); });
    }
  }
  if (!is_quiet_ && StreamsAny() &&
      now_ns - last_ping_ns_ >= options_.ping_period_s * kNanosPerSecond) {
    last_ping_ns_ = now_ns;
    Send({"PING"});
  }
  CheckGoodReplicas();
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

void Replicas::FreeBacklogIfIdle(uint64_t now_ns) {
  if (ends_ || is_copying_ || !replicas_.empty() || options_.backlog_ttl_s == 0) return;
  if (!is_streaming_ || !is_primary_ || is_other()) return;
  if (log_.is_on() || options_.HoldsReplies()) return;
  if ((now_ns - std::min(now_ns, alone_since_ns_)) / kNanosPerSecond <= options_.backlog_ttl_s) {
    return;
  }
  LOG(INFO) << "the backlog is freed: there was no replica for " << options_.backlog_ttl_s
            << " seconds";
  // What is written from now on is in no stream: nobody may go on with this one.
  is_streaming_ = has_backlog_ = false;
  ids_.Replace(RandomDigits());
  is_copying_ = true;  // who asks for a copy waits
  helio::Fiber("free backlog", [this] {
    FreeBacklog();
    RunCopies();
    is_copying_ = false;
  }).Detach();
}

void Replicas::FreeBacklog() {
  Detach();
  backlog_.Restart(backlog_.end());  // nobody appends any more
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

void Replicas::AskForAcks() {
  if (!is_streaming_) return;
  stream_.journal()->Hurry();
  Send({"REPLCONF", "GETACK", "*"});
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
  if (!is_streaming_ || streamed_epoch_.load() < stream_.journal()->newest()) return {};
  for (const auto& replica : replicas_) {
    if (replica->state != ReplicaState::kStreams || replica->offer.is_rdb_only) continue;
    if (!host.empty() && (replica->ip != host || replica->offer.port != port)) continue;
    // The acknowledgement tells what was before the question, which it has read, too.
    const bool has_all = replica->acks.received + kStreamGetAck.size() >= backlog_.end();
    if (has_all && replica->acked_ns > asked_ns) return FactsOf(*replica);
  }
  return {};
}

// ----------------------------------------------------------------------------------------- WAIT

uint64_t Replicas::CountAcked(const AckWait& wait) const {
  if (wait.target == UINT64_MAX) return 0;
  return static_cast<uint64_t>(
      std::count_if(replicas_.begin(), replicas_.end(), [&](const auto& replica) {
        if (!Follows(*replica)) return false;
        return (wait.is_durable ? replica->acks.durable : replica->acks.received) >= wait.target;
      }));
}

bool Replicas::FindTarget(AckWait* wait) {
  if (wait->target != UINT64_MAX || !is_streaming_) return false;
  if (streamed_epoch_.load(std::memory_order_seq_cst) < wait->epoch) return false;
  wait->target = data_end_.load(std::memory_order_relaxed);
  return true;
}

bool Replicas::BeginWait(AckWait* wait) {
  if (is_streaming_) wait->epoch = stream_.journal()->newest();
  const bool has_target = FindTarget(wait);
  if (IsOver(*wait)) return false;
  ack_waits_.PushBack(wait);
  // Who acknowledges, or adds to the stream, looks at the count after it has told that.
  ack_waits_count_.fetch_add(1, std::memory_order_seq_cst);
  if (is_streaming_) stream_.journal()->Hurry();
  if (has_target) Send({"REPLCONF", "GETACK", "*"});
  LookAtWaits();
  return true;
}

uint64_t Replicas::EndWait(AckWait* wait) {
  if (wait->linked()) {
    wait->Unlink();
    ack_waits_count_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return CountAcked(*wait);
}

void Replicas::OnAck() {
  sync_.Release();
  if (ack_waits_count_.load(std::memory_order_seq_cst) == 0) return;
  if (is_look_posted_.exchange(true)) return;
  server_.pool.at(0)->Dispatch([this] {
    is_look_posted_ = false;
    LookAtWaits();
  });
}

void Replicas::LookAtWaits() {
  bool has_new = false;
  for (auto it = ack_waits_.begin(); it != ack_waits_.end();) {
    AckWait& wait = *it;
    ++it;
    has_new |= FindTarget(&wait);
    if (!IsOver(wait)) continue;
    wait.Unlink();
    ack_waits_count_.fetch_sub(1, std::memory_order_seq_cst);
    if (wait.on_end) wait.on_end();
  }
  if (has_new && !ack_waits_.empty()) Send({"REPLCONF", "GETACK", "*"});
}

// ---------------------------------------------------------------------------------------- facts

ReplicaFacts Replicas::FactsOf(const Replica& replica) {
  const uint64_t now_ns = helio::MonotonicNanos();
  const uint64_t acked_ns = replica.acked_ns;
  const uint64_t since_ns = acked_ns == 0 ? replica.since_ns : acked_ns;
  const uint64_t silent_ns = now_ns - std::min(now_ns, since_ns);
  const bool is_online = Follows(replica);
  return {
      .ip = replica.ip,
      .port = replica.offer.port,
      .state = is_online ? "online" : "wait_bgsave",
      .is_online = is_online,
      .offset = replica.acks.received,
      .lag_s = acked_ns == 0 && !is_online ? 0 : static_cast<int64_t>(silent_ns / kNanosPerSecond)};
}

std::vector<ReplicaFacts> Replicas::AllFacts() const {
  std::vector<ReplicaFacts> all;
  for (const auto& replica : replicas_) all.push_back(FactsOf(*replica));
  return all;
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
  facts.full_copies = full_copies_;
  facts.partial_copies = partial_copies_;
  facts.refused_partial_copies = refused_partial_copies_;
  sync_.AddFacts(&facts);
  return facts;
}

}  // namespace dfly
