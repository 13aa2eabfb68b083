// SPDX-License-Identifier: Apache-2.0
// Loads an append-only log: its base, then its incrementals, in the order of the manifest.
//
// What it reads are commands, and this layer knows none but SELECT, MULTI and EXEC, so others carry
// them out (LogApplier). A MULTI is handed on when its EXEC has been read. How files may end is
// told in log_reader.h; only the last one that has something may have a torn end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/hops/shard_set.h"
#include "facade/parsers/request_parser.h"
#include "storage/file_layer.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_reader.h"
#include "storage/snapshot_extras.h"
#include "storage/snapshot_load.h"

namespace dfly {

// Owner:    who loads; on its thread.
// Suspends: all.
class LogApplier {
 public:
  virtual ~LogApplier() = default;
  // What a base has besides keys. Before the first command.
  [[nodiscard]] virtual std::string TakeExtras(const SnapshotExtras& extras) = 0;
  // Carries out a command, at once or later; commands take effect as if in this order. `args` are
  // the caller's, and not empty. An empty text, or why the log cannot be loaded.
  [[nodiscard]] virtual std::string Apply(int db_index, std::span<const std::string_view> args) = 0;
  // All commands have been carried out when it returns.
  [[nodiscard]] virtual std::string Finish() = 0;
};

// Where a log ends, and goes on.
struct LogEnd {
  uint64_t last_epoch = 0;     // the number of the last one; 0: there is none
  uint64_t stream_offset = 0;  // bytes of the stream
  std::string stream_id;  // of which replication stream it is a part at its end; empty: of none
  int db_index = -1;      // that is selected at the end; -1: none, as the last file has nothing
  // The incremental in which the log ends, and how much of it is to stay. 0: there is none.
  uint64_t file_seq = 0;
  uint64_t file_size = 0;
  // More epochs can be appended to it: no other server has.
  bool continues_file = false;
  // Somebody else has written to the log, since the base or in it: the stream is no longer ours.
  bool is_foreign = false;
  uint64_t torn_bytes = 0;  // that were left out
  std::string torn;         // why, with the file's path
};

// Owner:    who loads; from a fiber.
// Suspends: Load.
class LogLoader {
 public:
  // All must outlive it. REQUIRES: the directory is open; the shards are empty, and nobody else
  // uses them.
  LogLoader(ShardSet* shards, FileLayer* files, const LogDirectory* directory, LogApplier* applier,
            LoadProgress* progress)
      : shards_(*shards),
        files_(*files),
        directory_(*directory),
        applier_(*applier),
        progress_(*progress) {}

  // `may_be_torn`: a torn end is left out; else it is an error. An empty text, or what is wrong;
  // then the shards have a part of the log.
  [[nodiscard]] std::string Load(bool may_be_torn);

  const LogEnd& end() const { return end_; }
  uint64_t commands() const { return commands_; }

 private:
  // Of a MULTI: copies, until its EXEC has come.
  struct Held {
    struct Command {
      int db_index;
      size_t args;  // how many of ends
    };
    std::string bytes;
    std::vector<size_t> ends;  // of arguments, in bytes
    std::vector<Command> commands;
  };

  std::string LoadBase(bool may_be_torn);
  std::string LoadFile(const ManifestFile& file, uint64_t begin, bool may_be_torn);
  std::string LoadItems(LogReader* reader);
  std::string TakeHeader(const LogFileHeader& header);
  std::string Take(const LogReader& reader);
  std::string TakeHeld();
  std::string TakeSelect(std::string_view text);
  // Those behind it have neither epochs nor commands.
  bool IsLastWithContent(const ManifestFile& file);

  ShardSet& shards_;
  FileLayer& files_;
  const LogDirectory& directory_;
  LogApplier& applier_;
  LoadProgress& progress_;
  LogEnd end_;
  bool is_stream_known_ = false;
  int db_index_ = 0;
  Held held_;
  std::vector<std::string_view> args_;  // of one command of held_
  RequestParser private_parser_{{.max_bulk_len = SIZE_MAX >> 24, .authenticated = true}};
  uint64_t commands_ = 0;
};

}  // namespace dfly
