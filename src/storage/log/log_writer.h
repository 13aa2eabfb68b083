// SPDX-License-Identifier: Apache-2.0
// Writes the journal's epochs to the append-only log: to the last incremental file of its directory
// (log_directory.h), one append for each.
//
//   [#TS:<seconds>]  #EPOCH:<number> ...  [SELECT]  commands              (annotations.h)
//
// When the disk fails:
// * An append: what was half written is cut, and it is tried again until it works or Stop().
// * A sync: the kernel may have dropped the bytes and will not tell again, so the file is given up.
//   It is cut to what was synced before, and what was not is written to a new incremental. First
//   the cut: a file that is torn and not the last one ends the start of any server, and one that
//   has an epoch twice is worse.
//   With kNo nobody was promised that, and nothing is kept in memory for it: the file stays as it
//   is, and the log needs a new base (LogStatus::needs_base).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine/journal/durable_log.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/sync.h"
#include "storage/file_layer.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_policy.h"
#include "storage/log/log_status.h"

namespace dfly {

// What whoever writes to the log waits for.
enum class LogWait : uint8_t {
  kWrite,
  kWritePendingSync,  // while a sync is under way
  kWriteAndSync,      // of LogPolicy::kAlways
};

// Owner:    the server. Open first, Close last; not after errors of Open.
// Thread:   any proactor's; BeginNewFile and status() any.
// Suspends: what is not said to be otherwise.
class LogWriter final : public DurableLog {
 public:
  using Policy = LogPolicy;
  struct Options {
    Policy policy = Policy::kEverySec;
    size_t reserve_bytes = 4 << 20;  // of kAlways: FileLayer::OpenAppend
    bool has_timestamps = false;
    uint64_t retry_period_ns = 1'000'000'000;
    uint64_t sync_period_ns = 1'000'000'000;
    std::function<int64_t()> unix_seconds = {};  // for tests; default: the clock
    // The disk begins to fail, or is well again (LogStatus::is_ok). Thread: any; must not suspend.
    std::function<void()> on_status = {};
    // LogStatus::synced_epoch has grown. As on_status.
    std::function<void()> on_synced = {};
    // A write is over that took so long. On the fiber that wrote; must not suspend.
    std::function<void(LogWait kind, uint64_t nanos)> on_wait = {};
  };
  // Where the log goes on that was loaded.
  struct Start {
    uint64_t last_epoch = 0;     // the newest so far; it is taken to be on the device
    uint64_t stream_offset = 0;  // bytes of all epochs so far
    std::string stream_id = {};  // of the last file (LogFileHeader)
    // False: in a new incremental, as the last one has no epochs at its end.
    bool continues_file = false;
    // The incremental at whose end the log ends, and where; what is behind is cut. 0: the last one.
    // If it is another one those behind it have no epochs, and the log goes on in a new one.
    uint64_t file_seq = 0;
    uint64_t file_size = 0;
    int last_db = -1;  // what its last command had selected. -1: unknown
  };

  // All outlive it.
  LogWriter(FileLayer* files, LogDirectory* directory, Options options);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  [[nodiscard]] std::error_code Open(const Start& start);
  [[nodiscard]] bool Write(const Epoch& epoch) override;
  // From the next epoch on, which goes to a new incremental. An error: the old policy stays. Only
  // with kNo, which would not keep what a disk that fails does not take. REQUIRES: nobody writes.
  [[nodiscard]] std::error_code SetPolicy(Policy policy);
  void SetTimestamps(bool has_them);
  // Epochs up to this one, which Write will not get, are in other files, or in the base that is
  // being written.
  void NoteKnown(uint64_t epoch) { NoteSynced(epoch); }
  // All that was written is on the device, also with kEverySec and kNo.
  [[nodiscard]] std::error_code Sync();
  // Write returns false from now on, also one that waits for the disk.
  void Stop();
  // Syncs, and cuts the filler. What it cannot write is lost: the error. REQUIRES: nobody writes.
  [[nodiscard]] std::error_code Close();

  // For a base. Epochs from `first_epoch` on go to a new incremental; those before do not, and are
  // on the device when it is listed, whatever the policy. If it cannot be made they go to the old
  // file. Never suspends.
  void BeginNewFile(uint64_t first_epoch);
  // What became of it, and the number of the new file. Makes it if no such epoch has come.
  // REQUIRES: all epochs before first_epoch are written.
  [[nodiscard]] std::error_code FinishNewFile(uint64_t* seq);
  // LogDirectory::FinishBase; Write may need the directory at the same time.
  [[nodiscard]] std::error_code FinishBase(uint64_t first_seq);

  // Calls function(LogDirectory&) while Write does not use the directory, and returns what it does.
  template <typename Function>
  auto WithDirectory(Function function) {
    const std::lock_guard lock(directory_mutex_);
    return function(directory_);
  }

  const LogStatus& status() const { return status_; }

 private:
  // An epoch that was written and is not known to be on the device. Only with kEverySec.
  struct Kept {
    uint64_t number;
    int first_db, last_db;
    std::string bytes;
    uint64_t stream_offset;  // where it begins
    uint64_t file_end = 0;   // where it ends in file_. 0: it is not there
  };
  using FilePtr = std::shared_ptr<AppendFile>;

  size_t reserve_bytes() const {
    return options_.policy == Policy::kAlways ? options_.reserve_bytes : 0;
  }
  FilePtr file();
  void SetFile(FilePtr file);

  // What follows, to the next heading, is done with write_mutex_ held.
  // One try. What it needs first: a file that is not broken, with all that was kept.
  std::error_code TryWrite(const Epoch& epoch);
  std::error_code Append(const Epoch& epoch, bool sync);
  // There is a file, it is not broken, and has all that was kept.
  std::error_code Mend();
  std::error_code GiveUpFile();
  // The header of a file that goes on here.
  LogFileHeader Here() const {
    return {.stream_id = stream_id_, .stream_offset = stream_offset_, .db_index = stream_db_};
  }
  std::error_code AddFile(const LogFileHeader& header, uint64_t* seq);
  std::error_code OpenNewFile();
  std::error_code WriteKept();
  // What was written is on the device, and the file is as long as that: it may be followed by
  // another one.
  std::error_code EndFile();
  // After EndFile: goes on in a new incremental. An error: in the old file.
  std::error_code BeginFile(const LogFileHeader& header, uint64_t* seq);
  // A new file, if it is wanted for this epoch. Notes what came of it for FinishNewFile.
  void SwitchFor(uint64_t epoch);
  // A new file for another replication stream, of which `first` is.
  std::error_code SwitchStream(const Epoch& first);
  std::error_code SyncAll();

  // Up to there the stream is on the device.
  uint64_t SyncedOffset();

  // Forgets what is on the device by now.
  void DropSynced();
  // All epochs up to this one are on the device.
  void NoteSynced(uint64_t epoch);
  std::error_code SyncFile(const FilePtr& file);
  void StartSyncs();
  void EndSyncs();
  void RunSyncs();
  // False: it was stopped.
  bool AwaitRetry();
  bool stops();
  std::error_code Note(std::error_code error);

  FileLayer& files_;
  LogDirectory& directory_;
  Options options_;  // the policy changes
  LogStatus status_;

  // Held by whoever appends, or changes which file that goes to; for as long as that takes.
  helio::Mutex write_mutex_;
  std::string new_name_;      // an incremental that is listed and not open yet
  LogFileHeader new_header_;  // its
  int last_db_ = -1;          // selected at the file's end; -1: none
  std::string stream_id_;     // of the replication stream; empty: the log is of none
  int stream_db_ = -1;        // selected at stream_offset_
  uint64_t last_epoch_ = 0;   // the newest that was appended
  uint64_t stream_offset_ = 0;
  uint64_t synced_offset_ = 0;                      // as far as known here; not with kEverySec
  int64_t last_second_ = -1;                        // of the last timestamp
  std::vector<std::string_view> content_, pieces_;  // of Append

  std::atomic<uint64_t> cut_epoch_{0};  // BeginNewFile(), until it was tried; 0: nothing is wanted
  std::error_code cut_error_;           // of the try
  uint64_t cut_seq_ = 0;
  bool wants_file_ = false;  // for a new policy; guarded by write_mutex_

  std::atomic<bool> is_syncing_{false};  // RunSyncs is in a sync

  // Held by whoever uses the directory. Taken after write_mutex_.
  helio::Mutex directory_mutex_;

  // Guards what follows. Held for moments; taken after all others.
  helio::Mutex state_mutex_;
  helio::CondVar state_changed_;  // stops_, and what RunSyncs waits for
  FilePtr file_;                  // changed with write_mutex_ held, too. Null: it has to be opened
  std::deque<std::shared_ptr<Kept>> kept_;
  bool stops_ = false;   // Stop()
  bool closes_ = false;  // Close(), or the policy needs no syncs

  helio::Fiber sync_fiber_;
};

}  // namespace dfly
