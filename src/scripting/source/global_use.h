// SPDX-License-Identifier: Apache-2.0
// What a script does with its globals, so that one which only reads them needs no protection.
#pragma once

#include <cstdint>

struct lua_State;

namespace dfly {

enum class GlobalUse : uint8_t {
  kMembers,  // it reads globals by name, and of libraries only members: redis.call, string.sub
  kNames,    // it reads globals by name
  kAny,      // it assigns to a global, or has a name that no instruction has room for
};

// Of the compiled chunk on the top of the stack. Raises no Lua error. REQUIRES: an UnlimitedScope.
//
// A chunk that only reads names may use a table of globals that it could change, and finds `redis`
// and KEYS in one step. One that only reads members may use libraries that it could change, too.
GlobalUse GlobalUseOf(lua_State* lua);

// The globals that are libraries, up to a null pointer.
extern const char* const kLibraryNames[];

}  // namespace dfly
