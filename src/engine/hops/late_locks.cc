// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/late_locks.h"

#include <algorithm>
#include <mutex>

namespace dfly {

namespace {

constexpr helio::WaitReason kTurnToLock = {
    "its turn to take a lock late",
    "whoever has the turn ends, or refuses this one as soon as he waits for a lock himself"};
constexpr helio::WaitReason kLateLock = {
    "a lock on shard {} that it takes late",
    "who has it ends without waiting for locks, as only one in the process may do that"};

}  // namespace

bool Upgrade::Take() {
  Request request;
  {
    std::lock_guard guard(lock_);
    if (!is_taken_) {
      is_taken_ = true;
      return true;
    }
    if (holder_waits_) return false;
    (last_ == nullptr ? first_ : last_->next) = &request;
    last_ = &request;
  }
  const helio::BoundedWait wait(kTurnToLock);
  request.waiter.Wait();
  return !request.is_refused;
}

void Upgrade::GiveBack() {
  Request* next;
  {
    std::lock_guard guard(lock_);
    DCHECK(is_taken_ && !holder_waits_);
    next = first_;
    if (next == nullptr) {
      is_taken_ = false;
      return;
    }
    first_ = next->next;
    if (first_ == nullptr) last_ = nullptr;
  }
  next->waiter.Wake();
}

void Upgrade::BeginWait() {
  Request* refused;
  {
    std::lock_guard guard(lock_);
    DCHECK(is_taken_);
    holder_waits_ = true;
    refused = std::exchange(first_, nullptr);
    last_ = nullptr;
  }
  while (refused != nullptr) {
    Request* const next = refused->next;  // its owner may be gone once it is awake
    refused->is_refused = true;
    refused->waiter.Wake();
    refused = next;
  }
}

void Upgrade::EndWait() {
  std::lock_guard guard(lock_);
  holder_waits_ = false;
}

LateLocks::~LateLocks() { Release(); }

bool LateLocks::Try(ShardId shard, const TagLock& tag) {
  auto it = std::find_if(held_.begin(), held_.end(), [&](const auto& held) {
    return held->shard == shard && held->is_granted_now == nullptr;
  });
  const bool is_new = it == held_.end();
  std::unique_ptr<Held> made;
  if (is_new) {
    made = std::make_unique<Held>();
    made->shard = shard;
    made->owner = owner_;
    made->clock_ms = clock_ms_;
    made->origin = origin_;
    made->hold = hold_;
  }
  Held& held = is_new ? *made : **it;
  const bool is_held = shards_.Await(shard, [&](Shard& its_shard) {
    TxQueue& queue = its_shard.transactions();
    if (queue.Conflicts(tag)) return false;
    const auto at = std::lower_bound(
        held.wanted.begin(), held.wanted.end(), tag.fingerprint,
        [](const TagLock& lock, uint64_t value) { return lock.fingerprint < value; });
    held.wanted.insert(at, tag);
    if (held.linked()) {
      const bool is_free = queue.HoldAlso(&held, tag, held.wanted);
      DCHECK(is_free);
    } else {
      held.tags = held.wanted;
      queue.Hold(&held);
    }
    return true;
  });
  if (is_held && is_new) held_.push_back(std::move(made));
  return is_held;
}

bool LateLocks::TakeUpgrade() {
  if (!has_upgrade_) has_upgrade_ = upgrade_.Take();
  return has_upgrade_;
}

bool LateLocks::Lock(ShardId shard, const TagLock& tag) {
  auto held = std::make_unique<Held>();
  held->wanted.push_back(tag);
  held->tags = held->wanted;
  return Overtake(shard, std::move(held));
}

bool LateLocks::LockAllShards() {
  for (ShardId shard = 0; shard < shards_.size(); ++shard) {
    auto held = std::make_unique<Held>();
    held->locks_shard = true;
    held->shard_mode = LockMode::kExclusive;
    if (!Overtake(shard, std::move(held))) return false;
  }
  return true;
}

bool LateLocks::Overtake(ShardId shard, std::unique_ptr<Held> held) {
  if (!TakeUpgrade()) return false;
  helio::BlockingCounter is_granted(1);
  held->shard = shard;
  held->owner = owner_;
  held->clock_ms = clock_ms_;
  held->origin = origin_;
  held->hold = hold_;
  held->is_granted_now = &is_granted;
  held->granted = [](TxEntry* entry) { static_cast<Held*>(entry)->is_granted_now->Done(); };
  Held& overtaking = *held;
  held_.push_back(std::move(held));
  const bool is_free = shards_.Await(shard, [&overtaking](Shard& its_shard) {
    its_shard.transactions().Overtake(&overtaking);
    return overtaking.is_granted;
  });
  if (is_free) return true;
  upgrade_.BeginWait();
  {
    const helio::BoundedWait wait(kLateLock, shard);
    is_granted.Wait();
  }
  upgrade_.EndWait();
  return true;
}

void LateLocks::Release() {
  for (const auto& held : held_) {
    shards_.Await(held->shard,
                  [&held](Shard& its_shard) { its_shard.transactions().Release(held.get()); });
  }
  held_.clear();
  if (std::exchange(has_upgrade_, false)) upgrade_.GiveBack();
}

}  // namespace dfly
