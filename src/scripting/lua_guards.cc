// SPDX-License-Identifier: Apache-2.0
// Where Lua itself is asked to hold back: with the linker's help, as in lua_numbers.cc.
//
// Stack. Lua counts nested C calls and stops at 200, whatever each of them needs: 200 nested
// string.gsub take 420 KB, and a script runs on a fiber's stack. So wherever Lua is about to call
// itself, the stack that is really left is looked at.
//
// Ticks. A hook would make Lua look for it at each instruction, and take a slow way for each call
// and return. So there is none; each call of a Lua function is marked (`trap`) as if there were
// one, and then Lua calls luaG_traceexec at each jump back and behind each call, which is enough.
// Now and then that has a hook for a moment. A tail call begins a function that may do nothing but
// end with another one, and is counted itself.
//
// Work. What Lua's own library functions loop over passes through its API, and is counted there. So
// is what the machine does without jumps: comparing long strings, looking for the next key of a
// table that has become empty, full collections (lua_memory.cc: what it copies).
//
// Garbage. While the host uses the state (UnlimitedScope), no step of the collector may run.
#include <cstring>
#include <lua.hpp>

#include "helio/base/logging.h"
#include "scripting/lua/lua_layout.h"
#include "scripting/script_state.h"

namespace {

using dfly::CountBytes;
using dfly::CountWork;
using dfly::LuaCall;
using dfly::LuaThread;
using dfly::LuaThreadOf;
using dfly::ScriptState;
using dfly::StateOf;

constexpr const char* kErrOverflow = "C stack overflow";
// What the message handler of that error may use in addition.
constexpr size_t kHandlerBytes = 16 << 10;

enum class Depth : uint8_t { kFine, kOverflow, kHopeless };

// The first call that goes too deep is an error. It may be handled below that mark, but not by
// going much deeper.
inline Depth CheckDepth(ScriptState* state) {
  const char* const here = static_cast<const char*>(__builtin_frame_address(0));
  if (here >= state->stack_floor) {
    state->overflowed = false;
    return Depth::kFine;
  }
  if (!state->overflowed) {
    state->overflowed = true;
    return Depth::kOverflow;
  }
  return here >= state->stack_floor - kHandlerBytes ? Depth::kFine : Depth::kHopeless;
}

void SetHook(lua_State* lua, lua_Hook hook) {
  LuaThread* const thread = LuaThreadOf(lua);
  thread->hook = hook;
  thread->hook_mask = hook != nullptr ? LUA_MASKCOUNT : 0;
  thread->hook_count = thread->base_hook_count = 1;
}

int CheckCall(lua_State* lua) {
  const LuaThread& thread = *LuaThreadOf(lua);
  CHECK_EQ(dfly::LuaArgumentCount(lua), 3u);
  const dfly::LuaValue* const arguments = dfly::LuaArguments(lua);
  CHECK(arguments[0].type == dfly::LuaValue::kFloat && arguments[0].number == 42);
  CHECK(arguments[1].is_text() && arguments[1].text() == "short");
  CHECK(arguments[2].is_text() && arguments[2].text() == std::string(100, 'l'));
  CHECK(!arguments[0].is_text() && arguments[1].type != arguments[2].type);
  CHECK_EQ(thread.call->previous, &thread.base_call);
  CHECK_EQ(thread.call->results, 7);
  return 0;
}

// A table with an array, what is in it, and what else a table may have.
void CheckTable(lua_State* lua) {
  lua_createtable(lua, 8, 0);
  const auto& table = *static_cast<const dfly::LuaTable*>(lua_topointer(lua, -1));
  for (int i = 1; i <= 5; ++i) {
    lua_pushliteral(lua, "short");
    lua_rawseti(lua, -2, i);
    CHECK(table.array[i - 1].is_text() && table.array[i - 1].text() == "short");
  }
  CHECK(table.array[5].is_nil());
  // Its length, which Lua notes as that of the array, as it is more than a half of it.
  CHECK_EQ(lua_rawlen(lua, -1), 5u);
  CHECK_EQ(table.array_size, 5u);
  CHECK_EQ(table.array_places(), 8u);
  CHECK(table.is_plain_array());
  lua_pushboolean(lua, 1);
  lua_setfield(lua, -2, "key");
  CHECK(!table.is_plain_array());
  lua_createtable(lua, 0, 0);
  const auto& other = *static_cast<const dfly::LuaTable*>(lua_topointer(lua, -1));
  CHECK_EQ(other.array_places(), 0u);
  CHECK(other.is_plain_array());
  lua_pushvalue(lua, -2);
  lua_setmetatable(lua, -2);
  CHECK(!other.is_plain_array());
  lua_settop(lua, 0);
}

}  // namespace

void dfly::TickNow(lua_State* lua) {
  work_to_tick = Interpreter::kTickOccasions;
  ScriptState* const state = StateOf(lua);
  if (state->tick == nullptr || state->unlimited) return;
  const JsonCall call = json_call;
  state->tick(lua, nullptr);  // others run meanwhile
  json_call = call;
}

void dfly::CheckLayout(lua_State* lua) {
  const LuaThread& thread = *LuaThreadOf(lua);
  CHECK_EQ(thread.call, &thread.base_call);
  lua_sethook(
      lua, [](lua_State*, lua_Debug*) {}, LUA_MASKCOUNT, 5);
  CHECK(thread.hook == lua_gethook(lua));
  CHECK_EQ(thread.hook_mask, LUA_MASKCOUNT);
  CHECK_EQ(thread.base_hook_count, 5);
  CHECK_EQ(thread.hook_count, 5);
  lua_sethook(lua, nullptr, 0, 0);
  CHECK_EQ(thread.hook_mask, 0);
  lua_pushcfunction(lua, CheckCall);
  lua_pushinteger(lua, 42);
  lua_pushliteral(lua, "short");
  const std::string long_text(100, 'l');
  lua_pushlstring(lua, long_text.data(), long_text.size());
  lua_call(lua, 3, 7);
  lua_settop(lua, 0);
  CheckTable(lua);
}

dfly::StackScope::StackScope(ScriptState* state, size_t bytes) : state_(state) {
  state_->stack_floor = static_cast<const char*>(__builtin_frame_address(0)) - bytes;
  state_->overflowed = false;
}

extern "C" {

[[noreturn]] void luaG_runerror(lua_State* lua, const char* format, ...);
[[noreturn]] void luaD_throw(lua_State* lua, int status);

static inline void GuardDepth(lua_State* lua) {
  const Depth depth = CheckDepth(StateOf(lua));
  if (depth == Depth::kFine) return;
  if (depth == Depth::kOverflow) luaG_runerror(lua, kErrOverflow);
  luaD_throw(lua, LUA_ERRERR);
}

// Calls out of C functions, and of metamethods.
void __real_luaD_call(lua_State* lua, void* function, int results);
void __wrap_luaD_call(lua_State* lua, void* function, int results) {
  GuardDepth(lua);
  __real_luaD_call(lua, function, results);
}
void __real_luaD_callnoyield(lua_State* lua, void* function, int results);
void __wrap_luaD_callnoyield(lua_State* lua, void* function, int results) {
  GuardDepth(lua);
  __real_luaD_callnoyield(lua, function, results);
}

// Nested coroutines.
int __real_lua_resume(lua_State* lua, lua_State* from, int arguments, int* results);
int __wrap_lua_resume(lua_State* lua, lua_State* from, int arguments, int* results) {
  GuardDepth(from);
  return __real_lua_resume(lua, from, arguments, results);
}

// Nested expressions and blocks in the compiler.
void __real_luaE_incCstack(lua_State* lua);
void __wrap_luaE_incCstack(lua_State* lua) {
  GuardDepth(lua);
  __real_luaE_incCstack(lua);
}

// Calls of Lua functions out of Lua functions; null: it was a C function.
LuaCall* __real_luaD_precall(lua_State* lua, void* function, int results);
LuaCall* __wrap_luaD_precall(lua_State* lua, void* function, int results) {
  LuaCall* const call = __real_luaD_precall(lua, function, results);
  if (call != nullptr) call->trap = 1;
  return call;
}
// Out of C functions, and coroutines that go on.
void __real_luaV_execute(lua_State* lua, LuaCall* call);
void __wrap_luaV_execute(lua_State* lua, LuaCall* call) {
  call->trap = 1;
  __real_luaV_execute(lua, call);
}
// Below 0: it was a Lua function. That begins with a look whether there is a hook.
int __real_luaD_pretailcall(lua_State* lua, LuaCall* call, void* function, int arguments,
                            int delta);
int __wrap_luaD_pretailcall(lua_State* lua, LuaCall* call, void* function, int arguments,
                            int delta) {
  const int results = __real_luaD_pretailcall(lua, call, function, arguments, delta);
  if (results >= 0) return results;
  call->trap = 1;
  CountWork(1);
  if (dfly::work_to_tick <= 0) SetHook(lua, StateOf(lua)->tick);
  return results;
}
int __real_luaG_traceexec(lua_State* lua, const void* instruction);
int __wrap_luaG_traceexec(lua_State* lua, const void* instruction) {
  CountWork(1);
  if (dfly::work_to_tick > 0) return 0;
  dfly::work_to_tick = dfly::Interpreter::kTickOccasions;
  ScriptState* const state = StateOf(lua);
  if (state->tick == nullptr) return 0;
  SetHook(lua, state->tick);
  __real_luaG_traceexec(lua, instruction);
  SetHook(lua, nullptr);  // after an error there is one for longer, which does no harm
  return 0;
}

// Functions of the API that library functions of Lua and cjson loop over.
int __real_lua_geti(lua_State* lua, int index, lua_Integer key);
int __wrap_lua_geti(lua_State* lua, int index, lua_Integer key) {
  if (!dfly::IsTickDue(1)) [[likely]]
    return __real_lua_geti(lua, index, key);
  dfly::TickNow(lua);
  return __real_lua_geti(lua, index, key);
}
int __real_lua_rawgeti(lua_State* lua, int index, lua_Integer key);
int __wrap_lua_rawgeti(lua_State* lua, int index, lua_Integer key) {
  if (!dfly::IsTickDue(1)) [[likely]]
    return __real_lua_rawgeti(lua, index, key);
  dfly::TickNow(lua);
  return __real_lua_rawgeti(lua, index, key);
}
void __real_lua_rawset(lua_State* lua, int index);
void __wrap_lua_rawset(lua_State* lua, int index) {
  if (!dfly::IsTickDue(1)) [[likely]]
    return __real_lua_rawset(lua, index);
  dfly::TickNow(lua);
  __real_lua_rawset(lua, index);
}
void __real_lua_rawseti(lua_State* lua, int index, lua_Integer key);
void __wrap_lua_rawseti(lua_State* lua, int index, lua_Integer key) {
  if (!dfly::IsTickDue(1)) [[likely]]
    return __real_lua_rawseti(lua, index, key);
  dfly::TickNow(lua);
  __real_lua_rawseti(lua, index, key);
}
int __real_lua_next(lua_State* lua, int index);
int __wrap_lua_next(lua_State* lua, int index) {
  if (!dfly::IsTickDue(1)) [[likely]]
    return __real_lua_next(lua, index);
  dfly::TickNow(lua);
  return __real_lua_next(lua, index);
}

// It passes over places that are empty. All of a table are 1 ns each at most, so a table of n
// places that takes n/2^16 units for each key has a tick at least every 64 ms, and going through
// all keys of a large one takes little more than without.
int __real_luaH_next(lua_State* lua, void* table, void* key);
int __wrap_luaH_next(lua_State* lua, void* table, void* key) {
  CountWork(static_cast<const dfly::LuaTable*>(table)->places() >> 16);
  return __real_luaH_next(lua, table, key);
}

// Long strings that are equal, or may be.
int __real_luaS_eqlngstr(const dfly::LuaText* a, const dfly::LuaText* b);
int __wrap_luaS_eqlngstr(const dfly::LuaText* a, const dfly::LuaText* b) {
  if (a != b && a->long_size == b->long_size) CountBytes(a->long_size);
  return __real_luaS_eqlngstr(a, b);
}
// "<" of strings: Lua compares them up to a zero byte, and goes on behind it.
int __wrap_strcoll(const char* a, const char* b) {
  // The process has the "C" locale, where bytes are compared. In pieces, so as to know how many.
  for (size_t done = 0;; done += dfly::kWorkPiece) {
    const int order = std::strncmp(a + done, b + done, dfly::kWorkPiece);
    if (order != 0 || strnlen(a + done, dfly::kWorkPiece) < dfly::kWorkPiece) return order;
    CountBytes(dfly::kWorkPiece);
  }
}

// Of all that is there, as somebody asked for it or memory has come to its end.
void __real_luaC_fullgc(lua_State* lua, int is_emergency);
void __wrap_luaC_fullgc(lua_State* lua, int is_emergency) {
  CountBytes(StateOf(lua)->memory_used);
  __real_luaC_fullgc(lua, is_emergency);
}

// What of a table is weak. One whose keys are weak and whose values are not would be gone through
// again and again, in one step: what one of its values keeps may be the key of another. In 5.1 its
// values are kept; here it is like any other table.
const dfly::LuaValue* __real_luaT_gettm(void* metatable, int event, void* name);
const dfly::LuaValue* __wrap_luaT_gettm(void* metatable, int event, void* name) {
  constexpr int kModeEvent = 3;  // of Lua 5.4, checked by a test
  const dfly::LuaValue* const value = __real_luaT_gettm(metatable, event, name);
  if (event != kModeEvent || value == nullptr || !value->is_text()) return value;
  const std::string_view mode = value->text();
  const bool has_weak_keys = mode.find('k') != std::string_view::npos;
  return has_weak_keys && mode.find('v') == std::string_view::npos ? nullptr : value;
}

// Stopping the collector with lua_gc and starting it again, for each redis.call, would make it
// forget its pace.
void __real_luaC_step(lua_State* lua);
void __wrap_luaC_step(lua_State* lua) {
  if (!StateOf(lua)->unlimited) __real_luaC_step(lua);
}

}  // extern "C"
