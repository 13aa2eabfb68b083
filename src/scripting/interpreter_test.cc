// SPDX-License-Identifier: Apache-2.0
#include "scripting/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "helio/fibers/fiber.h"
#include "scripting/script_testing.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Outcome = Interpreter::Outcome;
using Verdict = ScriptHost::Verdict;

std::string Failure(std::string_view text, int line = 1) {
  return "-" + std::string(text) + " script: " + std::string(ScriptRunner::kSha) +
         ", on @user_script:" + std::to_string(line) + ".\r\n";
}

std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

class InterpreterTest : public testing::Test {
 protected:
  std::string Run(std::string_view source) { return runner_.Run(source); }

  ScriptRunner runner_;
};

TEST_F(InterpreterTest, ValuesBecomeReplies) {
  EXPECT_EQ(Run("return 1"), ":1\r\n");
  EXPECT_EQ(Run("return 3.99"), ":3\r\n");
  EXPECT_EQ(Run("return -3.99"), ":-3\r\n");
  EXPECT_EQ(Run("return math.huge"), ":-9223372036854775808\r\n");
  EXPECT_EQ(Run("return 'abc'"), Bulk("abc"));
  EXPECT_EQ(Run("return true"), ":1\r\n");
  EXPECT_EQ(Run("return false"), "$-1\r\n");
  EXPECT_EQ(Run(""), "$-1\r\n");
  EXPECT_EQ(Run("return function() end"), "$-1\r\n");
  EXPECT_EQ(Run("return {1, 'a', {2, {}}, nil, 3}"), "*3\r\n:1\r\n$1\r\na\r\n*2\r\n:2\r\n*0\r\n");
  EXPECT_EQ(Run("return {ok = 'FINE'}"), "+FINE\r\n");
  EXPECT_EQ(Run("return {err = 'BAD thing'}"), "-BAD thing\r\n");
  EXPECT_EQ(Run("return {ok = 1}"), "*0\r\n");
  EXPECT_EQ(Run("return {double = 1.5}"), Bulk("1.5"));
  EXPECT_EQ(Run("return {map = {a = 1}}"), "*2\r\n$1\r\na\r\n:1\r\n");
  EXPECT_EQ(Run("return {set = {a = true}}"), "*1\r\n$1\r\na\r\n");
  EXPECT_EQ(Run("return {big_number = '12\\r\\n3'}"), Bulk("12  3"));
  EXPECT_EQ(Run("return {verbatim_string = {format = 'txt', string = 'x'}}"), Bulk("x"));
}

TEST_F(InterpreterTest, ValuesBecomeRepliesOfResp3) {
  runner_.resp3 = true;
  EXPECT_EQ(Run("return true"), ":1\r\n");
  EXPECT_EQ(Run("return false"), "_\r\n");
  EXPECT_EQ(Run("redis.setresp(3) return {true, false}"), "*2\r\n#t\r\n#f\r\n");
  EXPECT_EQ(Run("return {double = 3}"), ",3\r\n");
  EXPECT_EQ(Run("return {map = {a = {1, {set = {}}}}}"), "%1\r\n$1\r\na\r\n*2\r\n:1\r\n~0\r\n");
  EXPECT_EQ(Run("return {big_number = '123'}"), "(123\r\n");
  EXPECT_EQ(Run("return {verbatim_string = {format = 'tx', string = 'x'}}"), "=5\r\ntx :x\r\n");
}

TEST_F(InterpreterTest, ATableThatContainsItselfEndsWithAnError) {
  EXPECT_THAT(Run("local t = {} t[1] = t return t"), HasSubstr("-ERR reached lua stack limit\r\n"));
  EXPECT_THAT(Run("local t = {map = {}} t.map[1] = t return t"),
              HasSubstr("-ERR reached lua stack limit\r\n"));
  EXPECT_EQ(Run("return 1"), ":1\r\n");
}

TEST_F(InterpreterTest, RepliesBecomeValues) {
  EXPECT_EQ(Run("return redis.call('ping').ok"), Bulk("PONG"));
  EXPECT_EQ(Run("return redis.call('one') + 1"), ":2\r\n");
  EXPECT_EQ(Run("return redis.call('null') == false"), ":1\r\n");
  EXPECT_EQ(Run("return redis.call('nullarray') == false"), ":1\r\n");
  EXPECT_EQ(Run("return redis.call('array', 'a', 2)"), "*2\r\n$1\r\na\r\n$1\r\n2\r\n");
  EXPECT_EQ(Run("return #redis.call('map')"), ":4\r\n");
  EXPECT_EQ(Run("return redis.call('map')[2]"), "*2\r\n:1\r\n$-1\r\n");
  EXPECT_EQ(Run("return #redis.call('set')"), ":2\r\n");
  EXPECT_EQ(Run("return redis.call('double') .. '!'"), Bulk("3.25!"));
  EXPECT_EQ(Run("return redis.call('bool')"), ":1\r\n");
  EXPECT_EQ(Run("return redis.call('attribute')"), Bulk("value"));
  EXPECT_EQ(Run("return type(redis.call('nested'))"), Bulk("table"));
}

TEST_F(InterpreterTest, RepliesBecomeValuesOfResp3) {
  const auto text = [this](std::string_view source) {
    return Run("redis.setresp(3) return tostring(" + std::string(source) + ")");
  };
  EXPECT_EQ(text("redis.call('null')"), Bulk("nil"));
  EXPECT_EQ(text("redis.call('bool')"), Bulk("true"));
  EXPECT_EQ(text("redis.call('double').double"), Bulk("3.25"));
  EXPECT_EQ(text("redis.call('map').map.a[1]"), Bulk("1"));
  EXPECT_EQ(text("redis.call('map').map.b.set.x"), Bulk("true"));
  EXPECT_EQ(text("redis.call('set').set.y"), Bulk("true"));
  EXPECT_EQ(text("redis.call('big').big_number"), Bulk("123456789012345678901234567890"));
  EXPECT_EQ(text("redis.call('verbatim').verbatim_string.format"), Bulk("txt"));
  EXPECT_EQ(text("redis.call('attribute')"), Bulk("value"));
  EXPECT_EQ(text("redis.setresp(2) or redis.call('null')"), Bulk("false"));
}

TEST_F(InterpreterTest, NumbersReachACommandAsRedisWritesThem) {
  Run("redis.call('x', 1, -5, 3.0, 0.1, 1e20, 2^53, 1/0, -0.0, '007')");
  EXPECT_THAT(runner_.host.calls.back(),
              ElementsAre("x", "1", "-5", "3", "0.10000000000000001", "1e+20", "9007199254740992",
                          "inf", "-0", "007"));
  EXPECT_EQ(Run("redis.call('x', {})"),
            Failure("ERR Lua redis lib command arguments must be strings or integers"));
  EXPECT_EQ(Run("redis.call()"),
            Failure("ERR Please specify at least one argument for this redis lib call"));
}

TEST_F(InterpreterTest, ErrorsOfCommandsCanBeCaught) {
  EXPECT_EQ(Run("\nredis.call('wrong')"),
            Failure("WRONGTYPE Operation against a key holding the wrong kind of value", 2));
  EXPECT_EQ(Run("return redis.pcall('wrong')"),
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
  EXPECT_THAT(Run("return redis.pcall('wrong').err"), HasSubstr("WRONGTYPE"));
  EXPECT_THAT(Run("return select(2, pcall(redis.call, 'wrong'))"), StartsWith("$65\r\nWRONGTYPE"));
  EXPECT_EQ(Run("return redis.error_reply('My Err')"), "-My Err\r\n");
  EXPECT_EQ(Run("return redis.error_reply('Single')"), "-ERR Single\r\n");
  EXPECT_EQ(Run("error({err = 'CODE text'})"), Failure("CODE text"));
  EXPECT_EQ(Run("error({})"), Failure("ERR unknown error"));
  EXPECT_EQ(Run("local function f()\n error('deep')\nend\nf()"),
            Failure("ERR user_script:2: deep", 2));
}

TEST_F(InterpreterTest, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(Run("local x\nx = = 1"),
              StartsWith("-ERR Error compiling script (new function): user_script:2: "));
  EXPECT_THAT(Run("#!lua flags=no-writes\nx = = 1"),
              StartsWith("-ERR Error compiling script (new function): user_script:2: "));
}

TEST_F(InterpreterTest, ErrorsOfLuaAreWordedAsIn51) {
  EXPECT_EQ(Run("local x x.y = 1"),
            Failure("ERR user_script:1: attempt to index local 'x' (a nil value)"));
  EXPECT_EQ(Run("redis.nothing()"),
            Failure("ERR user_script:1: attempt to call field 'nothing' (a nil value)"));
  EXPECT_EQ(Run("('x'):bad()"),
            Failure("ERR user_script:1: attempt to call method 'bad' (a nil value)"));
  EXPECT_EQ(Run("local t = {} return t.a + 1"),
            Failure("ERR user_script:1: attempt to perform arithmetic on field 'a' (a nil value)"));
  EXPECT_EQ(Run("return ARGV[1] .. 'x'"),
            Failure("ERR user_script:1: attempt to concatenate field '?' (a nil value)"));
  EXPECT_EQ(Run("return 'a' + 1"),
            Failure("ERR user_script:1: attempt to perform arithmetic on a string value"));
  EXPECT_EQ(Run("for k in pairs(nil) do end"),
            Failure("ERR user_script:1: bad argument #1 to 'pairs' (table expected, got nil)"));
  EXPECT_EQ(Run("for k in ipairs(nil) do end"),
            Failure("ERR user_script:1: bad argument #1 to 'ipairs' (table expected, got nil)"));
  EXPECT_EQ(Run("return nil .. 'x'"),
            Failure("ERR user_script:1: attempt to concatenate a nil value"));
  EXPECT_EQ(Run("local x return select(2, pcall(function() x() end))"),
            Bulk("user_script:1: attempt to call upvalue 'x' (a nil value)"));
  EXPECT_EQ(Run("return (string.gsub('a.b', '%.', '%-'))"), Bulk("a-b"));
}

TEST_F(InterpreterTest, KeysAndArgumentsAreTablesOfThisRunOnly) {
  EXPECT_EQ(runner_.Run("return {#KEYS, KEYS[1], ARGV[2]}", {"k"}, {"a", "b"}),
            "*3\r\n:1\r\n$1\r\nk\r\n$1\r\nb\r\n");
  EXPECT_EQ(Run("KEYS[1] = 'x' return KEYS"), "*1\r\n$1\r\nx\r\n");
  EXPECT_EQ(Run("return {#KEYS, #ARGV}"), "*2\r\n:0\r\n:0\r\n");
}

// Whatever a script does to KEYS and ARGV, the next one has its own items in them, and no others.
TEST_F(InterpreterTest, NothingIsLeftInTheArraysOfTheScriptBefore) {
  const std::string_view kChanges[] = {
      "return 1",
      "return #KEYS",
      "KEYS[#KEYS + 1] = 'more'",
      "table.insert(KEYS, 'more') table.insert(KEYS, 1, 'first')",
      "KEYS[#KEYS + 3] = 'far'",
      "for i = 1, 100 do KEYS[i] = 'x' end",
      "for i = #KEYS, 1, -1 do KEYS[i] = nil end",
      "for i = 1, #KEYS, 2 do KEYS[i] = nil end return #KEYS",
      "KEYS[0] = 'zero'",
      "KEYS.name = 'x'",
      "KEYS.name = 'x' KEYS.name = nil",
      "setmetatable(KEYS, {__index = function() return 'meta' end, __len = function() return 9 "
      "end})",
      "setmetatable({}, KEYS)",
      "KEYS[1] = KEYS",
      "KEYS.x = 1 error('wrong')",
      "local co = coroutine.wrap(function(t) coroutine.yield() t[1] = 'late' end) co(KEYS)",
  };
  // ARGV, of which nothing is changed, tells what KEYS has to be.
  const std::string_view kLook =
      "local count = 0 for k, v in pairs(KEYS) do count = count + 1 end "
      "return {#KEYS, count, tostring(getmetatable(KEYS)), tostring(KEYS[0]), tostring(KEYS.name), "
      "tostring(KEYS[#KEYS + 1]), unpack(KEYS)}";
  const std::vector<std::string> texts = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
  const std::vector<std::string_view> all(texts.begin(), texts.end());
  const auto first = [&](size_t count) {
    return std::vector<std::string_view>(all.begin(), all.begin() + static_cast<int>(count));
  };
  for (const std::string_view change : kChanges) {
    for (const size_t before : {0, 1, 3, 8, 11}) {
      for (const size_t after : {0, 1, 2, 7, 8, 9, 11}) {
        runner_.Run(change, first(before), first(after));
        std::string expected = "*" + std::to_string(6 + after) + "\r\n:" + std::to_string(after) +
                               "\r\n:" + std::to_string(after) + "\r\n";
        for (int i = 0; i < 4; ++i) expected += Bulk("nil");
        for (std::string_view text : first(after)) expected += Bulk(text);
        ASSERT_EQ(runner_.Run(kLook, first(after), first(before)), expected)
            << change << " " << before << " " << after;
      }
    }
  }
}

TEST_F(InterpreterTest, ArraysOfManyItemsAreNotKeptForFew) {
  const std::vector<std::string_view> many(100'000, "item");
  EXPECT_EQ(runner_.Run("return #KEYS + #ARGV", many, many), ":200000\r\n");
  EXPECT_EQ(runner_.Run("return #KEYS + #ARGV", {"k"}, {}), ":1\r\n");
  EXPECT_EQ(Run("collectgarbage() return 1"), ":1\r\n");
  EXPECT_LT(runner_.interpreter().memory_used(), size_t{1} << 20);
}

TEST_F(InterpreterTest, FloatsPrintAsInLua51) {
  EXPECT_EQ(Run("return tostring(10 / 2)"), Bulk("5"));
  EXPECT_EQ(Run("return 'a' .. 10 / 2"), Bulk("a5"));
  EXPECT_EQ(Run("return table.concat({10 / 2, 1.5}, ' ')"), Bulk("5 1.5"));
  EXPECT_EQ(Run("return string.format('%s %d %d %u', 10 / 2, 3.7, 3.0, 5)"), Bulk("5 3 3 5"));
  EXPECT_EQ(Run("return tostring(-0.0)"), Bulk("-0"));
  EXPECT_EQ(Run("return tostring(0.1 + 0.2 + 2.7) .. ' ' .. 24999999999999.75"),
            Bulk("3 25000000000000"));
  EXPECT_EQ(Run("return tostring(1e14) .. ' ' .. tostring(99999999999999.0)"),
            Bulk("1e+14 99999999999999"));
  EXPECT_EQ(Run("return tostring(1/3) .. ' ' .. 2^53 .. ' ' .. 1/0"),
            Bulk("0.33333333333333 9.007199254741e+15 inf"));
  EXPECT_EQ(Run("return string.rep('x', 2.9)"), Bulk("xx"));
  EXPECT_EQ(Run("return cjson.encode({10 / 2, 1.5, 3})"), Bulk("[5,1.5,3]"));
}

TEST_F(InterpreterTest, FunctionsOfLua51AreThere) {
  EXPECT_EQ(Run("return {unpack({1, 2}), table.getn({1, 2}), table.maxn({1, [7] = 1})}"),
            "*3\r\n:1\r\n:2\r\n:7\r\n");
  EXPECT_EQ(Run("return loadstring('return 5')()"), ":5\r\n");
  EXPECT_EQ(Run("return {math.pow(2, 10), math.mod(7, 4), math.ldexp(1, 4)}"),
            "*3\r\n:1024\r\n:3\r\n:16\r\n");
  EXPECT_EQ(Run("return _VERSION"), Bulk("Lua 5.1"));
  EXPECT_EQ(Run("local t = {1, 2, 3} table.insert(t, 10, 9) return {t[10], table.remove(t, 99)}"),
            "*1\r\n:9\r\n");
}

TEST_F(InterpreterTest, SeedsGiveTheNumbersOfRedisAndEndWithTheScript) {
  const std::string source = "math.randomseed(7.9) return {math.random(10), math.random(5, 90)}";
  const std::string first = Run(source);
  EXPECT_EQ(Run(source), first);
  EXPECT_EQ(Run("math.randomseed(-1) return tostring(math.random())"), Bulk("0.30002572727391"));
  EXPECT_NE(Run("return tostring(math.random())"), Run("return tostring(math.random())"));
}

TEST_F(InterpreterTest, NothingCanBeChangedForTheNextScript) {
  const std::string refused = "-ERR user_script:1: Attempt to modify a readonly table script: ";
  for (const char* source :
       {"x = 1", "_G.x = 1", "redis = 1", "redis.call = nil", "string.sub = nil", "KEYS = 1",
        "getmetatable('').__index = nil", "local g = _G; g.string = nil", "cjson.encode = nil"}) {
    EXPECT_THAT(Run(source), StartsWith(refused)) << source;
  }
  for (const char* source : {"rawset(_G, 'x', 1)", "setmetatable(_G, {})", "rawset(redis, 'x', 1)",
                             "setmetatable(redis, nil)", "table.insert(redis, 1)"}) {
    EXPECT_EQ(Run(source), Failure("ERR Attempt to modify a readonly table")) << source;
  }
  EXPECT_THAT(Run("for k, v in pairs(_G) do if type(v) == 'table' and k ~= 'KEYS' and k ~= 'ARGV' "
                  "then v.sub = 1 end end"),
              StartsWith(refused));
  EXPECT_EQ(Run("return getmetatable(_G) == nil and getmetatable(redis) == nil"), ":1\r\n");
  EXPECT_EQ(Run("return ('abc'):sub(2)"), Bulk("bc"));
}

TEST_F(InterpreterTest, NothingDangerousIsThere) {
  for (const char* name : {"print", "require", "dofile", "loadfile", "io", "debug", "package",
                           "getfenv", "setfenv", "newproxy", "warn", "utf8", "rawlen"}) {
    EXPECT_EQ(
        Run("return " + std::string(name)),
        Failure("ERR user_script:1: Script attempted to access nonexistent global variable '" +
                std::string(name) + "'"));
  }
  EXPECT_EQ(Run("return string.dump"), "$-1\r\n");
  EXPECT_EQ(Run("return {loadstring('\\27Lua')}"), "*0\r\n");
  EXPECT_THAT(Run("return select(2, loadstring('\\27Lua'))"), HasSubstr("binary chunk"));
  EXPECT_EQ(Run("local ran = false setmetatable({}, {__gc = function() ran = true end}) "
                "collectgarbage() collectgarbage() return ran"),
            "$-1\r\n");
}

TEST_F(InterpreterTest, AllocationsBeyondTheLimitAreAnErrorAndTheStateStaysUsable) {
  ScriptRunner small(2 << 20);
  for (const char* source :
       {"local t = {} while true do t[#t + 1] = {} end", "return string.rep('x', 1e9)",
        "local s = 'x' while true do s = s .. s end",
        "return #table.concat({string.rep('x', 1e7)})",
        "local t = {'x'} for i = 1, 15 do local u = {} for j = 1, 9 do u[j] = t end t = u end "
        "return cmsgpack.pack(t)"}) {
    EXPECT_THAT(small.Run(source), HasSubstr("not enough memory")) << source;
    EXPECT_EQ(small.Run("return 1"), ":1\r\n");
  }
  EXPECT_LT(small.interpreter().memory_used(), 2u << 20);
}

TEST_F(InterpreterTest, AReplyMayBeLargerThanTheLimitButThenTheScriptFails) {
  ScriptRunner small(1 << 20);
  small.host.on_call = [](Args, ReplySink& reply) {
    reply.Array(100000);
    for (int i = 0; i < 100000; ++i) reply.Bulk("0123456789");
  };
  EXPECT_THAT(small.Run("local x = redis.call('x') return 1"), HasSubstr("not enough memory"));
  EXPECT_EQ(small.Run("local ok = pcall(redis.call, 'x') return ok"), "$-1\r\n");
  EXPECT_EQ(small.Run("return 1"), ":1\r\n");
}

TEST_F(InterpreterTest, WhatCommandsReplyIsCollectedInTime) {
  runner_.host.on_call = [](Args, ReplySink& reply) {
    reply.Array(100);
    for (int i = 0; i < 100; ++i) reply.Bulk("0123456789");
  };
  Run("for i = 1, 1000 do redis.call('x') end");  // 5 MB in all
  EXPECT_LT(runner_.interpreter().memory_used(), 1u << 20);
  for (int i = 0; i < 20000; ++i) Run("return 1");
  EXPECT_LT(runner_.interpreter().memory_used(), 1u << 20);
}

TEST_F(InterpreterTest, CoroutinesMayYieldOutOfPcall) {
  EXPECT_EQ(Run("local f = coroutine.wrap(function() return pcall(function() "
                "return coroutine.yield(1) + 1 end) end) f() return {f(41)}"),
            "*2\r\n:1\r\n:42\r\n");
}

TEST_F(InterpreterTest, DeferredCallsAreMarked) {
  Run("redis.acall('one') redis.apcall('one') redis.call('one')");
  EXPECT_EQ(runner_.host.deferred, 2);
  // They return nothing, deferred or not, but an error that comes at once.
  const auto results = [this](const char* call) {
    return Run(std::string("return select('#', redis.") + call + "('one', 2))");
  };
  for (const Verdict verdict : {Verdict::kDeferred, Verdict::kGoOn}) {
    runner_.host.verdict = verdict;
    EXPECT_EQ(results("acall"), ":0\r\n");
    EXPECT_EQ(results("apcall"), ":0\r\n");
  }
  EXPECT_EQ(results("call"), ":1\r\n");
  runner_.host.on_call = [](Args, ReplySink& reply) { reply.Error("ERR now"); };
  EXPECT_THAT(Run("redis.acall('one') return 1"), StartsWith("-ERR now script: "));
  EXPECT_EQ(Run("return redis.apcall('one')"), "-ERR now\r\n");
  runner_.host.on_call = nullptr;
  runner_.host.finish_error = "WRONGTYPE later";
  EXPECT_THAT(Run("redis.acall('one') return 1"), StartsWith("-WRONGTYPE later script: "));
  EXPECT_THAT(Run("redis.acall('one') error('x')"), StartsWith("-WRONGTYPE later script: "));
  runner_.host.finish_error.clear();
  runner_.host.finish_verdict = Verdict::kAbandon;
  EXPECT_EQ(Run("return 1"), "");
  EXPECT_EQ(runner_.outcome, Outcome::kAbandoned);
}

TEST_F(InterpreterTest, AclAndLogHaveTheirErrors) {
  EXPECT_EQ(Run("return redis.acl_check_cmd('get')"), ":1\r\n");
  EXPECT_EQ(Run("return redis.acl_check_cmd('forbidden')"), "$-1\r\n");
  EXPECT_EQ(Run("return redis.acl_check_cmd('none')"),
            Failure("ERR Invalid command passed to redis.acl_check_cmd()"));
  EXPECT_EQ(Run("redis.log(9, 'x')"), Failure("ERR Invalid debug level."));
  EXPECT_EQ(Run("redis.log('x', 'x')"),
            Failure("ERR First argument must be a number (log level)."));
  EXPECT_EQ(Run("redis.log(redis.LOG_DEBUG, 'x')"), "$-1\r\n");
  EXPECT_EQ(Run("return redis.sha1hex('')"), Bulk("da39a3ee5e6b4b0d3255bfef95601890afd80709"));
  EXPECT_EQ(Run("return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}"),
            "*2\r\n$6\r\n7.0.15\r\n:458767\r\n");
}

// What a script may try, to outlive its end. Each calls `stop`.
constexpr const char* kStubborn[] = {
    "while true do pcall(stop) end",
    "while true do xpcall(stop, function() stop() end) end",
    "while true do xpcall(stop, function() while true do end end) end",
    "while true do coroutine.resume(coroutine.create(stop)) end",
    "while true do pcall(coroutine.wrap(stop)) end",
    "local function f() while true do pcall(f) pcall(stop) end end f()",
    "while true do load(stop) end",
    "while true do pcall(string.gsub, 'aaa', 'a', stop) end",
    "while true do pcall(table.sort, {3, 2, 1}, stop) end",
    "local t = setmetatable({}, {__index = stop, __tostring = stop, __add = stop}) "
    "while true do pcall(tostring, t) pcall(function() return t.x end) "
    "pcall(function() return t + 1 end) end",
    "local x <close> = setmetatable({}, {__close = function() while true do stop() end end}) "
    "stop()",
    "local x <close> = setmetatable({}, {__close = function() while true do end end}) stop()",
    "local c = coroutine.wrap(function() while true do pcall(stop) coroutine.yield() end end) "
    "while true do pcall(c) end",
};

TEST_F(InterpreterTest, NothingCatchesTheEndOfAScript) {
  for (const char* how :
       {"local function stop() redis.call('x') end ", "local function stop() redis.pcall('x') end ",
        "local function stop() while true do end end "}) {
    for (const char* source : kStubborn) {
      for (const Verdict verdict : {Verdict::kAbandon, Verdict::kKill}) {
        SCOPED_TRACE(how + std::string(source));
        ScriptRunner runner;
        runner.host.verdict = runner.host.tick_verdict = verdict;
        runner.host.ticks_max = 3;
        const std::string reply = runner.Run(how + std::string(source));
        if (verdict == Verdict::kAbandon) {
          EXPECT_EQ(reply, "");
          EXPECT_EQ(runner.outcome, Outcome::kAbandoned);
        } else {
          EXPECT_EQ(reply, Failure("ERR Script killed by user with SCRIPT KILL..."));
        }
        EXPECT_LE(runner.host.calls.size(), 1u);
        runner.host.verdict = runner.host.tick_verdict = Verdict::kGoOn;
        EXPECT_EQ(runner.Run("return 1"), ":1\r\n");
      }
    }
  }
}

TEST_F(InterpreterTest, TicksComeInLoopsRecursionAndCoroutines) {
  for (const char* source :
       {"for i = 1, 1e5 do end", "local i = 0 while i < 1e5 do i = i + 1 end",
        "local i = 0 repeat i = i + 1 until i > 1e5",
        "local function f(n) if n > 1 then return f(n - 1) end end f(1e5)",
        "local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end fib(20)",
        "coroutine.wrap(function() for i = 1, 1e5 do end end)()",
        "for k in string.gmatch(string.rep('a', 1e4), 'a') do end",
        "table.sort((function() local t = {} for i = 1, 1e4 do t[i] = i % 7 end return t end)(), "
        "function(a, b) return a < b end)"}) {
    runner_.host.ticks = 0;
    runner_.host.ticks_max = INT32_MAX;
    EXPECT_EQ(Run(source), "$-1\r\n");
    EXPECT_GT(runner_.host.ticks, 5) << source;
  }
}

TEST_F(InterpreterTest, WhatNeverEndsCanBeKilled) {
  for (const char* source :
       {"local function f() return f() end f()", "local function f(...) return f(...) end f(1, 2)",
        "local function f(g) return g(f) end f(f)",
        "local f = setmetatable({}, {__call = function(t) return t() end}) f()",
        "coroutine.wrap(function() local function f() return f() end f() end)()",
        "local function f() end while true do f() end", "::top:: goto top"}) {
    ScriptRunner runner;
    runner.host.ticks_max = 3;
    runner.host.tick_verdict = Verdict::kKill;
    EXPECT_EQ(runner.Run(source), Failure("ERR Script killed by user with SCRIPT KILL..."))
        << source;
    EXPECT_EQ(runner.host.ticks, 3) << source;
    runner.host.ticks_max = INT32_MAX;
    EXPECT_EQ(runner.Run("for i = 1, 1e4 do end return 1"), ":1\r\n");
  }
}

TEST_F(InterpreterTest, ScriptsGiveWayInsideOfCallsAndTicks) {
  helio::Scheduler scheduler;
  std::string order;
  std::vector<helio::Fiber> fibers;
  for (const char name : {'a', 'b'}) {
    fibers.emplace_back(
        helio::FiberOptions{.name = "script", .stack_size = 256 << 10}, [&order, name] {
          ScriptRunner runner;
          runner.host.on_call = [&order, name](Args, ReplySink& reply) {
            order += name;
            helio::this_fiber::Yield();
            reply.Integer(1);
          };
          EXPECT_EQ(runner.Run("return pcall(function() for i = 1, 3 do redis.call('x') end end)"),
                    ":1\r\n");
        });
  }
  scheduler.RunUntilDone();
  for (helio::Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(order, "ababab");
}

// Each goes as deep as it can. Without their limit these overwrite the stack's guard page.
constexpr const char* kDeep[] = {
    "local function f() return (string.gsub('a', 'a', f)) end return f()",
    "local function f() return pcall(f) end return f()",
    "local function f() return xpcall(f, f) end return f()",
    "local function f() table.sort({3, 2, 1}, f) end f()",
    "local t = setmetatable({}, {}) getmetatable(t).__tostring = tostring return tostring(t)",
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end "
    "return t.x",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local function f() return coroutine.resume(coroutine.create(f)) end return f()",
    "return loadstring('return ' .. string.rep('(', 1e4) .. string.rep(')', 1e4))",
    "return loadstring('return ' .. string.rep('{', 1e4) .. string.rep('}', 1e4))",
    "return loadstring(string.rep('do ', 1e4))",
    "local function f() return load(f) end return f()",
    "local j = string.rep('{\"a\":', 1000) .. 1 .. string.rep('}', 1000) local depth = 0 "
    "local function f() local d = cjson.decode(j) cjson.encode(d) depth = depth + 1 "
    "return (string.gsub('a', 'a', f)) end return f()",
    "local m = string.rep('\\145', 1000) .. '\\1' local function f() cmsgpack.unpack(m) "
    "return (string.gsub('a', 'a', f)) end return f()",
    "local function f() string.match(string.rep('a', 300), string.rep('a?', 190)) "
    "return (string.gsub('a', 'a', f)) end return f()",
    "local function f() redis.log(0, string.format('%99.99f', 1e300)) return redis.call('nested') "
    "and (string.gsub('a', 'a', f)) end return f()",
    "local function f(n) local x <close> = setmetatable({}, {__close = f}) end f()",
    "local t = {} for i = 1, 1e5 do t = {t} end collectgarbage() return t",
    "local function f(n) return 1 + f(n) end return f(1)",
    "return redis.call('nested')",
};

TEST_F(InterpreterTest, NoScriptOverflowsAFibersStack) {
  // A sanitizer's frames are larger: those of the logging above all.
#ifdef DFLY_SANITIZED
  constexpr size_t kStackSize = 512 << 10;
#else
  constexpr size_t kStackSize = Interpreter::kStackBytes + (40 << 10);
#endif
  for (const char* source : kDeep) {
    SCOPED_TRACE(source);
    helio::Scheduler scheduler;
    helio::Fiber fiber(helio::FiberOptions{.name = "script", .stack_size = kStackSize}, [source] {
      ScriptRunner runner;
      EXPECT_NE(runner.Run(source), "");
      EXPECT_EQ(runner.Run("return 1"), ":1\r\n");
    });
    scheduler.RunUntilDone();
    fiber.Join();
  }
}

TEST_F(InterpreterTest, ScriptsAreForgotten) {
  Interpreter interpreter(1 << 20);
  std::string error;
  EXPECT_TRUE(interpreter.Load("a", "return 1", &error));
  EXPECT_TRUE(interpreter.IsLoaded("a"));
  EXPECT_FALSE(interpreter.Load("b", "return return", &error));
  EXPECT_FALSE(interpreter.IsLoaded("b"));
  interpreter.Forget("a");
  EXPECT_FALSE(interpreter.IsLoaded("a"));
  interpreter.Forget("a");
  const size_t before = interpreter.memory_used();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(interpreter.Load("a", "return 1" + std::string(1000, ' ') + "-- x", &error));
    interpreter.Forget("a");
  }
  for (int cycles = 0; cycles < 2; cycles += interpreter.CollectStep()) continue;
  EXPECT_LE(interpreter.memory_used(), before + 1000);
  EXPECT_TRUE(interpreter.Load("a", "return 1", &error));
  interpreter.ForgetAll();
  EXPECT_FALSE(interpreter.IsLoaded("a"));
}

class FunctionTest : public InterpreterTest {
 protected:
  // The error, or nothing.
  std::string LoadCode(std::string_view name, std::string_view body) {
    std::string error;
    const bool loaded = runner_.interpreter().LoadLibrary(name, body, &functions_, &error);
    EXPECT_EQ(loaded, error.empty());
    return error;
  }

  std::vector<Interpreter::FunctionInfo> functions_;
};

TEST_F(FunctionTest, ALibraryRegistersFunctions) {
  EXPECT_EQ(LoadCode("lib",
                     "\nlocal function add(keys, args) return {#keys, keys[1], args[1] + 1} end\n"
                     "redis.register_function('add', add)\n"
                     "redis.register_function{function_name = 'ro', callback = function() return "
                     "redis.call('ping') end, flags = {'no-writes', 'allow-stale'}, "
                     "description = 'reads'}"),
            "");
  ASSERT_EQ(functions_.size(), 2u);
  EXPECT_EQ(functions_[0].name, "add");
  EXPECT_FALSE(functions_[0].has_description);
  EXPECT_EQ(functions_[1].flags, kNoWrites | kAllowStale);
  EXPECT_EQ(functions_[1].description, "reads");
  EXPECT_EQ(runner_.CallFunction("add", {"k"}, {"41"}), "*3\r\n:1\r\n$1\r\nk\r\n:42\r\n");
  EXPECT_EQ(runner_.CallFunction("ro"), "+PONG\r\n");
  runner_.interpreter().DeleteLibrary("lib");
  EXPECT_FALSE(runner_.interpreter().HasFunction("add"));
}

TEST_F(FunctionTest, AFailedReplacementKeepsTheOldLibrary) {
  EXPECT_EQ(LoadCode("lib", "redis.register_function('f', function() return 1 end)"), "");
  EXPECT_EQ(LoadCode("lib", "redis.register_function('f', function() return 2 end) oops()"),
            "ERR Error registering functions: ERR user_function:1: Script attempted to access "
            "nonexistent global variable 'oops'");
  EXPECT_EQ(runner_.CallFunction("f"), ":1\r\n");
  EXPECT_EQ(LoadCode("lib", "redis.register_function('g', function() return 2 end)"), "");
  EXPECT_FALSE(runner_.interpreter().HasFunction("f"));
  EXPECT_EQ(runner_.CallFunction("g"), ":2\r\n");
}

TEST_F(FunctionTest, ErrorsOfLoadingAreRedis) {
  const std::string prefix = "ERR Error registering functions: ";
  EXPECT_EQ(LoadCode("x", "return 1"), "ERR No functions registered");
  EXPECT_EQ(LoadCode("x", "\nlocal x = x y"),
            "ERR Error compiling function: user_function:2: syntax error near '<eof>'");
  EXPECT_EQ(LoadCode("x", "x = 1"),
            prefix + "ERR user_function:1: Attempt to modify a readonly table");
  EXPECT_EQ(LoadCode("x", "redis.call('get')"),
            prefix +
                "ERR user_function:1: Script attempted to access nonexistent global variable "
                "'call'");
  EXPECT_EQ(LoadCode("x", "math.random()"),
            prefix +
                "ERR user_function:1: Script attempted to access nonexistent global variable "
                "'math'");
  EXPECT_EQ(LoadCode("x", "while true do end"), prefix + "ERR FUNCTION LOAD timeout");
  for (std::string_view name : {"a b", "a\\0b"}) {
    EXPECT_EQ(
        LoadCode("x", "redis.register_function('" + std::string(name) + "', function() end)"),
        prefix +
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at "
            "least one character long");
  }
  EXPECT_EQ(LoadCode("x", "redis.register_function('a', 1)"),
            prefix + "ERR second argument to redis.register_function must be a function");
  EXPECT_EQ(LoadCode("x",
                     "redis.register_function{function_name = 'a', callback = function() end, "
                     "flags = {'bad'}}"),
            prefix + "ERR unknown flag given");
  EXPECT_EQ(LoadCode("x",
                     "local f = function() end redis.register_function('a', f) "
                     "redis.register_function('a', f)"),
            prefix + "ERR Function already exists in the library");
}

TEST_F(FunctionTest, FunctionsSeeTheLibrariesButNoKeys) {
  Run("return 1");
  EXPECT_EQ(LoadCode("x",
                     "local r = redis\n"
                     "redis.register_function('f', function() return KEYS end)\n"
                     "redis.register_function('g', function() return cjson.encode({1}) end)\n"
                     "redis.register_function('h', function() redis.x = 1 end)\n"
                     "redis.register_function('i', function() y = 1 end)\n"
                     "redis.register_function('j', function() return r.call('ping') end)"),
            "");
  EXPECT_EQ(runner_.CallFunction("f"),
            "-ERR user_function:2: Script attempted to access nonexistent global variable 'KEYS' "
            "script: f, on @user_function:2.\r\n");
  EXPECT_EQ(runner_.CallFunction("g"), Bulk("[1]"));
  EXPECT_THAT(runner_.CallFunction("h"), HasSubstr("Attempt to modify a readonly table"));
  EXPECT_THAT(runner_.CallFunction("i"), HasSubstr("Attempt to modify a readonly table"));
  EXPECT_EQ(runner_.CallFunction("j"), "+PONG\r\n");
  EXPECT_EQ(runner_.Run("return KEYS[1]", {"k"}), Bulk("k")) << "scripts have them as before";
}

}  // namespace
}  // namespace dfly
