// SPDX-License-Identifier: Apache-2.0
// A small set of integers in one allocation: sorted, all of one width.
//
//   count (4), bytes of each number: 2, 4 or 8 (4) | number number number ... | room
//
// The width is what the largest of them has needed so far, as in Redis' intset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory/allocator.h"

namespace dfly {

// Refers to a block as a pointer does: copies mean the same one, and nobody frees it but Free().
//
// Owner:    who holds its address, a value of a shard.
// Suspends: never.
class IntSet {
 public:
  static IntSet Make();
  // REQUIRES: of another one's address().
  explicit IntSet(void* address) : block_(static_cast<Block*>(address)) {}
  // Changes with each Add and Erase.
  void* address() const { return block_; }
  void Free() { dfly::Free(block_); }
  IntSet Clone() const;

  size_t size() const { return block_->count; }
  size_t bytes() const { return UsableSize(block_); }  // exact
  // In their order. REQUIRES: index < size().
  int64_t At(size_t index) const;
  bool Has(int64_t number) const;

  bool Add(int64_t number);    // true if it is new
  bool Erase(int64_t number);  // true if it was there

 private:
  struct Block {
    uint32_t count;
    uint32_t width;

    char* at(size_t index) { return reinterpret_cast<char*>(this + 1) + index * width; }
  };

  explicit IntSet(Block* block) : block_(block) {}
  size_t LowerBound(int64_t number) const;  // index of the first that is not smaller
  void Widen(uint32_t width);
  void Write(size_t index, int64_t number);
  void Reallocate(size_t numbers);

  Block* block_;
};

}  // namespace dfly
