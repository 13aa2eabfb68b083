// SPDX-License-Identifier: Apache-2.0
#include "scripting/lua_memory.h"

#include "core/memory/allocator.h"
#include "scripting/script_state.h"

namespace dfly {
namespace {

void* Reallocate(void* block, size_t size) {
#ifdef DFLY_SANITIZED
  void* const moved = std::realloc(block, size);
#else
  void* const moved = mi_realloc(block, size);
#endif
  if (moved == nullptr) throw std::bad_alloc();
  return moved;
}

}  // namespace

void* AllocateForLua(void* user_data, void* block, size_t old_size, size_t new_size) {
  auto* const state = static_cast<ScriptState*>(user_data);
  if (block == nullptr) old_size = 0;  // then it is a type, not a size
  // What counts is what the allocator gave: for many small strings an eighth more.
  const size_t had = UsableSize(block);
  if (new_size == 0) {
    state->memory_used -= had;
    Free(block);
    return nullptr;
  }
  if (new_size > old_size && !state->unlimited &&
      state->memory_used - old_size + new_size > state->memory_max) {
    return nullptr;  // Lua collects its garbage and tries again
  }
  if (new_size > old_size) CountBytes(new_size);
  void* const moved = block == nullptr ? Alloc(new_size) : Reallocate(block, new_size);
  state->memory_used += UsableSize(moved) - had;
  return moved;
}

}  // namespace dfly
