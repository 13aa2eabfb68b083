// SPDX-License-Identifier: Apache-2.0
// A replica's copy of its primary that is loaded beside the data (repl-diskless-load swapdb):
//
//   Load   the RDB goes to Shard::incoming of all shards as it comes, and its functions are
//          compiled; clients go on with the data that there is
//   Take   with all shards locked: what was loaded takes the place of that data, on all shards in
//          one hop. The old data is freed in slices, as after FLUSHALL ASYNC
//
// Without Take the data stays as it was, and what was loaded is freed in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/scripts/function_store.h"
#include "storage/file_layer.h"
#include "storage/snapshot_extras.h"
#include "storage/snapshot_load.h"

namespace dfly {

class Persistence;
struct ServerState;

// Owner:    the fiber of the link with the primary, on proactor 0. One at a time.
// Suspends: all, the constructor and the destructor too.
class CopyBeside {
 public:
  // Until the end INFO tells of a load. `serves`: clients see the data meanwhile; otherwise it is
  // of another stream than the copy, and they are told LOADING.
  CopyBeside(ServerState* server, Persistence* persistence, bool serves);
  ~CopyBeside();
  CopyBeside(const CopyBeside&) = delete;
  CopyBeside& operator=(const CopyBeside&) = delete;

  // Empty, or the error. `*end`: of the RDB in the file. Persistence::CancelBeside ends it.
  [[nodiscard]] std::string Load(std::unique_ptr<InputFile> file, uint64_t* end);
  // Of SnapshotExtras::place.
  int stream_db() const { return extras_.place.db_index; }

  // `begin` is called when all shards are locked, just before the copy becomes the data. False: it
  // has said no, or the locks have not come, as the load was cancelled. REQUIRES: Load was good.
  [[nodiscard]] bool Take(const std::function<bool()>& begin);

 private:
  ServerState& server_;
  Persistence& persistence_;
  LoadProgress progress_;
  SnapshotExtras extras_;
  FunctionTableRef functions_;
};

}  // namespace dfly
