// SPDX-License-Identifier: Apache-2.0
// The beginnings of some of Lua 5.4's structures, for what no function of its API does fast enough:
// arguments are read where they are, and a Lua function that is called is told to give account. The
// structures are those of Lua 5.4.4 (Debian 12) and 5.4.6; CheckLayout compares them with what the
// API says, in each new state.
// Inside this folder only.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <lua.hpp>
#include <string_view>

namespace dfly {

static_assert(LUA_VERSION_NUM == 504 && LUA_VERSION_RELEASE_NUM >= 50404);

// What the collector owns.
struct LuaObject {
  void* next;
  uint8_t type;
};

struct LuaText {
  void* next;
  uint8_t type;
  uint8_t marked;
  uint8_t extra;
  uint8_t short_size;
  uint32_t hash;
  union {
    size_t long_size;
    LuaText* next_short;
  };
  // The bytes follow.
};

struct LuaValue {
  union {
    LuaObject* object;
    lua_Integer integer;
    lua_Number number;
  };
  uint8_t type;

  static constexpr uint8_t kInteger = LUA_TNUMBER;
  static constexpr uint8_t kFloat = LUA_TNUMBER | 1 << 4;
  static constexpr uint8_t kIsCollectable = 1 << 6;
  static constexpr uint8_t kTable = LUA_TTABLE | kIsCollectable;
  static constexpr uint8_t kShortText = LUA_TSTRING | kIsCollectable;
  static constexpr uint8_t kLongText = LUA_TSTRING | 1 << 4 | kIsCollectable;

  // Also of a place of a table that holds nothing.
  bool is_nil() const { return (type & 0x0F) == LUA_TNIL; }
  bool has_type_of(const LuaValue& other) const { return ((type ^ other.type) & 0x0F) == 0; }
  bool is_text() const { return type == kShortText || type == kLongText; }
  // REQUIRES: is_text().
  std::string_view text() const {
    const auto* const text = reinterpret_cast<const LuaText*>(object);
    return {reinterpret_cast<const char*>(text + 1),
            type == kShortText ? text->short_size : text->long_size};
  }
};
static_assert(sizeof(LuaValue) == 16);

// Towards 0. INT64_MIN if it is none that an integer can have: as a float that is another number.
inline lua_Integer WholePart(double number) {
#ifdef __SSE2__
  return _mm_cvttsd_si64(_mm_set_sd(number));  // a cast of such a number is undefined
#else
  return number >= -0x1p63 && number < 0x1p63 ? static_cast<lua_Integer>(number) : INT64_MIN;
#endif
}

// The same number as scripts know it: lua_numbers.cc.
inline LuaValue AsFloat(LuaValue value) {
  if (value.type == LuaValue::kInteger) {
    value.number = static_cast<lua_Number>(value.integer);
    value.type = LuaValue::kFloat;
  }
  return value;
}

// One call (CallInfo).
struct LuaCall {
  LuaValue* function;  // its arguments are behind it
  LuaValue* top;
  LuaCall* previous;
  LuaCall* next;
  // Of a Lua function: not 0, luaG_traceexec is called at its next jump or call.
  const void* next_instruction;
  volatile int trap;
  int extra_arguments;
  void* context;
  int32_t extra;
  int16_t results;
  uint16_t status;
};

struct LuaThread {
  void* next;
  uint8_t type;
  uint8_t marked;
  uint8_t status;
  uint8_t allows_hook;
  uint16_t calls;
  LuaValue* top;
  void* global_state;
  LuaCall* call;
  LuaValue* stack_last;
  LuaValue* stack;
  void* open_upvalues;
  void* to_be_closed;
  void* gray_list;
  LuaThread* next_with_upvalues;
  void* error_jump;
  LuaCall base_call;
  volatile lua_Hook hook;
  ptrdiff_t error_function;
  uint32_t nested_calls;
  int old_instruction;
  int base_hook_count;
  int hook_count;
  volatile int hook_mask;
};

struct LuaTable {
  void* next;
  uint8_t type;
  uint8_t marked;
  uint8_t flags;
  uint8_t log2_nodes;
  uint32_t array_size;  // or a little less: then the real one is the next power of two
  LuaValue* array;
  void* nodes;
  void* last_free;
  void* metatable;  // null: none

  size_t places() const { return array_size + (size_t{1} << log2_nodes); }
  size_t array_places() const {
    constexpr uint8_t kIsLess = 1 << 7;  // of `flags`
    return (flags & kIsLess) != 0 ? std::bit_ceil(array_size) : array_size;
  }
  // It never had a metatable or a key that is not in its array, or has a new one since.
  bool is_plain_array() const { return metatable == nullptr && last_free == nullptr; }
};

inline LuaThread* LuaThreadOf(lua_State* lua) { return reinterpret_cast<LuaThread*>(lua); }

// The arguments of the C function that runs: LuaArguments(lua)[0] is the one with index 1.
inline const LuaValue* LuaArguments(lua_State* lua) { return LuaThreadOf(lua)->call->function + 1; }
inline size_t LuaArgumentCount(lua_State* lua) {
  return static_cast<size_t>(LuaThreadOf(lua)->top - LuaArguments(lua));
}

// Ends the process if Lua is laid out otherwise. REQUIRES: a new state.
void CheckLayout(lua_State* lua);

}  // namespace dfly
