// SPDX-License-Identifier: Apache-2.0
#include "core/memory/block_mover.h"

#include <cstring>

#include "core/memory/heap_pages.h"

namespace dfly {

bool BlockMover::Wants(const void* block) const { return pages_ == nullptr || pages_->Has(block); }

void* BlockMover::CopyWith(void* block, void* (*alloc)(size_t), size_t alignment) {
  if (block == nullptr) return nullptr;
  if (!Wants(block)) {
    ++stayed_;
    return nullptr;
  }
  const size_t bytes = UsableSize(block);
  void* const copy = bytes % alignment == 0 ? alloc(bytes) : nullptr;
  if (copy == nullptr || UsableSize(copy) != bytes) {
    Free(copy);  // the accounts of whoever owns it stay as they are
    ++stayed_;
    return nullptr;
  }
  std::memcpy(copy, block, bytes);
  ++moved_;
  return copy;
}

}  // namespace dfly
