// SPDX-License-Identifier: Apache-2.0
// Lua 5.1 had one kind of number, doubles; 5.4 has two. Its integers wrap, and it prints the float
// 5 as "5.0". Scripts and what reads their replies know only doubles, and "5". So here all numbers
// are floats: literals and what is read from strings (luaO_str2num), what C functions return
// (lua_pushinteger), lengths (lua_compiler.cc), keys (next() in sandbox.cc). Only operators that
// 5.1 does not have give integers: & | ~ << >>. And 5.1 truncates a float where an integer is
// asked for, while 5.4 refuses it.
//
// No option of Lua changes that, so the linker does: with --wrap, calls from one of Lua's object
// files to the function x in another arrive in __wrap_x, which reaches Lua's own as __real_x. See
// CMakeLists.txt for the list.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <lua.hpp>

#include "helio/base/format_number.h"
#include "scripting/lua/lua_layout.h"
#include "scripting/lua/truncate.h"

namespace {

using dfly::LuaObject;
using dfly::LuaTable;
using dfly::LuaValue;
using dfly::WholePart;

// From here on "%.14g" has an exponent.
constexpr double kExponentFrom = 1e14;

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

extern "C" {

LuaObject* luaS_newlstr(lua_State* lua, const char* text, size_t size);

static void SetText(lua_State* lua, LuaValue* value, const char* text, const char* end) {
  value->object = luaS_newlstr(lua, text, static_cast<size_t>(end - text));
  value->type = value->object->type | LuaValue::kIsCollectable;
}

// Every conversion of a number to a string. 5.4's own adds ".0" to what looks like an integer, and
// that is not only what is one: 3.0000000000000004 does.
void __real_luaO_tostring(lua_State* lua, LuaValue* value);
void __wrap_luaO_tostring(lua_State* lua, LuaValue* value) {
  if (value->type != LuaValue::kFloat) return __real_luaO_tostring(lua, value);
  const double number = value->number;
  if (std::fabs(number) < kExponentFrom && (number != 0 || !std::signbit(number))) {
    const auto integer = static_cast<lua_Integer>(number);
    if (static_cast<double>(integer) == number) {
      char digits[helio::kMaxIntegerChars];
      return SetText(lua, value, digits, helio::FormatInteger(integer, digits));
    }
  }
  char text[32];
  const int size = std::snprintf(text, sizeof(text), "%.14g", number);
  SetText(lua, value, text, text + size);
}

// As 5.1 reads numbers: what strtod takes, with blanks around it. The size of the text and 1, or 0.
size_t __wrap_luaO_str2num(const char* text, LuaValue* value) {
  // Most have few digits and nothing else.
  constexpr int kExactDigits = 15;
  const char* end = text;
  int64_t digits = 0;
  while (IsDigit(*end) && end - text < kExactDigits) digits = digits * 10 + (*end++ - '0');
  double number = static_cast<double>(digits);
  if (end == text || *end != '\0') {
    char* rest;
    number = std::strtod(text, &rest);
    if (rest == text) return 0;
    while (IsBlank(*rest)) ++rest;
    if (*rest != '\0') return 0;
    end = rest;
  }
  value->number = number;
  value->type = LuaValue::kFloat;
  return static_cast<size_t>(end - text) + 1;
}

void __wrap_lua_pushinteger(lua_State* lua, lua_Integer integer) {
  lua_pushnumber(lua, static_cast<lua_Number>(integer));
}

// What an index finds. Lua's own takes its time for floats.
const LuaValue* luaH_getint(const LuaTable* table, lua_Integer key);
const LuaValue* __real_luaH_get(const LuaTable* table, const LuaValue* key);
const LuaValue* __wrap_luaH_get(const LuaTable* table, const LuaValue* key) {
  if (key->type == LuaValue::kFloat) [[likely]] {
    const lua_Integer index = WholePart(key->number);
    if (static_cast<double>(index) == key->number) [[likely]] {
      const uint64_t place = static_cast<uint64_t>(index) - 1;
      return place < table->array_size ? &table->array[place] : luaH_getint(table, index);
    }
  }
  return __real_luaH_get(table, key);
}

[[noreturn]] void luaG_runerror(lua_State* lua, const char* format, ...);

// "<" and "<=" where no two numbers or strings are compared: in 5.1 metamethods compare only what
// has the same type.
[[noreturn]] void luaG_ordererror(lua_State* lua, const LuaValue* left, const LuaValue* right);
int __real_luaT_callorderTM(lua_State* lua, const LuaValue* left, const LuaValue* right, int event);
int __wrap_luaT_callorderTM(lua_State* lua, const LuaValue* left, const LuaValue* right,
                            int event) {
  if (!left->has_type_of(*right)) luaG_ordererror(lua, left, right);
  return __real_luaT_callorderTM(lua, left, right, event);
}
// The same with a number that the instruction has. `is_flipped`: that is the left one.
int __wrap_luaT_callorderiTM(lua_State* lua, const LuaValue* value, int number, int is_flipped,
                             int /*is_float*/, int /*event*/) {
  LuaValue other;
  other.number = number;
  other.type = LuaValue::kFloat;
  if (is_flipped != 0) luaG_ordererror(lua, &other, value);
  luaG_ordererror(lua, value, &other);
}

// `what`: "initial value", "limit", "step".
[[noreturn]] void __wrap_luaG_forerror(lua_State* lua, const LuaValue*, const char* what) {
  luaG_runerror(lua, "'for' %s must be a number", what);
}

// The operator %, which is this in 5.1. Lua adds b to a result of the other sign. There is none but
// where a/b has lost digits; then this is what becomes the result by that.
double __wrap_fmod(double a, double b) {
  // That of small integers has lost none.
  constexpr uint64_t kSmall = 1U << 31;
  const lua_Integer whole_a = WholePart(a);
  const lua_Integer whole_b = WholePart(b);
  if ((static_cast<uint64_t>(whole_a) | (static_cast<uint64_t>(whole_b) - 1)) < kSmall &&
      static_cast<double>(whole_a) == a && static_cast<double>(whole_b) == b) [[likely]] {
    return static_cast<uint32_t>(whole_a) % static_cast<uint32_t>(whole_b);
  }
  const double quotient = a / b;
  double whole;
  if (std::fabs(quotient) < 0x1p52 && quotient != 0) {  // without a call of floor
    whole = static_cast<double>(static_cast<int64_t>(quotient));
    if (whole > quotient) whole -= 1;
  } else {
    whole = std::floor(quotient);
  }
  const double result = a - whole * b;
  if (!(result > 0 && b < 0) && !(result < 0 && b > 0)) return result;
  const double less = result - b;
  for (const double to : {-HUGE_VAL, HUGE_VAL}) {
    const double neighbor = std::nextafter(less, to);
    if (less + b != result && neighbor + b == result) return neighbor;
  }
  return less;
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
    if (value.type == LuaValue::kFloat) return dfly::TruncateNumber(value.number);
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
