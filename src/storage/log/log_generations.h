// SPDX-License-Identifier: Apache-2.0
// A log over all the time that its files reach back: generations, each a base with what came after
// it until the next base. The last one is the log itself, those before it are its history
// (log_history.h). Only reads, so the log may be one that a running server writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/file_layer.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_reader.h"
#include "storage/log/manifest.h"

namespace dfly {

struct LogFile {
  ManifestFile listed;
  std::string path;
  std::shared_ptr<InputFile> file;
};

struct LogGeneration {
  uint64_t number = 0;  // in the history; 0: the log itself
  std::string manifest_path = {};
  std::optional<LogFile> rdb = {};  // the base, if it is an RDB file
  // Of the base's moment, Unix time. None: nobody knows it, or the file may have commands, too.
  std::optional<int64_t> rdb_time_s = {};
  std::vector<LogFile> parts = {};    // with commands: a base that is no RDB file, incrementals
  bool has_base_of_commands = false;  // it is the first of the parts
};

// Opens all that there is, oldest first. Files that are renamed or removed meanwhile stay open. An
// entry of the history that lacks a file is left out. An empty text, or what is wrong. Suspends.
[[nodiscard]] std::string OpenGenerations(FileLayer* files, const LogDirectory::Names& names,
                                          std::vector<LogGeneration>* generations);

// Reads the commands of a generation.
// Owner:    who reads, from a fiber. Suspends: Next.
class LogWalk {
 public:
  enum class Step : uint8_t {
    kTime,      // time_s()
    kEpoch,     // epoch()
    kCommands,  // so many commands() are complete, and are of the last epoch
    kEnd,
    kDamaged  // error(), with the file
  };
  explicit LogWalk(const LogGeneration* generation) : generation_(*generation) {}

  Step Next();

  int64_t time_s() const { return reader_->timestamp_s(); }
  uint64_t epoch() const { return reader_->epoch().number; }
  uint64_t commands() const { return commands_; }
  // As the log has it, of the first of these commands.
  const std::string& name() const { return name_; }
  const std::string& error() const { return error_; }
  // Where the log can be cut so that the step, and all behind it, is left out: parts[part()] has
  // `whole()` bytes then.
  size_t part() const { return part_; }
  uint64_t whole() const { return whole_; }
  // Of the parts that were read to their end, in bytes: without filler, and without a torn end.
  const std::vector<uint64_t>& part_sizes() const { return part_sizes_; }

 private:
  void OpenPart();
  Step Damaged(std::string_view what);
  // None: the command alone completes nothing.
  std::optional<Step> TakeCommand();

  const LogGeneration& generation_;
  std::unique_ptr<LogReader> reader_;  // null: of the next part, it is not open yet
  size_t part_ = 0;
  uint64_t whole_ = 0;       // of the part, before the step
  uint64_t next_whole_ = 0;  // and with it
  std::vector<uint64_t> part_sizes_;
  uint64_t commands_ = 0;
  std::string name_;
  uint64_t queued_ = 0;  // commands of a MULTI that is open
  std::string torn_;     // a part before had no whole end; what follows may have nothing
  std::string error_;
};

}  // namespace dfly
