// SPDX-License-Identifier: Apache-2.0
#include "helio/base/io_buf.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "helio/base/block_bytes.h"
#include "helio/base/mapped_blocks.h"

namespace helio {

void IoBuf::FreeBlock() {
  if (return_to_ != nullptr) return std::exchange(return_to_, nullptr)(block_);
  if (!is_mapped()) return free(block_);
  MappedBlocks::Free(block_, capacity_);
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
    // The allocator rounds up, by as much as half of a large block, and may not reach kMappedMin.
    if (capacity >= kMappedMin / 2) return GrowMapped(std::max(capacity, end_ + bytes));
    char* block = static_cast<char*>(malloc(capacity));
    if (block == nullptr) throw std::bad_alloc();
    if (used > 0) memcpy(block, data(), used);
    FreeBlock();
    block_ = block;
    // All that the allocator gave is used and counted.
    capacity_ = BlockBytes(block);
    DCHECK_LT(capacity_, kMappedMin);
  }
  begin_ = 0;
  end_ = used;
}

void IoBuf::GrowMapped(size_t capacity) {
  capacity = std::max(capacity, kMappedMin);
  if (is_mapped()) {
    // Bytes keep their places in the block.
    block_ = MappedBlocks::Grow(block_, capacity_, &capacity);
  } else {
    char* const block = MappedBlocks::New(&capacity);
    const size_t used = size();
    if (used > 0) memcpy(block, data(), used);
    FreeBlock();
    block_ = block;
    begin_ = 0;
    end_ = used;
  }
  capacity_ = capacity;
}

void IoBuf::GiveBack(size_t begin) {
  const size_t from = begin / kPiece * kPiece;
  const size_t to = begin_ / kPiece * kPiece;
  if (from < to && is_mapped()) MappedBlocks::GiveBack(block_, from, to);
}

}  // namespace helio
