// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/persistence.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/text/hash.h"
#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/base/version.h"
#include "server/care/running_scripts.h"
#include "server/clients/server_state.h"
#include "server/persistence/loaded_parts.h"
#include "server/quotas/quotas.h"

namespace dfly {

namespace {

constexpr uint64_t kTickMillis = 1000;
// After a failure no rule asks again for so long.
constexpr uint64_t kRetryNanos = 5'000'000'000;

constexpr uint64_t kScriptLookMillis = 5;

constexpr std::string_view kIsSaving = "Background save already in progress";
constexpr std::string_view kIsDisabled = "there is no --dbfilename to save to";

constexpr helio::WaitReason kCopyLoad = {
    "the copy of a primary", "its load waits for the disk and for fibers that take no locks"};

}  // namespace

Persistence::Persistence(ServerState* server, PersistenceOptions options)
    : server_(*server),
      options_(std::move(options)),
      directory_(options_.directory),
      dbfilename_(options_.dbfilename),
      rules_(options_.rules),
      cron_(Cron::Parse(options_.cron)),
      after_save_(options_.after_save_command) {
  facts_.last_save_s = helio::UnixMillis() / 1000;
  last_save_s_ = facts_.last_save_s;
  saves_at_end_ = has_rules() && is_enabled();
}

// ------------------------------------------------------------------------------------- the start

// The newest one by the time of its main file, so that one that was copied here is taken.
std::optional<SnapshotPath> Persistence::FindNewest(std::string* error) {
  std::vector<std::string> names;
  if (auto listed = options_.files->List(directory_.empty() ? "." : directory_, &names)) {
    *error = fmt::format("--dir {}: {}", directory_, listed.message());
    return std::nullopt;
  }
  std::optional<SnapshotPath> newest;
  timespec newest_time{};
  for (const std::string& name : names) {
    const auto path = SnapshotOf(dbfilename_, directory_, name);
    struct stat status {};
    if (!path || stat(path->Main().c_str(), &status) != 0) continue;
    const auto key = [](const timespec& time) { return std::pair(time.tv_sec, time.tv_nsec); };
    if (!newest || key(newest_time) < key(status.st_mtim)) {
      newest = path;
      newest_time = status.st_mtim;
    }
  }
  return newest;
}

std::string Persistence::FindSnapshot() {
  if (!is_enabled()) return "";
  std::string error;
  to_load_ = FindNewest(&error);
  if (to_load_) {
    LoadProgress none;
    SnapshotLoader loader(server_.shards.get(), options_.files, &none);
    if (const auto seed = loader.ReadHashSeed(*to_load_)) SetHashSeed(*seed);
  }
  return error;
}

void Persistence::Load(std::function<void(std::string error)> on_end) {
  loading_ = std::make_unique<LoadProgress>();
  facts_.load_start_s = helio::UnixMillis() / 1000;
  UpdateGate();
  helio::Fiber("load", [this, on_end = std::move(on_end)] {
    const std::string error = load_ ? load_(loading_.get()) : LoadFrom(*to_load_);
    loading_ = nullptr;
    Quotas::PublishAll(server_);
    if (error.empty()) {
      was_loaded_ = true;
      UpdateGate();
    }
    on_end(error);
  }).Detach();
}

void Persistence::CancelLoad() {
  if (loading_ != nullptr) loading_->is_cancelled = true;
  while (loading_ != nullptr) {
    RunningScripts::Here().ForEach([](LongRun& run) {
      if (!run.is_script()) run.Kill();  // its libraries are compiled on this thread
    });
    helio::this_fiber::SleepForMillis(1);
  }
}

std::string Persistence::LoadFrom(const SnapshotPath& path) {
  const uint64_t begin_ns = helio::MonotonicNanos();
  SnapshotLoader loader(server_.shards.get(), options_.files, loading_.get());
  std::string error = loader.Load(path);
  if (error.empty()) error = TakeExtras(loader.extras());
  loaded_place_ = loader.extras().place;
  facts_.load_seconds = helio::SecondsSince(begin_ns);
  facts_.loaded_keys = loading_->keys;
  facts_.load_expired_keys = loading_->expired_keys;
  facts_.last_file = path.Main();
  if (error.empty()) {
    LOG(INFO) << "loaded " << helio::LogText(path.Main()) << ": " << facts_.loaded_keys << " keys, "
              << facts_.load_expired_keys << " expired ones left out, "
              << "empty keys skipped: " << loading_->empty_keys << ", "
              << fmt::format("{:.3f} s", facts_.load_seconds);
    SetSavedUpTo(Changes());
  }
  return error;
}

SnapshotExtras Persistence::CollectExtras() {
  SnapshotExtras extras;
  extras.placements = server_.shards->ExportPlacements();
  // Those of EVAL come again by themselves.
  for (const ScriptRef& script : server_.scripts.List()) {
    if (!script->is_evaluated) extras.scripts.push_back(script->source);
  }
  for (const auto& [name, library] : server_.functions.table()->libraries) {
    extras.functions.push_back(library->source);
  }
  return extras;
}

std::string Persistence::TakeExtras(const SnapshotExtras& extras) {
  return TakeSnapshotExtras(server_, extras, loading_->is_cancelled);
}

// ---------------------------------------------------------------------------------------- saving

auto Persistence::StartSave(const SaveTarget& target) -> Start {
  if (!is_enabled()) return Start::kDisabled;
  if (is_saving()) return is_saving_log_base() ? Start::kIsSavingLogBase : Start::kIsSaving;
  saving_ = NewSaving(target);
  saving_->is_in_background = true;
  helio::Fiber("bgsave", [this] { RunSave(nullptr); }).Detach();
  return Start::kStarted;
}

std::shared_ptr<Persistence::Saving> Persistence::NewSaving(const SaveTarget& target) const {
  auto saving = std::make_shared<Saving>();
  saving->format = FormatFor(target);
  saving->name = NameFor(target);
  saving->is_back_up = IsBackUp(target);
  return saving;
}

bool Persistence::IsBackUp(const SaveTarget& target) const {
  const std::string name = NameFor(target);
  return name != dbfilename_ &&
         !SnapshotOf(dbfilename_, directory_, NameAt(name, 0) + "-summary.dfs");
}

auto Persistence::StartSaveOfClient(const SaveTarget& target, bool is_scheduled) -> Start {
  if (is_enabled() && is_scheduled && is_saving_log_base()) {
    next_ = target;
    return Start::kStarted;
  }
  if (!is_enabled() || !is_saving() || !saving_->is_after_flush) return StartSave(target);
  if (next_) return Start::kIsSaving;
  if (saving_->has_cut || saving_->format != FormatFor(target) ||
      saving_->name != NameFor(target)) {
    next_ = target;
  } else {
    saving_->is_after_flush = false;  // it will have all that there is now
  }
  return Start::kStarted;
}

void Persistence::SaveAfterFlush() {
  // Rules that have not begun yet, or have ended, save nothing: the server starts, or stops.
  if (!has_rules() || tick_task_ == 0 || lock_ != nullptr) return;
  if (!is_saving()) {
    if (unsaved_changes() != 0 && StartSave() == Start::kStarted) {
      saving_->is_after_flush = true;
    }
    return;
  }
  // What it writes is of no use any more, unless a client waits for it. One FLUSHALL after another
  // must not give up each one's.
  was_flushed_ = true;
  if (!saving_->is_awaited && !saving_->is_after_flush && !saving_->base && !saving_->is_back_up) {
    saving_->progress.is_cancelled = true;
  }
}

void Persistence::AwaitSaveAfterFlush() {
  while (is_saving() && (saving_->is_after_flush || saving_->base)) {
    const std::shared_ptr<Saving> saving = saving_;
    saving->done.Wait();
  }
}

std::string Persistence::Save(const SaveTarget& target) {
  if (!is_enabled()) return std::string(kIsDisabled);
  if (is_saving()) return std::string(kIsSaving);
  saving_ = NewSaving(target);
  saving_->is_awaited = true;
  return RunSave(nullptr);
}

std::string Persistence::SaveLogBase(LogBase base) {
  while (is_saving()) {
    const std::shared_ptr<Saving> saving = saving_;
    saving->done.Wait();
  }
  saving_ = NewSaving({.format = SnapshotFormat::kRdb});
  saving_->base = std::move(base);
  return RunSave(nullptr);
}

std::string Persistence::SaveForStop() {
  if (!is_enabled()) return std::string(kIsDisabled);
  while (is_saving()) CancelSave();
  saving_ = NewSaving();
  lock_ = std::make_unique<Transaction>(server_.shards.get(), nullptr);
  lock_->set_origin({.name = "shutdown"});
  std::string error = RunSave(lock_.get());
  if (error.empty()) {
    lock_->OutliveFiber();  // until EndStop: what the end of the server waits for needs no locks
  } else {
    EndStop();
  }
  return error;
}

void Persistence::EndStop() { lock_ = nullptr; }

void Persistence::RefuseAll() {
  if (lock_ == nullptr) return;
  is_stopping_ = true;
  UpdateGate();
}

void Persistence::CancelSave() {
  next_.reset();
  const std::shared_ptr<Saving> saving = saving_;
  if (saving == nullptr) return;
  AskToCancelSave();
  saving->done.Wait();
}

void Persistence::AskToCancelSave() {
  if (!is_saving()) return;
  saving_->progress.is_cancelled = true;
  // It may wait for its locks.
  server_.shards->AwaitOnAll([](Shard& shard) { Transaction::CancelWaiters(shard); });
}

// The cut waits for scripts that have locks, and whoever writes waits behind the cut. So it is made
// when no long script runs, unless one runs all the time.
void Persistence::AwaitNoLongScript(const Saving& saving) {
  const uint64_t end_ns = helio::MonotonicNanos() + options_.script_wait_ns;
  while (!saving.progress.is_cancelled && helio::MonotonicNanos() < end_ns) {
    std::atomic<bool> is_there{false};
    AwaitOnAll<RunningScripts>(server_, [&is_there](RunningScripts& scripts) {
      scripts.ForEach([&is_there](LongRun& run) {
        if (run.has_given_way() && run.is_script()) is_there = true;
      });
    });
    if (!is_there) return;
    helio::this_fiber::SleepForMillis(kScriptLookMillis);
  }
}

SaveOptions Persistence::OptionsOf(const Saving& saving) {
  SaveOptions save;
  save.path.directory = directory_;
  save.path.name = NameAt(saving.name, helio::UnixMillis());
  save.path.format = saving.format;
  save.codec = options_.codec;
  save.level = options_.level;
  save.compresses_strings = options_.compresses_strings;
  save.redis_version = kRedisVersion;
  save.sizes = options_.sizes;
  const uint64_t buffer_limit =
      server_.settings.snapshot_buffer_limit.load(std::memory_order_relaxed);
  if (buffer_limit != 0) save.sizes.behind = buffer_limit / server_.shards->size();
  save.on_behind = [this](bool is_behind) { OnSnapshotBehind(is_behind); };
  if (saving.base) {
    save.path.format = SnapshotFormat::kRdb;
    save.log_base = saving.base->path;
    save.make_output = saving.base->make_output;
    save.before_cut = saving.base->before_cut;
    save.cut_lock = saving.base->cut_lock;
    save.has_keys = saving.base->has_keys;
    save.has_functions = saving.base->has_functions;
  }
  return save;
}

void Persistence::NoteSaved(const Saving& saving, const SaveResult& result,
                            uint64_t changes_at_cut) {
  const double seconds = helio::SecondsSince(saving.started_ns);
  const std::string file = !saving.base               ? saving.path.Main()
                           : saving.base->make_output ? "for replicas"
                                                      : saving.base->path;
  LOG(INFO) << "saved " << helio::LogText(file) << ": " << result.keys << " keys, " << result.bytes
            << " bytes, " << fmt::format("{:.3f} s", seconds);
  if (saving.base) return;
  facts_.last_duration_s = static_cast<int64_t>(seconds);
  facts_.last_error.clear();
  facts_.is_last_ok = true;
  ++facts_.saves;
  facts_.last_file = file;
  after_save_.Start(file);
  if (saving.is_back_up) return;  // the next start does not load it
  // A client that has been told that its save has begun waits for LASTSAVE to change.
  if (!next_) last_save_s_ = facts_.last_save_s = helio::UnixMillis() / 1000;
  SetSavedUpTo(changes_at_cut);
  facts_.last_keys = result.keys;
  facts_.last_bytes = result.bytes;
  facts_.last_shards = result.shards;
}

void Persistence::NoteNotSaved(const Saving& saving, const std::string& error) {
  if (saving.progress.is_cancelled) {
    LOG(INFO) << "the snapshot was given up";
  } else {
    LOG(ERROR) << "no snapshot: " << helio::LogText(error);
  }
  if (saving.base) return;
  facts_.last_duration_s = static_cast<int64_t>(helio::SecondsSince(saving.started_ns));
  facts_.last_error = error;
  if (saving.is_in_background && !saving.progress.is_cancelled) {  // else somebody is told
    facts_.is_last_ok = false;
    last_failure_ns_ = helio::MonotonicNanos();
  }
}

// REQUIRES: saving_ was made by the caller, without a pause in between.
std::string Persistence::RunSave(Transaction* lock) {
  const std::shared_ptr<Saving> saving = saving_;
  saving->started_ns = helio::MonotonicNanos();
  SaveOptions save = OptionsOf(*saving);
  saving->path = save.path;
  uint64_t changes_at_cut = 0;
  if (lock == nullptr) {
    AwaitNoLongScript(*saving);
  } else {
    save.sizes.work_ns = 0;  // nobody is let go on
  }
  server_.settings.is_saving = true;
  // Of a log's base, its log says it.
  const bool has_place = !is_saving_log_base() && places_->Hold();
  if (has_place && !save.before_cut) save.before_cut = [] { return true; };
  const SaveResult result = SaveSnapshot(
      server_.shards.get(), options_.files, save,
      [&] {
        saving->has_cut = true;
        is_writing_ = true;
        changes_at_cut = Changes();
        SnapshotExtras extras = CollectExtras();
        if (saving->base) {
          if (saving->base->place) extras.place = saving->base->place();
        } else if (has_place) {
          extras.place = places_->Place();
        }
        places_->LetGo();
        return extras;
      },
      &saving->progress, lock);
  places_->LetGo();  // there may have been no cut
  server_.settings.is_saving = false;
  is_writing_ = false;
  if (result.error.empty()) {
    NoteSaved(*saving, result, changes_at_cut);
  } else {
    NoteNotSaved(*saving, result.error);
  }
  saving->error = result.error;
  saving_ = nullptr;
  UpdateGate();
  saving->done.Done();
  StartNext();
  return result.error;
}

// What was asked for while there was a save under way. That of a client also forgets what was
// flushed, if the next start would load it.
void Persistence::StartNext() {
  const bool was_flushed = std::exchange(was_flushed_, false);
  if (const auto target = std::exchange(next_, std::nullopt)) {
    was_flushed_ = was_flushed && IsBackUp(*target);  // which does not
    StartSave(*target);
  } else if (was_flushed) {
    SaveAfterFlush();
  }
}

std::string Persistence::Reload(bool saves) {
  if (!is_enabled()) return std::string(kIsDisabled);
  while (is_saving()) {
    const std::shared_ptr<Saving> saving = saving_;
    saving->done.Wait();
  }
  if (saves) {
    saving_ = NewSaving();
    Transaction lock(server_.shards.get(), nullptr);
    std::string error = RunSave(&lock);
    return error.empty() ? ReloadLocked(&lock) : error;
  }
  Transaction lock(server_.shards.get(), nullptr);
  lock.LockAllShards(LockMode::kExclusive);
  CHECK(lock.Schedule());
  return ReloadLocked(&lock);
}

std::string Persistence::ReloadLocked(Transaction* lock) {
  std::string error;
  const auto path = FindNewest(&error);
  if (!path) return error.empty() ? "there is no snapshot" : error;
  lock->Hop([](Shard& shard) { shard.FlushAll(FlushMode::kAsync); });
  loading_ = std::make_unique<LoadProgress>();
  error = LoadFrom(*path);
  loading_ = nullptr;
  return error;
}

std::string Persistence::LoadCopy(const std::string& path, int* stream_db) {
  while (loading_ != nullptr) helio::this_fiber::SleepForMillis(1);  // DEBUG RELOAD
  const uint64_t begin_ns = helio::MonotonicNanos();
  loading_ = std::make_unique<LoadProgress>();
  facts_.load_start_s = helio::UnixMillis() / 1000;
  UpdateGate();
  std::string error;
  {
    Transaction lock(server_.shards.get(), nullptr);
    lock.set_origin({.name = "replicaof"});
    lock.LockAllShards(LockMode::kExclusive);
    CHECK(lock.Schedule());
    const helio::BoundedWait wait(kCopyLoad);
    lock.Hop([](Shard& shard) {
      shard.FlushAll(FlushMode::kAsync);
      shard.NoteFlushed();
    });
    SnapshotLoader loader(server_.shards.get(), options_.files, loading_.get());
    loader.KeepDueKeys();  // the primary says when they go
    uint64_t end = 0;
    error = loader.LoadRdbPart(path, &end);
    if (error.empty()) error = TakeExtras(loader.extras());
    *stream_db = loader.extras().place.db_index;
    if (!error.empty()) lock.Hop([](Shard& shard) { shard.FlushAll(FlushMode::kAsync); });
  }
  facts_.load_seconds = helio::SecondsSince(begin_ns);
  facts_.loaded_keys = loading_->keys;
  facts_.load_expired_keys = 0;
  loading_ = nullptr;
  UpdateGate();
  if (error.empty()) SetSavedUpTo(Changes());
  return error;
}

void Persistence::BeginBeside(LoadProgress* progress, bool serves) {
  while (loading_ != nullptr) helio::this_fiber::SleepForMillis(1);  // DEBUG RELOAD
  beside_ = {.progress = progress, .begin_ns = helio::MonotonicNanos(), .serves = serves};
  facts_.load_start_s = helio::UnixMillis() / 1000;
  UpdateGate();
}

void Persistence::EndBeside() {
  beside_.reset();
  UpdateGate();
}

void Persistence::NoteBesideTaken() {
  facts_.load_seconds = helio::SecondsSince(beside_->begin_ns);
  facts_.loaded_keys = beside_->progress->keys;
  facts_.load_expired_keys = 0;
  SetSavedUpTo(Changes());
}

void Persistence::CancelBeside() {
  if (beside_) beside_->progress->is_cancelled = true;
}

void Persistence::SetReplicaGates(uint16_t gates) {
  replica_gates_ = gates;
  UpdateGate();
}

void Persistence::SetLacksReplicas(bool lacks) {
  lacks_replicas_ = lacks;
  UpdateGate();
}

// ------------------------------------------------------------------------------------- the rules

void Persistence::StartRules() {
  const bool wanted = is_enabled() && (has_rules() || cron_);
  if (wanted == (tick_task_ != 0)) return;
  helio::Proactor* const proactor = helio::Proactor::Current();
  if (wanted) {
    last_tick_s_ = helio::UnixMillis() / 1000;
    tick_task_ = proactor->AddPeriodic(kTickMillis, [this] { Tick(); });
  } else {
    proactor->RemovePeriodic(std::exchange(tick_task_, 0));
  }
}

void Persistence::OnSettingsChanged() {
  saves_at_end_ = has_rules() && is_enabled();
  StartRules();
}

void Persistence::StopRules() {
  if (tick_task_ != 0) helio::Proactor::Current()->RemovePeriodic(std::exchange(tick_task_, 0));
}

void Persistence::SetSavedUpTo(uint64_t changes) {
  facts_.changes_at_last_save = changes;
  facts_.unsaved_of_other = 0;
}

void Persistence::NoteOfOther(uint64_t unsaved_changes, int64_t last_save_s) {
  SetSavedUpTo(Changes());
  facts_.unsaved_of_other = unsaved_changes;
  last_save_s_ = facts_.last_save_s = last_save_s;
}

void Persistence::OnSnapshotBehind(bool is_behind) {
  shards_behind_.fetch_add(is_behind ? 1 : UINT32_MAX, std::memory_order_relaxed);
  WorkerState::HoldWrites(server_, is_behind);
}

uint64_t Persistence::Changes() const { return server_.shards->changes(); }

void Persistence::Tick() {
  if (is_saving() || is_loading() || beside_ || lock_ != nullptr) return;
  const int64_t now_s = helio::UnixMillis() / 1000;
  const int64_t before_s = std::exchange(last_tick_s_, now_s);
  if (cron_ && now_s / 60 != before_s / 60) {
    const std::time_t time = now_s;
    std::tm local{};
    localtime_r(&time, &local);
    if (cron_->Matches(local)) {
      StartSave();
      return;
    }
  }
  if (!facts_.is_last_ok && helio::MonotonicNanos() - last_failure_ns_ < kRetryNanos) return;
  const uint64_t changes = unsaved_changes();
  for (const SaveRule& rule : rules_) {
    if (changes < std::max<uint64_t>(rule.changes, 1)) continue;
    if (now_s - facts_.last_save_s < static_cast<int64_t>(rule.seconds)) continue;
    LOG(INFO) << changes << " changes in " << rule.seconds << " seconds: saving";
    StartSave();
    return;
  }
}

void Persistence::UpdateGate() {
  uint16_t gate = is_stopping_ ? Settings::kStoppingGate : 0;
  gate |= replica_gates_;
  if (lacks_replicas_) gate |= Settings::kNoReplicasGate;
  if (is_loading()) {
    gate |= Settings::kLoadingGate;
  } else if (beside_) {
    gate |= Settings::kAsyncLoadingGate;
  }
  if (!facts_.is_last_ok && has_rules() && options_.stops_writes_on_error) {
    gate |= Settings::kNoWritesGate;
  }
  if (server_.settings.log_errno != 0) gate |= Settings::kNoLogGate;
  const uint16_t before = server_.settings.gate.exchange(gate, std::memory_order_relaxed);
  // The primary's stream may have waited for the disk.
  if ((before & ~gate & Settings::kNoDiskGates) != 0) WorkerState::ReleaseHeldOnAll(server_);
}

// -------------------------------------------------------------------------------------- settings

std::string Persistence::SetDirectory(const std::string& directory) {
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) return strerror(errno);
  if (!S_ISDIR(status.st_mode)) return strerror(ENOTDIR);
  directory_ = directory;
  return "";
}

void Persistence::SetDbFileName(const std::string& dbfilename) {
  dbfilename_ = dbfilename;
  OnSettingsChanged();
}

void Persistence::SetRules(const std::vector<SaveRule>& rules) {
  rules_ = rules;
  OnSettingsChanged();
  UpdateGate();
}

void Persistence::SetCron(const std::string& text) {
  cron_ = Cron::Parse(text);
  StartRules();
}

void Persistence::SetCompressesStrings(bool does) { options_.compresses_strings = does; }

void Persistence::SetStopsWrites(bool does) {
  options_.stops_writes_on_error = does;
  UpdateGate();
}

PersistenceFacts Persistence::Facts() {
  PersistenceFacts facts = facts_;
  facts.is_saving = is_saving() && !is_saving_log_base();
  if (facts.is_saving) {
    facts.current_duration_s = static_cast<int64_t>(helio::SecondsSince(saving_->started_ns));
    facts.current_keys_total = saving_->progress.keys_total;
    facts.current_keys = saving_->progress.keys;
  }
  facts.is_loading = is_loading();
  facts.after_save = after_save_.facts();
  facts.is_async_loading = beside_ && !facts.is_loading;
  const LoadProgress* progress = loading_.get();
  if (progress == nullptr && beside_) progress = beside_->progress;
  if (progress != nullptr) {
    facts.load_bytes_total = progress->bytes_total;
    facts.load_bytes = progress->bytes_read;
    facts.loaded_keys = progress->keys;
    facts.load_expired_keys = progress->expired_keys;
  }
  return facts;
}

}  // namespace dfly
