// SPDX-License-Identifier: Apache-2.0
// Fills empty shards from a snapshot, each file on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/rdb_value.h"
#include "engine/shard_set.h"
#include "storage/entry_reader.h"
#include "storage/file_layer.h"
#include "storage/snapshot_extras.h"
#include "storage/snapshot_names.h"

namespace dfly {

// How far it is. Thread: any.
struct LoadProgress {
  std::atomic<uint64_t> bytes_total{0};
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> keys{0};
  std::atomic<uint64_t> expired_keys{0};  // that were due, and left out
};

// Owner:    who loads; from a fiber.
// Suspends: Load.
class SnapshotLoader {
 public:
  // All must outlive it. REQUIRES: the shards are empty, and nobody else uses them.
  SnapshotLoader(ShardSet* shards, FileLayer* files, LoadProgress* progress)
      : shards_(*shards), files_(*files), progress_(*progress) {}

  // Loads it. Returns an empty text, or what is wrong with it; then the shards have a part of it.
  // What is not keys is in extras() then.
  [[nodiscard]] std::string Load(const SnapshotPath& path);
  const SnapshotExtras& extras() const { return extras_; }

 private:
  std::string LoadRdb(const std::string& path);
  std::string LoadOurs(const SnapshotPath& path);
  // All entries of one stream, on the calling thread.
  template <typename Source>
  std::string LoadStream(Source* source, EntryReader* reader);
  std::string LoadEntry(EntryReader* reader);

  ShardSet& shards_;
  FileLayer& files_;
  LoadProgress& progress_;
  SnapshotExtras extras_;
  int64_t now_ms_ = 0;
};

}  // namespace dfly
