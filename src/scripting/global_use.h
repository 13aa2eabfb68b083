// SPDX-License-Identifier: Apache-2.0
// Whether a script can do more with the table of its globals than read what it knows by name.
#pragma once

struct lua_State;

namespace dfly {

// Of the compiled chunk on the top of the stack: false if it neither assigns to a global nor gets
// hold of the table itself by the name _ENV. Such a chunk may use a table that it could change, and
// finds `redis` and KEYS in one step. Raises no Lua error. REQUIRES: an UnlimitedScope.
bool MayChangeGlobals(lua_State* lua);

}  // namespace dfly
