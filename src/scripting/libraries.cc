// SPDX-License-Identifier: Apache-2.0
// The libraries that Redis adds to Lua. cjson is Debian's; the others are in files of their own.
#include "scripting/libraries.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "scripting/sandbox.h"
#include "scripting/script_state.h"

// lua-cjson.h declares it as a C++ function.
extern "C" int luaopen_cjson(lua_State* lua);

namespace dfly {
namespace {

// cjson recurses on the C stack for each level, so a script may not ask for more than this, which
// is what it starts with.
constexpr lua_Integer kJsonDepthMax = 1000;

// A buffer of cjson that is larger is not kept; what is left of it then.
constexpr size_t kLargeJson = 64 << 10;
constexpr int kSmallJson = 1023;

void WrapJson(lua_State* lua);

// Upvalues of what stands for one of cjson's functions: its own upvalue (its settings), and the
// function, which is called as a part of ours.
int CallWrapped(lua_State* lua) { return lua_tocfunction(lua, lua_upvalueindex(2))(lua); }

// cjson.encode and decode.
int CallJson(lua_State* lua) {
  ScriptState* const state = StateOf(lua);
  FreeJsonScratch(state);
  json_call = {.lua = lua, .state = state};
  const int results = CallWrapped(lua);
  if (state->json_large != nullptr) [[unlikely]]
    FreeLargeJson(state);
  return results;
}

// cjson.encode_keep_buffer. Only the answer changes (upvalue 1): without a buffer that is kept,
// what an encode needs would be lost when an error passes through it.
int KeepBuffer(lua_State* lua) {
  if (!lua_isnoneornil(lua, 1)) {
    luaL_checktype(lua, 1, LUA_TBOOLEAN);
    lua_settop(lua, 1);
    lua_replace(lua, lua_upvalueindex(1));
  }
  lua_pushvalue(lua, lua_upvalueindex(1));
  return 1;
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
  json_call = {.lua = lua, .state = StateOf(lua)};
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
  lua_pushboolean(lua, 1);
  lua_pushcclosure(lua, KeepBuffer, 1);
  lua_setfield(lua, -2, "encode_keep_buffer");
}

}  // namespace

namespace {

// The beginning of cjson's strbuf_t.
struct JsonBuffer {
  char* bytes;
  int size;
};

// The buffers of settings, of which each state has at least one, and cjson.new makes more; they
// live as long as those, and grow with what is encoded. Those of one thread, by their addresses:
// the collector frees them, who does not tell whose they are.
struct KeptBuffer {
  ScriptState* state;
  size_t size;
};
thread_local absl::flat_hash_map<const void*, KeptBuffer> kept_buffers;

// It was allocated, changed or, with 0, freed.
void CountKept(KeptBuffer* kept, size_t size) {
  kept->state->json_bytes += size - kept->size;
  kept->size = size;
}

}  // namespace

extern "C" {

void __real_strbuf_init(JsonBuffer* buffer, int size);
void __wrap_strbuf_init(JsonBuffer* buffer, int size) {
  __real_strbuf_init(buffer, size);
  KeptBuffer& kept = kept_buffers[buffer];
  kept = {.state = json_call.state, .size = 0};
  CountKept(&kept, static_cast<size_t>(buffer->size));
}

// What a decode needs is lost when an error of Lua passes through it, so it is remembered.
JsonBuffer* __real_strbuf_new(int size);
JsonBuffer* __wrap_strbuf_new(int size) {
  JsonBuffer* const buffer = __real_strbuf_new(size);
  ScriptState* const state = json_call.state;
  state->json_scratch = buffer;
  state->json_bytes += static_cast<size_t>(buffer->size);
  return buffer;
}

void __real_strbuf_free(JsonBuffer* buffer);
void __wrap_strbuf_free(JsonBuffer* buffer) {
  ScriptState* const state = json_call.state;
  if (state != nullptr && state->json_scratch == buffer) {
    state->json_scratch = nullptr;
    state->json_bytes -= static_cast<size_t>(buffer->size);
  } else if (const auto found = kept_buffers.find(buffer); found != kept_buffers.end()) {
    CountKept(&found->second, 0);
    if (found->second.state->json_large == buffer) found->second.state->json_large = nullptr;
    kept_buffers.erase(found);
  }
  __real_strbuf_free(buffer);
}

// cjson ends the process when a buffer becomes too large.
void __real_strbuf_resize(JsonBuffer* buffer, int size);
void __wrap_strbuf_resize(JsonBuffer* buffer, int size) {
  // It doubles what it has, and what is asked for must fit.
  constexpr size_t kSizeMax = INT32_MAX / 4;
  ScriptState* const state = json_call.state;
  if (size < 0 || static_cast<size_t>(size) > std::min(kSizeMax, state->memory_max)) {
    luaL_error(json_call.lua, "not enough memory");
  }
  const auto before = static_cast<size_t>(buffer->size);
  __real_strbuf_resize(buffer, size);
  const auto now = static_cast<size_t>(buffer->size);
  CountBytes(now);
  if (buffer == state->json_scratch) {
    state->json_bytes += now - before;
    return;
  }
  const auto kept = kept_buffers.find(buffer);
  if (kept == kept_buffers.end()) return;
  CountKept(&kept->second, now);
  if (now > kLargeJson) state->json_large = buffer;
}

}  // extern "C"

void FreeJsonScratch(ScriptState* state) {
  auto* const buffer = static_cast<JsonBuffer*>(std::exchange(state->json_scratch, nullptr));
  if (buffer == nullptr) return;
  state->json_bytes -= static_cast<size_t>(buffer->size);
  __real_strbuf_free(buffer);
}

void FreeLargeJson(ScriptState* state) {
  FreeJsonScratch(state);
  auto* const buffer = static_cast<JsonBuffer*>(std::exchange(state->json_large, nullptr));
  if (buffer == nullptr) return;
  __real_strbuf_resize(buffer, kSmallJson);
  CountKept(&kept_buffers[buffer], static_cast<size_t>(buffer->size));
}

void OpenLibraries(lua_State* lua) {
  json_call = {.lua = lua, .state = StateOf(lua)};
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
