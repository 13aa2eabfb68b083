// SPDX-License-Identifier: Apache-2.0
// Where Lua itself is asked to hold back: with the linker's help, as in lua_numbers.cc.
//
// Stack. Lua counts nested C calls and stops at 200, whatever each of them needs: 200 nested
// string.gsub take 420 KB, and a script runs on a fiber's stack. So wherever Lua is about to call
// itself, the stack that is really left is looked at.
//
// Ticks. With a count hook Lua calls luaG_traceexec before each instruction, which makes a loop
// more than twice as slow. When that returns 0, the next instructions run freely until the next
// jump or call, so it is called once in each turn of a loop, which is enough.
//
// Garbage. While the host uses the state (UnlimitedScope), no step of the collector may run.
#include <lua.hpp>

#include "scripting/script_state.h"

namespace {

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

}  // namespace

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

// Calls the hook, whose count is 1 for Lua, at every kTickOccasions-th call.
int __real_luaG_traceexec(lua_State* lua, const void* instruction);
int __wrap_luaG_traceexec(lua_State* lua, const void* instruction) {
  ScriptState* const state = StateOf(lua);
  if (--state->occasions_to_tick > 0) return 0;
  state->occasions_to_tick = dfly::Interpreter::kTickOccasions;
  __real_luaG_traceexec(lua, instruction);
  return 0;
}

// Stopping the collector with lua_gc and starting it again, for each redis.call, would make it
// forget its pace.
void __real_luaC_step(lua_State* lua);
void __wrap_luaC_step(lua_State* lua) {
  if (!StateOf(lua)->unlimited) __real_luaC_step(lua);
}

}  // extern "C"
