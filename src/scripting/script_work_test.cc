// SPDX-License-Identifier: Apache-2.0
// Scripts whose work is in one call of a library function, or between two jumps.
#include "scripting/lua/lua_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "helio/base/clock.h"
#include "scripting/script_testing.h"

namespace dfly {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Verdict = ScriptHost::Verdict;

constexpr const char* kKilled = "-ERR Script killed by user with SCRIPT KILL...";

std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// None of them ends in this world, unless somebody ends it.
constexpr const char* kEndless[] = {
    "return string.rep('a', 1e5):find('.-.-.-.-b')",
    "return string.rep('a', 1e5):match('.*.*.*.*b')",
    "return string.rep('a', 1e5):gsub('a-a-a-a-b', '')",
    "for _ in string.gmatch(string.rep('a', 1e5), '.?.-.-.-b') do end",
    "return string.rep('a', 1e6):find('[' .. string.rep('b', 1e6) .. ']')",
    "return string.rep('(', 2e6):find('%b()')",
    "return string.rep('a', 1e5):find('(.-)%1%1%1b')",
    "return string.rep('a', 1e5):find('.-.-%f[b].-')",
    "table.insert(setmetatable({}, {__len = function() return 2^53 end}), 1, 1)",
    "table.remove(setmetatable({}, {__len = function() return 2^53 end}), 1)",
    "table.sort(setmetatable({}, {__len = function() return 2^31 - 2 end}), tonumber)",
    "local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
    "local t = {} for i = 1, 60 do t = {a = t, b = t} end return cjson.encode(t)",
    "local t = {} for i = 1, 15 do local u = {} for j = 1, 100 do u[j] = t end t = u end "
    "return cmsgpack.pack(t)",
    "while true do pcall(string.rep, 'x', 1e9) end",
    "while true do pcall(string.find, string.rep('a', 1e5), '.-.-.-.-b') end",
    "error(setmetatable({}, {__tostring = function() while true do end end}))while true do end",
};

TEST(ScriptWorkTest, WhatLoopsInALibraryCanBeKilled) {
  for (const char* source : kEndless) {
    SCOPED_TRACE(source);
    ScriptRunner runner(256 << 20);
    runner.host.ticks_max = 20;
    runner.host.tick_verdict = Verdict::kKill;
    const std::string reply =
        runner.Run(std::string("pcall(function() ") + source + " end) " + "while true do end");
    EXPECT_THAT(reply, StartsWith(kKilled));
    EXPECT_EQ(runner.host.ticks, 20);
    runner.host.ticks_max = INT_MAX;
    EXPECT_EQ(runner.Run("return #cjson.encode({1, 2, 3})"), ":7\r\n");
  }
}

struct Case {
  const char* source;
  int ticks;  // at least
};

// They end, but take long: others have to get their turn meanwhile.
constexpr Case kLong[] = {
    {"string.rep('a', 3e7)", 100},
    {"local s = string.rep('a', 1e7) for i = 1, 20 do local x = s .. 'b' end", 20},
    {"local s = string.rep('a', 1e7) local a, b = s .. 'a', s .. 'b' "
     "for i = 1, 50 do local x = a < b end",
     50},
    {"local s = string.rep('a', 1e7) local a, b = s .. 'a', s .. 'a' "
     "for i = 1, 50 do local x = a == b end",
     50},
    {"local s = string.rep('aB', 1e7) string.upper(s) string.lower(s) string.reverse(s)", 300},
    {"string.rep('a', 2e7):find('b', 1, true)", 100},
    {"string.rep('a', 1e6):find(string.rep('a', 5e5) .. 'b', 1, true)", 1},
    {"local t = {} for i = 1, 2^20 do t[i] = i end for i = 1, 2^20 do t[i] = nil end "
     "for i = 1, 1000 do next(t) end",
     1000},
    {"local s = string.rep('a', 1e7) for i = 1, 50 do collectgarbage() end", 50},
    {"cjson.decode('[' .. string.rep('1,', 1e5) .. '1]')", 100},
    {"local t = {} for i = 1, 1e5 do t[i] = i end cjson.encode(t)", 200},
    {"local t = {} for i = 1, 1e5 do t[i] = i end cmsgpack.pack(t) table.concat(t) table.sort(t)",
     400},
    {"loadstring(string.rep('a = 1 ', 1e5))", 100},
};

TEST(ScriptWorkTest, WhatTakesLongInALibraryHasTicks) {
  for (const Case& test : kLong) {
    ScriptRunner runner(256 << 20);
    runner.host.ticks_max = INT_MAX;
    EXPECT_EQ(runner.Run(test.source), "$-1\r\n") << test.source;
    EXPECT_GE(runner.host.ticks, test.ticks) << test.source;
  }
}

// Commands count more than jumps, and where they take long, one by one.
TEST(ScriptWorkTest, ALoopOverCommandsHasTicks) {
  const std::string source = "for i = 1, 1000 do redis.call('ping') end";
  ScriptRunner runner;
  EXPECT_EQ(runner.Run(source), "$-1\r\n");
  EXPECT_GE(runner.host.ticks, 30);
  runner.host.ticks = 0;
  runner.host.on_call = [](Args, ReplySink& reply) {
    const uint64_t end_ns = helio::MonotonicNanos() + 1'000'000;
    while (helio::MonotonicNanos() < end_ns) {
    }
    reply.Ok();
  };
  EXPECT_EQ(runner.Run(source), "$-1\r\n");
  EXPECT_GE(runner.host.ticks, 500);
}

// Lua gives all of them the same hash, so each looks at all before.
TEST(ScriptWorkTest, ATableOfNumbersThatDifferLittleHasMoreTicks) {
  ScriptRunner runner;
  EXPECT_EQ(runner.Run("local t = {} for i = 1, 20000 do t[1 + i * 2^-52] = i end"), "$-1\r\n");
  EXPECT_GE(runner.host.ticks, 100);
}

// They would need more than there is, or more than there can be.
constexpr const char* kTooLarge[] = {
    "return string.rep('x', 1e9)",
    "return string.rep(string.rep('x', 1e6), 1e12)",
    "return string.rep('xx', 2^62)",
    "return table.concat(setmetatable({}, {__index = type}), '', 1, 2^53)",
    "return {unpack({}, 1, 1e8)}",
    "return {unpack({}, -2^62, 2^62)}",
    "return string.rep('x', 1e7):gsub('x', string.rep('y', 100))",
    "local t = {string.rep('x', 1e6)} for i = 1, 12 do t = {t, t} end return cjson.encode(t)",
    "local t = {string.rep('x', 1e6)} for i = 1, 12 do t = {t, t} end return cmsgpack.pack(t)",
    "return cmsgpack.unpack(string.rep('\\221\\0\\16\\0\\0', 1e6))",
    "local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end",
};

TEST(ScriptWorkTest, TheLimitOfMemoryIsACleanError) {
  for (const char* source : kTooLarge) {
    SCOPED_TRACE(source);
    ScriptRunner runner(32 << 20);
    runner.host.ticks_max = INT_MAX;
    const std::string reply = runner.Run(source);
    EXPECT_THAT(reply, testing::AnyOf(HasSubstr("not enough memory"), HasSubstr("too many"),
                                      HasSubstr("too large")));
    EXPECT_THAT(reply, StartsWith("-ERR "));
    EXPECT_LE(runner.interpreter().memory_used(), (32u << 20) + (1u << 20));
    EXPECT_EQ(runner.Run("return cjson.encode(cjson.decode('[1,2]'))"), Bulk("[1,2]"));
  }
}

TEST(ScriptWorkTest, AReplyThatNoMemoryHoldsIsACleanError) {
  const std::string error =
      "-ERR not enough memory for the reply script: " + std::string(ScriptRunner::kSha) + ".\r\n";
  ScriptRunner runner(16 << 20);
  runner.host.ticks_max = INT_MAX;
  for (const char* source :
       {"local t = {} for i = 1, 60 do t = {t, t} end return t",
        "local t = {} t[1] = t t[2] = t return t",
        "local t = {map = {}} t.map[1] = t t.map[2] = t return t",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1e5 do t[i] = s end return t",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1e5 do t[i] = {s} end return t"}) {
    EXPECT_EQ(runner.Run(source), error) << source;
  }
  const std::string rows = "*2\r\n*1\r\n:1\r\n*1\r\n:2\r\n";
  EXPECT_EQ(runner.Run("return {{1}, {2}}"), rows);
  EXPECT_EQ(runner.Run("return {string.rep('x', 4e6)}").size(), 4'000'000u + 4 + 10 + 2);
}

std::string Repeated(std::string_view text, int times) {
  std::string all;
  for (; times > 0; --times) all.append(text);
  return all;
}

// What Lua's compiler has limits for. It is as before afterwards.
TEST(ScriptWorkTest, TheLimitsOfTheCompilerAreCleanErrors) {
  std::string locals, labels, upvalues;
  for (int i = 0; i < 300; ++i) locals += "local a" + std::to_string(i) + " = 1\n";
  for (int i = 0; i < 40'000; ++i) labels += "::l" + std::to_string(i) + ":: a = 1\n";
  const std::pair<std::string, const char*> cases[] = {
      {locals, "too many local variables"},
      {labels, "too many labels"},
      {"return " + Repeated("(", 300) + "1" + Repeated(")", 300), "C stack overflow"},
      {"return " + Repeated("{", 300) + Repeated("}", 300), "C stack overflow"},
      {Repeated("do ", 300) + Repeated("end ", 300), "C stack overflow"},
      {"return " + Repeated("not ", 300) + "1", "C stack overflow"},
      {"for i = 1, 2 do " + Repeated("a = 1 ", 140'000) + "end", "control structure too long"},
      {"local a = 1 return " + Repeated("a .. ", 300) + "a", "C stack overflow"},
      {"return f(" + Repeated("1, ", 300) + "1)",
       "function or expression needs too many registers"},
      {"return '" + Repeated("x", 3'000'000), "unfinished string"},
      {"return [[" + Repeated("x", 30'000'000), "not enough memory"},
  };
  Interpreter interpreter(32 << 20);
  for (const auto& [source, expected] : cases) {
    FakeHost host;
    host.ticks_max = INT_MAX;
    std::string error;
    EXPECT_FALSE(interpreter.Load("a", source, &error, &host)) << expected;
    EXPECT_THAT(error, StartsWith("ERR Error compiling script (new function): ")) << expected;
    EXPECT_THAT(error, HasSubstr(expected));
    EXPECT_TRUE(interpreter.Load("b", "return 1", &error)) << error;
    interpreter.Forget("b");
  }
}

size_t Settled(Interpreter& interpreter) {
  for (int cycle = 0; cycle < 2; ++cycle) {
    interpreter.BeginCollection();
    while (!interpreter.CollectStep()) {
    }
  }
  return interpreter.memory_used();
}

// Lua has 80 MB at most, and what they are made in has more.
TEST(ScriptWorkTest, BuffersOfLibrariesCountAsMemory) {
  constexpr const char* kSet =
      "local s, t = string.rep('x', 1e6), {} for i = 1, 80 do t[i] = s end ";
  for (const char* pack : {"cjson.encode(t)", "cjson.new().encode(t)", "cmsgpack.pack(t)"}) {
    SCOPED_TRACE(pack);
    ScriptRunner runner(256 << 20);
    Interpreter& interpreter = runner.interpreter();
    EXPECT_EQ(runner.Run("return 1"), ":1\r\n");
    const size_t before = Settled(interpreter);
    size_t most = 0;
    runner.host.ticks_max = INT_MAX;
    runner.host.on_tick = [&] { most = std::max(most, interpreter.memory_used()); };
    EXPECT_THAT(runner.Run(kSet + std::string("return #") + pack), StartsWith(":80"));
    EXPECT_GE(most, 120'000'000u);
    // When it is over, as well as if an error ended it.
    EXPECT_LE(Settled(interpreter), before + (128 << 10));
    runner.Run(kSet + std::string("t[81] = {} t[81][1] = t[81] t[82] = print return #") + pack);
    EXPECT_LE(Settled(interpreter), before + (128 << 10));
  }
}

TEST(ScriptWorkTest, WhatErrorsLeaveOfDecodingIsGivenBack) {
  ScriptRunner runner(256 << 20);
  runner.host.ticks_max = INT_MAX;
  EXPECT_EQ(runner.Run("return 1"), ":1\r\n");
  const size_t before = Settled(runner.interpreter());
  EXPECT_EQ(runner.Run("local s = '[' .. string.rep(' ', 1e7) .. 'x]' "
                       "for i = 1, 3 do pcall(cjson.decode, s) pcall(cjson.new().decode, s) end "
                       "return cjson.decode('[\"a\"]')[1]"),
            Bulk("a"));
  EXPECT_LE(Settled(runner.interpreter()), before + (128 << 10));
  EXPECT_EQ(runner.Run("for i = 1, 1e4 do cjson.new() end return 1"), ":1\r\n");
  EXPECT_LE(Settled(runner.interpreter()), before + (128 << 10));
}

TEST(ScriptWorkTest, ArgumentsOfALargeCallAreGivenBack) {
  ScriptRunner runner(256 << 20);
  runner.host.ticks_max = INT_MAX;
  runner.host.on_call = [](Args args, ReplySink& reply) {
    reply.Integer(static_cast<int64_t>(args.size()));
  };
  EXPECT_EQ(runner.Run("return 1"), ":1\r\n");
  const size_t before = Settled(runner.interpreter());
  size_t during = 0;
  runner.host.on_call = [&](Args args, ReplySink& reply) {
    during = runner.interpreter().memory_used();
    reply.Integer(static_cast<int64_t>(args.size()));
  };
  EXPECT_EQ(runner.Run("local t = {} for i = 1, 1e5 do t[i] = i end "
                       "return redis.call('x', unpack(t))"),
            ":100001\r\n");
  // A value of Lua in a table and on its stack, a view, and its text.
  EXPECT_GE(during, 100'000u * (16 + 16 + 16 + 32));
  EXPECT_LE(Settled(runner.interpreter()), before + (2 << 20));
}

// Compared with redis-server 7.0.
TEST(ScriptWorkTest, PatternsAreThoseOfLua51) {
  constexpr const char* kCases[][2] = {
      {"local n = 0 for w in string.gmatch('a,b,,c', '([^,]*)') do n = n + 1 end return n", "7"},
      {"local s, n = string.gsub('abc', 'b*', '-') return s .. n", "-a--c-4"},
      {"return (string.gsub('hello world', 'o', '%0%0'))", "helloo woorld"},
      {"return (string.gsub('hello', '(l)(l)', '%2-%1'))", "hel-lo"},
      {"return (string.gsub('abc', '%w', '%%%0'))", "%a%b%c"},
      {"return (string.gsub('abc', 'b', {b = 'x'}))", "axc"},
      {"return (string.gsub('abc', 'b', function(c) return nil end))", "abc"},
      {"return (string.gsub('abc', '^a', 'x'))", "xbc"},
      {"return (string.gsub('THE (quick) fox', '%f[%a]%a+', 'w'))", "w (w) w"},
      {"return (string.gsub('x a-b', 'a%-b', 'c%-d'))", "x c-d"},
      {"return string.match('key = value', '^(%w+)%s*=%s*(%w+)$')", "key"},
      {"return string.match('  x ', '^%s*(.-)%s*$')", "x"},
      {"return string.match('f(a(b)c)d', '%b()')", "(a(b)c)"},
      {"return string.match('2024-01-02', '(%d+)-(%d+)')", "2024"},
      {"return string.match('abcabc', '(abc)%1')", "abc"},
      {"return string.match('x]y', '[]]')", "]"},
      {"return string.match('a-z', '[a%-]+')", "a-"},
      {"return #string.match('a\\0b', '%z')", "1"},
      {"return string.find('abc', 'b', 1, true) .. ''", "2"},
      {"return string.find('a.c', '.', 2, true) .. ''", "2"},
      {"return string.find('abc', 'c', -1) .. ''", "3"},
      {"return string.find('abc', '', 10) .. ''", "4"},
      {"return tostring(string.find('abc', 'd'))", "nil"},
      {"return string.match('abc', '()b') .. ''", "2"},
      {"return string.rep('ab', 3, ',')", "ababab"},
      {"return string.rep('ab', -1)", ""},
      {"return #string.rep('', 1e18) .. ''", "0"},
      {"return string.reverse('abc') .. string.upper('aB') .. string.lower('aB')", "cbaABab"},
      {"return select(2, pcall(string.find, 'a', '[a'))", "malformed pattern (missing ']')"},
      {"return select(2, pcall(string.find, 'a', '%'))", "malformed pattern (ends with '%')"},
      {"return select(2, pcall(string.find, 'a', '(a'))", "unfinished capture"},
      {"return select(2, pcall(string.match, 'a', 'a)'))", "invalid pattern capture"},
      {"return select(2, pcall(string.find, 'a', '%1'))", "invalid capture index"},
      {"return select(2, pcall(string.find, 'a', '%f'))", "missing '[' after '%f' in pattern"},
      {"return select(2, pcall(string.find, 'a', '%b'))", "unbalanced pattern"},
      {"return select(2, pcall(string.gsub, 'a', 'a', '%2'))", "invalid capture index"},
  };
  ScriptRunner runner;
  for (const auto& test : kCases) {
    const std::string reply = runner.Run(test[0]);
    const std::string text(test[1]);
    EXPECT_TRUE(reply == Bulk(text) || reply == ":" + text + "\r\n") << test[0] << ": " << reply;
  }
}

// A chain of weak keys would be followed one link at a time, each time through all of them.
TEST(ScriptWorkTest, ATableWithWeakKeysOnlyIsLikeAnyOther) {
  ScriptRunner runner;
  runner.host.ticks_max = INT_MAX;
  EXPECT_EQ(runner.Run("local w = setmetatable({}, {__mode = 'k'}) w[{}] = 1 collectgarbage() "
                       "return next(w) ~= nil"),
            ":1\r\n");
  for (const char* mode : {"v", "kv"}) {
    EXPECT_EQ(runner.Run("local w = setmetatable({}, {__mode = '" + std::string(mode) +
                         "'}) w[1] = {} w[{}] = {} collectgarbage() return next(w) == nil"),
              ":1\r\n")
        << mode;
  }
}

TEST(ScriptWorkTest, OsHasAClockAndNothingElse) {
  ScriptRunner runner;
  EXPECT_EQ(runner.Run("return type(os.clock())"), Bulk("number"));
  EXPECT_EQ(runner.Run("local a = os.clock() return os.clock() >= a"), ":1\r\n");
  EXPECT_EQ(runner.Run("local n = 0 for k in pairs(os) do n = n + 1 end return n"), ":1\r\n");
  EXPECT_THAT(runner.Run("os.time = 1"), HasSubstr("Attempt to modify a readonly table"));
}

}  // namespace
}  // namespace dfly
