// SPDX-License-Identifier: Apache-2.0
// Arrays of strings for scripts: KEYS and ARGV.
//
// Two tables for each script, and the garbage that they become, were a fifth of what a script of
// one GET costs. So the tables of the last script are filled again. REQUIRES: when a script has
// ended, nothing refers to them but the interpreter. What scripts can change and what outlives them
// has no common part: globals and libraries are read-only.
#pragma once

#include <lua.hpp>
#include <span>
#include <string_view>

namespace dfly {

// Pushes a new table with these items.
void PushStrings(lua_State* lua, std::span<const std::string_view> items);

// The table at `index` (> 0) gets these items, and nothing else is in it. If the script before left
// it as more than an array, or it has not the size for them, another table takes its place: false.
bool FillArray(lua_State* lua, int index, std::span<const std::string_view> items);

}  // namespace dfly
