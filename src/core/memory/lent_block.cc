// SPDX-License-Identifier: Apache-2.0
#include "core/memory/lent_block.h"

#include <algorithm>

#include "helio/base/mapped_blocks.h"

namespace dfly {

constinit thread_local BlockReaper* BlockReaper::of_thread_ = nullptr;

BlockReaper::~BlockReaper() {
  if (of_thread_ == this) of_thread_ = nullptr;
  for (const Block& block : blocks_) helio::MappedBlocks::Free(block.begin, block.bytes);
}

void BlockReaper::Free(char* block, size_t bytes) {
  if (of_thread_ == nullptr) return helio::MappedBlocks::Free(block, bytes);
  const bool was_empty = of_thread_->empty();
  of_thread_->blocks_.push_back({.begin = block, .bytes = bytes, .left = bytes});
  of_thread_->bytes_ += bytes;
  if (was_empty && of_thread_->on_work_) of_thread_->on_work_();
}

void BlockReaper::FreeSome(size_t pages) {
  constexpr size_t kPage = 4096;
  if (blocks_.empty()) return;
  Block& block = blocks_.back();
  const size_t size = std::min(block.left, std::min(pages, block.left / kPage + 1) * kPage);
  helio::MappedBlocks::GiveBack(block.begin, block.left - size, block.left);
  block.left -= size;
  bytes_ -= size;
  if (block.left != 0) return;
  helio::MappedBlocks::Free(block.begin, block.bytes);  // which costs little now
  blocks_.pop_back();
}

char* LentBlock::NewPages(size_t bytes) { return helio::MappedBlocks::New(&bytes); }

char* LentBlock::Grow(char* data, size_t capacity) {
  size_t bytes = kHead + capacity + kTail;
  char* const block = helio::MappedBlocks::Grow(data - kHead, PagesOf(data), &bytes);
  HeadOf(block + kHead)->capacity = capacity;
  return block + kHead;
}

void LentBlock::Zero(char* data, size_t from, size_t to) {
  constexpr size_t kWritten = 64 * 1024;  // costs less than to ask the kernel
  if (!is_mapped(data) || to - from < kWritten) {
    memset(data + from, 0, to - from);
    return;
  }
  const size_t first = RoundUp(kHead + from) - kHead;
  const size_t last = (kHead + to) / kPage * kPage - kHead;
  memset(data + from, 0, first - from);
  helio::MappedBlocks::GiveBack(data - kHead, kHead + first, kHead + last);
  memset(data + last, 0, to - last);
}

}  // namespace dfly
