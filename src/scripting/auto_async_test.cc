// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/auto_async.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scripting/script_testing.h"

namespace dfly {
namespace {

std::string Rewritten(std::string_view source) {
  return RewriteDiscardedCalls(source).value_or("unchanged");
}

TEST(AutoAsyncTest, AStatementIsRewritten) {
  EXPECT_EQ(Rewritten("redis.call('set', KEYS[1], 1)"), "redis.acall('set', KEYS[1], 1)");
  EXPECT_EQ(Rewritten("redis.pcall('set', KEYS[1], 1);"), "redis.apcall('set', KEYS[1], 1);");
  EXPECT_EQ(Rewritten("for i = 1, 2 do redis.call('x', f(i), {1}[1]) end return 1"),
            "for i = 1, 2 do redis.acall('x', f(i), {1}[1]) end return 1");
  EXPECT_EQ(Rewritten("local x = 1 redis . call('a') redis.call('b') x = 2"),
            "local x = 1 redis . acall('a') redis.acall('b') x = 2");
  EXPECT_EQ(Rewritten("if x then redis.call('a') else redis.call('b') end"),
            "if x then redis.acall('a') else redis.acall('b') end");
  EXPECT_EQ(Rewritten("local function f(a) redis.call('a') end"),
            "local function f(a) redis.acall('a') end");
  EXPECT_EQ(Rewritten("local x = nil\nredis.call('a', ')', [[)]], \"\\\")\") -- )\nreturn x"),
            "local x = nil\nredis.acall('a', ')', [[)]], \"\\\")\") -- )\nreturn x");
}

TEST(AutoAsyncTest, ACallWhoseResultIsUsedStays) {
  for (const char* source : {"return redis.call('a')",
                             "local x = redis.call('a')",
                             "x = redis.call('a')",
                             "f(redis.call('a'))",
                             "local t = {redis.call('a')}",
                             "local t = {1, redis.call('a')}",
                             "if redis.call('a') then end",
                             "while redis.call('a') do end",
                             "repeat until redis.call('a')",
                             "for k in redis.call('a') do end",
                             "return 1 + redis.call('a')",
                             "return not redis.call('a')",
                             "return x or redis.call('a')",
                             "return #redis.call('a')",
                             "return -redis.call('a')",
                             "redis.call('a').x = 1",
                             "redis.call('a')[1] = 1",
                             "redis.call('a')()",
                             "redis.call('a'):f()",
                             "redis.call('a')'x'",
                             "redis.call('a'){}",
                             "redis.call'a'",
                             "local call = redis.call call('a')",
                             "return redis.call('a', redis.call('b'))",
                             "x[redis.call('a')] = 1",
                             "-- redis.call('a')\nreturn 1",
                             "return 'redis.call(1)'",
                             "return [==[\nredis.call(1)]==]",
                             "--[[\nredis.call('a')\n]] return 1",
                             "x.redis.call('a')",
                             "redis.call('a'",
                             "",
                             "(",
                             "[[",
                             "'",
                             "--[[",
                             "return 1, redis.call('a')"}) {
    EXPECT_EQ(Rewritten(source), "unchanged") << source;
  }
}

TEST(AutoAsyncTest, AScriptThatCouldNoticeStays) {
  for (const char* before :
       {"pcall(f)", "xpcall(f, g)", "error('x')", "coroutine.wrap(f)()", "load(f)",
        "loadstring('x')()", "local redis = x", "redis = x", "redis.call = x",
        "local function redis() end", "f(redis)", "local r = redis", "_G.redis = 1",
        "local p = redis.pcall", "setmetatable({}, {})", "assert(x)"}) {
    EXPECT_EQ(Rewritten(std::string(before) + " redis.call('a')"), "unchanged") << before;
  }
}

TEST(AutoAsyncTest, LinesKeepTheirNumbers) {
  const std::string source =
      "local x = 1\nredis.call('one')\n\n--[[\n]]\nredis.call('one')\nreturn x";
  const std::string result = Rewritten(source);
  EXPECT_EQ(std::count(result.begin(), result.end(), '\n'),
            std::count(source.begin(), source.end(), '\n'));
  ScriptRunner runner;
  EXPECT_EQ(runner.Run(result), ":1\r\n");
  EXPECT_EQ(runner.host.deferred, 2);
}

}  // namespace
}  // namespace dfly
