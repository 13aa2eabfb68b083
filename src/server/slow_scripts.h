// SPDX-License-Identifier: Apache-2.0
// Scripts that have run for longer than busy-reply-threshold. A command that would have to wait for
// one gets -BUSY; the others never notice.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace dfly {

// Knows them as the owners of their entries in the shards' queues (TxEntry::owner).
// Owner: the server. Thread: any. Suspends: never.
class SlowScripts {
 public:
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  void Add(const void* owner) {
    const std::lock_guard guard(mutex_);
    owners_.push_back(owner);
    count_.store(owners_.size(), std::memory_order_relaxed);
  }
  void Remove(const void* owner) {
    const std::lock_guard guard(mutex_);
    owners_.erase(std::find(owners_.begin(), owners_.end(), owner));
    count_.store(owners_.size(), std::memory_order_relaxed);
  }
  bool Has(const void* owner) {
    const std::lock_guard guard(mutex_);
    return std::find(owners_.begin(), owners_.end(), owner) != owners_.end();
  }

 private:
  std::atomic<size_t> count_{0};
  std::mutex
      mutex_;  // a plain one: no fiber suspends under it, and it is held while memory is allocated
  std::vector<const void*> owners_;  // guarded by mutex_
};

}  // namespace dfly
