// SPDX-License-Identifier: Apache-2.0
#include "server/replication/primary_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/keyspace/effects.h"
#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/net/address.h"
#include "server/base/random_id.h"
#include "server/care/shard_care.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/dispatch/worker.h"
#include "server/persistence/append_log.h"
#include "server/persistence/copy_beside.h"
#include "server/persistence/persistence.h"
#include "server/replication/copy_source.h"
#include "server/replication/psync_reply.h"
#include "server/replication/replicas.h"

namespace dfly {

namespace {

constexpr std::string_view kIsOver = "it was told to end";
// Of the Valkey whose copies and commands are known here.
constexpr std::string_view kVersion = "9.0.0";

// What a thread of its own does, as names are resolved there. It outlives who asks.
struct Connecting {
  std::atomic<bool> is_over{false};
  std::atomic<bool> is_given_up{false};
  int fd = -1;
  std::string error;
};

}  // namespace

PrimaryLink::PrimaryLink(ServerState* server, Persistence* persistence, AppendLog* log,
                         Replicas* replicas, const ReplicationOptions& options)
    : server_(*server),
      persistence_(*persistence),
      log_(*log),
      replicas_(*replicas),
      options_(options),
      retry_ms_(options.retry_ms),
      ids_(replicas->ids()) {
  replicas->SetLink(this);
}

PrimaryLink::~PrimaryLink() { CHECK(!is_running_) << "PrimaryLink::Stop was not called"; }

std::string PrimaryLink::primary() const {
  return is_replica() ? fmt::format("{} {}", host_, port_) : "";
}

// ----------------------------------------------------------------------------- what is asked for

bool PrimaryLink::Follow(std::string_view host, uint16_t port, HandOver hand_over) {
  if (is_replica() && helio::EqualsIgnoreCase(host, host_) && port == port_) return false;
  const bool was_replica = is_replica();
  host_ = host;
  port_ = port;
  hand_over_ = hand_over;
  LOG(INFO) << "replicaof " << helio::LogText(host_) << ' ' << port_;
  EndLink();
  UpdateGates();
  if (was_replica && past_ == Past::kThisPrimary) past_ = Past::kOtherPrimary;
  if (!was_replica) {
    past_ = Past::kPrimary;
    is_known_replica_ = true;
    SetReplica(true);
    UnblockClients();
    SetHoldsWrites(false);
  }
  if (std::exchange(is_running_, true)) return true;
  helio::Fiber("primary link", [this] { Run(); }).Detach();
  return true;
}

void PrimaryLink::FollowSocket(int fd) {
  is_handed_ = true;
  handed_fd_ = fd;
  Follow("take-over", 0);
}

void PrimaryLink::Leave() {
  if (!is_replica()) return;
  is_handed_ = false;
  if (session_ != nullptr) {
    // What was dispatched is carried out, whatever becomes of the link.
    offset_ = Worker::WholeOffset(*session_);
  }
  host_.clear();
  port_ = 0;
  if (can_continue_) {
    ids_.Shift(offset_, RandomId());
    LOG(INFO) << "replicaof no one: " << ids_.id << " goes on behind offset " << offset_ << " of "
              << ids_.id2;
  } else {
    ids_.Replace(RandomId());
    LOG(INFO) << "replicaof no one: a new stream, " << ids_.id << ", as the data is of none";
  }
  EndLink();
  replicas_.EndAll("this server is a primary now, under another id");
  is_known_replica_ = false;
  SetHoldsWrites(true);
  UpdateGates();
}

void PrimaryLink::Demote() {
  const std::optional<uint64_t> end = replicas_.Demote();
  UnblockClients();  // those that were let in before, and have begun to wait since
  follows_ = true;
  can_continue_ = end.has_value();
  if (!end) return;
  const int64_t before = std::exchange(offset_, static_cast<int64_t>(*end));
  // What comes behind a stream of this server begins with a SELECT. But if nothing was done as a
  // primary, the stream that it had before may go on.
  if (offset_ != before) db_index_ = 0;
}

void PrimaryLink::Promote() {
  replicas_.Promote(static_cast<uint64_t>(offset_), can_continue_);
  follows_ = false;
}

void PrimaryLink::BecomePrimary() {
  can_continue_ = false;  // what is written from now on is not counted here
  UpdateGates();
  SetReplica(false);
  SetHoldsWrites(false);
  LOG(INFO) << "this server is a primary";
}

void PrimaryLink::SetHoldsWrites(bool holds) {
  if (std::exchange(holds_writes_, holds) != holds) WorkerState::HoldWrites(server_, holds);
}

void PrimaryLink::EndLink() {
  ++generation_;
  retry_ms_ = options_.retry_ms;
  last_error_.clear();
  state_ = State::kConnect;
  if (session_ != nullptr) session_->connection.CloseWhenSent();
  if (socket_ != nullptr) socket_->Abort(kIsOver);
  persistence_.CancelBeside();
  changed_.NotifyAll();
}

void PrimaryLink::SetOptions(const ReplicationOptions& options) {
  options_ = options;
  UpdateGates();
}

void PrimaryLink::Stop(uint64_t patience_ms) {
  if (log_.is_on() && patience_ms > 0) (void)HoldStreamFor(patience_ms);
  stops_ = true;
  EndLink();
  if (session_ != nullptr) session_->connection.CloseNow();  // the disk may never take its effects
  if (is_loading_) persistence_.CancelLoad();
  // A change of the role may wait for locks.
  server_.shards->AwaitOnAll([](Shard& shard) { Transaction::CancelWaiters(shard); });
  std::unique_lock lock(mutex_);
  changed_.Wait(lock, [this] { return !is_running_; });
  if (tick_task_ != 0) helio::Proactor::Current()->RemovePeriodic(std::exchange(tick_task_, 0));
}

void PrimaryLink::SetReplica(bool is_replica) {
  server_.memory.set_has_limit(!is_replica);
  DispatchOnAll<ShardCare>(server_, [is_replica](ShardCare& care) {
    care.SetKeepsDue(ShardCare::KeepsDueFor::kReplica, is_replica);
  });
  helio::Proactor* const proactor = helio::Proactor::Current();
  if (is_replica && tick_task_ == 0) {
    tick_task_ = proactor->AddPeriodic(1000, [this] { Tick(); });
  } else if (!is_replica && tick_task_ != 0) {
    proactor->RemovePeriodic(std::exchange(tick_task_, 0));
  }
}

// They wait for what only a primary does.
void PrimaryLink::UnblockClients() {
  DispatchOnAll<WorkerState>(server_, [](WorkerState& worker) {
    worker.ForEachSession([](Session& session) {
      if (session.blocked == nullptr || session.primary != nullptr) return;
      session.blocked->Deny(
          "UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
          "replica?)");
    });
  });
}

void PrimaryLink::UpdateGates() {
  is_linked_ = state_ == State::kConnected;
  may_have_own_writes_ |= is_replica() && !options_.is_read_only;
  uint16_t gates = 0;
  if (is_replica() && options_.is_read_only) gates |= Settings::kReadOnlyGate;
  if (!is_replica() && follows_) gates |= Settings::kPromotesGate;
  if (is_replica() && !options_.serves_stale_data && state_ != State::kConnected) {
    gates |= Settings::kStaleGate;
  }
  persistence_.SetReplicaGates(gates);
}

void PrimaryLink::Tick() {
  if (is_loading_ && socket_ != nullptr) socket_->SendNewline();
  if (session_ == nullptr) return;
  Connection& connection = session_->connection;
  const bool is_read = !connection.busy() && !connection.held();
  if (is_read && helio::MonotonicNanos() > connection.last_active_ns() + timeout_ns()) {
    LOG(WARNING) << "the link with the primary is ended: it has been silent for repl-timeout";
    connection.CloseWhenSent();
    return;
  }
  Worker::Here().AckPrimary(*session_);
  TellErrors();
}

void PrimaryLink::TellErrors() {
  if (errors_ > errors_told_) {
    LOG(ERROR) << errors_ - errors_told_
               << " commands of the primary's stream have failed, the last one with '"
               << helio::LogText(last_stream_error_) << "': the data may not be the same any more";
    errors_told_ = errors_;
  }
}

// ------------------------------------------------------------------------------------- the link

void PrimaryLink::Run() {
  while (!stops_) {
    if (!is_replica()) {
      if (follows_) {
        Promote();
        continue;
      }
      BecomePrimary();
      break;
    }
    if (!follows_) {
      Demote();
      continue;
    }
    if (!may_have_own_writes_) ids_.Unshift(offset_);
    const uint64_t begin_ns = helio::MonotonicNanos();
    std::string error = RunLink();
    socket_ = nullptr;
    state_ = State::kConnect;
    UpdateGates();
    if (error == kIsOver) continue;
    if (!error.empty() && error != last_error_) {
      LOG(WARNING) << "no link with the primary " << helio::LogText(host_) << ':' << port_ << ": "
                   << helio::LogText(error);
    }
    const uint64_t since_ns = error.empty() ? begin_ns : helio::MonotonicNanos();
    last_error_ = std::move(error);
    AwaitRetry(since_ns + retry_ms_ * 1'000'000);
  }
  is_running_ = false;
  changed_.NotifyAll();
}

void PrimaryLink::AwaitRetry(uint64_t end_ns) {
  const uint64_t generation = generation_;
  std::unique_lock lock(mutex_);
  while (is_current(generation) && helio::MonotonicNanos() < end_ns) {
    changed_.WaitUntil(lock, end_ns);
  }
}

std::string PrimaryLink::RunLink() {
  const uint64_t generation = generation_;
  state_ = State::kConnecting;
  std::string error;
  const int fd = Connect(&error);
  if (fd < 0) return error;
  LinkSocket socket(
      helio::Proactor::Current(), fd, timeout_ns(),
      tls_context_ == nullptr || is_handed_ ? nullptr : tls_context_->NewSession(host_));
  if (is_current(generation)) {
    socket_ = &socket;
    error = RunSocket(socket);
  } else {
    error = kIsOver;
  }
  socket_ = nullptr;
  if (!error.empty()) socket.Close();
  return is_current(generation) ? error : std::string(kIsOver);
}

int PrimaryLink::Connect(std::string* error) {
  if (is_handed_) {
    if (handed_fd_ < 0) *error = "the link with the old process has ended";
    return std::exchange(handed_fd_, -1);
  }
  const uint64_t generation = generation_;
  auto connecting = std::make_shared<Connecting>();
  const int timeout_ms = static_cast<int>(std::min<uint64_t>(options_.timeout_s, 60) * 1000);
  std::thread([connecting, host = host_, port = port_, timeout_ms] {
    connecting->fd = helio::ConnectTcp(host, port, timeout_ms, &connecting->error);
    connecting->is_over = true;
    if (connecting->is_given_up.exchange(true) && connecting->fd >= 0) close(connecting->fd);
  }).detach();
  while (!connecting->is_over) {
    if (!is_current(generation)) {
      // The last one of both closes it.
      if (connecting->is_given_up.exchange(true) && connecting->fd >= 0) close(connecting->fd);
      *error = kIsOver;
      return -1;
    }
    helio::this_fiber::SleepForMillis(1);
  }
  *error = connecting->error;
  return connecting->fd;
}

std::string PrimaryLink::RunSocket(LinkSocket& socket) {
  state_ = State::kHandshake;
  if (std::string error = Handshake(socket); !error.empty()) return error;
  if (std::string error = Synchronize(socket); !error.empty()) return error;
  return RunStream(socket);
}

std::optional<std::string> PrimaryLink::Ask(LinkSocket& socket,
                                            std::initializer_list<std::string_view> words) {
  if (!socket.Send(CommandText({words.begin(), words.size()}))) return std::nullopt;
  return socket.ReadLine();
}

// A port that the primary could use, too, if it were this server's replica: the settings of both
// are the same.
uint16_t PrimaryLink::ListeningPort() const {
  if (options_.announce_port != 0) return options_.announce_port;
  const uint16_t port = server_.port, tls_port = server_.tls_port;
  const bool takes_tls_port = (tls_context_ != nullptr && tls_port != 0) || port == 0;
  return takes_tls_port ? tls_port : port;
}

std::string PrimaryLink::Handshake(LinkSocket& socket) {
  auto reply = Ask(socket, {"PING"});
  if (!reply && tls_context_ == nullptr && socket.received().empty()) {
    // What a port with TLS does, too.
    return fmt::format("{}; tls-replication is off, does that port need it?", socket.error());
  }
  if (!reply) return socket.error();
  const bool is_alive = reply->starts_with('+') || reply->starts_with("-NOAUTH") ||
                        reply->starts_with("-NOPERM") ||
                        reply->starts_with("-ERR operation not permitted");
  if (!is_alive) return fmt::format("PING: {}", *reply);
  if (!options_.password.empty() && !is_handed_) {
    reply = options_.user.empty() ? Ask(socket, {"AUTH", options_.password})
                                  : Ask(socket, {"AUTH", options_.user, options_.password});
    if (!reply) return socket.error();
    if (reply->starts_with('-')) return fmt::format("AUTH: {}", *reply);
  }
  const std::string port = fmt::format("{}", ListeningPort());
  reply = Ask(socket, {"REPLCONF", "listening-port", port});
  if (!reply) return socket.error();
  LOG_IF(INFO, reply->starts_with('-')) << "REPLCONF listening-port: " << helio::LogText(*reply);
  if (!options_.announce_ip.empty()) {
    reply = Ask(socket, {"REPLCONF", "ip-address", options_.announce_ip});
    if (!reply) return socket.error();
    LOG_IF(INFO, reply->starts_with('-')) << "REPLCONF ip-address: " << helio::LogText(*reply);
  }
  reply = Ask(socket, {"REPLCONF", "capa", "eof", "capa", "psync2"});
  if (!reply) return socket.error();
  LOG_IF(INFO, reply->starts_with('-')) << "REPLCONF capa: " << helio::LogText(*reply);
  reply = Ask(socket, {"REPLCONF", "dragonfly", "1"});  // an error of all others
  if (!reply) return socket.error();
  is_ours_ = reply->starts_with('+');
  // Valkey 8 and later want to know; they do not send deadlines of fields to who does not say it.
  // Others have an error for it.
  reply = Ask(socket, {"REPLCONF", "version", kVersion});
  if (!reply) return socket.error();
  return "";
}

std::string PrimaryLink::Synchronize(LinkSocket& socket) {
  const std::string next = fmt::format("{}", offset_ + 1);
  const bool hands_over = hand_over_ == HandOver::kAsks;
  std::optional<std::string> reply;
  if (hands_over) {
    reply = Ask(socket, {"PSYNC", ids_.id, next, "FAILOVER"});
  } else if (can_continue_) {
    reply = Ask(socket, {"PSYNC", ids_.id, next});
  } else {
    reply = Ask(socket, {"PSYNC", "?", "-1"});
  }
  if (!reply) return socket.error();
  const PsyncReply parsed = ParsePsyncReply(*reply);
  if (hands_over) {
    const bool is_refused = parsed.kind == PsyncReply::Kind::kOther;
    hand_over_ = is_refused ? HandOver::kRefused : HandOver::kTaken;
  }
  switch (parsed.kind) {
    case PsyncReply::Kind::kContinue:
      return Continue(parsed);
    case PsyncReply::Kind::kFullCopy:
      return FullCopy(socket, parsed);
    case PsyncReply::Kind::kOther:
      break;
  }
  return fmt::format("PSYNC: {}", *reply);
}

std::string PrimaryLink::Continue(const PsyncReply& reply) {
  if (!can_continue_) return "PSYNC: there is nothing to continue";
  if (!reply.id.empty() && !helio::EqualsIgnoreCase(reply.id, ids_.id)) {
    ids_.Shift(offset_, std::string(reply.id));
    ids_.is_told = true;
    replicas_.EndAll("the primary's stream has another id");
    replicas_.AwaitNobody();  // they see that before they see the link
  }
  LOG(INFO) << "the primary goes on behind offset " << offset_ << " of " << ids_.id;
  return "";
}

// ------------------------------------------------------------------------------------- the copy

std::string PrimaryLink::FullCopy(LinkSocket& socket, const PsyncReply& reply) {
  const uint64_t generation = generation_;
  LOG(INFO) << "the primary sends a full copy: " << reply.id << ", offset " << reply.offset;
  CopySource source(&socket);
  copy_ = &source;
  state_ = State::kSync;
  const std::string error = LoadsBeside() ? SwapCopy(source, reply) : CopyByFile(source, reply);
  is_loading_ = false;
  copy_ = nullptr;
  return is_current(generation) ? error : std::string(kIsOver);
}

bool PrimaryLink::LoadsBeside() {
  if (is_handed_) return true;  // there is no data yet
  if (options_.copy_load != CopyLoad::kOnEmptyDb) return options_.copy_load == CopyLoad::kSwapDb;
  std::atomic<bool> is_empty{true};
  server_.shards->AwaitOnAll([&](Shard& shard) {
    for (const auto& database : shard.live().made()) {
      if (database != nullptr && database->size() != 0) is_empty = false;
    }
  });
  return is_empty;
}

std::string PrimaryLink::CopyByFile(CopySource& source, const PsyncReply& reply) {
  const uint64_t generation = generation_;
  const std::string& directory = persistence_.directory();
  const std::string path = fmt::format("{}temp-{}.{}.rdb", directory.empty() ? "" : directory + "/",
                                       helio::UnixMillis() / 1000, getpid());
  std::string error = ReceiveCopy(source, path);
  if (error.empty() && is_current(generation)) error = LoadCopy(path, reply);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    LOG(WARNING) << helio::LogText(path) << " cannot be removed";
  }
  return error;
}

std::string PrimaryLink::LoadCopy(const std::string& path, const PsyncReply& reply) {
  const uint64_t generation = generation_;
  can_continue_ = false;
  replicas_.ForgetStream("a full copy replaces the data");
  is_loading_ = true;
  int db_index = 0;
  const std::string error = persistence_.LoadCopy(path, &db_index);
  if (stops_) return std::string(kIsOver);
  TellLog(log_.BeginAnew());
  if (!is_current(generation)) return std::string(kIsOver);
  if (!error.empty()) {
    retry_ms_ = std::min(retry_ms_ * 2, kRetryMillisMax);  // the same copy would do the same again
    return fmt::format("the copy cannot be loaded, and there is no data any more: {}", error);
  }
  Adopt(reply, db_index);
  return "";
}

std::string PrimaryLink::SwapCopy(CopySource& source, const PsyncReply& reply) {
  const uint64_t generation = generation_;
  // As in Redis: an earlier state of the same data is better than none, but that of another stream
  // may never have been this primary's.
  const bool serves = helio::EqualsIgnoreCase(reply.id, ids_.id);
  CopyBeside copy(&server_, &persistence_, serves);
  is_loading_ = true;
  std::unique_ptr<InputFile> file = source.OpenFile();
  if (file == nullptr) return source.error();
  uint64_t end = 0;
  const std::string error = copy.Load(std::move(file), &end);
  if (!is_current(generation)) return std::string(kIsOver);
  if (error.empty()) (void)source.EndFile(end);
  if (!source.error().empty()) return source.error();
  if (!error.empty()) {
    retry_ms_ = std::min(retry_ms_ * 2, kRetryMillisMax);
    return fmt::format("the copy cannot be loaded, and the data stays as it was: {}", error);
  }
  bool is_taken = false;
  TellLog(log_.BeginAnew([&] {
    is_taken = copy.Take([&] {
      // A promotion may have come while the locks did. From here on it is one of the copy.
      if (!is_current(generation)) return false;
      replicas_.ForgetStream("a full copy replaces the data");
      Adopt(reply, copy.stream_db());
      return true;
    });
  }));
  return is_taken ? "" : std::string(kIsOver);
}

void PrimaryLink::TellLog(std::string_view error) {
  if (error.empty()) return;
  LOG(ERROR) << "the append-only log does not begin with the copy: " << helio::LogText(error);
}

void PrimaryLink::Adopt(const PsyncReply& reply, int db_index) {
  retry_ms_ = options_.retry_ms;
  durable_ = 0;
  applied_.clear();
  ids_.Replace(std::string(reply.id));
  ids_.is_told = true;
  may_have_own_writes_ = !options_.is_read_only;
  offset_ = reply.offset;
  db_index_ = db_index;
  can_continue_ = true;
}

std::string PrimaryLink::ReceiveCopy(CopySource& source, const std::string& path) {
  std::unique_ptr<OutputFile> file;
  if (auto error = server_.options.persistence.files->Create(path, &file)) {
    return fmt::format("{}: {}", path, error.message());
  }
  std::string rdb;
  auto status = CopyReader::Status::kMore;
  while (status == CopyReader::Status::kMore) {
    rdb.clear();
    status = source.Take(&rdb);
    if (status == CopyReader::Status::kError) return source.error();
    if (rdb.empty()) continue;
    if (auto error = file->Write(rdb)) return fmt::format("{}: {}", path, error.message());
  }
  if (auto error = file->SyncAndClose()) return fmt::format("{}: {}", path, error.message());
  LOG(INFO) << "the copy is here: " << source.bytes_read() << " bytes";
  return "";
}

// ----------------------------------------------------------------------------------- the stream

std::string PrimaryLink::RunStream(LinkSocket& socket) {
  const int64_t begin = offset_;
  replicas_.BeginOfPrimary(static_cast<uint64_t>(begin));
  const int fd = socket.Detach();
  if (fd < 0) return socket.error();
  socket_ = nullptr;
  last_error_.clear();
  state_ = State::kConnected;
  past_ = Past::kThisPrimary;
  auto stream = std::make_unique<PrimaryStream>();
  stream->owner = this;
  stream->begin = begin;
  stream->believes_private_words = is_ours_;
  const uint64_t generation = generation_;
  session_ = &Worker::Here().AddPrimary(fd, socket.TakeTls(), std::move(stream), db_index_,
                                        socket.received());
  Worker::Here().AckPrimary(*session_);
  UpdateGates();
  LOG(INFO) << "the stream of the primary begins behind offset " << begin;
  if (!is_current(generation)) session_->connection.CloseWhenSent();
  std::unique_lock lock(mutex_);
  changed_.Wait(lock, [this] { return session_ == nullptr; });
  TellErrors();
  down_since_ns_ = helio::MonotonicNanos();
  LOG(WARNING) << "the stream of the primary has ended at offset " << offset_;
  // What was no use at once may be none the next time either.
  return offset_ > begin ? std::string(kIsOver) : "";
}

bool PrimaryLink::HoldStreamFor(uint64_t patience_ms) {
  if (session_ == nullptr || !is_replica()) return false;
  const Session* const held = session_;
  is_held_ = false;
  wants_rest_ = true;
  session_->connection.AskForRest();
  // Its last command may wait for somebody who never ends.
  const uint64_t end_ns = helio::MonotonicNanos() + patience_ms * 1'000'000;
  std::unique_lock lock(mutex_);
  while (session_ == held && !is_held_ && helio::MonotonicNanos() < end_ns) {
    changed_.WaitUntil(lock, end_ns);
  }
  wants_rest_ = false;
  return is_held_;
}

void PrimaryLink::LetStreamGo() {
  if (std::exchange(is_held_, false)) session_->connection.EndRest();
}

std::optional<StreamPlace> PrimaryLink::held_place() const {
  if (!is_held_) return {};
  return StreamPlace{.id = ids_.id,
                     .offset = static_cast<uint64_t>(Worker::WholeOffset(*session_)),
                     .db_index = session_->db_index};
}

StreamPlace PrimaryLink::place_at_end() const {
  if (!is_replica() || !follows_ || !can_continue_ || may_have_own_writes_) return {};
  return {.id = ids_.id, .offset = static_cast<uint64_t>(offset_), .db_index = db_index_};
}

void PrimaryLink::OnBytes(std::string_view bytes) { replicas_.AppendOfPrimary(bytes); }

void PrimaryLink::OnWhole(int64_t offset) {
  replicas_.PublishOfPrimary(static_cast<uint64_t>(offset));
}

void PrimaryLink::OnRest() {
  if (!wants_rest_) return session_->connection.EndRest();  // it comes too late
  OnWhole(Worker::WholeOffset(*session_));
  is_held_ = true;
  changed_.NotifyAll();
}

void PrimaryLink::OnApplied(int64_t offset) {
  offset_ = std::max(offset_, offset);
  if (!log_.is_on()) return;
  // Of too many the last one waits for more than it has to.
  if (applied_.size() >= kAppliedMax) applied_.pop_back();
  applied_.push_back({.epoch = log_.NewestEpoch(), .offset = offset_});
}

std::optional<int64_t> PrimaryLink::durable() {
  if (!log_.is_on()) return std::nullopt;
  while (!applied_.empty() && log_.IsSynced(applied_.front().epoch)) {
    durable_ = applied_.front().offset;
    applied_.pop_front();
  }
  return durable_;
}

void PrimaryLink::OnStreamError(std::string_view error) {
  if (errors_++ == errors_told_) last_stream_error_ = error;
}

void PrimaryLink::OnStreamCorrupt() { can_continue_ = false; }

void PrimaryLink::OnStreamEnd(int64_t offset, int db_index, bool is_exact) {
  OnWhole(offset);
  replicas_.EndOfPrimary();
  session_ = nullptr;
  is_held_ = false;
  if (!is_exact) can_continue_ = false;
  // Promoted meanwhile: what was under way is of the old stream still.
  if (!is_replica() && can_continue_) ids_.second_offset = offset + 1;
  if (!is_replica() && !is_exact) ids_.Replace(std::string(ids_.id));  // nobody goes on from there
  offset_ = offset;
  db_index_ = db_index;
  changed_.NotifyAll();
}

int64_t PrimaryLink::ToldOffset() const {
  // Sentinel promotes who tells the largest offset. Without a link with this primary, it may count
  // what no history of this primary has. So half of it: less than what those with a link tell, and
  // more than a primary that has come back, which may have lost its data.
  if (past_ == Past::kThisPrimary) return offset_;
  return past_ == Past::kOtherPrimary ? offset_ / 2 : 0;
}

PrimaryLinkFacts PrimaryLink::Facts() const {
  constexpr std::string_view kStates[] = {"connect", "connecting", "handshake", "sync",
                                          "connected"};
  PrimaryLinkFacts facts;
  facts.priority = options_.priority;
  facts.is_read_only = options_.is_read_only;
  facts.is_announced = options_.is_announced;
  facts.applied_offset = facts.read_offset = ToldOffset();
  facts.errors = errors_;
  if (!is_replica()) return facts;
  facts.is_replica = true;
  facts.primary_host = host_;
  facts.primary_port = port_;
  facts.state = kStates[static_cast<size_t>(state_)];
  facts.is_up = state_ == State::kConnected;
  facts.is_syncing = state_ == State::kSync;
  if (session_ != nullptr) {
    facts.read_offset = Worker::ReadOffset(*session_);
    facts.last_io_s =
        static_cast<int64_t>(helio::SecondsSince(session_->connection.last_active_ns()));
  }
  if (!facts.is_up && down_since_ns_ != 0)
    facts.down_since_s = static_cast<int64_t>(helio::SecondsSince(down_since_ns_));
  if (copy_ != nullptr) {
    facts.copy_bytes_total = copy_->bytes_total();
    facts.copy_bytes_read = copy_->bytes_read();
    facts.copy_last_io_s = static_cast<int64_t>(helio::SecondsSince(copy_->last_ns()));
  }
  return facts;
}

}  // namespace dfly
