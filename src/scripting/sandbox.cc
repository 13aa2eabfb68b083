// SPDX-License-Identifier: Apache-2.0
#include "scripting/sandbox.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

#include "scripting/lua/lua_layout.h"
#include "scripting/script_state.h"
#include "scripting/source/lua51_source.h"

// Replaces a key on the stack by the next one, with its value behind it. 0: there is none.
extern "C" int luaH_next(lua_State* lua, const dfly::LuaTable* table, dfly::LuaValue* key);

namespace dfly {
namespace {

// Stock Lua has no tables that cannot be changed. A read-only table is an empty one whose metatable
// sends reads to the real one and writes to an error. Under this key the metatable has the real
// one, for functions that look at tables without it.
const char kProtectedKey = 0;

constexpr const char* kErrReadOnly = "Attempt to modify a readonly table";

int RefuseWrite(lua_State* lua) { return luaL_error(lua, kErrReadOnly); }

// For functions: their text does not begin with a place.
int RefuseToModify(lua_State* lua) {
  lua_pushstring(lua, kErrReadOnly);
  return lua_error(lua);
}

int UnknownName(lua_State* lua) {
  return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                    luaL_tolstring(lua, 2, nullptr));
}

// Two results, above the two arguments. There is always room for some.
int ReturnItem(lua_State* lua, uint64_t index, const LuaValue& item) {
  LuaThread* const thread = LuaThreadOf(lua);
  LuaValue* const results = thread->call->function + 3;
  results[0].number = static_cast<lua_Number>(index);
  results[0].type = LuaValue::kFloat;
  results[1] = item;
  thread->top = results + 2;
  return 2;
}

// Keys that are whole numbers are integers in tables.
void MakeKey(LuaValue* key) {
  if (key->type != LuaValue::kFloat) return;
  const lua_Integer integer = WholePart(key->number);
  if (static_cast<double>(integer) != key->number) return;
  key->integer = integer;
  key->type = LuaValue::kInteger;
}

// next() of a table that has no metatable, so is not one that is read-only, with two arguments.
int NextOfPlain(lua_State* lua, const LuaTable& table) {
  LuaThread* const thread = LuaThreadOf(lua);
  LuaValue* const key = thread->call->function + 2;
  MakeKey(key);
  uint64_t place = UINT64_MAX;  // in the array, behind the key; or none of these
  if (key->is_nil()) {
    place = 0;
  } else if (key->type == LuaValue::kInteger && key->integer > 0) {
    place = static_cast<uint64_t>(key->integer);
  }
  constexpr uint64_t kPlacesOfUnit = 32;
  const uint64_t begin = place;
  while (place < table.array_size && table.array[place].is_nil()) ++place;
  if (place - begin >= kPlacesOfUnit) CountWork((place - begin) / kPlacesOfUnit);
  if (place < table.array_size) return ReturnItem(lua, place + 1, table.array[place]);
  if (luaH_next(lua, &table, key) == 0) {
    lua_pushnil(lua);
    return 1;
  }
  thread->top = key + 2;
  *key = AsFloat(*key);
  return 2;
}

// next(), also of what is read-only.
int Next(lua_State* lua) {
  const LuaValue* const arguments = LuaArguments(lua);
  if (LuaArgumentCount(lua) == 2 && arguments[0].type == LuaValue::kTable) {
    const auto& table = *reinterpret_cast<const LuaTable*>(arguments[0].object);
    if (table.metatable == nullptr) return NextOfPlain(lua, table);
  }
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_settop(lua, 2);
  if (PushProtected(lua, 1)) lua_replace(lua, 1);
  MakeKey(LuaThreadOf(lua)->call->function + 2);
  if (lua_next(lua, 1) != 0) {
    MakeFloat(lua, -2);
    return 2;
  }
  lua_pushnil(lua);
  return 1;
}

// tonumber(value [, base]). Whole numbers of other bases are what strtoul takes.
int ToNumber(lua_State* lua) {
  const auto base = lua_isnoneornil(lua, 2) ? 10 : static_cast<int>(luaL_checkinteger(lua, 2));
  luaL_checkany(lua, 1);
  if (base == 10) {
    int is_number;
    const lua_Number number = lua_tonumberx(lua, 1, &is_number);
    if (is_number != 0) {
      lua_pushnumber(lua, number);
    } else {
      lua_pushnil(lua);
    }
    return 1;
  }
  const char* const text = luaL_checkstring(lua, 1);
  luaL_argcheck(lua, base >= 2 && base <= 36, 2, "base out of range");
  char* end;
  const unsigned long number = std::strtoul(text, &end, base);
  const bool has_digits = end != text;
  while (std::isspace(static_cast<unsigned char>(*end)) != 0) ++end;
  if (has_digits && *end == '\0') {
    lua_pushnumber(lua, static_cast<lua_Number>(number));
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

// 5.4's would accept anything, and fail in the loop.
int Pairs(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushcfunction(lua, Next);
  lua_pushvalue(lua, 1);
  lua_pushnil(lua);
  return 3;
}

// ipairs() looks at the table itself, as in 5.1.
int NextItem(lua_State* lua) {
  const LuaValue* const arguments = LuaArguments(lua);
  if (LuaArgumentCount(lua) == 2 && arguments[0].type == LuaValue::kTable &&
      arguments[1].type == LuaValue::kFloat) {
    const auto& table = *reinterpret_cast<const LuaTable*>(arguments[0].object);
    const auto place = static_cast<uint64_t>(WholePart(arguments[1].number));
    if (place < table.array_size) {
      const LuaValue& item = table.array[place];
      return item.is_nil() ? 0 : ReturnItem(lua, place + 1, item);
    }
  }
  const lua_Integer index = luaL_checkinteger(lua, 2) + 1;
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushnumber(lua, static_cast<lua_Number>(index));
  return lua_rawgeti(lua, 1, index) == LUA_TNIL ? 0 : 2;
}

int Ipairs(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushcfunction(lua, NextItem);
  lua_pushvalue(lua, 1);
  lua_pushnumber(lua, 0);
  return 3;
}

int GetMetatable(lua_State* lua) {
  luaL_checkany(lua, 1);
  if (lua_type(lua, 1) == LUA_TTABLE && PushProtected(lua, 1)) {
    lua_pushnil(lua);
    return 1;
  }
  if (lua_getmetatable(lua, 1) == 0) {
    lua_pushnil(lua);
    return 1;
  }
  luaL_getmetafield(lua, 1, "__metatable");  // if there is none, the metatable stays on the top
  return 1;
}

// A finalizer would run wherever memory is allocated, in the middle of the server's own code. 5.1
// knows none for tables, so __gc is a field without meaning: Lua looks for it only here.
int SetMetatable(lua_State* lua) {
  const int type = lua_type(lua, 2);
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_argexpected(lua, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
  if (PushProtected(lua, 1)) return RefuseToModify(lua);
  if (luaL_getmetafield(lua, 1, "__metatable") != LUA_TNIL) {
    return luaL_error(lua, "cannot change a protected metatable");
  }
  lua_settop(lua, 2);
  bool has_finalizer = false;
  if (type == LUA_TTABLE) {
    lua_pushliteral(lua, "__gc");
    lua_pushvalue(lua, -1);
    has_finalizer = lua_rawget(lua, 2) != LUA_TNIL;  // 1 table, 2 metatable, 3 "__gc", 4 finalizer
  }
  if (has_finalizer) {
    lua_pushvalue(lua, 3);
    lua_pushnil(lua);
    lua_rawset(lua, 2);
  }
  lua_pushvalue(lua, 2);
  lua_setmetatable(lua, 1);
  if (has_finalizer) {
    lua_rawset(lua, 2);
  }
  lua_settop(lua, 1);
  return 1;
}

int RawGet(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checkany(lua, 2);
  lua_settop(lua, 2);
  if (PushProtected(lua, 1)) lua_replace(lua, 1);
  lua_rawget(lua, 1);
  return 1;
}

int RawSet(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checkany(lua, 2);
  luaL_checkany(lua, 3);
  lua_settop(lua, 3);
  if (PushProtected(lua, 1)) return RefuseToModify(lua);
  lua_rawset(lua, 1);
  return 1;
}

// --- what catches errors: none may catch the end of a script ---

// As in Redis 7.0, a script that calls pcall gets the text of a command's error, not its table.
void UnwrapError(lua_State* lua) {
  if (lua_type(lua, -1) != LUA_TTABLE) return;
  lua_pushliteral(lua, "err");
  lua_rawget(lua, -2);
  if (lua_isnil(lua, -1)) {
    lua_pop(lua, 1);
  } else {
    lua_remove(lua, -2);
  }
}

int FinishPcall(lua_State* lua, int status, lua_KContext below) {
  if (IsEnding(lua)) return RaiseEnding(lua);
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(lua) - static_cast<int>(below);
  lua_pushboolean(lua, 0);
  lua_insert(lua, -2);
  if (below == 0) {
    UnwrapError(lua);
    ConvertErrorText(lua);
  }
  return 2;
}

int Pcall(lua_State* lua) {
  luaL_checkany(lua, 1);
  lua_pushboolean(lua, 1);
  lua_insert(lua, 1);
  return FinishPcall(lua, lua_pcallk(lua, lua_gettop(lua) - 2, LUA_MULTRET, 0, 0, FinishPcall), 0);
}

// The script's message handler, unless the script must not notice.
int HandleError(lua_State* lua) {
  if (IsEnding(lua)) return 1;
  lua_settop(lua, 1);
  ConvertErrorText(lua);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, 1, 1);
  return 1;
}

int Xpcall(lua_State* lua) {
  luaL_checkany(lua, 2);
  const int count = lua_gettop(lua);
  lua_pushvalue(lua, 2);
  lua_pushcclosure(lua, HandleError, 1);
  lua_replace(lua, 2);
  lua_pushboolean(lua, 1);
  lua_pushvalue(lua, 1);
  lua_rotate(lua, 3, 2);  // function, handler, true, function, arguments
  return FinishPcall(lua, lua_pcallk(lua, count - 2, LUA_MULTRET, 2, 2, FinishPcall), 2);
}

// Upvalue: Lua's coroutine.resume, which is called as a part of this one.
int Resume(lua_State* lua) {
  const int results = lua_tocfunction(lua, lua_upvalueindex(1))(lua);
  return IsEnding(lua) ? RaiseEnding(lua) : results;
}

// error(), which in 5.1 puts the place before a number, too.
int Error(lua_State* lua) {
  const auto level = static_cast<int>(luaL_optinteger(lua, 2, 1));
  lua_settop(lua, 1);
  if (lua_isstring(lua, 1) && level > 0) {
    luaL_where(lua, level);
    lua_insert(lua, 1);
    lua_concat(lua, 2);
  }
  return lua_error(lua);
}

// nil outside of a coroutine, as in 5.1.
int Running(lua_State* lua) {
  if (lua_pushthread(lua) == 1) lua_pushnil(lua);
  return 1;
}

int FinishLoad(lua_State* lua, int status) {
  if (IsEnding(lua)) return RaiseEnding(lua);
  if (status == LUA_OK) return 1;
  lua_pushnil(lua);
  lua_insert(lua, -2);
  return 2;
}

// Pushes the source that the function at index 1 gives in pieces.
void PushPieces(lua_State* lua) {
  luaL_Buffer source;
  luaL_buffinit(lua, &source);
  for (;;) {
    lua_pushvalue(lua, 1);
    lua_call(lua, 0, 1);
    size_t size = 0;
    if (!lua_isnil(lua, -1) && lua_tolstring(lua, -1, &size) == nullptr) {
      luaL_error(lua, "reader function must return a string");
    }
    if (size == 0) break;
    luaL_addvalue(&source);
  }
  lua_pop(lua, 1);
  luaL_pushresult(&source);
}

// loadstring(source [, name]), and load, which takes a function besides. Text only: bytecode could
// do anything.
int LoadString(lua_State* lua) {
  size_t size;
  const char* const source = luaL_checklstring(lua, 1, &size);
  return FinishLoad(lua, LoadSource(lua, {source, size}, luaL_optstring(lua, 2, source)));
}

int Load(lua_State* lua) {
  if (lua_isstring(lua, 1)) return LoadString(lua);
  luaL_checktype(lua, 1, LUA_TFUNCTION);
  const char* const name = luaL_optstring(lua, 2, "=(load)");
  lua_settop(lua, 2);
  PushPieces(lua);
  size_t size;
  const char* const source = lua_tolstring(lua, 3, &size);
  return FinishLoad(lua, LoadSource(lua, {source, size}, name));
}

// Only what harms nobody else who uses the same state.
int CollectGarbage(lua_State* lua) {
  static const char* const kOptions[] = {"stop", "restart",  "collect",    "count",
                                         "step", "setpause", "setstepmul", nullptr};
  switch (luaL_checkoption(lua, 1, "collect", kOptions)) {
    case 2:
      lua_gc(lua, LUA_GCCOLLECT);
      break;
    case 3:
      lua_pushnumber(lua, static_cast<double>(StateOf(lua)->memory_used) / 1024);
      return 1;
    case 4:
      lua_pushboolean(lua, lua_gc(lua, LUA_GCSTEP, 0));
      return 1;
    case 5:
    case 6:
      lua_pushinteger(lua, 200);
      return 1;
    default:
      break;
  }
  lua_pushinteger(lua, 0);
  return 1;
}

int GcInfo(lua_State* lua) {
  lua_pushinteger(lua, static_cast<lua_Integer>(StateOf(lua)->memory_used / 1024));
  return 1;
}

int Unpack(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  const lua_Integer first = luaL_optinteger(lua, 2, 1);
  const lua_Integer last = lua_isnoneornil(lua, 3) ? luaL_len(lua, 1) : luaL_checkinteger(lua, 3);
  if (first > last) return 0;
  const uint64_t count = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
  if (count >= INT32_MAX || lua_checkstack(lua, static_cast<int>(count) + 1) == 0) {
    return luaL_error(lua, "too many results to unpack");
  }
  if (lua_getmetatable(lua, 1) != 0) {
    lua_pop(lua, 1);
    for (lua_Integer i = first; i < last; ++i) lua_geti(lua, 1, i);
    lua_geti(lua, 1, last);
  } else {
    for (lua_Integer i = first; i < last; ++i) lua_rawgeti(lua, 1, i);
    lua_rawgeti(lua, 1, last);
  }
  return static_cast<int>(count) + 1;
}

constexpr luaL_Reg kBase[] = {
    {"getmetatable", GetMetatable},
    {"setmetatable", SetMetatable},
    {"rawget", RawGet},
    {"rawset", RawSet},
    {"next", Next},
    {"tonumber", ToNumber},
    {"pairs", Pairs},
    {"ipairs", Ipairs},
    {"error", Error},
    {"pcall", Pcall},
    {"xpcall", Xpcall},
    {"load", Load},
    {"loadstring", LoadString},
    {"collectgarbage", CollectGarbage},
    {"gcinfo", GcInfo},
    {"unpack", Unpack},
    {nullptr, nullptr},
};

// Kept as Lua has them.
constexpr const char* kLuaBase[] = {"assert", "rawequal", "select", "tostring", "type"};

}  // namespace

void MakeFloat(lua_State* lua, int index) {
  LuaValue* const value = LuaThreadOf(lua)->top + index;
  *value = AsFloat(*value);
}

void MakeReadOnly(lua_State* lua) {
  lua_createtable(lua, 0, 0);
  lua_createtable(lua, 0, 4);
  lua_pushcfunction(lua, RefuseWrite);
  lua_setfield(lua, -2, "__newindex");
  lua_setmetatable(lua, -2);
  SetProtected(lua);
}

bool PushProtected(lua_State* lua, int index) {
  if (lua_getmetatable(lua, index) == 0) return false;
  if (lua_rawgetp(lua, -1, &kProtectedKey) == LUA_TNIL) {
    lua_pop(lua, 2);
    return false;
  }
  lua_remove(lua, -2);
  return true;
}

void SetProtected(lua_State* lua) {
  lua_getmetatable(lua, -1);  // real, proxy, metatable
  lua_pushvalue(lua, -3);
  lua_setfield(lua, -2, "__index");
  lua_pushvalue(lua, -3);
  lua_rawsetp(lua, -2, &kProtectedKey);
  lua_pop(lua, 1);
  lua_remove(lua, -2);
}

void RefuseUnknownNames(lua_State* lua) {
  lua_createtable(lua, 0, 1);
  lua_pushcfunction(lua, UnknownName);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);
}

void OpenBase(lua_State* lua) {
  luaL_setfuncs(lua, kBase, 0);
  lua_pushliteral(lua, "Lua 5.1");
  lua_setfield(lua, -2, "_VERSION");

  lua_pushcfunction(lua, luaopen_base);  // fills registry[LUA_RIDX_GLOBALS]
  lua_call(lua, 0, 1);
  for (const char* const name : kLuaBase) {
    lua_getfield(lua, -1, name);
    lua_setfield(lua, -3, name);
  }
  lua_pop(lua, 1);

  lua_pushcfunction(lua, luaopen_coroutine);
  lua_call(lua, 0, 1);
  lua_getfield(lua, -1, "resume");
  lua_pushcclosure(lua, Resume, 1);
  lua_setfield(lua, -2, "resume");
  lua_pushcfunction(lua, Running);
  lua_setfield(lua, -2, "running");
  for (const char* const name : {"close", "isyieldable"}) {
    lua_pushnil(lua);
    lua_setfield(lua, -2, name);
  }
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "coroutine");
}

}  // namespace dfly
