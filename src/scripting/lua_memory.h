// SPDX-License-Identifier: Apache-2.0
// Memory of one Lua state: counted, and limited except where the server itself uses the state.
#pragma once

#include <cstddef>

namespace dfly {

// A lua_Alloc. `state` is a ScriptState.
void* AllocateForLua(void* state, void* block, size_t old_size, size_t new_size);

}  // namespace dfly
