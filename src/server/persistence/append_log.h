// SPDX-License-Identifier: Apache-2.0
// The append-only log of the server: when it is written, when it is rewritten, and what is known of
// it.
//
//   units --Journal--> LogWriter --> incremental files      (LogDirectory: which files there are)
//   BGREWRITEAOF: the base, a snapshot of the moment at which a new incremental begins
//
// A rewrite locks all shards for a moment. What was done before is in the old files, and synced, and
// in the base; what comes after goes to the new file. When the base is written the manifest changes
// over to both, in one rename.
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

#include "engine/journal/journal.h"
#include "helio/fibers/sync.h"
#include "server/options/options.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_writer.h"

namespace dfly {

class Persistence;
struct ServerState;

// What is known of the log, for INFO.
struct AppendLogFacts {
  bool is_on = false;
  bool is_rewriting = false;
  bool is_rewrite_scheduled = false;
  bool is_last_rewrite_ok = true;
  int64_t last_rewrite_s = -1;     // how long it took
  int64_t current_rewrite_s = -1;  // so far
  uint64_t rewrites = 0;
  uint64_t failures = 0;  // of rewrites, since the last good one
  uint64_t base_bytes = 0;
  uint64_t bytes = 0;          // of the base and all incrementals
  uint64_t waiting_bytes = 0;  // that are not written
  uint64_t unsynced_bytes = 0;
  uint64_t epochs = 0;
  const LogStatus* status = nullptr;  // null: it is off
};

// Owner:    the server. Its state belongs to proactor 0, and so do all methods.
// Suspends: what says so.
class AppendLog {
 public:
  // All outlive it.
  AppendLog(ServerState* server, Persistence* persistence, const LogOptions& options);
  ~AppendLog();

  // Goes on behind the log that was loaded, or begins one for data that no log has. Nothing, or why
  // that cannot be. REQUIRES: it is off, and no unit is under way: nobody is served yet. Suspends.
  [[nodiscard]] std::string Continue(std::unique_ptr<LogDirectory> directory,
                                     const LogWriter::Start& start, uint64_t first_epoch);
  // The end of the server. REQUIRES: it serves nobody any more. Suspends.
  void Stop();

  // --- Settings. What they need locks for is done in the background, as their client may be an EXEC,
  // which has some. An error, or nothing. ---

  // appendonly. Files that cannot be made are an error. Suspends, but for no locks.
  [[nodiscard]] std::string SetOn(bool is_on);
  [[nodiscard]] std::string SetPolicy(LogWriter::Policy policy);
  // When a rewrite begins by itself, and whether there are timestamps.
  void SetRules(const LogOptions& options);
  bool is_on() const { return journal_ != nullptr; }

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

  // Between two tries to write the base of a log that has none.
  static constexpr uint64_t kRetryMillis = 1'000;
  static constexpr uint64_t kRetryMillisMax = 60'000;
  static constexpr uint64_t kLookMillis = 20;

  FileLayer& files() const;
  std::unique_ptr<LogDirectory> NewDirectory(const std::string& dir) const;
  // Calls it while nothing changes. Suspends.
  template <typename Function>
  void WithAllLocked(Function function);
  // Makes the writer and the journal.
  std::error_code Open(const LogWriter::Start& start, uint64_t first_epoch);
  // And ends them. REQUIRES: Unlink.
  void Close();
  // Units go to the journal, and do not any more. REQUIRES: nothing changes.
  void Link();
  void Unlink();
  std::string Begin();
  void End();
  // Calls it on a fiber, when no rewrite is under way; none begins meanwhile.
  void ChangeSoon(std::function<void()> change);
  void Rewrite();
  std::string RewriteOnce(Rewriting* rewriting);
  std::string RewriteWithoutLog();
  void AwaitRewrite();
  uint64_t SizeOf(const ManifestFile& file) const;
  void NoteSizes();
  void OnStatus();  // Thread: any

  ServerState& server_;
  Persistence& persistence_;
  LogOptions options_;
  bool is_changing_ = false;  // ChangeSoon
  bool has_turn_ = false;     // and no rewrite may begin
  std::unique_ptr<LogDirectory> directory_;
  std::unique_ptr<LogWriter> writer_;
  std::unique_ptr<Journal> journal_;
  bool is_linked_ = false;
  bool ends_ = false;                     // rewrites are given up
  std::shared_ptr<Rewriting> rewriting_;  // null: none is under way
  AppendLogFacts facts_;
  uint64_t older_bytes_ = 0;  // of all listed files but the one that grows
};

}  // namespace dfly
