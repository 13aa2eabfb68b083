// SPDX-License-Identifier: Apache-2.0
#include "helio/base/io_buf.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "helio/base/block_bytes.h"

namespace helio {

void IoBuf::FreeBlock() {
  if (return_to_ == nullptr) return free(block_);
  std::exchange(return_to_, nullptr)(block_);
}

void IoBuf::Borrow(std::string_view bytes, ReturnFn return_to) {
  FreeBlock();
  block_ = const_cast<char*>(bytes.data());
  begin_ = 0;
  end_ = capacity_ = bytes.size();
  return_to_ = return_to;
}

void IoBuf::Release() {
  FreeBlock();
  block_ = nullptr;
  begin_ = end_ = capacity_ = 0;
}

void IoBuf::Swap(IoBuf& other) noexcept {
  std::swap(block_, other.block_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(capacity_, other.capacity_);
  std::swap(return_to_, other.return_to_);
}

void IoBuf::Grow(size_t bytes) {
  const size_t used = size();
  // Sliding is worth it only when at least half of the block is free afterwards; otherwise a queue
  // that stays nearly full would be moved on each append.
  if (begin_ > 0 && used + bytes <= capacity_ / 2 && return_to_ == nullptr) {
    memmove(block_, data(), used);
  } else {
    constexpr size_t kSmallest = 512;
    const size_t capacity = std::max({kSmallest, capacity_ * 2, used + bytes});
    char* block = static_cast<char*>(malloc(capacity));
    if (block == nullptr) throw std::bad_alloc();
    if (used > 0) memcpy(block, data(), used);
    FreeBlock();
    block_ = block;
    // The allocator rounds up, by as much as half of a large block. All of it is used and counted.
    capacity_ = BlockBytes(block);
  }
  begin_ = 0;
  end_ = used;
}

}  // namespace helio
