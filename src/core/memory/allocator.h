// SPDX-License-Identifier: Apache-2.0
// Memory of the containers: mimalloc, or the plain allocator in sanitized builds, which want to see
// each block. Accounting is exact because a block's cost is what the allocator gave, not what was
// asked for.
// Thread: any, but a shard frees on its own thread what it allocated there, which is the fast case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#ifdef DFLY_SANITIZED
#include <malloc.h>

#include <cstdlib>
#else
#include <mimalloc.h>
#endif

namespace dfly {

// The compiler knows from malloc's attribute how much was asked for, and with _FORTIFY_SOURCE=3
// (Ubuntu's default) it stops a program that uses all of UsableSize(). This hides where a block
// came from; it costs no instruction.
inline void* ForgetRequestedSize(void* block) {
  asm("" : "+r"(block));
  return block;
}

// Never null: without memory the process ends with std::bad_alloc, as operator new does.
inline void* Alloc(size_t bytes) {
#ifdef DFLY_SANITIZED
  void* block = std::malloc(bytes);
#else
  void* block = mi_malloc(bytes);
#endif
  if (block == nullptr) throw std::bad_alloc();
  return ForgetRequestedSize(block);
}

// All bytes are 0; of a large block, those that nobody writes cost the machine no memory.
inline void* AllocZeroed(size_t bytes) {
#ifdef DFLY_SANITIZED
  void* block = std::calloc(1, bytes);
#else
  void* block = mi_zalloc(bytes);
#endif
  if (block == nullptr) throw std::bad_alloc();
  return ForgetRequestedSize(block);
}

// Aligned to a cache line. REQUIRES: bytes is a multiple of 64.
inline void* AllocLines(size_t bytes) {
#ifdef DFLY_SANITIZED
  void* block = std::aligned_alloc(64, bytes);
#else
  // mi_malloc_aligned takes a larger block, to be sure. Blocks of a power of two are aligned
  // anyway, except perhaps in some future version.
  void* block = mi_malloc(bytes);
  if (reinterpret_cast<uintptr_t>(block) % 64 != 0) {
    mi_free(block);
    block = mi_malloc_aligned(bytes, 64);
  }
#endif
  if (block == nullptr) throw std::bad_alloc();
  return ForgetRequestedSize(block);
}

// For blocks of Alloc, AllocZeroed and AllocLines. Accepts null.
inline void Free(void* block) {
#ifdef DFLY_SANITIZED
  std::free(block);
#else
  mi_free(block);
#endif
}

// What the block really costs, and what may be used of it. 0 for null.
inline size_t UsableSize(const void* block) {
#ifdef DFLY_SANITIZED
  return malloc_usable_size(const_cast<void*>(block));
#else
  return mi_usable_size(block);
#endif
}

}  // namespace dfly
