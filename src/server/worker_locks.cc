// SPDX-License-Identifier: Apache-2.0
// The worker's part of the watch for transactions that have their locks for long
// (--lock_warning_ms): each is logged once. A look follows only while a fiber runs for a command,
// or a script has given way, so an idle server does not tick.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/server.h"

namespace dfly {

namespace {

constexpr uint64_t kNanosPerMilli = 1'000'000;

}  // namespace

bool HoldsLocks(const TxEntry& entry) {
  // One over shards may have been granted here and wait elsewhere, until it has run a hop.
  return entry.is_granted && (entry.has_run || !entry.has_number);
}

std::string DescribeHolder(const TxEntry& entry, ShardId shard) {
  const uint64_t held_ns = helio::MonotonicNanos() - entry.scheduled_ns;
  return fmt::format("{} of client {} on shard {} since {:.1f} s",
                     entry.origin.name == nullptr ? "something" : entry.origin.name,
                     entry.origin.client_id, shard, static_cast<double>(held_ns) / 1e9);
}

void Worker::WatchLocks() {
  const uint64_t limit_ms = server_.settings().lock_warning_ms.load(std::memory_order_relaxed);
  if (limit_ms == 0 || lock_timer_.armed()) return;
  proactor_.timers().Arm(&lock_timer_, helio::MonotonicNanos() + limit_ms * kNanosPerMilli);
}

void Worker::OnLockTimer() {
  for (uint32_t i = 0; i < shards_.pool().size(); ++i) {
    shards_.pool().at(i)->Dispatch([] {
      if (Server::LocalWorker() != nullptr) Server::LocalWorker()->LookForOldLocks();
    });
  }
  if (coordinators_ > 0 || running_scripts_count_ > 0) WatchLocks();
}

void Worker::LookForOldLocks() {
  const uint64_t limit_ms = server_.settings().lock_warning_ms.load(std::memory_order_relaxed);
  if (limit_ms == 0) return;
  const uint64_t now_ns = helio::MonotonicNanos();
  std::vector<uint64_t> told;
  ForEachShard([&](Shard& shard) {
    shard.transactions().ForEach([&](const TxEntry& entry) {
      if (!HoldsLocks(entry) || now_ns - entry.scheduled_ns < limit_ms * kNanosPerMilli) return;
      const auto is_it = [&](uint64_t ns) { return ns == entry.scheduled_ns; };
      const bool was_told = std::any_of(told_locks_.begin(), told_locks_.end(), is_it);
      told.push_back(entry.scheduled_ns);
      LOG_IF(WARNING, !was_told) << "locks are held for long: by "
                                 << DescribeHolder(entry, shard.id()) << "; "
                                 << shard.transactions().length() - 1
                                 << " others are in that shard's queue";
    });
  });
  told_locks_ = std::move(told);
}

}  // namespace dfly
