// SPDX-License-Identifier: Apache-2.0
// The append-only log of the server: when it is written, when it is rewritten, and what is known of
// it.
//
//   units --Journal--> LogWriter --> incremental files      (LogDirectory: which files there are)
//   BGREWRITEAOF: the base, a snapshot of the moment at which a new incremental begins
//
// A rewrite locks all shards for a moment. What was done before is in the old files, and in the
// base; what comes after goes to the new file. When the base is written the manifest changes over
// to both, in one rename.
//
// When the log is switched on (CONFIG SET appendonly yes) there is data that no file has. So the
// log begins with a base, and is not listed in the manifest until that is written; an older log in
// the directory stays until then.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "helio/base/intrusive_list.h"
#include "helio/fibers/sync.h"
#include "server/meters/append_log_facts.h"
#include "server/options/options.h"
#include "server/persistence/effect_stream.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_loader.h"
#include "storage/log/log_writer.h"
#include "storage/snapshot_load.h"

namespace dfly {

class Persistence;
class Transaction;
struct ServerState;

// Tests have shorter ones.
struct AppendLogTimes {
  uint64_t retry_ns = LogWriter::Options{}.retry_period_ns;  // between two tries of a bad disk
  uint64_t sync_ns = LogWriter::Options{}.sync_period_ns;    // between two syncs of `everysec`
  uint64_t epoch_ns = Journal::Options{}.period_ns;          // of an epoch, if it is not `always`
  uint64_t base_retry_ms = 1'000;  // before the base of a log that has none is tried again
};

// Owner:    the server. Its state belongs to proactor 0, and so do all methods.
// Suspends: what says so.
class AppendLog {
 public:
  // All outlive it.
  AppendLog(ServerState* server, Persistence* persistence, EffectStream* stream,
            const LogOptions& options, const AppendLogTimes& times = {});
  ~AppendLog();

  // --- The start, if the log is to be on. Nobody is served yet. An error, or nothing ---

  // Looks for the log. Suspends.
  [[nodiscard]] std::string Find();
  bool has_log() const { return directory_ != nullptr && !directory_->is_new(); }
  // Loads it and goes on behind it. Without one: loads the snapshot that was found, if there is
  // one, and begins a log with that. REQUIRES: Find. Suspends.
  [[nodiscard]] std::string Load(LoadProgress* progress);

  // The end of the server. `place`: of a replica, whose data is that of a stream up to there; a
  // start finds it again. An empty id: none. `is_locked`: the caller has all shards locked, else
  // no locks. REQUIRES: it serves nobody any more. Suspends.
  void Stop(const StreamPlace& place, bool is_locked = false);

  // --- Settings. An error, or nothing. What needs locks is done in the background: the client may
  // be an EXEC, which has some ---

  // appendonly. Files that cannot be made are an error. Suspends, but for no locks.
  [[nodiscard]] std::string SetOn(bool is_on);
  [[nodiscard]] std::string SetPolicy(LogPolicy policy);
  // What they do in the background is done, but for a log that begins behind a rewrite. REQUIRES:
  // the caller has no locks. Suspends.
  void AwaitSettings();
  // When a rewrite begins by itself, whether there are timestamps, and a history.
  void SetRules(const LogOptions& options);
  bool is_on() const { return is_open_.load(std::memory_order_relaxed); }
  // What SetOn and SetPolicy do in the background is not done yet.
  bool is_changing() const { return is_changing_; }

  // journal_buffer_limit has changed.
  void OnLimit() { UpdateBehind(); }
  // Empties the shards and loads what the log has. If it is on that is what they have, and the log
  // goes on; if it is off its files stay as they are. REQUIRES: the caller has no locks. An error,
  // or nothing. Suspends.
  [[nodiscard]] std::string Reload();
  // If it is on: what the shards have did not come from the log's units. It begins anew with that.
  // REQUIRES: as Reload. Suspends.
  [[nodiscard]] std::string BeginAnew() {
    return BeginAnew([] {});
  }
  // The same with what they have after `change`, which is called in any case. The log hears nothing
  // of it. So the log on the disk is that of the old data until there is a new base.
  [[nodiscard]] std::string BeginAnew(const std::function<void()>& change);

  // --- One process takes over from another ---

  // If it is on: all that was done before is on the device, and a start would load it. An error, or
  // nothing. Suspends, for as long as the disk takes.
  [[nodiscard]] std::string SyncAll();
  // The same, but not for longer than until that is set: then it goes on by itself.
  [[nodiscard]] std::string SyncAll(const std::atomic<bool>& gives_up);
  // Goes on behind the log of the other process, which had the data that this one has and has
  // closed it. `is_clean`: it has said so; else the end is looked for, as it may have filler behind
  // it. The stream of `place` ends there. If `name` is not what FullName would be here the other
  // process had none, or elsewhere: begins one, as SetOn. REQUIRES: the caller has no locks. An
  // error, or nothing. Suspends.
  [[nodiscard]] std::string TakeOver(const StreamPlace& place, bool is_clean,
                                     const std::string& name);
  // Before TakeOver, while the other process has the log: why it could not, as far as can be seen.
  // Empty: nothing is in the way. Blocks, but shortly.
  std::string WhyNotThere() const;
  // Where the log is, and how its files begin. Empty: it is off. Blocks, but shortly.
  std::string FullName() const;

  // --- WAITAOF ---

  // Who waits until all that was done before is on the device.
  //
  // Owner: who waits; linked between BeginWait and the end.
  struct SyncWait : helio::ListHook<> {
    std::function<void()> on_end;  // called once at most; must not suspend
    uint64_t epoch = 0;
    bool is_off = false;  // the log was switched off meanwhile
  };
  // Of what was done before; 0: there is no log.
  uint64_t NewestEpoch() const { return is_on() ? stream_.journal()->newest() : 0; }
  // It is on the device.
  bool IsSynced(uint64_t epoch) const;
  // True: all that was done before this call is on the device. False also without a log.
  bool is_synced() const { return IsSynced(NewestEpoch()); }
  // Calls wait->on_end when it is, or when the log is switched off. Without a log it is off.
  void BeginWait(SyncWait* wait);
  // It waits no more. True: what it has waited for is on the device.
  bool EndWait(SyncWait* wait);

  // --- The replication stream that the log has ---

  // Of which one it was when it was loaded, and where it ends; an empty id: of none.
  const StreamPlace& loaded_place() const { return loaded_place_; }
  // The files that have it, for LogStream: those of the history, and the listed ones. Suspends.
  std::vector<std::string> StreamFiles();
  FileLayer& files() const;
  // Rewrites keep the files that have the stream behind `needed_from()`; UINT64_MAX, or null: none.
  // It is called on proactor 0 and must not suspend.
  void SetNeededFrom(std::function<uint64_t()> needed_from) {
    needed_from_ = std::move(needed_from);
  }
  // That may be more than before.
  void RemoveNotNeeded();

  enum class Start : uint8_t { kStarted, kScheduled, kIsRewriting };
  // BGREWRITEAOF: in the background. Without a log it makes one file, as redis-server does.
  Start StartRewrite();

  AppendLogFacts Facts() const;

 private:
  struct Rewriting {
    uint64_t started_ns = 0;
    bool has_cut = false;
    helio::BlockingCounter done{1};
  };

  static constexpr uint64_t kRetryMillisMax = 60'000;  // of a base; each wait is twice the last one
  static constexpr uint64_t kLookMillis = 20;
  static constexpr uint64_t kExpiryMillis = 1'000;  // between two looks at the history
  static constexpr uint64_t kChangeNanosMax = 2'000'000'000;

  std::unique_ptr<LogDirectory> NewDirectory(const std::string& dir) const;
  // Calls it while nothing changes. Suspends.
  template <typename Function>
  void WithAllLocked(Function function);
  // Makes the writer, and the stream has a journal.
  std::error_code Open(LogWriter::Start start, uint64_t first_epoch);
  // And ends them. `place`: as in Stop. REQUIRES: Unlink.
  void Close(const StreamPlace& place = {});
  // The stream's epochs go to the writer, and do not any more. REQUIRES: nothing changes.
  void Link();
  // False: the writer has not got all of them.
  bool Unlink();
  std::string LoadLog(LoadProgress* progress);
  // Into empty shards. REQUIRES: LoadedKeys, until units go to the journal. `outer`:
  // has locked all of them; null: nobody else uses them.
  std::string LoadFiles(const LogDirectory& directory, LoadProgress* progress, Transaction* outer,
                        LogEnd* end);
  std::string ReloadLocked(Transaction* lock);
  std::string Continue(const LogWriter::Start& start, uint64_t first_epoch);
  std::string ContinueOther(const StreamPlace& place, bool is_clean);
  // Of directory_.
  std::string NameOfFiles() const;
  std::string Begin();
  std::string BeginHere();  // in directory_
  void End();
  void ChangePolicy(LogPolicy before);
  // False: the change that is under way does not end soon.
  bool AwaitChange();
  // Calls it when no rewrite is under way; none begins meanwhile. REQUIRES: AwaitChange.
  void Change(const std::function<void()>& change);
  // The same on a fiber.
  void ChangeSoon(std::function<void()> change);
  void Rewrite();
  std::string RewriteOnce(Rewriting* rewriting);
  std::string RewriteWithoutLog();
  void AwaitRewrite();
  Manifest Listed();
  bool HasBase();
  uint64_t SizeOf(const ManifestFile& file) const;
  void NoteSizes();
  // What Facts say of the history. While there is one, what is too old goes each second.
  void NoteHistory();
  void SetExpires(bool does);
  // Changes the directory on a fiber of its own: files may be large, and who asks may have locks.
  void ChangeHistory(std::function<void(LogDirectory&)> change);
  void AwaitHistoryChanges();
  uint64_t NeededFrom() const { return needed_from_ ? needed_from_() : UINT64_MAX; }
  // As it is to be now.
  LogDirectory::StreamHold NewHold();
  uint64_t bytes() const;
  // From how many bytes on a rewrite begins by itself, if it had `bytes` after the last one.
  void SetRewriteLimit(uint64_t bytes);
  void OnStatus();  // Thread: any
  void WakeWaits();
  void OnSynced();  // Thread: any
  // Holds writes while more waits for the disk than may. Thread: any.
  void UpdateBehind();
  bool IsBehind() const;

  ServerState& server_;
  Persistence& persistence_;
  EffectStream& stream_;
  LogOptions options_;
  const AppendLogTimes times_;
  bool is_changing_ = false;  // ChangeSoon, or SetPolicy
  bool is_setting_ = false;   // of these, what AwaitSettings waits for
  bool has_turn_ = false;     // and no rewrite may begin
  std::unique_ptr<LogDirectory> directory_;
  // Looks how large the log is, when something was written.
  class Watch final : public DurableLog {
   public:
    explicit Watch(AppendLog* log) : log_(*log) {}
    bool Write(const Epoch& epoch) override;

   private:
    AppendLog& log_;
  };

  std::unique_ptr<LogWriter> writer_;
  Watch watch_{this};
  std::atomic<bool> is_open_{false};  // the writer is there, and the stream has a journal
  bool is_linked_ = false;
  bool ends_ = false;                     // rewrites are given up
  int syncs_ = 0;                         // SyncAll by itself
  std::shared_ptr<Rewriting> rewriting_;  // null: none is under way
  AppendLogFacts facts_;
  StreamPlace loaded_place_;
  std::atomic<uint64_t> older_bytes_{0};             // of all listed files but the one that grows
  std::atomic<bool> wants_base_{false};              // LogStatus::needs_base was seen
  std::atomic<uint64_t> rewrite_bytes_{UINT64_MAX};  // see SetRewriteLimit
  uint64_t bytes_at_rewrite_ = 0;
  uint64_t expiry_task_ = 0;           // of SetExpires; 0: there is none
  int history_changes_ = 0;            // that are under way
  helio::EventCount history_changed_;  // one has ended
  std::function<uint64_t()> needed_from_;
  uint64_t held_from_ = UINT64_MAX;  // of the last NewHold
  bool holds_files_ = false;         // for that
  int64_t oldest_entry_s_ = -1;      // when the oldest entry of the history was replaced; -1: none

  bool is_complete_ = false;  // a restart would load what is written
  helio::IntrusiveList<SyncWait> sync_waits_;
  std::atomic<uint32_t> sync_waits_count_{0};  // OnSynced
  std::atomic<uint32_t> behind_calls_{0};      // UpdateBehind
  std::atomic<bool> is_behind_{false};         // more waits than journal_buffer_limit
};

}  // namespace dfly
