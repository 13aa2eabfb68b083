// SPDX-License-Identifier: Apache-2.0
// Lua 5.1 had one kind of number and printed it with "%.14g"; 5.4 has two, and prints the float 5
// as "5.0". Scripts and what reads their replies know only "5". And 5.1 truncates a float where an
// integer is asked for, while 5.4 refuses it.
//
// No option of Lua changes that, so the linker does: with --wrap, calls from one of Lua's object
// files to the function x in another arrive in __wrap_x, which reaches Lua's own as __real_x. See
// CMakeLists.txt for the list.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <lua.hpp>

#include "scripting/lua_layout.h"
#include "scripting/truncate.h"

namespace {

using dfly::LuaObject;
using dfly::LuaValue;

// From here on "%.14g" has an exponent.
constexpr double kExponentFrom = 1e14;

}  // namespace

extern "C" {

LuaObject* luaS_newlstr(lua_State* lua, const char* text, size_t size);

// Every conversion of a number to a string. 5.4's own adds ".0" to what looks like an integer, and
// that is not only what is one: 3.0000000000000004 does.
void __real_luaO_tostring(lua_State* lua, LuaValue* value);
void __wrap_luaO_tostring(lua_State* lua, LuaValue* value) {
  if (value->type != LuaValue::kFloat) return __real_luaO_tostring(lua, value);
  const double number = value->number;
  if (std::fabs(number) < kExponentFrom && (number != 0 || !std::signbit(number))) {
    const auto integer = static_cast<lua_Integer>(number);
    if (static_cast<double>(integer) == number) {
      value->integer = integer;
      value->type = LuaValue::kInteger;
      return __real_luaO_tostring(lua, value);
    }
  }
  char text[32];
  const int size = std::snprintf(text, sizeof(text), "%.14g", number);
  value->object = luaS_newlstr(lua, text, static_cast<size_t>(size));
  value->type = value->object->type | LuaValue::kIsCollectable;
}

// tostring() and "%s", which have a way of their own for numbers.
const char* __real_luaL_tolstring(lua_State* lua, int index, size_t* size);
const char* __wrap_luaL_tolstring(lua_State* lua, int index, size_t* size) {
  if (lua_type(lua, index) != LUA_TNUMBER) return __real_luaL_tolstring(lua, index, size);
  lua_pushvalue(lua, index);
  return lua_tolstring(lua, -1, size);
}

lua_Integer __real_luaL_checkinteger(lua_State* lua, int arg);
lua_Integer __wrap_luaL_checkinteger(lua_State* lua, int arg) {
  if (arg > 0 && static_cast<size_t>(arg) <= dfly::LuaArgumentCount(lua)) {
    const LuaValue& value = dfly::LuaArguments(lua)[arg - 1];
    if (value.type == LuaValue::kInteger) return value.integer;
  }
  int is_number;
  const lua_Integer integer = lua_tointegerx(lua, arg, &is_number);
  if (is_number) return integer;
  const lua_Number number = lua_tonumberx(lua, arg, &is_number);
  return is_number ? dfly::TruncateNumber(number) : __real_luaL_checkinteger(lua, arg);
}

// Lua's own calls its own luaL_checkinteger, in the same file, where --wrap has no effect.
lua_Integer __wrap_luaL_optinteger(lua_State* lua, int arg, lua_Integer by_default) {
  return lua_isnoneornil(lua, arg) ? by_default : __wrap_luaL_checkinteger(lua, arg);
}

}  // extern "C"
