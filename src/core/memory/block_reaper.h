// SPDX-License-Identifier: Apache-2.0
// Gives blocks of many megabytes back to the kernel in steps: 500 MB at once take a thread 50 ms
// and more.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace dfly {

// For blocks of helio::MappedBlocks. Whoever was the last to use one calls Free.
// Owner:    a ValueReaper, for the thread that it serves.
// Suspends: never.
class BlockReaper {
 public:
  BlockReaper() = default;
  ~BlockReaper();
  BlockReaper(const BlockReaper&) = delete;
  BlockReaper& operator=(const BlockReaper&) = delete;

  // By the reaper of the calling thread; at once if it has none. Thread: any.
  static void Free(char* block, size_t bytes);

  // Becomes that of the calling thread, until it is destroyed there.
  void ServeThisThread() { of_thread_ = this; }
  // Called when there is something to free again, which may be at any time.
  void set_on_work(std::function<void()> on_work) { on_work_ = std::move(on_work); }

  bool empty() const { return blocks_.empty(); }
  size_t size() const { return blocks_.size(); }  // blocks
  size_t bytes() const { return bytes_; }         // exact: what they still have
  // Gives back so many pages of 4 KB.
  void FreeSome(size_t pages);

 private:
  struct Block {
    char* begin;
    size_t bytes;
    size_t left;  // from the front
  };

  static thread_local BlockReaper* of_thread_;
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
  std::function<void()> on_work_;
};

}  // namespace dfly
