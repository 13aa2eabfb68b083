// SPDX-License-Identifier: Apache-2.0
// What is known of snapshots, for INFO.
#pragma once

#include <cstdint>
#include <string>

#include "storage/shard_snapshot.h"

namespace dfly {

// Of --after_save_command.
struct AfterSaveFacts {
  bool is_running = false;
  uint64_t runs = 0;      // that have ended
  uint64_t failures = 0;  // with another status than 0, by a signal, or it could not begin
  // Of the last one: its exit status; 128 + the number of a signal; -1: it could not begin.
  int64_t last_status = 0;
  uint64_t skipped = 0;  // files, as too many waited
};

struct PersistenceFacts {
  bool is_loading = false;
  bool is_async_loading = false;  // while clients see the data that there is
  bool is_saving = false;
  int64_t last_save_s = 0;  // Unix time of the last good one, or of the start
  bool is_last_ok = true;   // failures in the foreground do not count
  int64_t last_duration_s = -1;
  int64_t current_duration_s = -1;
  uint64_t saves = 0;
  uint64_t changes_at_last_save = 0;
  uint64_t unsaved_of_other = 0;  // changes, in the process that this one took over from
  uint64_t last_keys = 0;
  uint64_t last_bytes = 0;
  ShardSnapshotStats last_shards;
  std::string last_error;
  std::string last_file;
  AfterSaveFacts after_save;
  uint64_t current_keys = 0;
  uint64_t current_keys_total = 0;
  // Loading
  int64_t load_start_s = 0;
  uint64_t load_bytes_total = 0;
  uint64_t load_bytes = 0;
  uint64_t loaded_keys = 0;
  uint64_t load_expired_keys = 0;
  double load_seconds = 0;
};

}  // namespace dfly
