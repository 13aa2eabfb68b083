// SPDX-License-Identifier: Apache-2.0
// Lets the containers of others allocate where ours do (core/memory/allocator.h), and counts what
// they take, exactly.
#pragma once

#include <cstddef>

#include "core/memory/allocator.h"

namespace dfly {

// Owner:    a container; whoever owns that also owns the counter, which outlives it.
// Suspends: never.
template <typename T>
class CountingAllocator {
 public:
  using value_type = T;

  explicit CountingAllocator(size_t* bytes) : bytes_(bytes) {}
  template <typename U>
  CountingAllocator(const CountingAllocator<U>& other) : bytes_(other.bytes()) {}  // NOLINT

  T* allocate(size_t count) {
    void* block = Alloc(count * sizeof(T));
    *bytes_ += UsableSize(block);
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t) {
    *bytes_ -= UsableSize(block);
    Free(block);
  }

  size_t* bytes() const { return bytes_; }
  template <typename U>
  bool operator==(const CountingAllocator<U>& other) const {
    return bytes_ == other.bytes();
  }

 private:
  size_t* bytes_;
};

}  // namespace dfly
