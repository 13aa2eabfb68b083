// SPDX-License-Identifier: Apache-2.0
// Scripts that have run for longer than busy-reply-threshold. A command that would have to wait for
// one gets -BUSY; the others never notice.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace dfly {

// What a command was refused for.
enum class Slow : uint8_t { kNone, kScript, kFunction };

// Knows them as the owners of their entries in the shards' queues (TxEntry::owner).
// Owner: the shard set. Thread: any. Suspends: never.
class SlowScripts {
 public:
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  void Add(const void* owner, Slow what) {
    const std::lock_guard guard(mutex_);
    owners_.emplace_back(owner, what);
    count_.store(owners_.size(), std::memory_order_relaxed);
  }
  void Remove(const void* owner) {
    const std::lock_guard guard(mutex_);
    owners_.erase(Find(owner));
    count_.store(owners_.size(), std::memory_order_relaxed);
  }
  // kNone: it is not slow.
  Slow WhatIs(const void* owner) {
    const std::lock_guard guard(mutex_);
    const auto it = Find(owner);
    return it == owners_.end() ? Slow::kNone : it->second;
  }

 private:
  using Owner = std::pair<const void*, Slow>;

  std::vector<Owner>::iterator Find(const void* owner) {
    return std::find_if(owners_.begin(), owners_.end(),
                        [owner](const Owner& slow) { return slow.first == owner; });
  }

  std::atomic<size_t> count_{0};
  std::mutex mutex_;           // not a fiber's: nobody suspends under it
  std::vector<Owner> owners_;  // guarded by mutex_
};

}  // namespace dfly
