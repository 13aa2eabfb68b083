// SPDX-License-Identifier: Apache-2.0
// What rewrites of an append-only log have replaced, kept for some time: --aof_history.
//
//   <log's directory>/history/<n>.<file name>.manifest     n rises with each rewrite
//                             <n>.<name of a file that the manifest lists>
//
// An entry is a log that is whole: what there was, up to the rewrite. Redis does not look into the
// folder. The first line of such a manifest is a comment, "# replaced <Unix seconds>".
//
// A file is where the log's own manifest has it, or in the folder, and moves in one rename:
//
//   1. the entry's manifest is written      Begin; nothing is moved: an entry without its files
//   2. the log's manifest lists them as 'h' LogDirectory
//   3. the files are moved                  Take
//   4. the log's manifest forgets them      LogDirectory
//
// A start goes on with 3 if it finds 2. An entry that lacks a file is of no use, and is removed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "storage/file_layer.h"
#include "storage/log/manifest.h"

namespace dfly {

struct LogHistoryEntry {
  uint64_t number = 0;     // > 0
  int64_t replaced_s = 0;  // Unix time
  Manifest log;            // a base and incrementals
  uint64_t bytes = 0;      // of its files, as far as LogHistory knows

  // All files that it lists.
  std::vector<ManifestFile> files() const;
};

// Where things are in the log's directory `log_path`.
std::string HistoryFolder(const std::string& log_path);
std::string HistoryPath(const std::string& log_path, uint64_t number, std::string_view name);

// Entries that have a manifest which makes sense, oldest first. Whether their files are there is
// not looked at. No error if there is no folder. `names`: all that is in the folder. `file_name` as
// in LogDirectory::Names. Suspends.
[[nodiscard]] std::error_code ReadHistory(FileLayer* files, const std::string& log_path,
                                          const std::string& file_name,
                                          std::vector<LogHistoryEntry>* entries,
                                          std::vector<std::string>* names);

// Owner:    a LogDirectory. Calls come one after another.
// Suspends: all but the accessors.
// Errors:   of the disk are logged; the log itself does not need what is kept here.
class LogHistory {
 public:
  LogHistory(FileLayer* files, std::string log_path, std::string file_name);

  // Reads the folder. Takes the files of `retired`, which are in the log's directory, that an entry
  // lacks. Removes what is not whole, and what is of no entry. Once, before the others.
  void Open(const std::vector<ManifestFile>& retired);
  bool is_open() const { return is_open_; }

  // A new entry: `log` will be replaced, at `now_s` (Unix time). Its files stay where they are
  // until Take, or for ever: Abandon.
  void Begin(const Manifest& log, int64_t now_s);
  void Abandon();
  void Take();

  // Removes entries that were replaced before `before_s` (Unix time).
  void Expire(int64_t before_s);

  const std::vector<LogHistoryEntry>& entries() const { return entries_; }  // oldest first

 private:
  std::string Path(uint64_t number, std::string_view name) const;
  // Moves what it lacks, of what may be moved. False: it still lacks something.
  bool Complete(LogHistoryEntry* entry, const std::vector<ManifestFile>& retired);
  void RemoveEntry(const LogHistoryEntry& entry);
  void RemoveLeftovers(const std::vector<std::string>& names);
  void RemoveFile(const std::string& path);

  FileLayer& files_;
  const std::string log_path_;
  const std::string file_name_;
  const std::string manifest_name_;
  bool is_open_ = false;
  uint64_t next_number_ = 1;
  std::vector<LogHistoryEntry> entries_;
  std::vector<LogHistoryEntry> begun_;  // of Begin; one at most
};

}  // namespace dfly
