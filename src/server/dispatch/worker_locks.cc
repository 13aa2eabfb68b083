// SPDX-License-Identifier: Apache-2.0
// The worker's part of the watch for transactions that have their locks for long
// (--lock_warning_ms): each is logged once. A look follows only while a fiber runs for a command,
// or a script has given way, so an idle server does not tick.
#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/clients/server_state.h"
#include "server/dispatch/held_locks.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

constexpr uint64_t kNanosPerMilli = 1'000'000;

}  // namespace

void Worker::WatchLocks() {
  const uint64_t limit_ms = server_.settings.lock_warning_ms.load(std::memory_order_relaxed);
  if (limit_ms == 0 || lock_timer_.armed()) return;
  proactor_.timers().Arm(&lock_timer_, helio::MonotonicNanos() + limit_ms * kNanosPerMilli);
}

void Worker::OnLockTimer() {
  DispatchOnAll<Worker>(server_, [](Worker& worker) { worker.LookForOldLocks(); });
  if (state_.coordinators > 0 || running_scripts_count_ > 0) WatchLocks();
}

void Worker::LookForOldLocks() {
  const uint64_t limit_ms = server_.settings.lock_warning_ms.load(std::memory_order_relaxed);
  if (limit_ms == 0) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  state_.ForEachShard([&](Shard& shard) {
    shard.transactions().ForEach([&](const TxEntry& entry) {
      if (!HoldsLocks(entry) || now_ns - entry.scheduled_ns < limit_ms * kNanosPerMilli) return;
      LOG_IF(WARNING, TellOnce(entry))
          << "locks are held for long: by " << DescribeHolder(entry, shard.id()) << "; "
          << shard.transactions().length() - 1 << " others are in that shard's queue";
    });
  });
}

}  // namespace dfly
