// SPDX-License-Identifier: Apache-2.0
// The libraries that are written here. Each pushes a table with its functions.
#pragma once

struct lua_State;

namespace dfly {

int OpenBit(lua_State* lua);
int OpenStruct(lua_State* lua);
int OpenMessagePack(lua_State* lua);

}  // namespace dfly
