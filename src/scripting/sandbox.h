// SPDX-License-Identifier: Apache-2.0
// What a script sees: read-only globals and libraries, and Lua 5.1's functions instead of 5.4's.
#pragma once

struct lua_Debug;
struct lua_State;

namespace dfly {

// Replaces the table on the top of the stack by one that cannot be changed: writes to it raise
// "Attempt to modify a readonly table". What was there can still be changed by who holds it.
void MakeReadOnly(lua_State* lua);
// If the value at `index` is such a table, pushes what it stands for.
bool PushProtected(lua_State* lua, int index);
// Makes the read-only table on the top of the stack stand for the table below it from now on, which
// is popped.
void SetProtected(lua_State* lua);

// Opens Lua's base library with what a script may have of it, and `coroutine`. These go to the
// table on the top of the stack.
void OpenBase(lua_State* lua);
// `table`, `string`, `math` as in Lua 5.1, likewise.
void OpenLua51Libraries(lua_State* lua);
// Rewords an error of Lua on the top of the stack as 5.1 has it, as far as scripts may look at it.
void ConvertErrorText(lua_State* lua);
// `redis`, likewise, with calls to the host.
void OpenRedis(lua_State* lua, const char* version);
// `redis` as the code of a library sees it while it is loaded, likewise: it can register functions
// and write to the log.
void OpenRedisForLoading(lua_State* lua, const char* version);
// `cjson`, `cmsgpack`, `struct`, `bit`, likewise.
void OpenLibraries(lua_State* lua);

// If the value at `index` (< 0) is an integer, makes it the float that scripts know. That is what
// lua_next gives for keys.
void MakeFloat(lua_State* lua, int index);

// What a cjson.decode left that was ended by an error.
void FreeJsonScratch(struct ScriptState* state);

// Makes reading what is not in the table on the top an error.
void RefuseUnknownNames(lua_State* lua);

// The hook that a script runs with, every Interpreter::kTickOccasions.
void Tick(lua_State* lua, lua_Debug*);

// The message handler of a script or function: makes a table with err, source and line of any
// error.
int DescribeError(lua_State* lua);

}  // namespace dfly
