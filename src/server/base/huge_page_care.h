// SPDX-License-Identifier: Apache-2.0
// Puts the process' memory in huge pages, in the background (core/memory/huge_pages.h), on a thread
// of its own: the kernel's copies block it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "core/memory/huge_pages.h"
#include "helio/fibers/sync.h"

namespace dfly {

// Thread: any, but the destructor, which comes when nobody calls Begin any more. It waits for the
// thread's end, some milliseconds.
class HugePageCare {
 public:
  // Of a server that uses less all look-ups are fast anyway, and the thread itself takes 300 KB.
  static constexpr int64_t kMemoryMin = 32 << 20;

  explicit HugePageCare(bool is_wanted) : has_begun_(!is_wanted) {}
  ~HugePageCare();
  HugePageCare(const HugePageCare&) = delete;
  HugePageCare& operator=(const HugePageCare&) = delete;

  // The server uses so many bytes: starts the thread once.
  void OnUsed(int64_t bytes) {
    if (bytes >= kMemoryMin && !has_begun_.load(std::memory_order_relaxed)) Begin();
  }

  // Of memory in huge pages.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  void Begin();
  void Run();
  // False: the end.
  bool Rest(uint64_t nanos);

  std::atomic<bool> has_begun_;
  HugePages pages_;  // of the thread
  std::atomic<size_t> bytes_{0};
  helio::Mutex mutex_;
  helio::CondVar changed_;
  bool must_end_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace dfly
