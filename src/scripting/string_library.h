// SPDX-License-Identifier: Apache-2.0
// Inside this folder only.
#pragma once

#include <lua.hpp>

namespace dfly {

// They take the place of those of Lua 5.4's `string`.
extern const luaL_Reg kStringFunctions[];
// string.format, likewise (string_format.cc).
int FormatString(lua_State* lua);

}  // namespace dfly
