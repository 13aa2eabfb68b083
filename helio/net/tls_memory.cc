// SPDX-License-Identifier: Apache-2.0
#include "helio/net/tls_memory.h"

#include <openssl/crypto.h>

#include <cstdlib>

#include "helio/base/block_bytes.h"

namespace helio {
namespace {

thread_local int64_t bytes = 0;

int64_t BytesOf(const void* block) { return static_cast<int64_t>(BlockBytes(block)); }

void* Allocate(size_t size, const char*, int) {
  void* const block = malloc(size);
  bytes += BytesOf(block);
  return block;
}

void* Reallocate(void* block, size_t size, const char*, int) {
  const int64_t before = BytesOf(block);
  void* const moved = realloc(block, size);
  if (moved != nullptr || size == 0) bytes += BytesOf(moved) - before;
  return moved;
}

void Free(void* block, const char*, int) {
  if (block == nullptr) return;
  bytes -= BytesOf(block);
  free(block);
}

}  // namespace

bool CountTlsMemory() { return CRYPTO_set_mem_functions(Allocate, Reallocate, Free) == 1; }

int64_t ThreadTlsBytes() { return bytes; }

}  // namespace helio
