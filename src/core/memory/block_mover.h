// SPDX-License-Identifier: Apache-2.0
// Moves blocks of memory (core/memory/allocator.h) out of pages that are nearly empty, so that
// these can be given back. Who owns a block asks for it, and puts the new address in place of the
// old one: Move() of values and tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory/allocator.h"

namespace dfly {

class SparsePages;

// A move changes neither what a block holds nor what it costs.
//
// Owner:    a pass over the data of one thread, which uses it there.
// Suspends: never.
class BlockMover {
 public:
  // Values up to this size may be copied as a whole instead, if their type knows no other way.
  static constexpr size_t kCopyMax = 16 * 1024;

  // Moves what lies in `pages`, which outlives it. Null: everything, for tests.
  explicit BlockMover(const SparsePages* pages) : pages_(pages) {}

  // For a block that others refer to: a copy of it, or null if it stays where it is. The caller
  // lets all refer to the copy, and frees the block.
  void* Copy(void* block) { return CopyWith(block, Alloc, 1); }

  // The block's address from now on. Null stays null.
  template <typename T>
  T* Move(T* block) {
    return static_cast<T*>(Replace(block, Copy(block)));
  }
  // The same for one of AllocLines.
  template <typename T>
  T* MoveLines(T* block) {
    return static_cast<T*>(Replace(block, CopyWith(block, AllocLines, 64)));
  }

  // Whether it should move, for who copies it himself, and tells that.
  bool Wants(const void* block) const;
  void CountCopied() { ++moved_; }
  // Something else was looked at, which takes time as well.
  void CountVisit() { ++visited_; }

  uint64_t moved() const { return moved_; }    // blocks
  uint64_t stayed() const { return stayed_; }  // blocks
  uint64_t work() const { return moved_ + stayed_ + visited_; }

 private:
  void* CopyWith(void* block, void* (*alloc)(size_t), size_t alignment);
  static void* Replace(void* block, void* copy) {
    if (copy == nullptr) return block;
    Free(block);
    return copy;
  }

  const SparsePages* const pages_;
  uint64_t moved_ = 0;
  uint64_t stayed_ = 0;
  uint64_t visited_ = 0;
};

}  // namespace dfly
