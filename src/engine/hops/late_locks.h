// SPDX-License-Identifier: Apache-2.0
// Locks that somebody takes who runs already: a script that comes to a key which it has not
// declared.
//
//   Try    the lock is free: taken
//   Lock   waits for it, before all who have not begun (TxQueue::Overtake)
//
// Who holds locks and waits for more may wait for somebody who waits for him. So one at a time may
// Lock, the holder of the Upgrade: who runs and holds locks ends without waiting for anybody, or
// waits for the Upgrade. As soon as its holder has to wait for a lock, those are refused, as they
// may be who he waits for.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/hops/shard_set.h"
#include "helio/base/spin_lock.h"
#include "helio/fibers/sync.h"

namespace dfly {

// Thread:   any fiber.
// Suspends: Take.
class Upgrade {
 public:
  // Waits for its turn. False: whoever has it waits for locks; the caller may not wait for any.
  [[nodiscard]] bool Take();
  void GiveBack();

  // Around its holder's waits.
  void BeginWait();
  void EndWait();

 private:
  struct Request {
    helio::Waiter waiter;
    bool is_refused = false;
    Request* next = nullptr;
  };

  helio::SpinLock lock_;
  bool is_taken_ = false;  // guarded by lock_, as the others
  bool holder_waits_ = false;
  Request* first_ = nullptr;  // who waits, in order
  Request* last_ = nullptr;
};

// Owner:    the fiber of whoever runs.
// Suspends: Try, Lock and Release, unless the shard is on its thread; Lock until it has the lock.
class LateLocks {
 public:
  // `owner`, `clock_ms`: see TxEntry.
  LateLocks(ShardSet* shards, Upgrade* upgrade, const void* owner, int64_t clock_ms)
      : shards_(*shards), upgrade_(*upgrade), owner_(owner), clock_ms_(clock_ms) {}
  ~LateLocks();
  LateLocks(const LateLocks&) = delete;
  LateLocks& operator=(const LateLocks&) = delete;

  // For those who wait for it.
  void set_origin(const TxOrigin& origin) { origin_ = origin; }
  // Of the fiber, which has locks already.
  void set_hold(helio::Hold* hold) { hold_ = hold; }
  // False: somebody wants it, or has it.
  [[nodiscard]] bool Try(ShardId shard, const TagLock& tag);
  // Waits for its turn to Lock, which does that otherwise. False: refused.
  [[nodiscard]] bool TakeUpgrade();
  // False: refused.
  [[nodiscard]] bool Lock(ShardId shard, const TagLock& tag);
  // The whole of all shards.
  [[nodiscard]] bool LockAllShards();
  void Release();

  bool empty() const { return held_.empty(); }

 private:
  // One stand in the queue of a shard.
  struct Held : TxEntry {
    ShardId shard = 0;
    std::vector<TagLock> wanted;  // sorted
    helio::BlockingCounter* is_granted_now = nullptr;
  };

  bool Overtake(ShardId shard, std::unique_ptr<Held> held);

  ShardSet& shards_;
  Upgrade& upgrade_;
  const void* const owner_;
  const int64_t clock_ms_;
  TxOrigin origin_;
  helio::Hold* hold_ = nullptr;
  bool has_upgrade_ = false;
  std::vector<std::unique_ptr<Held>> held_;
};

}  // namespace dfly
