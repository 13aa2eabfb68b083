// SPDX-License-Identifier: Apache-2.0
// When snapshots are made and what of them is known: SAVE, BGSAVE, --save, --snapshot_cron, the
// start and the end of the server.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/hops/transaction.h"
#include "helio/fibers/sync.h"
#include "server/base/cron.h"
#include "server/meters/persistence_facts.h"
#include "server/options/options.h"
#include "server/persistence/after_save.h"
#include "storage/snapshot_load.h"
#include "storage/snapshot_save.h"

namespace dfly {

struct ServerState;

// The base of an append-only log, or the copy for replicas, as a save writes it; see SaveOptions.
struct LogBase {
  std::string path;
  // See SaveOptions; with an output it is the copy for replicas, and there is no path.
  SaveOptions::OutputFn make_output = {};
  std::function<StreamPlace()> place = {};  // called at the cut
  std::function<bool()> before_cut;
  LockMode cut_lock = LockMode::kShared;
  bool has_keys = true;
  bool has_functions = true;
};

// Where snapshots are in the stream of replication. On proactor 0.
class StreamPlaces {
 public:
  // Before a snapshot or a copy locks the shards: of a replica, the primary's stream rests from now
  // on. False: there is no stream. Suspends.
  virtual bool Hold() = 0;
  // With all shards locked: where that is. Suspends, for as long as writes to a disk take.
  virtual StreamPlace Place() = 0;
  // After the cut, or without one: the stream goes on.
  virtual void LetGo() = 0;

 protected:
  ~StreamPlaces() = default;
};

// What a client wants of a snapshot. None: what --dbfilename says.
struct SaveTarget {
  std::optional<SnapshotFormat> format = {};
  std::string name = {};  // with {timestamp}, as that of --dbfilename; CheckSnapshotName is fine
};

// Owner:    the server. Its state belongs to proactor 0.
// Suspends: what says so.
class Persistence {
 public:
  Persistence(ServerState* server, PersistenceOptions options);
  // Before the first snapshot. `places` outlives the last.
  void SetStreamPlaces(StreamPlaces* places) { places_ = places; }

  // --- The start ---

  // Looks for the newest snapshot; an error, or nothing. On proactor 0. Suspends.
  std::string FindSnapshot();
  bool has_snapshot() const { return to_load_.has_value(); }
  // Of what was loaded. An empty id: of none.
  const StreamPlace& loaded_place() const { return loaded_place_; }
  // What Load does instead, snapshot or not. It returns an empty text, or what is wrong. Suspends.
  using LoadFn = std::function<std::string(LoadProgress*)>;
  void SetLoad(LoadFn load) { load_ = std::move(load); }
  bool has_load() const { return load_ || has_snapshot(); }
  // Of SetLoad: loads what FindSnapshot has found. REQUIRES: has_snapshot(). Suspends.
  std::string LoadSnapshot() { return LoadFrom(*to_load_); }
  // Loads it, in the background. `on_end` gets an empty text, or why the server cannot start.
  // REQUIRES: has_load(). On proactor 0.
  void Load(std::function<void(std::string error)> on_end);
  // Ends the load that is under way; it fails. Suspends until it has.
  void CancelLoad();
  // A replica's copy of its primary, an RDB file: the shards are emptied and filled from it, while
  // clients are told LOADING. Empty, or the error; then the shards are empty. `stream_db`: of
  // SnapshotExtras::place. From a fiber. REQUIRES: the caller has no locks. Suspends.
  [[nodiscard]] std::string LoadCopy(const std::string& path, int* stream_db);
  // Of CopyBeside: a load beside the data begins and ends. `serves`: clients see the data
  // meanwhile. Begin suspends.
  void BeginBeside(LoadProgress* progress, bool serves);
  void EndBeside();
  // The copy has become the data.
  void NoteBesideTaken();
  // It ends soon, without a change.
  void CancelBeside();
  // The gates that a replica has shut.
  void SetReplicaGates(uint16_t gates);
  // A primary has fewer good replicas than min-replicas-to-write.
  void SetLacksReplicas(bool lacks);
  // Refuses what has to be refused now; see Settings::gate.
  void UpdateGate();
  // From here on rules and the cron make snapshots. On proactor 0, as what follows.
  void StartRules();
  void StopRules();

  // --- Saving ---

  enum class Start : uint8_t { kStarted, kIsSaving, kIsSavingLogBase, kDisabled };
  // Makes one in the background.
  Start StartSave(const SaveTarget& target = {});
  // BGSAVE. As StartSave, but the save that a FLUSHALL has begun does not hinder it: if that has
  // not cut yet it is this one from now on, else this one follows it. Never suspends: the caller
  // may be an EXEC, and the save of a FLUSHALL may wait for its locks.
  // `is_scheduled`: if the base of a log is being written it follows that.
  Start StartSaveOfClient(const SaveTarget& target, bool is_scheduled = false);
  // FLUSHALL: with --save, what was deleted must not come back after a crash, so one is made now,
  // as redis-server does; but in the background.
  void SaveAfterFlush();
  // SAVE comes behind the base of a log, and behind the save that a FLUSHALL has begun, as
  // redis-server's is over when FLUSHALL is answered. REQUIRES: the caller has no locks, as that
  // one may wait for them. Suspends.
  void AwaitSaveAfterFlush();
  // Makes one, and waits for it; empty, or the error. Suspends.
  std::string Save(const SaveTarget& target = {});
  // Writes it, when no save is under way any more; empty, or the error. To clients that is no save.
  // CancelSave ends it. Suspends.
  std::string SaveLogBase(LogBase base);
  bool is_saving_log_base() const {
    return is_saving() && saving_->base && !saving_->base->make_output;
  }
  // The last one: after its cut nothing changes any more, unless it fails. Suspends.
  std::string SaveForStop();
  // Ends the one that is under way; it fails. Suspends until it has.
  void CancelSave();
  // The same, soon. Suspends, but for no locks.
  void AskToCancelSave();
  // Lets go what SaveForStop holds. Suspends.
  void EndStop();
  // The server ends: after SaveForStop no command is carried out any more.
  void RefuseAll();

  // The end of the server makes a snapshot, if nothing else was said. Thread: any.
  bool saves_at_end() const { return saves_at_end_; }
  // Since the last snapshot, for the rules.
  uint64_t unsaved_changes() const {
    return Changes() - facts_.changes_at_last_save + facts_.unsaved_of_other;
  }
  // The data was another process', and so were its snapshots. `last_save_s`: Unix time.
  void NoteOfOther(uint64_t unsaved_changes, int64_t last_save_s);
  bool has_rules() const { return !rules_.empty(); }
  const std::string& directory() const { return directory_; }
  bool is_enabled() const { return !dbfilename_.empty(); }
  // --after_save_command. On proactor 0.
  AfterSave& after_save() { return after_save_; }
  // Shards of which a snapshot keeps more in memory than the disk takes. Thread: any.
  uint32_t shards_behind() const { return shards_behind_.load(std::memory_order_relaxed); }
  bool is_saving() const { return saving_ != nullptr; }
  // Nobody is served meanwhile.
  bool is_loading() const {
    return loading_ != nullptr || (has_load() && !was_loaded_) || (beside_ && !beside_->serves);
  }
  // One is being written: it waits for no locks, but for the disk only. Thread: any.
  bool is_writing() const { return is_writing_; }
  // The save that is under way waits for no locks any more.
  bool has_cut() const { return !is_saving() || saving_->has_cut; }
  PersistenceFacts Facts();
  int64_t last_save_s() const { return last_save_s_; }  // Unix time. Thread: any.

  // --- Settings ---

  [[nodiscard]] std::string SetDirectory(const std::string& directory);  // an error, or nothing
  void SetDbFileName(const std::string& dbfilename);
  void SetRules(const std::vector<SaveRule>& rules);
  void SetCron(const std::string& text);
  void SetCompressesStrings(bool does);
  void SetStopsWrites(bool does);

  // DEBUG RELOAD: saves, unless NOSAVE was said, and loads that into emptied shards, while nobody
  // else has them. Empty, or the error. Suspends.
  std::string Reload(bool saves);

 private:
  struct Saving {
    SaveProgress progress;
    SnapshotFormat format = SnapshotFormat::kOurs;
    std::string name;  // as it was told
    // It has another name than what the next start looks for: for that it is no save.
    bool is_back_up = false;
    SnapshotPath path;
    uint64_t started_ns = 0;
    bool has_cut = false;
    bool is_in_background = false;
    bool is_awaited = false;      // by a client
    bool is_after_flush = false;  // SaveAfterFlush has begun it
    std::optional<LogBase> base;  // of SaveLogBase
    helio::BlockingCounter done{1};
    std::string error;
  };

  StreamPlaces* places_ = nullptr;
  StreamPlace loaded_place_;
  uint16_t replica_gates_ = 0;
  bool lacks_replicas_ = false;
  std::optional<SnapshotPath> FindNewest(std::string* error);
  std::shared_ptr<Saving> NewSaving(const SaveTarget& target = {}) const;
  // The next start would not load it.
  bool IsBackUp(const SaveTarget& target) const;
  void StartNext();
  std::string RunSave(Transaction* lock);
  SaveOptions OptionsOf(const Saving& saving);
  void NoteSaved(const Saving& saving, const SaveResult& result, uint64_t changes_at_cut);
  void NoteNotSaved(const Saving& saving, const std::string& error);
  std::string LoadFrom(const SnapshotPath& path);
  std::string ReloadLocked(Transaction* lock);
  void AwaitNoLongScript(const Saving& saving);
  SnapshotExtras CollectExtras();
  std::string TakeExtras(const SnapshotExtras& extras);
  // A shard has more to write down for a snapshot than the disk takes, or has not any more:
  // meanwhile clients that write have to wait. Thread: any proactor's. Suspends: never.
  void OnSnapshotBehind(bool is_behind);
  void Tick();
  void OnSettingsChanged();
  uint64_t Changes() const;
  void SetSavedUpTo(uint64_t changes);
  const std::string& NameFor(const SaveTarget& target) const {
    return target.name.empty() ? dbfilename_ : target.name;
  }
  SnapshotFormat FormatFor(const SaveTarget& target) const {
    return target.format.value_or(FormatOf(NameFor(target)));
  }

  ServerState& server_;
  PersistenceOptions options_;
  std::string directory_;
  std::string dbfilename_;
  std::vector<SaveRule> rules_;
  std::optional<Cron> cron_;
  std::optional<SnapshotPath> to_load_;
  LoadFn load_;
  bool was_loaded_ = false;
  std::unique_ptr<LoadProgress> loading_;
  struct Beside {
    LoadProgress* progress;
    uint64_t begin_ns;
    bool serves;
  };
  std::optional<Beside> beside_;  // while there is a CopyBeside
  std::shared_ptr<Saving> saving_;
  std::unique_ptr<Transaction> lock_;  // of SaveForStop
  bool is_stopping_ = false;
  bool was_flushed_ = false;        // while a save is under way, which may have what is gone
  std::optional<SaveTarget> next_;  // of StartSaveOfClient, when the one under way is over
  uint64_t tick_task_ = 0;
  int64_t last_tick_s_ = 0;
  uint64_t last_failure_ns_ = 0;
  PersistenceFacts facts_;
  AfterSave after_save_;
  std::atomic<int64_t> last_save_s_;
  std::atomic<uint32_t> shards_behind_{0};
  std::atomic<bool> is_writing_{false};
  std::atomic<bool> saves_at_end_;
};

}  // namespace dfly
