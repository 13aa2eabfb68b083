// SPDX-License-Identifier: Apache-2.0
// Lua 5.1's source text for the compiler of 5.4. Inside this folder only.
#pragma once

#include <cstddef>
#include <lua.hpp>
#include <string_view>

namespace dfly {

// In strings, 5.1 just drops a backslash before what means nothing to it. 5.4 refuses some of these
// ("\-") and gives others a meaning ("\x41", "\u{7}", "\z"). Writes `source` without them to `out`,
// which has room for as many bytes. Returns the end.
char* DropBackslashes(std::string_view source, char* out);

// lua_load of text in Lua 5.1. Raises no error; its result tells of the end of the script, too.
//
// Suspends: as a tick does (lua_work.h).
int LoadSource(lua_State* lua, std::string_view source, const char* name);

}  // namespace dfly
