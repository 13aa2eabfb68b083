// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/append_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"
#include "server/persistence/loaded_parts.h"
#include "server/persistence/log_applier.h"
#include "server/persistence/persistence.h"
#include "storage/log/log_loader.h"
#include "storage/log/log_reader.h"

namespace dfly {

namespace {

constexpr helio::WaitReason kLogWrite = {
    "the append-only log",
    "it waits for the disk and for its own fibers, none of which takes locks"};

Journal::Pace PaceOf(LogPolicy policy) {
  return policy == LogPolicy::kAlways ? Journal::Pace::kEach : Journal::Pace::kTimed;
}

constexpr std::string_view kFails = "the append-only log cannot be written";
constexpr std::string_view kIsChanging = "another change of the append-only log is under way";

// Of the thread that has waited.
void NoteWait(LogWait kind, uint64_t nanos) {
  CommandTimer& timer = WorkerState::Here().timer;
  if (kind == LogWait::kWriteAndSync) {
    return timer.NoteSpan(LatencyEvent::kLogSyncAlways, nanos);
  }
  timer.NoteSpan(LatencyEvent::kLogWrite, nanos);
  if (kind == LogWait::kWritePendingSync) timer.NoteSpan(LatencyEvent::kLogPendingSync, nanos);
}

// Of the shards' contents nothing is to be written any more.
[[noreturn]] void EndProcess(const ServerOptions& options, std::string_view error) {
  LOG(ERROR) << "the append-only log cannot be loaded: " << helio::LogText(error);
  if (!options.pid_file.empty()) unlink(options.pid_file.c_str());
  google::FlushLogFiles(google::GLOG_INFO);
  _exit(1);
}

}  // namespace

AppendLog::AppendLog(ServerState* server, Persistence* persistence, EffectStream* stream,
                     const LogOptions& options, const AppendLogTimes& times)
    : server_(*server),
      persistence_(*persistence),
      stream_(*stream),
      options_(options),
      times_(times) {
  stream_.set_on_bytes([this] { UpdateBehind(); });
}

AppendLog::~AppendLog() { CHECK(!is_on()) << "AppendLog::End was not called"; }

FileLayer& AppendLog::files() const { return *server_.options.persistence.files; }

// ---------------------------------------------------------------------------------- on and off

std::unique_ptr<LogDirectory> AppendLog::NewDirectory(const std::string& dir) const {
  auto directory = std::make_unique<LogDirectory>(
      &files(),
      LogDirectory::Names{
          .dir = dir, .directory_name = options_.directory_name, .file_name = options_.file_name});
  directory->set_keeps_history(options_.history_s > 0);
  return directory;
}

template <typename Function>
void AppendLog::WithAllLocked(Function function) {
  Transaction lock(server_.shards.get(), nullptr);
  lock.set_origin({.name = "appendonly"});
  lock.LockAllShards(LockMode::kExclusive);
  CHECK(lock.Schedule());
  const helio::BoundedWait wait(kLogWrite);
  function();
}

std::error_code AppendLog::Open(LogWriter::Start start, uint64_t first_epoch) {
  stream_.set_log_period(times_.epoch_ns);
  first_epoch = stream_.Open(first_epoch, start.stream_id, start.stream_offset);
  LogWriter::Options options;
  options.policy = options_.policy;
  options.has_timestamps = options_.writes_timestamps();
  options.retry_period_ns = times_.retry_ns;
  options.sync_period_ns = times_.sync_ns;
  options.on_status = [this] { OnStatus(); };
  options.on_synced = [this] { OnSynced(); };
  options.on_wait = &NoteWait;
  writer_ = std::make_unique<LogWriter>(&files(), directory_.get(), std::move(options));
  start.last_epoch = first_epoch - 1;
  if (auto error = writer_->Open(start)) {
    writer_ = nullptr;
    stream_.Close();
    return error;
  }
  is_open_ = true;
  NoteHistory();
  return {};
}

void AppendLog::Link() {
  stream_.AttachLog(&watch_, PaceOf(options_.policy));
  writer_->NoteKnown(stream_.journal()->open_epoch() - 1);
  is_linked_ = true;
}

// With all shards locked.
bool AppendLog::Unlink() {
  if (!std::exchange(is_linked_, false)) return true;
  // What a disk that fails does not take would be waited for with all these locks.
  if (!writer_->status().is_ok()) writer_->Stop();
  if (stream_.DetachLog()) return true;
  LOG(ERROR) << "the append-only log ends before all changes are in it";
  return false;
}

void AppendLog::Close(const StreamPlace& place) {
  AwaitHistoryChanges();
  SetExpires(false);
  is_open_ = false;
  stream_.Close();
  is_complete_ = false;
  std::error_code error = writer_->Close();
  if (!error && !place.id.empty()) error = directory_->SavePlace(place);
  if (error) LOG(ERROR) << "the append-only log: " << error.message();
  writer_ = nullptr;
  directory_ = nullptr;
  server_.settings.log_errno = 0;
  persistence_.UpdateGate();
  UpdateBehind();
  WakeWaits();
}

std::string AppendLog::Find() {
  directory_ = NewDirectory(persistence_.directory());
  return directory_->Open();
}

std::string AppendLog::Load(LoadProgress* progress) {
  if (has_log()) return LoadLog(progress);
  if (!persistence_.has_snapshot()) return Continue({}, 1);
  LOG(WARNING) << "there is no append-only log yet; it begins with the snapshot";
  std::string error = persistence_.LoadSnapshot();
  if (error.empty()) error = BeginHere();
  if (!error.empty()) return error;
  AwaitRewrite();  // until then a restart would not find the log
  return facts_.is_last_rewrite_ok ? "" : "the append-only log cannot be begun";
}

std::string AppendLog::LoadLog(LoadProgress* progress) {
  LogEnd end;
  const LoadedKeys keys(&server_);
  if (std::string error = LoadFiles(*directory_, progress, nullptr, &end); !error.empty()) {
    return error;
  }
  loaded_place_ = directory_->ReadPlace().value_or(StreamPlace{
      .id = end.stream_id, .offset = end.stream_offset, .db_index = std::max(end.db_index, 0)});
  directory_->RemovePlace();
  return Continue({.stream_offset = end.stream_offset,
                   .stream_id = end.stream_id,
                   .continues_file = end.continues_file,
                   .file_seq = end.file_seq,
                   .file_size = end.file_size,
                   .last_db = end.db_index},
                  end.last_epoch + 1);
}

std::string AppendLog::LoadFiles(const LogDirectory& directory, LoadProgress* progress,
                                 Transaction* outer, LogEnd* log_end) {
  const uint64_t begin_ns = helio::MonotonicNanos();
  ServerParts parts(&server_, &progress->is_cancelled);
  ShardsApplier applier(&server_.commands, server_.shards.get(), &parts, outer);
  LogLoader loader(server_.shards.get(), &files(), &directory, &applier, progress);
  // The end of a log that is on is there.
  const bool may_be_torn = options_.loads_truncated && !is_on();
  if (std::string error = loader.Load(may_be_torn); !error.empty()) return error;
  const LogEnd& end = loader.end();
  if (end.torn_bytes > 0) {
    LOG(WARNING) << "the append-only log ends in the middle: " << helio::LogText(end.torn) << "; "
                 << end.torn_bytes << " bytes are left out";
  }
  LOG(INFO) << "loaded the append-only log: " << progress->keys << " keys of the base, "
            << "empty keys skipped: " << progress->empty_keys << ", " << loader.commands()
            << " commands, "
            << fmt::format("{:.3f} s",
                           static_cast<double>(helio::MonotonicNanos() - begin_ns) / 1e9);
  *log_end = end;
  return "";
}

std::string AppendLog::Continue(const LogWriter::Start& start, uint64_t first_epoch) {
  if (auto error = Open(start, first_epoch)) {
    return fmt::format("{}: {}", directory_->path(), error.message());
  }
  NoteSizes();
  is_complete_ = true;
  WithAllLocked([this] { Link(); });
  if (!HasBase()) StartRewrite();
  return "";
}

std::string AppendLog::Begin() {
  directory_ = NewDirectory(persistence_.directory());
  std::string error = directory_->Open();
  if (error.empty()) error = BeginHere();
  if (!error.empty()) directory_ = nullptr;
  return error;
}

std::string AppendLog::BeginHere() {
  std::error_code error = directory_->BeginReplacement();
  if (!error) error = Open({}, 1);
  if (error) return fmt::format("{}: {}", directory_->path(), error.message());
  StartRewrite();
  return "";
}

void AppendLog::End() {
  WithAllLocked([this] { (void)Unlink(); });
  Close();
}

void AppendLog::Stop(const StreamPlace& place, bool is_locked) {
  ends_ = true;
  while (is_changing_ || syncs_ > 0) helio::this_fiber::SleepForMillis(1);
  AwaitRewrite();
  if (!is_on()) return;
  bool has_all = is_complete_;
  const auto unlink = [&] { has_all = Unlink() && has_all; };
  if (is_locked) {
    const helio::BoundedWait wait(kLogWrite);
    unlink();
  } else {
    WithAllLocked(unlink);
  }
  Close(has_all ? place : StreamPlace());
}

void AppendLog::ChangeSoon(std::function<void()> change) {
  is_changing_ = true;
  helio::Fiber("change log", [this, change = std::move(change)] { Change(change); }).Detach();
}

void AppendLog::Change(const std::function<void()>& change) {
  is_changing_ = true;
  AwaitRewrite();
  has_turn_ = true;
  change();
  has_turn_ = is_changing_ = false;
}

// Not for ever: the change may wait for locks of the caller's.
bool AppendLog::AwaitChange() {
  const uint64_t end_ns = helio::MonotonicNanos() + kChangeNanosMax;
  while (is_changing_ && helio::MonotonicNanos() < end_ns) helio::this_fiber::SleepForMillis(1);
  return !is_changing_;
}

std::string AppendLog::SetOn(bool is_on) {
  const helio::BoundedWait wait(kLogWrite);
  if (!AwaitChange()) return std::string(kIsChanging);
  if (is_on == this->is_on()) return "";
  if (is_on) {
    if (rewriting_ == nullptr) {
      // It has its turn: a BGREWRITEAOF that comes meanwhile would not know that there is a log.
      std::string error;
      Change([&] { error = Begin(); });
      return error;
    }
    // A BGREWRITEAOF without a log, which needs locks.
    ChangeSoon([this] {
      const std::string error = Begin();
      LOG_IF(ERROR, !error.empty()) << "the append-only log is not begun: " << error;
    });
    return "";
  }
  // A rewrite would be of no use.
  ends_ = true;
  if (persistence_.is_saving_log_base()) persistence_.AskToCancelSave();
  is_setting_ = true;
  ChangeSoon([this] {
    End();
    ends_ = is_setting_ = false;
  });
  return "";
}

std::string AppendLog::SetPolicy(LogPolicy policy) {
  const helio::BoundedWait wait(kLogWrite);
  if (!AwaitChange()) return std::string(kIsChanging);
  const LogPolicy before = options_.policy;
  if (policy == before) return "";
  // What a disk that fails does not take would be waited for with all locks.
  if (is_on() && !writer_->status().is_ok()) return std::string(kFails);
  options_.policy = policy;
  if (!is_on()) return "";
  is_changing_ = is_setting_ = true;
  helio::Fiber("change appendfsync", [this, before] {
    WithAllLocked([this, before] { ChangePolicy(before); });
    is_changing_ = is_setting_ = false;
  }).Detach();
  return "";
}

// With all shards locked.
void AppendLog::ChangePolicy(LogPolicy before) {
  Journal& journal = *stream_.journal();
  // What a disk that begins to fail does not take is not waited for with all these locks.
  while (journal.durable() < journal.newest() && !journal.has_failed() &&
         writer_->status().is_ok()) {
    journal.Hurry();
    helio::this_fiber::SleepForMillis(1);
  }
  std::error_code error(writer_->status().write_errno.load(), std::generic_category());
  if (!error) error = writer_->SetPolicy(options_.policy);
  if (error) {
    LOG(ERROR) << "appendfsync stays as it was: " << error.message();
    options_.policy = before;
  }
  stream_.SetLogPace(PaceOf(options_.policy));
}

void AppendLog::AwaitSettings() {
  while (is_setting_) helio::this_fiber::SleepForMillis(1);
}

void AppendLog::SetRules(const LogOptions& options) {
  options_.rewrite_percentage = options.rewrite_percentage;
  options_.rewrite_min_bytes = options.rewrite_min_bytes;
  options_.has_timestamps = options.has_timestamps;
  options_.absent_replica_bytes = options.absent_replica_bytes;
  const bool had_history = std::exchange(options_.history_s, options.history_s) > 0;
  const bool has_history = options_.history_s > 0;
  if (!is_on()) return;
  const helio::BoundedWait wait(kLogWrite);
  writer_->SetTimestamps(options_.writes_timestamps());
  SetRewriteLimit(bytes_at_rewrite_);
  ChangeHistory([this, is_switched = has_history != had_history](LogDirectory& directory) {
    directory.SetHold(NewHold());  // of the last one of several, as what follows
    if (is_switched) directory.SetKeepsHistory(options_.history_s > 0);
  });
}

// ------------------------------------------------------------------------------------ rewriting

auto AppendLog::StartRewrite() -> Start {
  if (rewriting_ != nullptr) return Start::kIsRewriting;
  const bool is_behind_save = persistence_.is_saving();
  rewriting_ = std::make_shared<Rewriting>();
  rewriting_->started_ns = helio::MonotonicNanos();
  helio::Fiber("rewrite log", [this] { Rewrite(); }).Detach();
  return is_behind_save ? Start::kScheduled : Start::kStarted;
}

void AppendLog::AwaitRewrite() {
  while (rewriting_ != nullptr) {
    const std::shared_ptr<Rewriting> rewriting = rewriting_;
    rewriting->done.Wait();
  }
}

void AppendLog::Rewrite() {
  const std::shared_ptr<Rewriting> rewriting = rewriting_;
  while (has_turn_) helio::this_fiber::SleepForMillis(kLookMillis);
  std::string error;
  uint64_t wait_ms = times_.base_retry_ms;
  // A log that has no base is none, so that is tried again.
  while (!(error = ends_ ? "it was given up" : RewriteOnce(rewriting.get())).empty()) {
    ++facts_.failures;
    facts_.is_last_rewrite_ok = false;
    LOG(ERROR) << "the append-only log was not rewritten: " << helio::LogText(error);
    if (!is_on() || ends_ || (is_linked_ && HasBase())) break;
    for (uint64_t waited = 0; waited < wait_ms && !ends_; waited += kLookMillis) {
      helio::this_fiber::SleepForMillis(std::min(wait_ms, kLookMillis));
    }
    wait_ms = std::min(wait_ms * 2, kRetryMillisMax);
    if (ends_) break;
  }
  wants_base_ = false;
  if (error.empty()) {
    if (is_on()) is_complete_ = true;
    WakeWaits();
    facts_.failures = 0;
    facts_.is_last_rewrite_ok = true;
    facts_.last_rewrite_s = static_cast<int64_t>(helio::SecondsSince(rewriting->started_ns));
    ++facts_.rewrites;
    NoteSizes();
    NoteHistory();
  }
  // After a failure there is more to write before the next try.
  if (is_on() && !error.empty()) SetRewriteLimit(bytes());
  rewriting_ = nullptr;
  rewriting->done.Done();
}

std::string AppendLog::RewriteOnce(Rewriting* rewriting) {
  if (!is_on()) return RewriteWithoutLog();
  LogBase base;
  base.path = directory_->TemporaryBase();
  const bool begins = !is_linked_;
  if (begins) base.cut_lock = LockMode::kExclusive;
  base.before_cut = [&] {
    if (ends_) return false;
    const helio::BoundedWait wait(kLogWrite);
    rewriting->has_cut = true;
    if (begins) {
      Link();
      return true;
    }
    if (!stream_.journal()->Flush()) return false;
    writer_->BeginNewFile(stream_.journal()->open_epoch());
    return true;
  };
  if (std::string error = persistence_.SaveLogBase(base); !error.empty()) return error;
  uint64_t seq = 0;
  if (begins) {
    // The log began at this cut. After a later one, if this base fails, its files are in the base.
    seq = Listed().incrementals.front().seq;
  } else {
    if (!stream_.journal()->Flush()) return "the log was stopped";
    if (auto error = writer_->FinishNewFile(&seq)) return error.message();
  }
  writer_->WithDirectory([this](LogDirectory& directory) { directory.set_hold(NewHold()); });
  if (auto error = writer_->FinishBase(seq)) return error.message();
  return "";
}

std::string AppendLog::RewriteWithoutLog() {
  const std::unique_ptr<LogDirectory> directory = NewDirectory(persistence_.directory());
  if (std::string error = directory->Open(); !error.empty()) return error;
  if (auto error = directory->BeginReplacement()) return error.message();
  LogBase base;
  base.path = directory->TemporaryBase();
  if (std::string error = persistence_.SaveLogBase(base); !error.empty()) return error;
  if (auto why = directory->FinishBase(0)) return why.message();
  return "";
}

// --------------------------------------------------------------------------------------- facts

Manifest AppendLog::Listed() {
  return writer_->WithDirectory([](const LogDirectory& directory) { return directory.manifest(); });
}

bool AppendLog::HasBase() { return Listed().base.has_value(); }

std::vector<std::string> AppendLog::StreamFiles() {
  std::vector<std::string> paths;
  if (!is_on()) return paths;
  writer_->WithDirectory([&paths](const LogDirectory& directory) {
    for (const std::string& name : directory.held().names) paths.push_back(directory.Path(name));
    for (const LogHistoryEntry& entry : directory.history()) {
      for (const ManifestFile& file : entry.log.incrementals) {
        paths.push_back(HistoryPath(directory.path(), entry.number, file.name));
      }
    }
    for (const ManifestFile& file : directory.manifest().incrementals) {
      paths.push_back(directory.Path(file.name));
    }
  });
  return paths;
}

LogDirectory::StreamHold AppendLog::NewHold() {
  held_from_ = NeededFrom();
  return {.from = held_from_, .bytes_max = options_.absent_replica_bytes};
}

void AppendLog::RemoveNotNeeded() {
  if (!is_on() || !holds_files_ || NeededFrom() == held_from_) return;
  ChangeHistory([this](LogDirectory& directory) { directory.SetHold(NewHold()); });
}

uint64_t AppendLog::SizeOf(const ManifestFile& file) const {
  std::unique_ptr<InputFile> input;
  return files().Open(directory_->Path(file.name), &input) ? 0 : input->size();
}

// What is listed, without filler of the file that grows.
void AppendLog::NoteSizes() {
  if (!is_on()) return;
  const Manifest manifest = Listed();
  uint64_t older_bytes = manifest.base ? SizeOf(*manifest.base) : 0;
  for (size_t i = 0; i + 1 < manifest.incrementals.size(); ++i) {
    older_bytes += SizeOf(manifest.incrementals[i]);
  }
  older_bytes_ = older_bytes;
  SetRewriteLimit(bytes());
}

// ------------------------------------------------------------------------------------- history

void AppendLog::NoteHistory() {
  if (!is_on()) return;
  uint64_t bytes = 0;
  int64_t oldest_entry_s = -1;
  const int64_t begin_s = writer_->WithDirectory([&](const LogDirectory& directory) {
    holds_files_ = !directory.held().names.empty();
    bytes = directory.held().bytes;
    for (const LogHistoryEntry& entry : directory.history()) bytes += entry.bytes;
    if (!directory.history().empty()) oldest_entry_s = directory.history().front().replaced_s;
    return directory.HistoryBegin();
  });
  facts_.history_bytes = bytes;
  facts_.history_oldest_s = begin_s;
  oldest_entry_s_ = oldest_entry_s;
  SetExpires(oldest_entry_s >= 0);
}

void AppendLog::SetExpires(bool does) {
  if (does == (expiry_task_ != 0)) return;
  helio::Proactor* const proactor = helio::Proactor::Current();
  if (!does) return proactor->RemovePeriodic(std::exchange(expiry_task_, 0));
  expiry_task_ = proactor->AddPeriodic(kExpiryMillis, [this] {
    const int64_t before_s = helio::UnixMillis() / 1000 - options_.history_s;
    if (oldest_entry_s_ >= before_s || history_changes_ > 0) return;
    ChangeHistory([before_s](LogDirectory& directory) { directory.ExpireHistory(before_s); });
  });
}

void AppendLog::ChangeHistory(std::function<void(LogDirectory&)> change) {
  ++history_changes_;
  helio::Fiber("log history", [this, change = std::move(change)] {
    writer_->WithDirectory(change);
    NoteHistory();
    --history_changes_;
    history_changed_.Notify();
  }).Detach();
}

void AppendLog::AwaitHistoryChanges() {
  const helio::BoundedWait wait(kLogWrite);
  history_changed_.Await([this] { return history_changes_ == 0; });
}

uint64_t AppendLog::bytes() const {
  return older_bytes_ + writer_->status().file_bytes.load(std::memory_order_relaxed);
}

void AppendLog::SetRewriteLimit(uint64_t bytes) {
  bytes_at_rewrite_ = bytes;
  const uint64_t percentage = options_.rewrite_percentage;
  const uint64_t growth = bytes / 100 * percentage;
  rewrite_bytes_ =
      percentage == 0 ? UINT64_MAX : std::max(options_.rewrite_min_bytes, bytes + growth);
}

bool AppendLog::Watch::Write(const Epoch& epoch) {
  if (!log_.writer_->Write(epoch)) return false;
  // What a file has lost is in a new base.
  if (log_.writer_->status().needs_base.load(std::memory_order_relaxed) &&
      !log_.wants_base_.exchange(true)) {
    log_.rewrite_bytes_ = 0;
  }
  uint64_t limit = log_.rewrite_bytes_.load(std::memory_order_relaxed);
  if (log_.bytes() >= limit && log_.rewrite_bytes_.compare_exchange_strong(limit, UINT64_MAX)) {
    log_.server_.pool.at(0)->Dispatch([&log = log_] {
      if (log.is_on()) log.StartRewrite();
    });
  }
  return true;
}

void AppendLog::OnStatus() {
  const LogWriter* const writer = writer_.get();
  const int error = writer == nullptr ? 0 : writer->status().write_errno.load();
  server_.settings.log_errno.store(error, std::memory_order_relaxed);
  server_.pool.at(0)->Dispatch([this] {
    persistence_.UpdateGate();
    UpdateBehind();  // who waits is told what is wrong
  });
}

// ---------------------------------------------------------------------- what is not on the disk

bool AppendLog::IsSynced(uint64_t epoch) const {
  if (!is_on() || !is_complete_) return false;
  const LogStatus& status = writer_->status();
  return !status.needs_base.load(std::memory_order_relaxed) &&
         status.synced_epoch.load(std::memory_order_seq_cst) >= epoch;
}

void AppendLog::BeginWait(SyncWait* wait) {
  wait->is_off = !is_on();
  wait->epoch = NewestEpoch();
  sync_waits_.PushBack(wait);
  // OnSynced looks at the count after it has told what is synced.
  sync_waits_count_.fetch_add(1, std::memory_order_seq_cst);
  WakeWaits();
}

bool AppendLog::EndWait(SyncWait* wait) {
  if (wait->linked()) {
    wait->Unlink();
    sync_waits_count_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return !wait->is_off && IsSynced(wait->epoch);
}

void AppendLog::WakeWaits() {
  for (auto it = sync_waits_.begin(); it != sync_waits_.end();) {
    SyncWait& wait = *it;
    ++it;
    wait.is_off = !is_on();
    if (!wait.is_off && !IsSynced(wait.epoch)) continue;
    wait.Unlink();
    sync_waits_count_.fetch_sub(1, std::memory_order_seq_cst);
    wait.on_end();
  }
}

void AppendLog::OnSynced() {
  UpdateBehind();
  if (sync_waits_count_.load(std::memory_order_seq_cst) == 0) return;
  server_.pool.at(0)->Dispatch([this] { WakeWaits(); });
}

bool AppendLog::IsBehind() const {
  const Settings& settings = server_.settings;
  const uint64_t limit = settings.journal_buffer_limit.load(std::memory_order_relaxed);
  if (limit == 0 || !is_on()) return false;
  // Writes are refused then. Not before: or they would go on until the gate is shut.
  if ((settings.gate.load(std::memory_order_relaxed) & Settings::kNoLogGate) != 0) return false;
  const uint64_t bytes = stream_.journal()->waiting_bytes() +
                         writer_->status().kept_bytes.load(std::memory_order_relaxed);
  return bytes > (is_behind_.load(std::memory_order_relaxed) ? limit / 2 : limit);
}

void AppendLog::UpdateBehind() {
  // One at a time looks, and looks again if others have come meanwhile.
  if (behind_calls_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  uint32_t calls = 1;
  do {
    calls = behind_calls_.load(std::memory_order_acquire);
    const bool is_behind = IsBehind();
    if (is_behind == is_behind_.load(std::memory_order_relaxed)) continue;
    is_behind_.store(is_behind, std::memory_order_relaxed);
    WorkerState::HoldWrites(server_, is_behind);
  } while (!behind_calls_.compare_exchange_strong(calls, 0, std::memory_order_acq_rel));
}

// ------------------------------------------------------------------------------------ reloading

std::string AppendLog::Reload() {
  if (!AwaitChange()) return std::string(kIsChanging);
  std::string error;
  Change([&] {
    Transaction lock(server_.shards.get(), nullptr);
    lock.set_origin({.name = "debug loadaof"});
    lock.LockAllShards(LockMode::kExclusive);
    CHECK(lock.Schedule());
    const helio::BoundedWait wait(kLogWrite);
    error = ReloadLocked(&lock);
  });
  return error;
}

std::string AppendLog::ReloadLocked(Transaction* lock) {
  const bool was_linked = is_linked_;
  std::unique_ptr<LogDirectory> other;  // of a log that is off
  if (is_on()) {
    if (!writer_->status().is_ok()) return std::string(kFails);
    if (!stream_.journal()->Flush()) return "the append-only log was stopped";
    if (auto error = writer_->Sync()) return error.message();
    (void)Unlink();
  } else {
    other = NewDirectory(persistence_.directory());
    if (std::string error = other->OpenToRead(); !error.empty()) return error;
    if (other->is_new()) return "there is no append-only log";
  }
  server_.shards->AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kAsync); });
  LoadProgress progress;
  LogEnd end;
  const LoadedKeys keys(&server_);
  const std::string error =
      LoadFiles(other == nullptr ? *directory_ : *other, &progress, lock, &end);
  // As redis-server: what is in memory now is not what was answered, and must not be written.
  if (!error.empty()) EndProcess(server_.options, error);
  if (was_linked) Link();
  return "";
}

// --------------------------------------------------------- one process takes over from another

std::string AppendLog::SyncAll(const std::atomic<bool>& gives_up) {
  auto error = std::make_shared<std::optional<std::string>>();
  ++syncs_;
  helio::Fiber("sync log", [this, error] {
    *error = SyncAll();
    --syncs_;
  }).Detach();
  while (!error->has_value() && !gives_up) helio::this_fiber::SleepForMillis(1);
  return error->value_or("the disk of the append-only log does not answer");
}

std::string AppendLog::SyncAll() {
  const helio::BoundedWait wait(kLogWrite);
  if (is_changing_) return std::string(kIsChanging);
  if (!is_on()) return "";
  if (!is_complete_) return "the append-only log has no base yet";
  if (!writer_->status().is_ok()) return std::string(kFails);
  if (!stream_.journal()->Flush()) return "the append-only log was stopped";
  if (auto error = writer_->Sync()) return error.message();
  const bool needs_base = writer_->status().needs_base.load(std::memory_order_relaxed);
  return needs_base ? "the append-only log needs a new base" : "";
}

std::string AppendLog::WhyNotThere() const {
  const std::unique_ptr<LogDirectory> directory = NewDirectory(persistence_.directory());
  const std::string& path = directory->path();
  struct stat status = {};
  const bool is_there = stat(path.c_str(), &status) == 0;
  if (!is_there && errno != ENOENT) return fmt::format("{}: {}", path, strerror(errno));
  if (is_there && !S_ISDIR(status.st_mode)) {
    return fmt::format("{}: {}", path, strerror(ENOTDIR));
  }
  // If it is not there it will be made.
  std::string writable = is_there ? path : persistence_.directory();
  if (writable.empty()) writable = ".";
  if (faccessat(AT_FDCWD, writable.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return "";
  return fmt::format("{}: {}", writable, strerror(errno));
}

std::string AppendLog::FullName() const { return is_on() ? NameOfFiles() : ""; }

std::string AppendLog::NameOfFiles() const {
  char path[PATH_MAX];
  if (realpath(directory_->path().c_str(), path) == nullptr) return "";
  return fmt::format("{}/{}", path, options_.file_name);
}

std::string AppendLog::TakeOver(const StreamPlace& place, bool is_clean, const std::string& name) {
  if (is_on()) return "";
  if (!AwaitChange()) return std::string(kIsChanging);
  std::string error;
  Change([&] {
    directory_ = NewDirectory(persistence_.directory());
    error = directory_->Open();
    if (error.empty()) {
      const bool is_same = name == NameOfFiles() && !directory_->is_new();
      error = is_same ? ContinueOther(place, is_clean) : BeginHere();
    }
    if (!error.empty()) directory_ = nullptr;
  });
  return error;
}

std::string AppendLog::ContinueOther(const StreamPlace& place, bool is_clean) {
  LogWriter::Start start{.stream_offset = place.offset, .stream_id = place.id};
  const Manifest& manifest = directory_->manifest();
  if (!manifest.incrementals.empty()) {
    const std::string path = directory_->Path(manifest.incrementals.back().name);
    std::unique_ptr<InputFile> file;
    if (auto error = files().Open(path, &file)) {
      return fmt::format("{}: {}", path, error.message());
    }
    start.file_size = file->size();
    if (!is_clean) {
      LogReader reader(std::move(file));
      auto item = LogReader::Item::kTimestamp;
      while (item != LogReader::Item::kEnd && item != LogReader::Item::kTorn) {
        item = reader.Next();
        if (item == LogReader::Item::kDamaged) return fmt::format("{}: {}", path, reader.error());
      }
      start.file_size = reader.whole_size();
    }
  }
  return Continue(start, 1);
}

std::string AppendLog::BeginAnew(const std::function<void()>& change) {
  if (!is_on()) {
    change();
    return "";
  }
  if (!AwaitChange()) {
    change();
    return std::string(kIsChanging);
  }
  std::string error;
  Change([&] {
    End();
    change();
    error = Begin();
  });
  return error;
}

AppendLogFacts AppendLog::Facts() const {
  AppendLogFacts facts = facts_;
  facts.is_on = is_on();
  facts.is_rewriting = rewriting_ != nullptr;
  if (facts.is_rewriting) {
    facts.current_rewrite_s = static_cast<int64_t>(helio::SecondsSince(rewriting_->started_ns));
    facts.is_rewrite_scheduled =
        !rewriting_->has_cut && persistence_.is_saving() && !persistence_.is_saving_log_base();
  }
  if (!is_on()) return facts;
  facts.bytes = bytes();
  facts.base_bytes = bytes_at_rewrite_;
  facts.waiting_bytes = stream_.journal()->waiting_bytes();
  facts.epochs = stream_.journal()->durable();
  const LogStatus& status = writer_->status();
  // Not the writer's status: it is there before the gate, and whoever reads `err` expects that
  // writes are refused.
  const uint16_t gate = server_.settings.gate.load(std::memory_order_relaxed);
  facts.is_write_ok = (gate & Settings::kNoLogGate) == 0;
  facts.unsynced_bytes = status.kept_bytes.load(std::memory_order_relaxed);
  facts.is_behind = is_behind_.load(std::memory_order_relaxed);
  facts.syncs = status.syncs.load(std::memory_order_relaxed);
  facts.syncs_delayed = status.syncs_delayed.load(std::memory_order_relaxed);
  facts.sync_last_us = status.sync_last_us.load(std::memory_order_relaxed);
  facts.sync_max_us = status.sync_max_us.load(std::memory_order_relaxed);
  facts.errors = status.errors.load(std::memory_order_relaxed);
  return facts;
}

}  // namespace dfly
