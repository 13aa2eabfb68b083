// SPDX-License-Identifier: Apache-2.0
#include "server/persistence/copy_beside.h"

#include <fmt/format.h>

#include <utility>

#include "engine/hops/transaction.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "server/clients/server_state.h"
#include "server/persistence/loaded_parts.h"
#include "server/persistence/persistence.h"

namespace dfly {

namespace {

constexpr helio::WaitReason kCopyTake = {"a copy that becomes the data",
                                         "it is one hop, and the copy is in memory already"};

}  // namespace

CopyBeside::CopyBeside(ServerState* server, Persistence* persistence, bool serves)
    : server_(*server), persistence_(*persistence) {
  persistence_.BeginBeside(&progress_, serves);
}

CopyBeside::~CopyBeside() {
  server_.shards->AwaitOnAll([](Shard& shard) { shard.DropIncoming(); });
  persistence_.EndBeside();
}

std::string CopyBeside::Load(std::unique_ptr<InputFile> file, uint64_t* end) {
  const uint64_t begin_ns = helio::MonotonicNanos();
  SnapshotLoader loader(server_.shards.get(), server_.options.persistence.files, &progress_);
  loader.LoadBeside();
  loader.KeepDueKeys();  // the primary says when they go
  std::string error = loader.LoadRdb("the copy", std::move(file), end);
  if (!error.empty()) return error;
  extras_ = loader.extras();
  error = CompileFunctions(server_, extras_.functions, progress_.is_cancelled, &functions_);
  if (!error.empty()) return error;
  const double seconds = static_cast<double>(helio::MonotonicNanos() - begin_ns) / 1e9;
  LOG(INFO) << "loaded the copy beside the data: " << progress_.keys << " keys, "
            << fmt::format("{:.3f} s", seconds);
  return "";
}

bool CopyBeside::Take(const std::function<bool()>& begin) {
  {
    Transaction lock(server_.shards.get(), nullptr);
    lock.set_origin({.name = "replicaof"});
    lock.set_cancelled(&progress_.is_cancelled);
    lock.LockAllShards(LockMode::kExclusive);
    if (!lock.Schedule()) return false;
    const helio::BoundedWait wait(kCopyTake);
    if (!begin()) return false;
    server_.functions.Replace(std::move(functions_));
    lock.Hop([](Shard& shard) {
      shard.TakeIncoming();
      shard.NoteFlushed();
    });
  }
  AddScripts(server_, extras_.scripts);
  persistence_.NoteBesideTaken();
  return true;
}

}  // namespace dfly
