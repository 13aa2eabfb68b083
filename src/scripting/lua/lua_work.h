// SPDX-License-Identifier: Apache-2.0
// How much a script has done since the last tick. Lua's jumps and calls are counted by
// lua_guards.cc; functions of C that loop count what they do themselves, or what they copy is
// counted where they allocate. So each of them gives way to others and can be killed, or ends soon.
// Inside this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <lua.hpp>

namespace dfly {

// In jumps and calls of Lua, which take 10 to 50 ns each; after a tick Interpreter::kTickOccasions,
// or fewer (ScriptState::occasions).
// Of the thread, not of a state: some who count know no state. A tick only looks at the clock, so
// it does not matter who gets it.
inline constinit thread_local int64_t work_to_tick = 0;

// A tick comes now, if a script runs. May suspend, and may raise the end of the script.
void TickNow(lua_State* lua);

// Somebody who must not be interrupted has done so much: the tick comes at the next jump.
inline void CountWork(size_t units) { work_to_tick -= static_cast<int64_t>(units); }
// The same, for bytes that were copied, compared, or allocated.
constexpr size_t kBytesOfUnit = 128;
inline void CountBytes(size_t bytes) { CountWork(bytes / kBytesOfUnit); }

// Somebody has done so much. If true, it has to call TickNow.
inline bool IsTickDue(size_t units) {
  CountWork(units);
  return work_to_tick <= 0;
}

// A function of a library has done so much. May suspend, and may raise the end of the script, so
// REQUIRES: no object with a destructor in the caller.
inline void DoWork(lua_State* lua, size_t units = 1) {
  if (IsTickDue(units)) [[unlikely]]
    TickNow(lua);
}

// For loops over bytes: what they do between two calls of DoWork.
constexpr size_t kWorkPiece = 64 << 10;

}  // namespace dfly
