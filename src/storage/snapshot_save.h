// SPDX-License-Identifier: Apache-2.0
// Writes all shards, as they are at one moment, to files.
//
// What makes a snapshot valid is one file, which gets its name when all else is on the device; up
// to then the one before it is what will be found. Whatever goes wrong, that one stays.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/hops/shard_set.h"
#include "storage/file_layer.h"
#include "storage/frame_file.h"
#include "storage/shard_snapshot.h"
#include "storage/snapshot_extras.h"
#include "storage/snapshot_names.h"

namespace dfly {

class Transaction;

struct SaveOptions {
  SnapshotPath path;
  FrameCodec codec = FrameCodec::kNone;  // of our own format
  int level = 0;                         // of kZstd
  bool compresses_strings = true;        // in RDB files
  std::string redis_version;             // that RDB files tell
  ShardSnapshot::Sizes sizes = {};
  ShardSnapshot::OnBehind on_behind = {};  // of each shard, on its thread

  // Not empty: this RDB file becomes the base of an append-only log. It is written and synced; who
  // has asked for it gives it its name. `path` is only used in messages.
  std::string log_base = {};
  // Instead of that file: where the RDB goes. It may end the save by an error of Write; who waits
  // in Write looks at `is_cancelled` now and then.
  using OutputFn =
      std::function<std::unique_ptr<OutputFile>(const std::atomic<bool>* is_cancelled)>;
  OutputFn make_output = {};
  bool has_keys = true;       // else the RDB has only what there is besides
  bool has_functions = true;  // in RDB files
  // Called with all shards locked (by SaveSnapshot itself), before anything is cut; then `on_cut`
  // is called with these locks, too. Units that are not waited for (a key that expires, or is
  // evicted) may come until the cut. False: the save is given up. Suspends, for as long as writes
  // to a disk take.
  std::function<bool()> before_cut = {};
  // Whom the cut waits for, and who waits for it.
  LockMode cut_lock = LockMode::kShared;
};

struct SaveResult {
  std::string error;  // empty: all is on the device
  uint64_t keys = 0;
  uint64_t bytes = 0;  // of all files
  // Summed over the shards.
  ShardSnapshotStats shards;
};

// How far it is. Thread: any.
struct SaveProgress {
  std::atomic<uint64_t> keys_total{0};
  std::atomic<uint64_t> keys{0};
  // By who sets it: ends the save with an error, soon. If it waits for its locks it has to be told
  // besides (Transaction::CancelWaiters).
  std::atomic<bool> is_cancelled{false};
};

// Saves. `on_cut` is called right after the cut, where nothing suspends; it tells what there is
// besides keys. `lock`: a transaction of the caller's that is to lock all shards, and keeps them
// locked: nothing changes after the cut. Null: they go on. From a fiber of a proactor; one at a
// time. Suspends.
SaveResult SaveSnapshot(ShardSet* shards, FileLayer* files, const SaveOptions& options,
                        const std::function<SnapshotExtras()>& on_cut, SaveProgress* progress,
                        Transaction* lock = nullptr);

}  // namespace dfly
