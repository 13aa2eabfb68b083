// SPDX-License-Identifier: Apache-2.0
#include "server/care/lock_watch.h"

#include <atomic>
#include <cstdint>

#include "engine/keyspace/shard.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/care/held_locks.h"
#include "server/clients/server_state.h"

namespace dfly {

LockWatch::LockWatch(WorkerState* worker, const RunningScripts* scripts)
    : PerThread(this), worker_(*worker), scripts_(*scripts), timer_(this, &worker->proactor) {}

void LockWatch::Begin() {
  const uint64_t limit_ms = worker_.server.settings.lock_warning_ms.load(std::memory_order_relaxed);
  if (limit_ms == 0 || timer_.armed()) return;
  timer_.ArmIn(limit_ms * helio::kNanosPerMilli);
}

void LockWatch::OnTimer() {
  DispatchOnAll<LockWatch>(worker_.server, [](LockWatch& watch) { watch.LookForOld(); });
  if (worker_.coordinators > 0 || scripts_.count() > 0) Begin();
}

void LockWatch::LookForOld() {
  const uint64_t limit_ms = worker_.server.settings.lock_warning_ms.load(std::memory_order_relaxed);
  if (limit_ms == 0) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  worker_.ForEachShard([&](Shard& shard) {
    shard.transactions().ForEach([&](const TxEntry& entry) {
      if (!HoldsLocks(entry) || now_ns - entry.scheduled_ns < limit_ms * helio::kNanosPerMilli)
        return;
      LOG_IF(WARNING, TellOnce(entry))
          << "locks are held for long: by " << DescribeHolder(entry, shard.id()) << "; "
          << shard.transactions().length() - 1 << " others are in that shard's queue";
    });
  });
}

}  // namespace dfly
