// SPDX-License-Identifier: Apache-2.0
// The directory of an append-only log, and its manifest.
//
//   <dir>/<directory name>/<file name>.manifest
//                          <file name>.<seq>.base.rdb     what there was at a cut
//                          <file name>.<seq>.incr.aof     what came after it, in this order
//                          temp-<file name>.manifest      what is not finished; the same with
//                                                         .base.rdb
//                          <file name>.place              of a replica's log (log_place.h); the
//                                                         same with temp-
//                          .<file name>.lock              empty; who has the log has its lock
//                          history/                       what was replaced (log_history.h)
//
// Every change is a new manifest, which replaces the old one in one rename. Files that it lists are
// there before, those that it does not list are removed after, so a start finds the same data
// whenever the machine has stopped. Numbers are never used twice, so that a manifest of which
// nobody knows whether it is on the device lists no file that has another content by now.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "helio/base/clock.h"
#include "storage/file_layer.h"
#include "storage/log/annotations.h"
#include "storage/log/log_history.h"
#include "storage/log/manifest.h"
#include "storage/snapshot_extras.h"

namespace dfly {

// Owner:    who writes the log. Calls come one after another, from fibers of any thread.
// Suspends: all but the accessors.
// Errors:   After one the directory has what it had before, and possibly files that are not listed.
class LogDirectory {
 public:
  struct Names {
    std::string dir;             // of the server's files; "" is the current one
    std::string directory_name;  // in `dir`: appendonlydir
    std::string file_name;       // how names of files begin: appendonly.aof
  };
  LogDirectory(FileLayer* files, Names names);

  // Reads the manifest; makes the directory if it is not there. No other process can open the same
  // log until this object is gone; logs of other names may be in the directory. Takes over the log
  // of a Redis before 7, which is the file `file_name` in `dir`. Removes what earlier runs have
  // left over: only files that are called as above. An empty text, or why the log cannot be loaded.
  [[nodiscard]] std::string Open();
  // For who only loads the log: nothing is taken over, made anew or removed; without a manifest it
  // is new. Of what follows only the accessors may be called.
  [[nodiscard]] std::string OpenToRead();
  bool is_read_only() const { return is_read_only_; }
  // What a new base replaces goes to the history. Before Open; afterwards SetKeepsHistory.
  void set_keeps_history(bool value) { keeps_history_ = value; }

  // What follows: after Open.
  const Manifest& manifest() const { return manifest_; }
  bool is_new() const { return !manifest_.base && manifest_.incrementals.empty(); }
  std::string Path(std::string_view name) const;
  const std::string& path() const { return path_; }
  // Empty if none is kept.
  const std::vector<LogHistoryEntry>& history() const { return history_.entries(); }
  // Unix time of its oldest base, or when that was replaced, if it does not tell. 0: there is none.
  // Suspends.
  int64_t HistoryBegin() const;
  // Where a base is written before FinishBase.
  std::string TemporaryBase() const;

  // Adds an incremental, behind all others. It is on the device, and has `header`, behind which
  // its content begins (WriteLogFileHeader). `start_offset` as in ManifestFile.
  [[nodiscard]] std::error_code NewIncremental(std::string* name,
                                               std::string_view header = kFileMark,
                                               std::optional<int64_t> start_offset = {});
  // What is listed is of an older log, whose data is not what there is now. It stays until
  // FinishBase replaces all of it. Files that are added until then are not listed on the device.
  // From now on manifest() has none of the older log. Once, before all others.
  [[nodiscard]] std::error_code BeginReplacement();
  bool is_replacing() const { return is_replacing_; }
  // TemporaryBase(), which is on the device, replaces the base and the incrementals before
  // `first_seq`: those from there on are what came after it.
  // `now_s` is Unix time, for the history.
  // REQUIRES: an incremental `first_seq` is listed; 0: there is none, and none stays.
  [[nodiscard]] std::error_code FinishBase(uint64_t first_seq,
                                           int64_t now_s = helio::UnixMillis() / 1000);

  // What the log has is that of a stream, up to there. It counts until somebody writes to the log.
  // REQUIRES: what the log has is on the device, and nobody writes.
  [[nodiscard]] std::error_code SavePlace(const StreamPlace& place);
  // None: there is none that counts. Before the log goes on.
  std::optional<StreamPlace> ReadPlace();
  void RemovePlace();

  // Replaced incrementals that have the replication stream behind `from` stay in the directory and
  // in the manifest, as files of type h, which no start loads. All of them have at most `bytes_max`
  // together; the oldest go first. A start removes them.
  struct StreamHold {
    uint64_t from = UINT64_MAX;
    uint64_t bytes_max = 0;
  };
  // set_hold counts from the next FinishBase on, SetHold at once.
  void set_hold(const StreamHold& hold) { hold_ = hold; }
  void SetHold(const StreamHold& hold);
  struct Held {
    std::vector<std::string> names;  // oldest first
    uint64_t bytes = 0;
  };
  const Held& held() const { return held_; }

  // False removes all of it. (A start without a history leaves alone what is there.)
  void SetKeepsHistory(bool value);
  // What was replaced before that Unix time goes.
  void ExpireHistory(int64_t before_s) { history_.Expire(before_s); }

 private:
  std::string Lock();
  std::string ReadManifest();
  // Of a Redis before 7, if there is one.
  std::string Adopt();
  std::string CheckFiles();
  void RemoveLeftovers();
  // Makes `next` the manifest. After an error either may be the one on the device.
  std::error_code Persist(Manifest next);
  // What `next` has no more, as a log; without a base and incrementals: nothing of use.
  Manifest Retired(const Manifest& next) const;
  // Files of type h go to the history, or are removed; and are forgotten.
  void RemoveRetired();
  // Sets held_.
  void FindHeld();
  void TellOfHistory();
  // Is it the base, or an incremental?
  bool IsUsed(std::string_view name) const;
  std::string ManifestName() const { return names_.file_name + ".manifest"; }
  std::string TemporaryManifest() const { return Path("temp-" + ManifestName()); }
  std::string PlaceName() const { return names_.file_name + ".place"; }
  std::string TemporaryPlace() const { return Path("temp-" + PlaceName()); }
  uint64_t TakeSeq(uint64_t* next) { return (*next)++; }

  FileLayer& files_;
  const Names names_;
  const std::string path_;
  std::unique_ptr<FileLock> lock_;  // null: the file system has none
  bool is_read_only_ = false;
  bool keeps_history_ = false;
  StreamHold hold_;
  Held held_;
  LogHistory history_;
  Manifest manifest_;
  bool is_replacing_ = false;
  Manifest replaced_;               // of the older log; all else is empty
  std::vector<std::string> found_;  // names in the directory, when it was opened
  uint64_t next_base_seq_ = 1;
  uint64_t next_incremental_seq_ = 1;
};

}  // namespace dfly
