// SPDX-License-Identifier: Apache-2.0
// Lua 5.1's `table`, `string`, `math` and Redis' `os`: what 5.4 no longer has or does differently.
#include <climits>
#include <cmath>
#include <cstring>
#include <ctime>
#include <numbers>
#include <string_view>

#include "scripting/sandbox.h"
#include "scripting/script_state.h"
#include "scripting/string_library.h"

// C's fmod. Calls of that name are Lua's operator % (lua_numbers.cc).
extern "C" double __real_fmod(double a, double b);

namespace dfly {
namespace {

// --- table ---

int TableInsert(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  const lua_Integer end = luaL_len(lua, 1) + 1;
  switch (lua_gettop(lua)) {
    case 2:
      lua_seti(lua, 1, end);
      return 0;
    case 3: {
      // A place past the end is no error in 5.1; one before the beginning moves nothing there.
      const lua_Integer place = luaL_checkinteger(lua, 2);
      for (lua_Integer i = end; i > place && i > 1; --i) {
        lua_geti(lua, 1, i - 1);
        lua_seti(lua, 1, i);
      }
      lua_seti(lua, 1, place);
      return 0;
    }
    default:
      return luaL_error(lua, "wrong number of arguments to 'insert'");
  }
}

int TableRemove(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  const lua_Integer size = luaL_len(lua, 1);
  const lua_Integer place = luaL_optinteger(lua, 2, size);
  if (place < 1 || place > size) return 0;
  lua_geti(lua, 1, place);
  for (lua_Integer i = place; i < size; ++i) {
    lua_geti(lua, 1, i + 1);
    lua_seti(lua, 1, i);
  }
  lua_pushnil(lua);
  lua_seti(lua, 1, size);
  return 1;
}

int TableGetn(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushinteger(lua, luaL_len(lua, 1));
  return 1;
}

int TableSetn(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  return luaL_error(lua, "'setn' is obsolete");
}

int TableMaxn(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_Number largest = 0;
  lua_pushnil(lua);
  while (lua_next(lua, 1) != 0) {
    lua_pop(lua, 1);
    if (lua_type(lua, -1) == LUA_TNUMBER) largest = std::fmax(largest, lua_tonumber(lua, -1));
  }
  lua_pushnumber(lua, largest);
  return 1;
}

int TableForeach(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  lua_settop(lua, 2);
  if (PushProtected(lua, 1)) lua_replace(lua, 1);
  lua_pushnil(lua);
  while (lua_next(lua, 1) != 0) {
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, -3);
    MakeFloat(lua, -1);
    lua_pushvalue(lua, -3);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1)) return 1;
    lua_pop(lua, 2);
  }
  return 0;
}

int TableForeachi(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  const lua_Integer size = luaL_len(lua, 1);
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_pushvalue(lua, 2);
    lua_pushinteger(lua, i);
    lua_geti(lua, 1, i);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1)) return 1;
    lua_pop(lua, 1);
  }
  return 0;
}

constexpr luaL_Reg kTable[] = {
    {"insert", TableInsert},     {"remove", TableRemove}, {"getn", TableGetn},
    {"setn", TableSetn},         {"maxn", TableMaxn},     {"foreach", TableForeach},
    {"foreachi", TableForeachi}, {"pack", nullptr},       {"unpack", nullptr},
    {"move", nullptr},
};

// --- string ---

int StringChar(lua_State* lua) {
  const int count = lua_gettop(lua);
  luaL_Buffer text;
  char* const out = luaL_buffinitsize(lua, &text, static_cast<size_t>(count));
  for (int i = 1; i <= count; ++i) {
    const lua_Integer code = luaL_checkinteger(lua, i);
    luaL_argcheck(lua, code >= 0 && code <= UCHAR_MAX, i, "invalid value");
    out[i - 1] = static_cast<char>(code);
  }
  luaL_pushresultsize(&text, static_cast<size_t>(count));
  return 1;
}

constexpr const char* kNotInStrings[] = {"dump", "pack", "packsize", "unpack"};

// --- math ---

template <double (*function)(double)>
int Unary(lua_State* lua) {
  lua_pushnumber(lua, function(luaL_checknumber(lua, 1)));
  return 1;
}

template <double (*function)(double, double)>
int Binary(lua_State* lua) {
  const lua_Number first = luaL_checknumber(lua, 1);
  lua_pushnumber(lua, function(first, luaL_checknumber(lua, 2)));
  return 1;
}

// The smallest (`sign` < 0) or largest argument; also of strings that are numbers.
template <int sign>
int Extreme(lua_State* lua) {
  int best = 1;
  lua_Number best_number = luaL_checknumber(lua, 1);
  for (int i = 2; i <= lua_gettop(lua); ++i) {
    const lua_Number number = luaL_checknumber(lua, i);
    if (sign < 0 ? number < best_number : number > best_number) {
      best = i;
      best_number = number;
    }
  }
  if (lua_type(lua, best) == LUA_TNUMBER) {
    lua_pushvalue(lua, best);
  } else {
    lua_pushnumber(lua, best_number);
  }
  return 1;
}

int MathLdexp(lua_State* lua) {
  const lua_Number mantissa = luaL_checknumber(lua, 1);
  const lua_Integer exponent = luaL_checkinteger(lua, 2);
  lua_pushnumber(lua, std::ldexp(mantissa, static_cast<int>(exponent)));
  return 1;
}

int MathFrexp(lua_State* lua) {
  int exponent;
  lua_pushnumber(lua, std::frexp(luaL_checknumber(lua, 1), &exponent));
  lua_pushinteger(lua, exponent);
  return 2;
}

int MathRandom(lua_State* lua) {
  const lua_Number random =
      static_cast<double>(StateOf(lua)->random.Next() % LuaRandom::kMax) / LuaRandom::kMax;
  switch (lua_gettop(lua)) {
    case 0:
      lua_pushnumber(lua, random);
      return 1;
    case 1: {
      const lua_Integer high = luaL_checkinteger(lua, 1);
      luaL_argcheck(lua, 1 <= high, 1, "interval is empty");
      lua_pushnumber(lua, std::floor(random * static_cast<double>(high)) + 1);
      break;
    }
    case 2: {
      const lua_Integer low = luaL_checkinteger(lua, 1);
      const lua_Integer high = luaL_checkinteger(lua, 2);
      luaL_argcheck(lua, low <= high, 2, "interval is empty");
      const double span = static_cast<double>(high) - static_cast<double>(low) + 1;
      lua_pushnumber(lua, std::floor(random * span) + static_cast<double>(low));
      break;
    }
    default:
      return luaL_error(lua, "wrong number of arguments");
  }
  return 1;
}

int MathModf(lua_State* lua) {
  double whole;
  const double fraction = std::modf(luaL_checknumber(lua, 1), &whole);
  lua_pushnumber(lua, whole);
  lua_pushnumber(lua, fraction);
  return 2;
}

constexpr double kRadiansOfDegree = std::numbers::pi / 180;
double Degrees(double radians) { return radians / kRadiansOfDegree; }
double Radians(double degrees) { return degrees * kRadiansOfDegree; }

int MathRandomseed(lua_State* lua) {
  StateOf(lua)->random.Seed(static_cast<int32_t>(luaL_checkinteger(lua, 1)));
  return 0;
}

constexpr luaL_Reg kMath[] = {
    {"max", Extreme<1>},
    {"min", Extreme<-1>},
    {"floor", Unary<std::floor>},
    {"ceil", Unary<std::ceil>},
    {"abs", Unary<std::fabs>},
    {"modf", MathModf},
    {"deg", Unary<Degrees>},
    {"rad", Unary<Radians>},
    {"atan", Unary<std::atan>},
    {"atan2", Binary<std::atan2>},
    {"cosh", Unary<std::cosh>},
    {"sinh", Unary<std::sinh>},
    {"tanh", Unary<std::tanh>},
    {"pow", Binary<std::pow>},
    {"fmod", Binary<__real_fmod>},
    {"mod", Binary<__real_fmod>},
    {"log", Unary<std::log>},
    {"log10", Unary<std::log10>},
    {"ldexp", MathLdexp},
    {"frexp", MathFrexp},
    {"random", MathRandom},
    {"randomseed", MathRandomseed},
    {"type", nullptr},
    {"ult", nullptr},
    {"tointeger", nullptr},
    {"maxinteger", nullptr},
    {"mininteger", nullptr},
};

// --- os: as in Redis 7.4, only this ---

// The processor time of the process, in seconds.
int OsClock(lua_State* lua) {
  lua_pushnumber(lua, static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  return 1;
}

// Sets functions of the table on the top, or removes them where there is none.
template <size_t count>
void Override(lua_State* lua, const luaL_Reg (&functions)[count]) {
  for (const luaL_Reg& function : functions) {
    if (function.func == nullptr) {
      lua_pushnil(lua);
    } else {
      lua_pushcfunction(lua, function.func);
    }
    lua_setfield(lua, -2, function.name);
  }
}

void OpenString(lua_State* lua) {
  lua_pushcfunction(lua, luaopen_string);
  lua_call(lua, 0, 1);
  for (const luaL_Reg& function : {luaL_Reg{"format", FormatString}, {"char", StringChar}}) {
    lua_pushcfunction(lua, function.func);
    lua_setfield(lua, -2, function.name);
  }
  luaL_setfuncs(lua, kStringFunctions, 0);
  for (const char* const name : kNotInStrings) {
    lua_pushnil(lua);
    lua_setfield(lua, -2, name);
  }
  // ("x"):upper() finds the functions in the real table, which is faster. What getmetatable("")
  // returns is read-only.
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1);  // string, "", metatable
  lua_pushvalue(lua, -3);
  MakeReadOnly(lua);  // string, "", metatable, read-only string
  lua_createtable(lua, 0, 1);
  lua_pushvalue(lua, -2);
  lua_setfield(lua, -2, "__index");
  MakeReadOnly(lua);
  lua_setfield(lua, -3, "__metatable");
  lua_replace(lua, -4);  // read-only string, "", metatable
  lua_pop(lua, 2);
  lua_setfield(lua, -2, "string");
}

// The name of a thing in an error of 5.4: "(local 'x')" at the end of the text. None if there is
// none; else its bounds, without the parentheses.
std::string_view NamedThing(std::string_view text) {
  constexpr std::string_view kKinds[] = {"local ", "global ", "field ", "method ", "upvalue "};
  const size_t open = text.rfind(" value (");
  if (open == std::string_view::npos || !text.ends_with("')")) return {};
  const std::string_view thing = text.substr(open + 8, text.size() - open - 9);
  for (const std::string_view kind : kKinds) {
    if (thing.starts_with(kind)) return thing;
  }
  return {};
}

// 5.4: attempt to add a 'string' with a 'table'. 5.1 tells the type that is no number, of both the
// first. A string may be one.
std::string_view WrongOperand(std::string_view text) {
  constexpr std::string_view kWith = "' with a '";
  const size_t with = text.find(kWith);
  const size_t first = text.find(" a '");
  if (with == std::string_view::npos || first + 4 > with || !text.ends_with('\'')) return {};
  const std::string_view left = text.substr(first + 4, with - first - 4);
  std::string_view right = text.substr(with + kWith.size());
  right.remove_suffix(1);
  if (left != "string" && right != "string") return {};
  if (right == "number") return left;
  return left == "number" || left == "string" ? right : left;
}

}  // namespace

void ConvertErrorText(lua_State* lua) {
  if (lua_type(lua, -1) != LUA_TSTRING) return;
  size_t size;
  const char* const bytes = lua_tolstring(lua, -1, &size);
  const std::string_view text(bytes, size);
  const size_t attempt = text.find("attempt to ");
  if (attempt == std::string_view::npos) return;
  if (const std::string_view type = WrongOperand(text.substr(attempt)); !type.empty()) {
    lua_pushlstring(lua, text.data(), attempt);
    lua_pushliteral(lua, "attempt to perform arithmetic on a ");
    lua_pushlstring(lua, type.data(), type.size());
    lua_pushliteral(lua, " value");
    lua_concat(lua, 4);
    return lua_remove(lua, -2);
  }
  const std::string_view thing = NamedThing(text);
  if (thing.empty()) return;
  // 5.4: attempt to index a nil value (local 'x'). 5.1: attempt to index local 'x' (a nil value).
  const std::string_view before = text.substr(0, text.size() - thing.size() - 3);  // "... value"
  const size_t article = before.rfind(" a ");
  if (article == std::string_view::npos || article < attempt) return;
  lua_pushlstring(lua, before.data(), article + 1);
  if (thing == "field 'integer index'") {
    lua_pushliteral(lua, "field '?'");
  } else {
    lua_pushlstring(lua, thing.data(), thing.size());
  }
  lua_pushliteral(lua, " (");
  lua_pushlstring(lua, before.data() + article + 1, before.size() - article - 1);
  lua_pushliteral(lua, ")");
  lua_concat(lua, 5);
  lua_remove(lua, -2);
}

void OpenLua51Libraries(lua_State* lua) {
  lua_pushcfunction(lua, luaopen_table);
  lua_call(lua, 0, 1);
  Override(lua, kTable);
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "table");

  OpenString(lua);

  lua_pushcfunction(lua, luaopen_math);
  lua_call(lua, 0, 1);
  Override(lua, kMath);
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "math");

  lua_createtable(lua, 0, 1);
  lua_pushcfunction(lua, OsClock);
  lua_setfield(lua, -2, "clock");
  MakeReadOnly(lua);
  lua_setfield(lua, -2, "os");
}

}  // namespace dfly
