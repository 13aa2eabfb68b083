// SPDX-License-Identifier: Apache-2.0
// Numbers that are integers inside (lua_integers.h, lua_loops.cc): no script can tell. A script is
// written out of any bytes, is run as the server compiles it, and once more with all numbers left
// as floats: both have to do the same, to the last bit, and no integer may get anywhere where a
// script has values.
//
// Scripts end after some hundred jumps, as most of what is written so would run for ever.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <lua.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "helio/base/fuzz_target.h"
#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "scripting/lua/lua_compiler.h"
#include "scripting/lua/lua_integers.h"
#include "scripting/lua_memory.h"
#include "scripting/sandbox.h"
#include "scripting/script_state.h"
#include "scripting/source/lua51_source.h"

namespace dfly {
namespace {

using helio::Random;
using helio::fuzz::Feed;

// --- the machine ---

// A Lua state, and what a script has done in it.
class Machine {
 public:
  Machine() {
    state_.memory_max = size_t{64} << 20;
    const UnlimitedScope scope(&state_);
    lua_State* const lua = state_.lua = lua_newstate(AllocateForLua, &state_);
    CHECK(lua != nullptr);
    *static_cast<ScriptState**>(lua_getextraspace(lua)) = &state_;
    ForgetGoto(lua);
    lua_createtable(lua, 0, 64);
    OpenBase(lua);
    OpenLua51Libraries(lua);
    constexpr luaL_Reg kFunctions[] = {{"see", See}, {"f", Count}, {"stop", Stop}, {}};
    luaL_setfuncs(lua, kFunctions, 0);
    constexpr const char* kEvents[] = {"__index", "__newindex", "__add", "__sub",    "__mul",
                                       "__div",   "__mod",      "__unm", "__concat", "__call"};
    lua_createtable(lua, 0, 0);
    lua_createtable(lua, 0, 0);
    for (const char* const event : kEvents) {
      lua_pushcfunction(lua, Count);
      lua_setfield(lua, -2, event);
    }
    lua_setmetatable(lua, -2);
    lua_setfield(lua, -2, "m");
    lua_rawseti(lua, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  }

  struct Result {
    std::string seen;  // what the script has shown, then what it returns, or its error
    bool is_ended;     // that is not all, as it made too many turns
  };
  // `has_integers`: as the server runs it.
  Result Run(std::string_view source, bool has_integers) {
    lua_State* const lua = state_.lua;
    lua_has_integers = has_integers;
    seen_.clear();
    turns_ = 0;
    is_ended_ = false;
    const StackScope stack(&state_, size_t{256} << 10);
    state_.Start(nullptr);
    bool is_good = LoadSource(lua, source, "@script") == LUA_OK;
    if (is_good) {
      work_to_tick = kOccasionsMax;
      const TickScope ticks(&state_, End);
      is_good = lua_pcall(lua, 0, LUA_MULTRET, 0) == LUA_OK;
    }
    lua_has_integers = true;
    if (!is_ended_) {
      seen_ += is_good ? "\nreturned" : "\nerror";
      ShowAll(lua);
    }
    lua_settop(lua, 0);
    return {seen_, is_ended_};
  }

 private:
  static constexpr int kOccasionsMax = 700;
  static constexpr int kTurnsMax = 60;

  static void End(lua_State* lua, lua_Debug*) {
    is_ended_ = true;
    luaL_error(lua, "too long");
  }

  // A script's values, to the last bit. An integer is none.
  static void Show(lua_State* lua, int index) {
    char text[64];
    switch (lua_type(lua, index)) {
      case LUA_TNUMBER:
        if (lua_isinteger(lua, index)) {
          seen_ += " INTEGER";
        }
        std::snprintf(text, sizeof(text), " %.17g", lua_tonumber(lua, index));
        seen_ += text;
        break;
      case LUA_TSTRING:
        seen_ += " '";
        seen_ += lua_tostring(lua, index);
        seen_ += '\'';
        break;
      case LUA_TTABLE: {
        const int table = lua_absindex(lua, index);
        seen_ += " {";
        lua_pushnil(lua);
        while (lua_next(lua, table) != 0) {
          lua_pushvalue(lua, -2);
          MakeFloat(lua, -1);  // as next() does
          Show(lua, -1);
          seen_ += '=';
          Show(lua, -2);
          lua_pop(lua, 2);
        }
        seen_ += '}';
        break;
      }
      default:
        seen_ += ' ';
        seen_ += lua_toboolean(lua, index) != 0 ? luaL_typename(lua, index) : "nothing";
    }
  }

  static void ShowAll(lua_State* lua) {
    for (int i = 1; i <= lua_gettop(lua); ++i) Show(lua, i);
    seen_ += ';';
  }
  static int See(lua_State* lua) {
    ShowAll(lua);
    return 0;
  }
  // Shows its arguments, without tables, and returns a number.
  static int Count(lua_State* lua) {
    for (int i = 1; i <= lua_gettop(lua); ++i) {
      if (lua_type(lua, i) != LUA_TTABLE) Show(lua, i);
    }
    seen_ += ';';
    lua_pushnumber(lua, 3);
    return 1;
  }
  // Whether the script has made enough turns.
  static int Stop(lua_State* lua) {
    lua_pushboolean(lua, ++turns_ > kTurnsMax);
    return 1;
  }

  ScriptState state_;
  static std::string seen_;  // C functions have no other way to it that is as short
  static int turns_;
  static bool is_ended_;
};

std::string Machine::seen_;
int Machine::turns_;
bool Machine::is_ended_;

// --- scripts ---

// Where the analysis, and doubles, change their mind. The first one is what an input that has
// come to its end gives.
constexpr const char* kWhole[] = {
    "1",          "0",          "2",          "3",          "4",           "5",          "7",
    "8",          "10",         "-1",         "-2",         "-3",          "31",         "37",
    "100",        "126",        "127",        "128",        "129",         "255",        "-127",
    "-128",       "1000",       "1023",       "1024",       "1025",        "-1024",      "-1025",
    "32767",      "65535",      "65536",      "131071",     "100000",      "1000003",    "16777216",
    "2147483647", "2147483648", "2147483649", "4294967296", "-2147483648", "-2147483649"};
constexpr const char* kLarge[] = {
    "2^50",     "(2^50-1)", "2^51",     "(2^51+1)", "(2^52-1)", "(2^52)",   "(2^52+1)",
    "(2^53-1)", "(2^53)",   "(2^53+1)", "1e15",     "1e17",     "2^52",     "2^53",
    "2^62",     "2^63",     "-2^63",    "1e308",    "0.5",      "1.5",      "-0.25",
    "0.1",      "1e-320",   "(0/0)",    "(1/0)",    "(-1/0)",   "z",        "-z",
    "'2'",      "'0x10'",   "-(0*z)",   "(z+7)",    "(1-2^53)", "(-1-2^52)"};
constexpr const char* kDivisors[] = {"7",  "1",    "2",       "3",          "10",
                                     "99", "1000", "1000003", "2147483647", "2147483648",
                                     "-7", "0",    "2.5",     "-1"};
constexpr size_t kSmallCount = 12;    // of kWhole
constexpr size_t kLargeFrom = 30;     // the same
constexpr size_t kGoodDivisors = 10;  // of kDivisors
constexpr const char* kComparisons[] = {"<", "<=", ">", ">=", "==", "~="};
constexpr const char* kOperators[] = {"+", "-", "*", "/", "%", "^", "//"};
constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "g"};

// Its variables are of two kinds, as one that is shown anywhere is no integer: those of kNames are
// mostly used where nobody could tell, x and y anyhow. There are tables t and u, a text s, and z,
// which is 0 that no compiler knows.
class Writer {
 public:
  explicit Writer(std::string_view bytes) : feed_(bytes) {}

  std::string Script() {
    const uint8_t kind = feed_.Byte();
    constexpr size_t kOdd[] = {1000, 40, 10, 3};
    odd_ = kOdd[kind % 4];
    is_large_ = kind / 4 % 4 == 3;
    has_closures_ = kind / 16 % 4 == 3;
    Add("local t, u, s, x, y, z = {}, {1, 2}, '', 1, 2, tonumber('0') ");
    if (kind >= 250) AddMany(kind);
    if (kind < 60) Add("local t, u = t, u ");
    for (size_t i = 1 + Pick(4); i > 0; --i) Declare(IsOdd());
    Block(0, 2 + Pick(6));
    for (const Variable& variable : variables_) ShowAtEnd(variable.name);
    Add("see(t, u, s, x, y) ");
    if (OneIn(4)) Add(std::string("return ") + Name());
    return std::move(out_);
  }

 private:
  struct Variable {
    const char* name;
    bool is_loop = false;
  };

  static constexpr int kDepthMax = 4;
  static constexpr int kStatementsMax = 40;

  size_t Pick(size_t count) { return feed_.Byte() % count; }
  bool OneIn(size_t count) { return Pick(count) == count - 1; }
  // Whether to do what makes floats of variables. Where one alone does, nothing else is tried.
  bool IsOdd() { return feed_.Number(2) % odd_ == odd_ - 1; }
  void Add(std::string_view text) { out_ += text; }
  template <size_t kCount>
  const char* Any(const char* const (&texts)[kCount]) {
    return texts[Pick(kCount)];
  }

  // More of something than there is room for.
  void AddMany(uint8_t kind) {
    for (int i = 0; i < 40; ++i) {
      const std::string number = std::to_string(i);
      if (kind == 250) Add("local v" + number + " = " + number + " ");
      if (kind == 251) Add("for i = 1, 2 do t[i] = true end ");
      if (kind == 252) Add("x = x + 0.0" + number + " - 3" + number + " * 0.4" + number + " ");
      if (kind == 253) {
        for (int j = 1; j < 7; ++j) Add("y = " + std::to_string(j) + "." + number + "7 ");
      }
    }
  }

  const char* Constant() {
    if (is_large_ && OneIn(2)) return kWhole[kLargeFrom + Pick(std::size(kWhole) - kLargeFrom)];
    return Pick(3) == 0 ? Any(kWhole) : kWhole[Pick(kSmallCount)];
  }
  const char* Divisor() { return IsOdd() ? Any(kDivisors) : kDivisors[Pick(kGoodDivisors)]; }

  // A variable that is in scope. Those of functions around this one are rare: what a closure has
  // is no integer.
  const char* Name() {
    const size_t first = function_begin_ < variables_.size() && !IsOdd() ? function_begin_ : 0;
    if (first == variables_.size()) return "x";
    return variables_[first + Pick(variables_.size() - first)].name;
  }
  // One to assign to, which for the variable of a loop is rare.
  const char* Target() {
    const size_t first = function_begin_ < variables_.size() && !IsOdd() ? function_begin_ : 0;
    for (int i = 0; i < 3 && first < variables_.size(); ++i) {
      const Variable& variable = variables_[first + Pick(variables_.size() - first)];
      if (!variable.is_loop || IsOdd()) return variable.name;
    }
    return "x";
  }

  void Declare(bool is_anything) {
    const char* const name = Any(kNames);
    Add("local ");
    Add(name);
    Add(" = ");
    is_anything ? Expression(2) : Whole(2);
    Add(" ");
    variables_.push_back({name});
  }

  // So that what it was can be told, but not that it was an integer.
  void ShowAtEnd(const char* name) {
    switch (Pick(9)) {
      case 0:
        Add("x = x + ");
        break;
      case 1:
        Add("x = 0.5 * ");
        break;
      case 2:
        Add("see(1 / (0.5 * ");
        Add(name);
        Add(")) ");
        return;
      case 3:
        Add("t[");
        Add(name);
        Add("] = true ");
        return;
      case 4:
        Add("x = x * ");
        break;
      case 5:
        Add("y = y - ");
        break;
      case 6:
        Add("y = 2.5 - ");
        break;
      case 7:
        if (!IsOdd()) return;
        Add("see(");
        Add(name);
        Add(") ");
        return;
      default:
        return;
    }
    Add(name);
    Add(" ");
  }

  // --- numbers ---

  // What may be an integer, or nearly.
  void Whole(int depth) {
    if (is_large_ && depth > 0 && OneIn(5)) return Binary(depth, " * ");
    const size_t kind = depth > 0 && IsOdd() ? 20 + Pick(4) : Pick(depth == 0 ? 8 : 20);
    switch (kind) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Add(Name());
      case 4:
      case 5:
      case 6:
        return Add(Constant());
      case 7:
        return Add(Pick(3) == 0 ? "#s" : Pick(2) == 0 ? "#t" : "#u");
      case 8:
      case 9:
      case 10:
        return Binary(depth, " + ");
      case 11:
      case 12:
        return Binary(depth, " - ");
      case 13:
      case 14:
        return Binary(depth, " * ");
      case 15:
      case 16:
      case 17:
        Add("(");
        Whole(depth - 1);
        Add(") % ");
        return Add(Divisor());
      case 18:
        Add("(");
        Whole(depth - 1);
        Add(") * ");
        Add(Constant());
        Add(" % ");
        return Add(Divisor());
      case 19:
        Add(Constant());
        Add(Pick(2) == 0 ? " - " : " + ");
        return Add(Name());
      case 20:
        return Add(Any(kLarge));
      case 21:
        Add("-(");
        Whole(depth - 1);
        return Add(")");
      case 22:
        return Binary(depth, Any(kOperators));
      default:
        return Pick(2) == 0 ? Add(OneIn(2) ? "x" : "y") : Expression(depth - 1);
    }
  }

  void Binary(int depth, std::string_view by) {
    Add("(");
    Whole(depth - 1);
    Add(" ");
    Add(by);
    Add(" ");
    Whole(depth - 1);
    Add(")");
  }

  // Anything.
  void Expression(int depth) {
    if (depth <= 0) return Add(Pick(2) == 0 ? "x" : OneIn(3) ? Any(kLarge) : Constant());
    const auto of = [&](std::string_view begin, std::string_view end) {
      Add(begin);
      Pick(3) == 0 ? Expression(depth - 1) : Whole(depth - 1);
      Add(end);
    };
    // What comes behind 9 shows its operands.
    switch (IsOdd() ? 9 + Pick(17) : Pick(9)) {
      case 0:
        return Add(Pick(2) == 0 ? "x" : "y");
      case 1:
      case 2:
        return of("(0.5 * ", ")");
      case 3:
        return of("(x + ", ")");
      case 4:
        return of("(y * ", ")");
      case 5:
        return of("(1 / (", "))");
      case 6:
        return of("(", " / 3)");
      case 7:
        return of("(2 ^ (", "))");
      case 8:
        return of("((", ") % 99) ^ 2");
      case 9:
        return of("f(", ")");
      case 10:
        of("select(2, x, ", ", ");
        return of("", ")");
      case 11:
        of("({", ", ");
        return of("", "})[1]");
      case 12:
        of("(", " or ");
        return of("", ")");
      case 13:
        Add("(");
        Condition(depth - 1);
        of(" and ", " or ");
        return of("", ")");
      case 14:
        return of("(tonumber(tostring(", ")) or 0)");
      case 15:
        return of("#(s .. ", ")");
      case 16:
        return of("math.floor(", ")");
      case 17:
        return of("math.max(2, ", ")");
      case 18:
        return of("-(", ")");
      case 19:
      case 20:
        return of("(t[", "] or 1)");
      case 21:
        return of("(function() return ", " end)()");
      case 22:
        return of("(m + (", "))");
      case 23:
        return of("m[", "]");
      case 24:
        return of("(u[", "] or x)");
      default:
        of("(", " ");
        Add(Any(kOperators));
        return of(" ", ")");
    }
  }

  void Condition(int depth) {
    switch (Pick(depth <= 0 ? 4 : IsOdd() ? 9 : 8)) {
      case 0:
      case 1:
        Add(Name());
        Add(Any(kComparisons));
        return Add(OneIn(2) ? Name() : Constant());
      case 2:
        Add(Constant());
        Add(Any(kComparisons));
        return Add(Name());
      case 3:
        Add("t[");
        Add(Name());
        return Add("]");
      case 4:
        Whole(depth - 1);
        Add(Any(kComparisons));
        return Whole(depth - 1);
      case 5:
        Add("not (");
        Condition(depth - 1);
        return Add(")");
      case 6:
      case 7:
        Add("(");
        Condition(depth - 1);
        Add(Pick(2) == 0 ? " and " : " or ");
        Condition(depth - 1);
        return Add(")");
      default:
        Expression(depth - 1);
        Add(Any(kComparisons));
        return Expression(depth - 1);
    }
  }

  // --- statements ---

  void Block(int depth, size_t size) {
    const size_t visible = variables_.size();
    for (; size > 0 && !feed_.empty(); --size) Statement(depth);
    if (depth > 0) variables_.resize(visible);
  }

  void Assign(const char* name, int depth) {
    Add(name);
    Add(" = ");
    Whole(depth);
    Add(" ");
  }

  void Index(std::string_view table) {
    Add(table);
    Add("[");
    Whole(1 + static_cast<int>(Pick(2)));
    Add("]");
  }

  // Something that ends a loop, mostly.
  void Guard() {
    switch (Pick(4)) {
      case 0:
      case 1:
        return Add("if stop() then break end ");
      case 2:
        return Add("y = y + 1 if y > 20 then break end ");
      default:
        return;
    }
  }

  void Body(int depth) {
    Guard();
    ++loops_;
    Block(depth + 1, 1 + Pick(4));
    if (OneIn(6)) {
      Add("if ");
      Condition(1);
      Add(" then break end ");
    }
    --loops_;
  }

  // A number that is not nan, if the names that it adds to `names` are not: one that begins or ends
  // with nan may have one turn or none (docs/scripting.md).
  std::string Bound(std::vector<const char*>* names) {
    const auto name = [&] {
      names->push_back(Name());
      return std::string(names->back());
    };
    switch (Pick(12)) {
      case 0:
      case 1:
        return "1";
      case 2:
        return "9";
      case 3:
      case 4:
        return "#u";
      case 5:
        return std::string("#t - ") + Constant();
      case 6:
      case 7:
        return name();
      case 8:
        return name() + (Pick(2) == 0 ? " + " : " - ") + Constant();
      case 9:
        return Constant();
      case 10: {
        const char* const large = Any(kLarge);
        return std::string_view(large) == "(0/0)" ? "0.5" : large;
      }
      default:
        return "f(" + name() + ")";
    }
  }

  void For(int depth) {
    std::vector<const char*> names;
    const char* const name = OneIn(2) ? Any(kNames) : "i";
    std::string head = std::string("for ") + name + " = " + Bound(&names) + ", " + Bound(&names);
    if (OneIn(3)) {
      head += ", ";
      constexpr const char* kSteps[] = {"2", "-1", "0.5", "3", "-2", "1", "z + 1", "2147483648"};
      head += OneIn(4) ? Bound(&names) : Any(kSteps);
    }
    for (const char* const bound : names) Add(std::string("if ") + bound + "==" + bound + " then ");
    Add(head + " do ");
    variables_.push_back({name, true});
    Body(depth);
    variables_.pop_back();
    Add("end ");
    for (size_t i = 0; i < names.size(); ++i) Add("end ");
  }

  void Function(int depth) {
    const size_t outer_begin = function_begin_;
    const int outer_loops = loops_;
    const size_t visible = variables_.size();
    loops_ = 0;
    Add("local function h(p, q) ");
    function_begin_ = variables_.size();
    variables_.push_back({"p"});
    Declare(false);
    Block(depth + 1, 1 + Pick(4));
    Add("return ");
    Expression(2);
    Add(" end ");
    variables_.resize(visible);
    function_begin_ = outer_begin;
    loops_ = outer_loops;
    Add("x = h(");
    Expression(1);
    Add(") ");
  }

  void Goto(int depth) {
    const std::string label = "l" + std::to_string(++labels_);
    if (Pick(2) == 0) {
      Add("::" + label + ":: ");
      Block(depth + 1, 1 + Pick(3));
      Add("if not stop() and ");
      Condition(1);
      Add(" then goto " + label + " end ");
    } else {
      Add("do ");
      Block(depth + 1, Pick(2));
      Add("if ");
      Condition(1);
      Add(" then goto " + label + " end ");
      Block(depth + 1, 1 + Pick(3));
      Add("::" + label + ":: end ");
    }
  }

  void If(int depth) {
    Add("if ");
    Condition(2);
    Add(" then ");
    Block(depth + 1, 1 + Pick(2));
    if (OneIn(4)) {
      Add("elseif ");
      Condition(1);
      Add(" then ");
      Block(depth + 1, 1);
    }
    if (OneIn(2)) {
      Add("else ");
      Block(depth + 1, 1 + Pick(2));
    }
    Add("end ");
  }

  void Statement(int depth) {
    if (++statements_ > kStatementsMax) return;
    const bool is_deep = depth >= kDepthMax;
    switch (Pick(is_deep ? 24 : 40)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Assign(Target(), 2);
      case 4:
      case 5: {
        const char* const name = Target();
        Add(name);
        Add(" = ");
        Add(name);
        Add(Pick(3) == 0 ? " - " : " + ");
        Pick(3) == 0 ? Whole(1) : Add(Constant());
        return Add(" ");
      }
      case 6: {
        const char* const a = Target();
        const char* const b = Target();
        Add(a);
        Add(", ");
        Add(b);
        Add(" = ");
        OneIn(2) ? Whole(1) : Add(b);
        Add(", ");
        OneIn(2) ? Whole(1) : Add(a);
        return Add(" ");
      }
      case 7:
      case 8:
        Add(Pick(2) == 0 ? "x = x " : "y = x ");
        Add(Any(kOperators));
        Add(" (");
        Whole(2);
        return Add(") ");
      case 9:
      case 10:
        Index(OneIn(3) ? "u" : "t");
        Add(" = ");
        IsOdd() ? Expression(2) : Add(Pick(3) == 0 ? "true" : Pick(2) == 0 ? "x" : "y");
        return Add(" ");
      case 11:
        Add("x = ");
        Index("t");
        return Add(" or 1 ");
      case 12:
        Add("t[");
        Whole(1);
        Add("], t[1] = t[1], x ");
        return;
      case 13:
        Add("t[");
        Add(Name());
        Add("], u[");
        Add(Name());
        Add("] = u[");
        Add(Name());
        Add("], t[");
        Add(Name());
        return Add("] ");
      case 14:
        return Declare(IsOdd());
      case 15: {
        const char* const a = Any(kNames);
        const char* const b = Any(kNames);
        Add(std::string("local ") + a + ", " + b + " = ");
        Whole(1);
        Add(", ");
        Whole(1);
        Add(" ");
        variables_.push_back({a});
        return variables_.push_back({b});
      }
      case 16:
        return OneIn(3) ? Assign(Target(), 1) : Add("u[#u + 1] = x ");
      case 17:
        Add("if #u > 3 then u[#u] = nil end ");
        return;
      case 18:
        Add(Pick(2) == 0 ? "see(" : "x = f(");
        Expression(2);
        return Add(") ");
      case 19:
        Add("if #s < 90 then s = s .. ");
        IsOdd() ? Expression(1) : Add(Pick(2) == 0 ? "x" : "#u");
        return Add(" end ");
      case 20:
        Add(Pick(2) == 0 ? "x = " : "y = ");
        Expression(3);
        return Add(" ");
      case 21: {
        if (loops_ == 0) return Assign(Target(), 2);
        Add("if ");
        Condition(1);
        return Add(" then break end ");
      }
      case 22:
        Add("if ");
        Condition(2);
        Add(" then ");
        Assign(Target(), 1);
        return Add("end ");
      case 23:
        if (!OneIn(3)) return Assign(Target(), 1);
        Add("if ");
        Condition(1);
        Add(" then return ");
        Pick(2) == 0 ? Add(Name()) : Expression(1);
        return Add(" end ");
      case 24:
      case 25:
        return If(depth);
      case 26:
      case 27:
      case 28:
        Add("while ");
        if (Pick(2) == 0) {
          constexpr const char* kTests[] = {" < 20", " <= #u", " > -9", " < 1e9", " ~= 7"};
          Add(Name());
          Add(Any(kTests));
        } else {
          Condition(2);
        }
        Add(" do ");
        Body(depth);
        return Add("end ");
      case 29:
      case 30: {
        const size_t visible = variables_.size();
        Add("repeat ");
        Body(0);  // keeps what it declares
        Add("until stop() or ");
        Condition(2);
        variables_.resize(visible);
        return Add(" ");
      }
      case 31:
      case 32:
      case 33:
      case 34:
        return For(depth);
      case 35:
        Add(Pick(2) == 0 ? "for k, v in pairs(u) do x = k t[v] = k " : "for k, v in ipairs(u) do ");
        Body(depth);
        return Add("end ");
      case 36:
        Add("do ");
        Block(depth + 1, 1 + Pick(3));
        return Add("end ");
      case 37:
        if (!has_closures_) return If(depth);
        Add("do local k = function() return ");
        Add(Name());
        Add(" end see(k()) ");
        if (OneIn(2)) {
          Add("k = function() ");
          Assign(Target(), 1);
          Add("end k() ");
        }
        Block(depth + 1, 1);
        return Add("end ");
      case 38:
        return Function(depth);
      default:
        return Goto(depth);
    }
  }

  Feed feed_;
  std::string out_;
  size_t odd_ = 1;  // one in so many of what could be odd is
  bool is_large_ = false;
  bool has_closures_ = false;
  std::vector<Variable> variables_;
  size_t function_begin_ = 0;  // in variables_, of those of the function that is written
  int loops_ = 0;              // around the statement
  int statements_ = 0;
  int labels_ = 0;
};

// --- both ---

void Check(std::string_view data) {
  // Never destroyed: what belongs to the thread dies before what is static.
  static Machine& machine = *new Machine;
  const std::string source = Writer(data).Script();
  const Machine::Result expected = machine.Run(source, false);
  const Machine::Result result = machine.Run(source, true);
  // One may be ended a little earlier than the other.
  const bool is_same =
      result.is_ended || expected.is_ended
          ? result.seen.starts_with(expected.seen) || expected.seen.starts_with(result.seen)
          : result.seen == expected.seen;
  CHECK(is_same && result.seen.find("INTEGER") == std::string::npos)
      << source << "\nwith integers: " << result.seen << "\nwithout: " << expected.seen;
}

std::string MakeExample(Random* random) {
  std::string bytes(random->Between(40, 500), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random->Next());
  return bytes;
}

}  // namespace

FUZZ_TARGET(LuaIntegersFuzz, NobodyCanTellAnInteger,
            {.check = Check, .make_example = MakeExample, .rounds = 40'000})

}  // namespace dfly
