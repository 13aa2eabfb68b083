// SPDX-License-Identifier: Apache-2.0
// What the C functions of one Lua state share. Inside this folder only.
//
// Lua is compiled as C: an error leaves frames by longjmp. So no function that Lua calls may have a
// local object with a destructor when it raises an error or calls what may; such objects live here.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/hash.h"
#include "scripting/interpreter.h"
#include "scripting/lua/lua_random.h"
#include "scripting/lua/lua_work.h"
#include "scripting/lua_sink.h"

namespace dfly {

// Lets a map of strings be asked for views.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return HashKey(text); }
};

struct ScriptState;
// Whose cjson.encode or decode runs on this thread, or ran last: what it allocates itself has to be
// in the limit of the state, and counts as its memory.
struct JsonCall {
  lua_State* lua;  // it may be a coroutine that is no more
  ScriptState* state;
};
inline constinit thread_local JsonCall json_call = {};
// While no function of cjson runs (libraries.cc).
void FreeLargeJson(ScriptState* state);

struct ScriptState {
  using Verdict = ScriptHost::Verdict;

  lua_State* lua = nullptr;
  size_t memory_used = 0;
  size_t memory_max = 0;
  // While the host or the server's own code uses the state: no limit of memory and no garbage
  // collection, so that nothing there can raise an error.
  bool unlimited = false;

  lua_Hook tick = nullptr;                      // called when there was enough work: lua_work.h
  int occasions = Interpreter::kTickOccasions;  // until the next one: fewer if they take long
  int64_t last_tick = 0;  // when the host had its last one, in cycles; 0: it had none
  // Lua makes no deeper calls than down to here (lua_guards.cc).
  const char* stack_floor = nullptr;
  bool overflowed = false;  // such a call was refused, and none has been higher up since

  ScriptHost* host = nullptr;       // of the script that runs
  Verdict ending = Verdict::kGoOn;  // else: every error is raised again until the top
  // Where that began: "@user_script:3".
  std::string ending_place;
  bool script_resp3 = false;  // redis.setresp(3)
  bool shows_arrays = false;  // the globals have KEYS and ARGV
  LuaRandom random;
  LuaSink sink;

  // Of the call that runs.
  std::vector<std::string_view> args;
  std::vector<std::array<char, 32>> number_texts;

  void* json_scratch = nullptr;  // of a cjson.decode that runs, or that an error has ended
  void* json_large = nullptr;    // a buffer of a cjson.encode that became large
  size_t json_bytes = 0;         // of all buffers of cjson
  std::string pack_buffer;       // of the cmsgpack.pack that runs

  // What was compiled, as references into Lua's registry.
  absl::flat_hash_map<std::string, int, TextHash, std::equal_to<>> scripts;  // by SHA

  // Functions of libraries.
  struct Function {
    std::string library;
    uint64_t version = 0;
    int reference = 0;
  };
  absl::flat_hash_map<std::string, Function, TextHash, std::equal_to<>> functions;
  // While a library is loaded, what it has registered; else null.
  std::vector<Interpreter::FunctionInfo>* loading = nullptr;
  std::vector<int> loading_references;
  int loading_ticks = 0;
  std::string redis_version;

  // Buffers that Lua has not allocated. They count as what Lua has.
  size_t OutsideBytes() const {
    return json_bytes + pack_buffer.capacity() + args.capacity() * sizeof(args[0]) +
           number_texts.capacity() * sizeof(number_texts[0]);
  }
  // Of these, those that are larger than what most scripts need. While no function that has one
  // runs.
  void FreeLargeBuffers() {
    constexpr size_t kKeptMax = 64 << 10;
    if (OutsideBytes() <= kKeptMax) [[likely]] {
      return;
    }
    FreeLargeJson(this);
    std::string().swap(pack_buffer);
    decltype(args)().swap(args);
    decltype(number_texts)().swap(number_texts);
  }

  void Start(ScriptHost* its_host) {
    host = its_host;
    ending = Verdict::kGoOn;
    ending_place.clear();
    script_resp3 = false;
    work_to_tick = occasions = Interpreter::kTickOccasions;
    last_tick = 0;
    random.StartScript();
  }
  std::string KilledText(std::string_view name) const;
};

inline ScriptState* StateOf(lua_State* lua) {
  return *static_cast<ScriptState**>(lua_getextraspace(lua));
}

// Allows Lua to use so much of the stack, from here on.
class StackScope {
 public:
  StackScope(ScriptState* state, size_t bytes);
  ~StackScope() { state_->stack_floor = nullptr; }
  StackScope(const StackScope&) = delete;
  StackScope& operator=(const StackScope&) = delete;

 private:
  ScriptState* const state_;
};

// Lua has this for its ticks.
class TickScope {
 public:
  TickScope(ScriptState* state, lua_Hook tick) : state_(state) { state_->tick = tick; }
  ~TickScope() {
    state_->tick = nullptr;
    lua_sethook(state_->lua, nullptr, 0, 0);
  }
  TickScope(const TickScope&) = delete;
  TickScope& operator=(const TickScope&) = delete;

 private:
  ScriptState* const state_;
};

// What happens in its scope raises no Lua error. REQUIRES: nothing in its scope can.
class UnlimitedScope {
 public:
  explicit UnlimitedScope(ScriptState* state) : state_(state), before_(state->unlimited) {
    state_->unlimited = true;
  }
  ~UnlimitedScope() { state_->unlimited = before_; }
  UnlimitedScope(const UnlimitedScope&) = delete;
  UnlimitedScope& operator=(const UnlimitedScope&) = delete;

 private:
  ScriptState* const state_;
  const bool before_;
};

inline bool IsEnding(lua_State* lua) { return StateOf(lua)->ending != ScriptHost::Verdict::kGoOn; }

// Lua's own step of the collector, if it is due: inside an UnlimitedScope it was left out, and a
// script may allocate nothing else. REQUIRES: something on the stack.
inline void CollectSomeGarbage(lua_State* lua) { lua_concat(lua, 1); }

// Raises what ends the script. Whatever catches errors for a script calls it again if IsEnding.
inline int RaiseEnding(lua_State* lua) {
  lua_pushlightuserdata(lua, StateOf(lua));
  return lua_error(lua);
}

}  // namespace dfly
