// SPDX-License-Identifier: Apache-2.0
#include "server/replication/stream_buffer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "helio/base/logging.h"

namespace dfly {

StreamBuffer::StreamBuffer(uint64_t begin, size_t keeps)
    : base_(begin), keeps_(keeps), begin_(begin), end_(begin), written_(begin) {}

void StreamBuffer::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    // Only who appends changes base_ and the list, so reading them needs no lock.
    const uint64_t at = written_ - base_;
    if (at == blocks_.size() * kBlockBytes) {
      auto block = std::make_shared_for_overwrite<char[]>(kBlockBytes);
      const std::lock_guard lock(lock_);
      blocks_.push_back(std::move(block));
    }
    const size_t in_block = at % kBlockBytes;
    const size_t size = std::min(bytes.size(), kBlockBytes - in_block);
    memcpy(blocks_[at / kBlockBytes].get() + in_block, bytes.data(), size);
    written_ += size;
    bytes.remove_prefix(size);
  }
}

void StreamBuffer::PublishTo(uint64_t offset) {
  const uint64_t end = std::min(offset, written_);
  end_.store(end, std::memory_order_seq_cst);
  Trim(end);
}

void StreamBuffer::Rewind() {
  written_ = end_.load(std::memory_order_relaxed);
  const size_t needed = (written_ - base_ + kBlockBytes - 1) / kBlockBytes;
  const std::lock_guard lock(lock_);
  blocks_.resize(std::min(blocks_.size(), needed));
}

void StreamBuffer::Restart(uint64_t begin) {
  std::deque<std::shared_ptr<char[]>> gone;  // freed without the lock
  const std::lock_guard lock(lock_);
  DCHECK(pins_.empty());
  gone.swap(blocks_);
  base_ = written_ = begin;
  begin_.store(begin);
  end_.store(begin, std::memory_order_seq_cst);
}

void StreamBuffer::Trim(uint64_t end) {
  if (end - base_ < keeps_.load(std::memory_order_relaxed) + kBlockBytes) return;
  std::deque<std::shared_ptr<char[]>> gone;  // freed without the lock
  const std::lock_guard lock(lock_);
  const uint64_t keeps = keeps_.load(std::memory_order_relaxed);
  uint64_t first = end - std::min(keeps, end - base_);
  first = std::min(first, FirstPinnedLocked(end));
  while (!blocks_.empty() && base_ + kBlockBytes <= first) {
    gone.push_back(std::move(blocks_.front()));
    blocks_.pop_front();
    base_ += kBlockBytes;
  }
  if (base_ > begin_.load(std::memory_order_relaxed)) begin_.store(base_);
}

std::string_view StreamBuffer::Read(uint64_t offset, std::shared_ptr<const char[]>* holder) const {
  const uint64_t end = end_.load(std::memory_order_seq_cst);
  if (offset >= end) return {};
  const std::lock_guard lock(lock_);
  DCHECK_GE(offset, base_);
  const uint64_t at = offset - base_;
  const std::shared_ptr<char[]>& block = blocks_[at / kBlockBytes];
  const size_t in_block = at % kBlockBytes;
  *holder = block;
  return {block.get() + in_block, std::min<uint64_t>(kBlockBytes - in_block, end - offset)};
}

std::shared_ptr<StreamPin> StreamBuffer::Pin(uint64_t offset) {
  auto pin = std::make_shared<StreamPin>();
  pin->offset = offset;
  const std::lock_guard lock(lock_);
  if (offset < begin_ || offset > end_) return nullptr;
  pins_.push_back(pin);
  return pin;
}

void StreamBuffer::Unpin(const std::shared_ptr<StreamPin>& pin) {
  const std::lock_guard lock(lock_);
  std::erase(pins_, pin);
}

uint64_t StreamBuffer::FirstPinned() const {
  const std::lock_guard lock(lock_);
  return FirstPinnedLocked(end_);
}

uint64_t StreamBuffer::FirstPinnedLocked(uint64_t end) const {
  for (const auto& pin : pins_) end = std::min<uint64_t>(end, pin->offset.load());
  return end;
}

size_t StreamBuffer::memory_used() const {
  const std::lock_guard lock(lock_);
  return blocks_.size() * kBlockBytes;
}

}  // namespace dfly
