// SPDX-License-Identifier: Apache-2.0
// Bytes of a stream in memory, at their offsets: one writes, and many read, each at a place of its
// own. The backlog of replication, and the copy that several replicas get.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "helio/base/spin_lock.h"

namespace dfly {

// Up to where somebody has read: what is behind it stays. Thread: any.
struct StreamPin {
  std::atomic<uint64_t> offset{0};
};

// Suspends: never.
class StreamBuffer {
 public:
  static constexpr size_t kBlockBytes = 64 * 1024;

  // `begin`: the offset of the first byte. `keeps`: so many bytes, at least, stay although
  // everybody has read them.
  explicit StreamBuffer(uint64_t begin, size_t keeps);

  // One call at a time, from any thread.
  void Append(std::string_view bytes);
  // What was appended can be read from now on, and what nobody needs goes. As Append.
  void Publish() { PublishTo(written_); }
  // The same up to `offset`, as far as that was appended.
  void PublishTo(uint64_t offset);
  // Where Append goes on. As Append.
  uint64_t appended() const { return written_; }
  // Forgets what was appended and not published. As Append.
  void Rewind();
  // Forgets everything; the next byte has this offset. As Append. REQUIRES: nobody reads.
  void Restart(uint64_t begin);
  void set_keeps(size_t bytes) { keeps_.store(bytes, std::memory_order_relaxed); }

  // --- Thread: any ---

  uint64_t begin() const { return begin_.load(std::memory_order_relaxed); }
  uint64_t end() const { return end_.load(std::memory_order_seq_cst); }
  // Bytes that lie together, from `offset` on; none at the end. They live as long as `*holder`.
  // REQUIRES: a pin is at `offset` or before it.
  std::string_view Read(uint64_t offset, std::shared_ptr<const char[]>* holder) const;
  // A place to read from. Null: that is before begin() or behind end().
  std::shared_ptr<StreamPin> Pin(uint64_t offset);
  void Unpin(const std::shared_ptr<StreamPin>& pin);
  // The first byte that somebody has yet to read; end() if nobody reads.
  uint64_t FirstPinned() const;
  // Of its blocks.
  size_t memory_used() const;

 private:
  void Trim(uint64_t end);
  uint64_t FirstPinnedLocked(uint64_t end) const;

  mutable helio::SpinLock lock_;  // guards what follows
  std::deque<std::shared_ptr<char[]>> blocks_;
  uint64_t base_;  // the offset of the first block's first byte
  std::vector<std::shared_ptr<StreamPin>> pins_;

  std::atomic<size_t> keeps_;
  std::atomic<uint64_t> begin_;
  std::atomic<uint64_t> end_;
  uint64_t written_;  // who appends: where the next byte goes
};

}  // namespace dfly
