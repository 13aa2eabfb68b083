// SPDX-License-Identifier: Apache-2.0
// The libraries that Redis adds to Lua. cjson is Debian's; the others are in files of their own.
#include "scripting/libraries.h"

#include <algorithm>

#include "scripting/sandbox.h"
#include "scripting/script_state.h"

// lua-cjson.h declares it as a C++ function.
extern "C" int luaopen_cjson(lua_State* lua);

namespace dfly {
namespace {

// cjson recurses on the C stack for each level, so a script may not ask for more than this, which
// is what it starts with.
constexpr lua_Integer kJsonDepthMax = 1000;

void WrapJson(lua_State* lua);

// Upvalues of what stands for one of cjson's functions: its own upvalue (its settings), and the
// function, which is called as a part of ours.
int CallWrapped(lua_State* lua) { return lua_tocfunction(lua, lua_upvalueindex(2))(lua); }

// cjson.encode and decode.
int CallJson(lua_State* lua) {
  ScriptState* const state = StateOf(lua);
  FreeJsonScratch(state);
  json_caller = lua;
  return CallWrapped(lua);
}

// cjson.encode_max_depth and decode_max_depth.
int LimitedDepth(lua_State* lua) {
  if (!lua_isnoneornil(lua, 1) && luaL_checkinteger(lua, 1) > kJsonDepthMax) {
    return luaL_argerror(lua, 1, "expected integer between 1 and 1000");
  }
  return CallWrapped(lua);
}

// cjson.new
int NewJson(lua_State* lua) {
  lua_settop(lua, 0);
  CallWrapped(lua);
  WrapJson(lua);
  return 1;
}

// Replaces functions of the table on the top.
void WrapJson(lua_State* lua) {
  constexpr luaL_Reg kWrapped[] = {{"encode_max_depth", LimitedDepth},
                                   {"decode_max_depth", LimitedDepth},
                                   {"new", NewJson},
                                   {"encode", CallJson},
                                   {"decode", CallJson}};
  for (const luaL_Reg& function : kWrapped) {
    lua_getfield(lua, -1, function.name);
    if (lua_getupvalue(lua, -1, 1) == nullptr) lua_pushnil(lua);
    lua_insert(lua, -2);
    lua_pushcclosure(lua, function.func, 2);
    lua_setfield(lua, -2, function.name);
  }
}

}  // namespace

extern "C" {

// The buffers of cjson. It ends the process when they become too large, and what a decode needs is
// lost when an error of Lua passes through it.
void* __real_strbuf_new(int size);
void* __wrap_strbuf_new(int size) {
  void* const buffer = __real_strbuf_new(size);
  if (json_caller != nullptr) StateOf(json_caller)->json_scratch = buffer;
  return buffer;
}
void __real_strbuf_free(void* buffer);
void __wrap_strbuf_free(void* buffer) {
  if (json_caller != nullptr && StateOf(json_caller)->json_scratch == buffer) {
    StateOf(json_caller)->json_scratch = nullptr;
  }
  __real_strbuf_free(buffer);
}
void __real_strbuf_resize(void* buffer, int size);
void __wrap_strbuf_resize(void* buffer, int size) {
  // It doubles what it has, and what is asked for must fit.
  constexpr size_t kSizeMax = INT32_MAX / 4;
  if (json_caller != nullptr &&
      (size < 0 ||
       static_cast<size_t>(size) > std::min(kSizeMax, StateOf(json_caller)->memory_max))) {
    luaL_error(json_caller, "not enough memory");
  }
  __real_strbuf_resize(buffer, size);
}

}  // extern "C"

void FreeJsonScratch(ScriptState* state) {
  if (state->json_scratch == nullptr) return;
  __real_strbuf_free(state->json_scratch);
  state->json_scratch = nullptr;
}

void OpenLibraries(lua_State* lua) {
  lua_pushcfunction(lua, luaopen_cjson);
  lua_call(lua, 0, 1);
  WrapJson(lua);
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "cjson");

  constexpr luaL_Reg kOurs[] = {
      {"bit", OpenBit}, {"struct", OpenStruct}, {"cmsgpack", OpenMessagePack}};
  for (const luaL_Reg& library : kOurs) {
    lua_pushcfunction(lua, library.func);
    lua_call(lua, 0, 1);
    MakeReadOnly(lua);
    lua_setfield(lua, -2, library.name);
  }
}

}  // namespace dfly
