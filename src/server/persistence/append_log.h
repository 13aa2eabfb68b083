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
  // The same on a server that serves: the log is on when its base is written, in the background.
  // Nothing, or why it cannot begin. Suspends.
  [[nodiscard]] std::string Begin(const std::string& dir);
  // Nothing is written any more; the files stay. Suspends.
  void End();
  bool is_on() const { return journal_ != nullptr; }

  // appendfsync. Nothing, or why it stays as it was. Suspends.
  [[nodiscard]] std::string SetPolicy(LogWriter::Policy policy);

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

  std::unique_ptr<LogDirectory> NewDirectory(const std::string& dir) const;
  std::string Link(const LogWriter::Start& start, uint64_t first_epoch, bool is_locked);
  void Unlink();
  void Rewrite();
  std::string RewriteNow(Rewriting* rewriting);
  void AwaitRewrite();

  ServerState& server_;
  Persistence& persistence_;
  LogOptions options_;
  helio::Mutex changes_;  // one at a time: Begin, End, SetPolicy
  std::unique_ptr<LogDirectory> directory_;
  std::unique_ptr<LogWriter> writer_;
  std::unique_ptr<Journal> journal_;
  std::shared_ptr<Rewriting> rewriting_;
  AppendLogFacts facts_;
};

}  // namespace dfly
