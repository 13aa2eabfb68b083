// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/append_log.h"

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/persistence/journal_link.h"
#include "server/persistence/loaded_parts.h"
#include "server/persistence/log_applier.h"
#include "server/persistence/persistence.h"
#include "server/persistence/private_commands.h"
#include "storage/log/log_loader.h"

namespace dfly {

namespace {

constexpr helio::WaitReason kLogWrite = {
    "the append-only log",
    "it waits for the disk and for its own fibers, none of which takes locks"};

Journal::Pace PaceOf(LogPolicy policy) {
  return policy == LogPolicy::kAlways ? Journal::Pace::kEach : Journal::Pace::kTimed;
}

constexpr std::string_view kIsChanging = "another change of the append-only log is under way";

int64_t SecondsSince(uint64_t begin_ns) {
  return static_cast<int64_t>((helio::MonotonicNanos() - begin_ns) / 1'000'000'000);
}

}  // namespace

AppendLog::AppendLog(ServerState* server, Persistence* persistence, const LogOptions& options,
                     uint64_t retry_ns)
    : server_(*server), persistence_(*persistence), options_(options), retry_ns_(retry_ns) {}

AppendLog::~AppendLog() { CHECK(!is_on()) << "AppendLog::End was not called"; }

FileLayer& AppendLog::files() const { return *server_.options.persistence.files; }

// ---------------------------------------------------------------------------------- on and off

std::unique_ptr<LogDirectory> AppendLog::NewDirectory(const std::string& dir) const {
  return std::make_unique<LogDirectory>(
      &files(),
      LogDirectory::Names{
          .dir = dir, .directory_name = options_.directory_name, .file_name = options_.file_name});
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

std::error_code AppendLog::Open(const LogWriter::Start& start, uint64_t first_epoch) {
  LogWriter::Options options;
  options.policy = options_.policy;
  options.has_timestamps = options_.has_timestamps;
  options.retry_period_ns = retry_ns_;
  options.on_status = [this] { OnStatus(); };
  writer_ = std::make_unique<LogWriter>(&files(), directory_.get(), std::move(options));
  if (auto error = writer_->Open(start)) {
    writer_ = nullptr;
    return error;
  }
  journal_ = std::make_unique<Journal>(
      &server_.pool, &watch_,
      Journal::Options{.pace = PaceOf(options_.policy),
                       .first_epoch = std::max(first_epoch, last_epoch_ + 1),
                       .is_private = &IsPrivateCommand});
  return {};
}

void AppendLog::Link() {
  LinkJournal(server_, journal_.get(), PaceOf(options_.policy));
  is_linked_ = true;
}

// With all shards locked.
void AppendLog::Unlink() {
  if (!std::exchange(is_linked_, false)) return;
  // What a disk that fails does not take would be waited for with all these locks.
  if (!writer_->status().is_ok()) writer_->Stop();
  if (!UnlinkJournal(server_, journal_.get())) {
    LOG(ERROR) << "the append-only log ends before all changes are in it";
  }
}

void AppendLog::Close() {
  last_epoch_ = journal_->newest();
  journal_ = nullptr;
  if (auto error = writer_->Close()) LOG(ERROR) << "the append-only log: " << error.message();
  writer_ = nullptr;
  directory_ = nullptr;
  server_.settings.log_errno = 0;
  persistence_.UpdateGate();
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
  const uint64_t begin_ns = helio::MonotonicNanos();
  // What was too much was deleted where the log says so; what is due, as well (ServerParts). Both
  // begin again when the log is written.
  server_.memory.set_evicts(false);
  const absl::Cleanup end_load = [this] {
    server_.memory.set_evicts(server_.policy != EvictionPolicy::kNone);
  };
  ServerParts parts(&server_, &progress->is_cancelled);
  ShardsApplier applier(&server_.commands, server_.shards.get(), &parts);
  LogLoader loader(server_.shards.get(), &files(), directory_.get(), &applier, progress);
  if (std::string error = loader.Load(options_.loads_truncated); !error.empty()) return error;
  const LogEnd& end = loader.end();
  if (end.torn_bytes > 0) {
    LOG(WARNING) << "the append-only log ends in the middle: " << helio::LogText(end.torn) << "; "
                 << end.torn_bytes << " bytes are left out";
  }
  LOG(INFO) << "loaded the append-only log: " << progress->keys << " keys of the base, "
            << loader.commands() << " commands, "
            << fmt::format("{:.3f} s",
                           static_cast<double>(helio::MonotonicNanos() - begin_ns) / 1e9);
  return Continue({.stream_offset = end.stream_offset,
                   .continues_file = end.continues_file,
                   .file_seq = end.file_seq,
                   .file_size = end.file_size,
                   .last_db = end.db_index},
                  end.last_epoch + 1);
}

std::string AppendLog::Continue(const LogWriter::Start& start, uint64_t first_epoch) {
  if (auto error = Open(start, first_epoch)) {
    return fmt::format("{}: {}", directory_->path(), error.message());
  }
  NoteSizes();
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
  WithAllLocked([this] { Unlink(); });
  Close();
}

void AppendLog::Stop() {
  ends_ = true;
  while (is_changing_) helio::this_fiber::SleepForMillis(1);
  AwaitRewrite();
  if (is_on()) End();
}

void AppendLog::ChangeSoon(std::function<void()> change) {
  is_changing_ = true;
  helio::Fiber("change log", [this, change = std::move(change)] {
    AwaitRewrite();
    has_turn_ = true;
    change();
    has_turn_ = is_changing_ = false;
  }).Detach();
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
    if (rewriting_ != nullptr) return "a rewrite is under way";
    return Begin();
  }
  // A rewrite would be of no use.
  ends_ = true;
  if (persistence_.is_saving_log_base()) persistence_.AskToCancelSave();
  ChangeSoon([this] {
    End();
    ends_ = false;
  });
  return "";
}

std::string AppendLog::SetPolicy(LogPolicy policy) {
  const helio::BoundedWait wait(kLogWrite);
  if (!AwaitChange()) return std::string(kIsChanging);
  if (std::exchange(options_.policy, policy) == policy || !is_on()) return "";
  ChangeSoon([this] {
    WithAllLocked([this] {
      if (!journal_->Flush()) return;
      writer_->SetPolicy(options_.policy);
      RelinkJournal(server_, journal_.get(), PaceOf(options_.policy));
    });
  });
  return "";
}

void AppendLog::SetRules(const LogOptions& options) {
  options_.rewrite_percentage = options.rewrite_percentage;
  options_.rewrite_min_bytes = options.rewrite_min_bytes;
  options_.has_timestamps = options.has_timestamps;
  if (!is_on()) return;
  const helio::BoundedWait wait(kLogWrite);
  writer_->SetTimestamps(options.has_timestamps);
  SetRewriteLimit(bytes_at_rewrite_);
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
  uint64_t wait_ms = kRetryMillis;
  // A log that has no base is none, so that is tried again.
  while (!(error = ends_ ? "it was given up" : RewriteOnce(rewriting.get())).empty()) {
    ++facts_.failures;
    facts_.is_last_rewrite_ok = false;
    LOG(ERROR) << "the append-only log was not rewritten: " << helio::LogText(error);
    if (!is_on() || ends_ || (is_linked_ && HasBase())) break;
    for (uint64_t waited = 0; waited < wait_ms && !ends_; waited += kLookMillis) {
      helio::this_fiber::SleepForMillis(kLookMillis);
    }
    wait_ms = std::min(wait_ms * 2, kRetryMillisMax);
    if (ends_) break;
  }
  wants_base_ = false;
  if (error.empty()) {
    facts_.failures = 0;
    facts_.is_last_rewrite_ok = true;
    facts_.last_rewrite_s = SecondsSince(rewriting->started_ns);
    ++facts_.rewrites;
    NoteSizes();
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
    if (!journal_->Flush()) return false;
    writer_->BeginNewFile(journal_->open_epoch());
    return true;
  };
  if (std::string error = persistence_.SaveLogBase(base); !error.empty()) return error;
  uint64_t seq = 0;
  if (begins) {
    // The log began at this cut. After a later one, if this base fails, its files are in the base.
    seq = Listed().incrementals.front().seq;
  } else {
    if (!journal_->Flush()) return "the log was stopped";
    if (auto error = writer_->FinishNewFile(&seq)) return error.message();
  }
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
  server_.pool.at(0)->Dispatch([this] { persistence_.UpdateGate(); });
}

AppendLogFacts AppendLog::Facts() const {
  AppendLogFacts facts = facts_;
  facts.is_on = is_on();
  facts.is_rewriting = rewriting_ != nullptr;
  if (facts.is_rewriting) {
    facts.current_rewrite_s = SecondsSince(rewriting_->started_ns);
    facts.is_rewrite_scheduled =
        !rewriting_->has_cut && persistence_.is_saving() && !persistence_.is_saving_log_base();
  }
  if (!is_on()) return facts;
  facts.bytes = bytes();
  facts.base_bytes = bytes_at_rewrite_;
  facts.waiting_bytes = journal_->waiting_bytes();
  facts.epochs = journal_->durable();
  const LogStatus& status = writer_->status();
  facts.is_write_ok = status.is_ok();
  facts.unsynced_bytes = status.kept_bytes.load(std::memory_order_relaxed);
  facts.syncs = status.syncs.load(std::memory_order_relaxed);
  facts.syncs_delayed = status.syncs_delayed.load(std::memory_order_relaxed);
  facts.sync_last_us = status.sync_last_us.load(std::memory_order_relaxed);
  facts.sync_max_us = status.sync_max_us.load(std::memory_order_relaxed);
  facts.errors = status.errors.load(std::memory_order_relaxed);
  return facts;
}

}  // namespace dfly
