// SPDX-License-Identifier: Apache-2.0
// Memory that a command needs on its way: copies of what it has read, and parts of its reply. It is
// no data of a shard and no buffer of a client, but counts for maxmemory (MemoryUse).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace dfly {

// It counts for the thread that has made it: mostly that of the command's client.
//
// Owner:  a command; shards add to it, one at a time.
// Thread: any. It ends before the thread that has made it.
class WorkBytes {
 public:
  // A smaller block is not worth an atomic addition.
  static constexpr size_t kMin = 16 * 1024;

  WorkBytes() = default;
  ~WorkBytes() { Set(0); }
  WorkBytes(WorkBytes&& other) noexcept
      : counter_(other.counter_), bytes_(std::exchange(other.bytes_, 0)) {}
  WorkBytes& operator=(WorkBytes&& other) noexcept {
    std::swap(counter_, other.counter_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void Add(size_t bytes) { Set(bytes_ + bytes); }
  void AddBlock(size_t bytes) {
    if (bytes >= kMin) Add(bytes);
  }
  void Set(size_t bytes) {
    if (bytes == bytes_) return;
    counter_->fetch_add(bytes - bytes_, std::memory_order_relaxed);
    bytes_ = bytes;
  }

  size_t bytes() const { return bytes_; }
  static size_t OfThread() { return of_thread.load(std::memory_order_relaxed); }

 private:
  inline static thread_local std::atomic<size_t> of_thread = 0;

  std::atomic<size_t>* counter_ = &of_thread;
  size_t bytes_ = 0;
};

}  // namespace dfly
