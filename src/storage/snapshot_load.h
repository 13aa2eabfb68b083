// SPDX-License-Identifier: Apache-2.0
// Fills empty shards from a snapshot, each file on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/rdb/rdb_value.h"
#include "engine/hops/shard_set.h"
#include "storage/file_layer.h"
#include "storage/frame_file.h"
#include "storage/snapshot_extras.h"
#include "storage/snapshot_names.h"

namespace dfly {

// How far it is. Thread: any.
struct LoadProgress {
  std::atomic<uint64_t> bytes_total{0};  // 0: not known
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> keys{0};
  std::atomic<uint64_t> expired_keys{0};  // that were due, and left out
  std::atomic<uint64_t> empty_keys{0};    // collections without elements, left out
  std::atomic<bool> is_cancelled{false};  // by who sets it: ends the load with an error, soon
};

// Owner:    who loads; from a fiber.
// Suspends: Load.
class SnapshotLoader {
 public:
  // All must outlive it. REQUIRES: the shards are empty, and nobody else uses them, or LoadBeside.
  SnapshotLoader(ShardSet* shards, FileLayer* files, LoadProgress* progress)
      : shards_(*shards), files_(*files), progress_(*progress) {}

  // Keys whose time is over are not left out: what follows the snapshot may need them. So it is
  // with those that have a place in a stream.
  void KeepDueKeys() { keeps_due_keys_ = true; }

  // It fills Shard::incoming, so what the shards have may be used meanwhile.
  void LoadBeside() { is_beside_ = true; }

  // The seed by which its keys were hashed, if it knows one: with that it is loaded faster. None:
  // whatever is wrong with it, Load will tell. Before there are threads that hash. Suspends.
  std::optional<uint64_t> ReadHashSeed(const SnapshotPath& path);

  // Loads it. Returns an empty text, or what is wrong with it; then the shards have a part of it.
  // What is not keys is in extras() then.
  [[nodiscard]] std::string Load(const SnapshotPath& path);
  // The same with an RDB file of any name, which other bytes may follow: from `*end` on.
  [[nodiscard]] std::string LoadRdbPart(const std::string& path, uint64_t* end);
  // The same with an open file; `name` is for errors. Its size may be unknown.
  [[nodiscard]] std::string LoadRdb(const std::string& name, std::unique_ptr<InputFile> file,
                                    uint64_t* end);
  const SnapshotExtras& extras() const { return extras_; }

 private:
  class StreamLoader;
  // A summary that wants more files is damaged.
  static constexpr uint32_t kFilesMax = 65536;

  void Begin();
  std::string LoadOurs(const SnapshotPath& path);
  std::string LoadSummary(const SnapshotPath& path, FrameFileId* id, uint64_t* keys);
  std::string LoadPart(const SnapshotPath& path, const FrameFileId& id, uint64_t* keys);

  ShardSet& shards_;
  FileLayer& files_;
  LoadProgress& progress_;
  SnapshotExtras extras_;
  std::atomic<bool> has_failed_{false};
  DatabaseSet& TargetOf(Shard& shard) const { return is_beside_ ? shard.incoming() : shard.live(); }
  bool keeps_due_keys_ = false;
  bool is_beside_ = false;
  bool may_reserve_ = true;
  int64_t now_ms_ = 0;
  std::optional<RdbLimits> limits_;
};

}  // namespace dfly
