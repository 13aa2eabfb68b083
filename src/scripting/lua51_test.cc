// SPDX-License-Identifier: Apache-2.0
// Numbers and source text of Lua 5.1. tests/differential/test_lua.py compares with redis-server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "scripting/script_testing.h"
#include "scripting/source/lua51_source.h"

namespace dfly {
namespace {

std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

class Lua51Test : public testing::Test {
 protected:
  // What tostring() makes of it.
  std::string ValueOf(std::string_view expression) {
    return runner_.Run("local v = " + std::string(expression) + " return tostring(v)");
  }
  std::string Run(std::string_view source) { return runner_.Run(source); }

  ScriptRunner runner_;
};

TEST_F(Lua51Test, WholeNumbersDoNotWrap) {
  EXPECT_EQ(ValueOf("1700000000000000 * 10000"), Bulk("1.7e+19"));
  EXPECT_EQ(ValueOf("tonumber('1700000000000000') * 10000"), Bulk("1.7e+19"));
  EXPECT_EQ(ValueOf("1700000000000000"), Bulk("1.7e+15"));
  EXPECT_EQ(ValueOf("0xffffffffffffffff"), Bulk("1.844674407371e+19"));
  EXPECT_EQ(ValueOf("#'ab' * #'ab' * 2^62"), Bulk("1.844674407371e+19"));
  EXPECT_EQ(ValueOf("math.floor(2^40) * math.floor(2^40)"), Bulk("1.2089258196146e+24"));
  EXPECT_EQ(ValueOf("redis.call('one') * 2^62 * 4"), Bulk("1.844674407371e+19"));
  EXPECT_EQ(ValueOf("bit.lshift(1, 30) * bit.lshift(1, 30) * bit.lshift(1, 30)"),
            Bulk("1.2379400392854e+27"));
  for (std::string_view loop :
       {"for _ = 1, 70 do x = x + x end", "for i = 1, 70 do x = x * (i - i + 2) end",
        "for k in pairs({1, 2}) do for _ = 1, 70 do x = x * k end end",
        "for i in ipairs({1, 2}) do for _ = 1, 70 do x = x * i end end",
        "local n = #'ab' for _ = 1, 70 do x = x * n end"}) {
    EXPECT_EQ(Run("local x = 1 " + std::string(loop) + " return tostring(x)"),
              Bulk("1.1805916207174e+21"))
        << loop;
  }
}

// They may be integers inside: lua_integers.h.
TEST_F(Lua51Test, VariablesOfLoopsAreNumbersLikeOthers) {
  const auto value_of = [this](std::string_view steps, std::string_view value) {
    return Run("local t, x, v, w = {}, 1, 1, 0 " + std::string(steps) + " return tostring(" +
               std::string(value) + ")");
  };
  const std::string_view sum = "while v <= 10 do t[v] = v % 3 x = x + v * t[v] v = v + 1 end";
  EXPECT_EQ(value_of(sum, "x"), Bulk("53"));
  EXPECT_EQ(value_of(sum, "v"), Bulk("11"));
  EXPECT_EQ(value_of("for i = 1, 70 do t[v] = i v = v * 2 end", "t[2^60]"), Bulk("61"));
  EXPECT_EQ(value_of("for i = 1, 70 do t[v] = i v = v * 2 end", "v"), Bulk("1.1805916207174e+21"));
  EXPECT_EQ(value_of("for i = 1, 70 do t[v] = i v = v + v end", "t[2^69]"), Bulk("70"));
  EXPECT_EQ(value_of("for i = 1, 3 do t[w] = 1 x = 1 / (w * -1) end", "x"), Bulk("-inf"));
  EXPECT_EQ(value_of("for i = 1, 9 do v = v * 31 % 1000003 x = x + v end", "x"), Bulk("3936789"));
  EXPECT_EQ(value_of("for i = 1, 9 do t[i * i] = i end", "t[81]"), Bulk("9"));
  EXPECT_EQ(value_of("for i = 2^50, 2^50 + 3 do local j = i * i t[j] = j end", "t[2^100]"),
            Bulk("1.2676506002282e+30"));
  EXPECT_EQ(value_of("for i = 1, 3 do local j = #'abc' - i + 1 t[j] = '<' .. j .. '>' end",
                     "t[1] .. t[3]"),
            Bulk("<1><3>"));
  EXPECT_EQ(value_of("for i = 1, 3 do local j = i w = function() return j end end", "w()"),
            Bulk("3"));
  EXPECT_EQ(value_of("for i = 1, 3 do v = v + 1 end", "({v, -v, v / 2})[2]"), Bulk("-4"));
}

TEST_F(Lua51Test, FunctionsAreCompiledApart) {
  const auto script = [](std::string_view begin, std::string_view step) {
    return "local t, n = {}, 0 for i = " + std::string(begin) +
           ", 1.5 do n = n + 1 if n > 3 then " + "break end " + std::string(step) +
           " for j = i, i + 2 do t[j] = i " +
           "if j * j > 1e12 then break end end end n = 0 for k in pairs(t) do n = n + 1 end return "
           "n";
  };
  EXPECT_EQ(Run(script("1", "local g = {1, 2, 3}")), ":3\r\n");
  EXPECT_EQ(Run(script("-2^50", "local g = function() return i end")), ":3\r\n");
}

// Lua adds them by another instruction: LuaIntegers::Apply.
TEST_F(Lua51Test, SmallNumbersThatAreAdded) {
  const auto sum = [this](std::string_view value, std::string_view by) {
    return Run("local function f(v) return v " + std::string(by) + " end return tostring(f(" +
               std::string(value) + "))");
  };
  EXPECT_EQ(sum("1.5", "+ 1"), Bulk("2.5"));
  EXPECT_EQ(sum("0.5", "- 127"), Bulk("-126.5"));
  EXPECT_EQ(sum("'7'", "- 3"), Bulk("4"));
  EXPECT_EQ(sum("2^53", "+ 1"), Bulk("9.007199254741e+15"));
  EXPECT_EQ(sum("2^63", "- 1"), Bulk("9.2233720368548e+18"));
  EXPECT_EQ(sum("-1/0", "+ 5"), Bulk("-inf"));
  EXPECT_EQ(Run("local z = -tonumber('0') return tostring(z + 0) .. tostring(z - 0)"), Bulk("0-0"));
  EXPECT_THAT(sum("{}", "+ 1"), testing::HasSubstr("arithmetic on local 'v' (a table value)"));
  // A length is an integer inside, and such a sum would wrap.
  EXPECT_EQ(ValueOf("(#'ab' - 1) * 2^62 * 4"), Bulk("1.844674407371e+19"));
  EXPECT_EQ(Run("local n = #'ab' - 1 for i = 1, 70 do n = n + n end return tostring(n)"),
            Bulk("1.1805916207174e+21"));
  // What only 5.4 has.
  EXPECT_EQ(sum("2^62 | 0", "+ 1"), Bulk("4611686018427387905"));
}

TEST_F(Lua51Test, ItemsOfPatternsAreRepeated) {
  const auto match = [this](std::string_view text, std::string_view pattern) {
    return Run("return {string.match('" + std::string(text) + "', '" + std::string(pattern) +
               "')}");
  };
  const auto one = [](std::string_view text) { return "*1\r\n" + Bulk(text); };
  for (const char* const pattern : {"^%s*(.-)%s*$", "^ *(.-) *$", "^ ?(.-) ?$", "[^x ]*[ab]"}) {
    EXPECT_EQ(match(" a b ", pattern), one(pattern[0] == '[' ? "a" : "a b")) << pattern;
  }
  EXPECT_EQ(match("aaab", "a*ab"), one("aaab"));
  EXPECT_EQ(match("aaab", "a+ab"), one("aaab"));
  EXPECT_EQ(match("ab", "a+ab"), "*0\r\n");
  EXPECT_EQ(match("ab", "a?ab"), one("ab"));
  EXPECT_EQ(match("b", "a?a?a*b"), one("b"));
  EXPECT_EQ(match("", "a*"), one(""));
  EXPECT_EQ(match("", "a+"), "*0\r\n");
  EXPECT_EQ(match("aab", "a-b"), one("aab"));
  EXPECT_EQ(match("x=12,y", "(%w+)=(%d*),(%d*)"), "*3\r\n" + Bulk("x") + Bulk("12") + Bulk(""));
}

TEST_F(Lua51Test, VariablesMayBeMany) {
  std::string others;
  for (int i = 0; i < 40; ++i) others += "local v" + std::to_string(i) + " = 1 ";
  for (const std::string& before : {std::string(), others}) {
    EXPECT_EQ(Run(before + "local n = #'abcd' if n < 2 then return 0 end local m = n " +
                  "for i = 1, 40 do m = m * n end return tostring(m)"),
              Bulk("4.8357032784585e+24"));
  }
}

TEST_F(Lua51Test, LengthsThatAreAssignedStayThere) {
  for (std::string_view next : {"b = a % 7", "b = a + 1", "b = a * 2.5", "local c = a - 1"}) {
    EXPECT_EQ(Run("local a, b = 5, 1 a = #'abc' " + std::string(next) + " return a"), ":3\r\n")
        << next;
  }
}

// Instructions are removed when a function has been compiled.
TEST_F(Lua51Test, ErrorsNameTheirLinesBehindLoops) {
  const std::string loop = "for i = 1, #t do if t[i] then x = t[i] end end\n";
  for (const size_t gap : {1, 100, 126, 127, 128, 300}) {
    std::string source = "local t, x = {1, 2} ";
    size_t line = 1;
    for (int i = 0; i < 20; ++i) {
      source += loop + std::string(gap, '\n') + "while #t > 9 do t[#t] = nil end ";
      line += 1 + gap;
    }
    source += "for j = 1, 2 do\n x = t.none.field end";
    ++line;
    const std::string reply = Run(source);
    EXPECT_TRUE(reply.find("user_script:" + std::to_string(line) + ": attempt to index") !=
                std::string::npos)
        << reply << " for " << gap;
    EXPECT_TRUE(reply.find("field 'none'") != std::string::npos) << reply;
  }
}

TEST_F(Lua51Test, NextComesToTheEndFromAnyKey) {
  EXPECT_EQ(Run("local t, n = {1, 2, 3, nil, 5, x = 1, [1.5] = 2, [-1] = 3, [0] = 4, [2^53] = 5, "
                "[-2^53] = 6, [2^64] = 7, [true] = 8} local n, sum = 0, 0 "
                "for k, v in pairs(t) do n = n + 1 sum = sum + v if n > 20 then break end end "
                "return {n, sum}"),
            "*2\r\n:12\r\n:47\r\n");
}

TEST_F(Lua51Test, RemaindersAreThoseOfDoubles) {
  EXPECT_EQ(ValueOf("5 % 0"), Bulk("-nan"));
  EXPECT_EQ(ValueOf("-5 % 3"), Bulk("1"));
  EXPECT_EQ(ValueOf("5 % -3"), Bulk("-1"));
  EXPECT_EQ(ValueOf("-5.5 % 2"), Bulk("0.5"));
  EXPECT_EQ(ValueOf("math.fmod(-5, 3)"), Bulk("-2"));
}

TEST_F(Lua51Test, TonumberTakesWhatStrtodTakes) {
  EXPECT_EQ(ValueOf("tonumber('inf')"), Bulk("inf"));
  EXPECT_EQ(ValueOf("tonumber('-inf')"), Bulk("-inf"));
  EXPECT_EQ(ValueOf("tonumber('nan')"), Bulk("nan"));
  EXPECT_EQ(ValueOf("tonumber(' 0x10 ')"), Bulk("16"));
  EXPECT_EQ(ValueOf("tonumber('1234567890123456')"), Bulk("1.2345678901235e+15"));
  EXPECT_EQ(ValueOf("tonumber('-ff', 16)"), Bulk("1.844674407371e+19"));
  EXPECT_EQ(ValueOf("tonumber('0xff', 16)"), Bulk("255"));
  EXPECT_EQ(ValueOf("'0x10' + 1"), Bulk("17"));
  for (std::string_view none : {"''", "' '", "'1a'", "'1 2'", "'0x'", "'.'", "{}", "nil"}) {
    EXPECT_EQ(ValueOf("tonumber(" + std::string(none) + ")"), Bulk("nil")) << none;
  }
}

TEST_F(Lua51Test, FloatsAreIndexes) {
  EXPECT_EQ(Run("local t = {10, 20} t[3.0] = 30 return {t[1], t[2], t[3], #t, t[4 / 2]}"),
            "*5\r\n:10\r\n:20\r\n:30\r\n:3\r\n:20\r\n");
  EXPECT_EQ(Run("local t = {[0] = 'a', [-1] = 'b', [1.5] = 'c', [2^40] = 'd', [300] = 'e'} "
                "return t[0] .. t[-1] .. t[1.5] .. t[1099511627776] .. t[300]"),
            Bulk("abcde"));
  EXPECT_EQ(Run("local t = {} for i = 1, 100 do t[i] = i end "
                "for k in pairs(t) do t[k] = nil end return tostring(next(t))"),
            Bulk("nil"));
  EXPECT_EQ(Run("local n = 0 for k, v in next, {5, 6, x = 7} do n = n + v end return n"),
            ":18\r\n");
  EXPECT_EQ(Run("local t = setmetatable({}, {__index = function(_, k) return tostring(k) end}) "
                "return t[1] .. t[1.5] .. t[1e15]"),
            Bulk("11.51e+15"));
}

TEST_F(Lua51Test, GotoIsANameAndAWordWhereNoNameMayStand) {
  EXPECT_EQ(Run("local goto = 5 return goto"), ":5\r\n");
  EXPECT_EQ(Run("local t = {goto = 1} t.goto = t.goto + 1 return t.goto"), ":2\r\n");
  EXPECT_EQ(Run("local function goto(x) return x end return goto(3)"), ":3\r\n");
  EXPECT_EQ(Run("local goto, b = 1 b = goto goto = 2 return b + goto"), ":3\r\n");
  EXPECT_EQ(Run("local t = {1; goto = 5} return t.goto"), ":5\r\n");
  EXPECT_EQ(Run("local n = 0 for i = 1, 4 do if i % 2 == 0 then goto continue end n = n + i "
                "::continue:: end return n"),
            ":4\r\n");
  EXPECT_EQ(Run("goto done do return 1 end ::done:: return 2"), ":2\r\n");
}

// In 5.4 it is the table of globals, and a script that set it would find it in its next run.
TEST_F(Lua51Test, EnvIsANameLikeOthers) {
  EXPECT_EQ(Run("local _ENV = {x = 1} return {_ENV.x, type(redis)}"),
            "*2\r\n:1\r\n" + Bulk("table"));
  EXPECT_EQ(Run("local t = {_ENV = 1} t._ENV = t['_ENV'] + 1 return t._ENV"), ":2\r\n");
  EXPECT_EQ(Run("local function f(_ENV) return tostring(_ENV) end return f(3)"), Bulk("3"));
  EXPECT_THAT(Run("return _ENV"),
              testing::HasSubstr("Script attempted to access nonexistent global variable '_ENV'"));
  EXPECT_THAT(Run("_ENV = {redis = redis} return 1"),
              testing::HasSubstr("Attempt to modify a readonly table"));
  EXPECT_THAT(Run("rawset(_G, 'x', 1)"), testing::HasSubstr("Attempt to modify a readonly table"));
  EXPECT_THAT(Run("local f = loadstring('return _ENV') return f()"),
              testing::HasSubstr("nonexistent"));
}

TEST_F(Lua51Test, OperatorsOf54WorkAsThere) {
  EXPECT_EQ(Run("return {7 // 2, 6 & 3, 6 | 1, 6 ~ 2, 1 << 40, 256 >> 4, ~0}"),
            "*7\r\n:3\r\n:2\r\n:7\r\n:4\r\n:1099511627776\r\n:16\r\n:-1\r\n");
}

TEST_F(Lua51Test, EscapesThatMeanNothingGo) {
  EXPECT_EQ(Run(R"(return "a\-b\/c")"), Bulk("a-b/c"));
  EXPECT_EQ(Run(R"(return #"\x41")"), ":3\r\n");
  EXPECT_EQ(Run(R"(return loadstring('return "\\x41"')())"), Bulk("x41"));
  EXPECT_EQ(Run(R"(local p = {'return "a\\', '-b"'} local i = 0
                   return load(function() i = i + 1 return p[i] end)() .. '')"),
            Bulk("a-b"));
}

// In pieces of that size.
std::string Dropped(std::string_view source, size_t piece) {
  std::string text(source.size() + SourceFilter::kMore, '\0');
  SourceFilter filter;
  char* end = text.data();
  for (; !source.empty(); source.remove_prefix(std::min(piece, source.size()))) {
    end = filter.Take(source.substr(0, piece), end);
  }
  text.resize(static_cast<size_t>(filter.End(end) - text.data()));
  return text;
}

std::string Dropped(std::string_view source) {
  const std::string text = Dropped(source, 1000);
  for (size_t piece = 1; piece < source.size(); ++piece) {
    EXPECT_EQ(Dropped(source, piece), text) << piece;
  }
  return text;
}

TEST(SourceFilter, DropsBackslashesInStringsOnly) {
  EXPECT_EQ(Dropped(R"(x = "\x41\u{7}\z\-" .. '\q')"), R"(x = "x41u{7}z-" .. 'q')");
  for (std::string_view same : {R"("\a\b\f\n\r\t\v\\\"\'\0\65")",
                                "'\\\n'",
                                "[[\\-]]",
                                "[==[ ]] \\- ]==]",
                                "-- \"\\-\n",
                                "--[[ '\\-' ]]",
                                "--[==[ ]] ]=] '\\-' ]==]",
                                "[=[ ]]=] ",
                                "---[[ it's\n",
                                "--[=- '\n",
                                "t[=]",
                                "[[]]",
                                "a--b",
                                "--[=[ '\\-'",
                                "\"\\",
                                "'",
                                "[",
                                "[=",
                                "-",
                                "t[i] - 1",
                                ""}) {
    EXPECT_EQ(Dropped(same), same);
  }
  EXPECT_EQ(Dropped("'\\\r\n\\q'"), "'\\\r\nq'");
  EXPECT_EQ(Dropped("-- it's\nx = '\\-'"), "-- it's\nx = '-'");
  EXPECT_EQ(Dropped("'--' .. '\\-'"), "'--' .. '-'");
  EXPECT_EQ(Dropped("t[t['\\-']]"), "t[t['-']]");
  EXPECT_EQ(Dropped("'\\\\\\-'"), "'\\\\-'");
}

}  // namespace
}  // namespace dfly
