// SPDX-License-Identifier: Apache-2.0
// When snapshots are made and what of them is known: SAVE, BGSAVE, --save, --snapshot_cron, the
// start and the end of the server.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "helio/fibers/sync.h"
#include "server/cron.h"
#include "storage/snapshot_load.h"
#include "storage/snapshot_save.h"

namespace dfly {

class Server;

// --save: a snapshot is due when so many changes were made and the last one is so old.
struct SaveRule {
  uint64_t seconds = 0;
  uint64_t changes = 0;
};
// "900 1 300 10"; empty: none. False: it is no list of rules.
bool ParseSaveRules(std::string_view text, std::vector<SaveRule>* rules);
std::string FormatSaveRules(const std::vector<SaveRule>& rules);

struct PersistenceOptions {
  std::string directory;   // --dir; empty: the current one
  std::string dbfilename;  // empty: nothing is loaded or saved
  std::vector<SaveRule> rules;
  std::string cron;  // --snapshot_cron; empty: none
  FrameCodec codec = FrameCodec::kLz4;
  int level = 2;                     // of kZstd
  bool compresses_strings = true;    // rdbcompression
  bool stops_writes_on_error = true;
  FileLayer* files = &SystemFiles();  // tests have others
};

// What INFO tells.
struct PersistenceFacts {
  bool is_loading = false;
  bool is_saving = false;
  int64_t last_save_s = 0;           // Unix time of the last good one, or of the start
  bool is_last_ok = true;
  int64_t last_duration_s = -1;
  int64_t current_duration_s = -1;
  uint64_t saves = 0;
  uint64_t changes_at_last_save = 0;
  uint64_t last_keys = 0;
  uint64_t last_bytes = 0;
  ShardSnapshotStats last_shards;
  std::string last_error;
  std::string last_file;
  uint64_t current_keys_total = 0;
  uint64_t current_bytes = 0;
  // Loading
  int64_t load_start_s = 0;
  uint64_t load_bytes_total = 0;
  uint64_t load_bytes = 0;
  uint64_t loaded_keys = 0;
  uint64_t load_expired_keys = 0;
  double load_seconds = 0;
};

// Owner:    the server. Its state belongs to proactor 0.
// Suspends: what says so.
class Persistence {
 public:
  Persistence(Server* server, PersistenceOptions options);

  // --- The start ---

  // Is there something to load? From the main thread, before there are clients.
  bool BeginLoad();
  // Loads it, in the background. `on_end` gets an empty text, or why the server cannot start;
  // on proactor 0. REQUIRES: BeginLoad said so.
  void Load(std::function<void(std::string error)> on_end);
  // From here on rules and the cron make snapshots. On proactor 0, as what follows.
  void StartRules();

  // --- Saving ---

  enum class Start : uint8_t { kStarted, kIsSaving, kDisabled };
  // Makes one in the background.
  Start StartSave(std::optional<SnapshotFormat> format = {});
  // Makes one, and waits for it; empty, or the error. Suspends.
  std::string Save(std::optional<SnapshotFormat> format = {});
  // The last one: after its cut nothing changes any more, unless it fails. Suspends.
  std::string SaveForStop();
  // Ends the one that is under way; it fails. Suspends until it has.
  void CancelSave();
  // Nobody waits for what SaveForStop holds.
  void EndStop();

  bool has_rules() const { return !rules_.empty(); }
  bool is_enabled() const { return !dbfilename_.empty(); }
  bool is_saving() const { return saving_ != nullptr; }
  PersistenceFacts Facts();

  // --- Settings; an error, or nothing ---

  std::string SetDirectory(const std::string& directory);
  std::string SetDbFileName(const std::string& dbfilename);
  std::string SetRules(const std::string& text);
  std::string SetCron(const std::string& text);
  void SetCompressesStrings(bool compresses) { options_.compresses_strings = compresses; }
  void SetStopsWrites(bool stops);

  // DEBUG RELOAD: saves to a file of its own and loads that into emptied shards. Empty, or the
  // error. Suspends.
  std::string Reload();

 private:
  struct Saving {
    SaveProgress progress;
    uint64_t started_ns = 0;
    helio::BlockingCounter done{1};
    std::string error;
  };

  std::optional<SnapshotPath> FindNewest(std::string* error);
  std::string RunSave(Saving* saving, std::optional<SnapshotFormat> format, bool stays_locked);
  SnapshotExtras CollectExtras();
  std::string TakeExtras(const SnapshotExtras& extras);
  void Tick();
  void UpdateGate();
  uint64_t Changes() const;

  Server& server_;
  PersistenceOptions options_;
  std::string directory_;
  std::string dbfilename_;
  std::vector<SaveRule> rules_;
  std::optional<Cron> cron_;
  std::optional<SnapshotPath> to_load_;
  std::unique_ptr<LoadProgress> loading_;
  std::shared_ptr<Saving> saving_;
  std::shared_ptr<SnapshotLock> lock_;  // of SaveForStop
  uint64_t tick_task_ = 0;
  int64_t last_tick_s_ = 0;
  uint64_t last_failure_ns_ = 0;
  PersistenceFacts facts_;
};

void RegisterSaveCommands(class CommandTable* table);

}  // namespace dfly
