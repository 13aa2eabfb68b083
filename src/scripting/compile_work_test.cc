// SPDX-License-Identifier: Apache-2.0
// Sources that take the compiler long: it gives way, can be killed, and knows what they mean.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "scripting/script_testing.h"

namespace dfly {
namespace {

using helio::Random;
using testing::StartsWith;
using Verdict = ScriptHost::Verdict;

constexpr const char* kKilled = "ERR Script killed by user with SCRIPT KILL... script: ";
// Without what depends on the source, a tick comes after so many bytes.
constexpr size_t kBytesOfTick = 2048;

std::string Repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string RegisterOne(std::string_view name) {
  return fmt::format("redis.register_function('{}', function() return 1 end) ", name);
}

class CompileWorkTest : public testing::Test {
 protected:
  bool Load(std::string_view body) {
    interpreter_.Forget("a");
    host_.ticks = 0;
    return interpreter_.Load("a", body, &error_, &host_);
  }
  bool LoadLibrary(std::string_view body, uint64_t version) {
    host_.ticks = 0;
    return interpreter_.LoadLibrary("l", body, &functions_, &error_, version, &host_);
  }
  void KillAtTick(int tick) {
    host_.ticks_max = tick;
    host_.tick_verdict = Verdict::kKill;
  }
  void GoOn() { host_.tick_verdict = Verdict::kGoOn; }
  int PiecesOf(std::string_view body) { return static_cast<int>(body.size() / kBytesOfTick); }

  FakeHost host_;
  Interpreter interpreter_{256 << 20};
  std::vector<Interpreter::FunctionInfo> functions_;
  std::string error_;
};

TEST_F(CompileWorkTest, AScriptHasTicksAndCanBeKilled) {
  const std::string body = Repeated("a = b + 1\n", 100'000);
  KillAtTick(20);
  EXPECT_FALSE(Load(body));
  EXPECT_EQ(host_.ticks, 20);
  EXPECT_EQ(error_, std::string(kKilled) + "a.");
  EXPECT_FALSE(interpreter_.IsLoaded("a"));
  GoOn();
  EXPECT_TRUE(Load(body)) << error_;
  EXPECT_GE(host_.ticks, PiecesOf(body));
  EXPECT_TRUE(interpreter_.IsLoaded("a"));
}

// What was there before stays as it is.
TEST_F(CompileWorkTest, ALibraryHasTicksAndIsKilledWhole) {
  ASSERT_TRUE(LoadLibrary(RegisterOne("f"), 1));
  EXPECT_EQ(host_.ticks, 0);
  const std::string compiles =
      RegisterOne("f") + RegisterOne("g") + "if false then " + Repeated("a = 1 ", 100'000) + "end";
  const std::string runs = RegisterOne("f") + RegisterOne("g") + "for i = 1, 1e5 do end";
  const std::string runs_for_ever = RegisterOne("g") + "while true do end";
  for (const std::string& body : {compiles, runs, runs_for_ever}) {
    KillAtTick(20);
    EXPECT_FALSE(LoadLibrary(body, 2));
    EXPECT_EQ(host_.ticks, 20);
    EXPECT_THAT(error_, StartsWith(std::string(kKilled) + "l"));
    EXPECT_TRUE(interpreter_.HasFunction("f", 1));
    EXPECT_FALSE(interpreter_.HasFunction("g", 2));
  }
  GoOn();
  EXPECT_FALSE(LoadLibrary(runs_for_ever, 2));
  EXPECT_EQ(error_, "ERR Error registering functions: ERR FUNCTION LOAD timeout");
  for (const std::string& body : {compiles, runs}) {
    EXPECT_TRUE(LoadLibrary(body, 3)) << error_;
    EXPECT_GE(host_.ticks, 90);
    EXPECT_TRUE(interpreter_.HasFunction("f", 3));
    EXPECT_TRUE(interpreter_.HasFunction("g", 3));
  }
}

// With many that Lua cannot tell apart by their hash, one number takes as long as a large piece.
TEST_F(CompileWorkTest, NumbersThatDifferLittleHaveMoreTicks) {
  std::string body = "return {";
  for (int i = 1; i < 20'000; ++i) body += fmt::format("{:.17g},", 1 + i * 0x1p-52);
  EXPECT_TRUE(Load(body + "}")) << error_;
  EXPECT_GE(host_.ticks, 2 * PiecesOf(body));
}

TEST_F(CompileWorkTest, TheEndOfALoopWithManyBreaksHasTicks) {
  constexpr int kBreaks = 20'000;
  const std::string body = "while true do " + Repeated("break ", kBreaks) + "end return 1";
  EXPECT_TRUE(Load(body)) << error_;
  EXPECT_GE(host_.ticks, kBreaks / 4);
  KillAtTick(kBreaks / 4);
  EXPECT_FALSE(Load(body));
  EXPECT_EQ(error_, std::string(kKilled) + "a.");
}

// Lua alone takes hours for each of them.
TEST_F(CompileWorkTest, LongChainsTakeNoMoreThanOtherSources) {
  constexpr size_t kLength = 1'000'000;
  ScriptRunner runner(256 << 20);
  const auto run = [&](const std::string& begin, std::string_view link, const std::string& end) {
    return runner.Run(begin + Repeated(link, kLength) + end);
  };
  const std::string a = "local a, b = 5, false ";
  EXPECT_EQ(run(a + "return ", "a and ", "7"), ":7\r\n");
  EXPECT_EQ(run(a + "return ", "b or ", "7"), ":7\r\n");
  EXPECT_EQ(run(a + "return b and ", "a and ", "7"), "$-1\r\n");
  EXPECT_EQ(run(a + "return a or ", "b or ", "7"), ":5\r\n");
  EXPECT_EQ(run(a + "return ", "b and a or ", "7"), ":7\r\n");
  EXPECT_EQ(run(a + "if ", "a and ", "b then return 1 end return 2"), ":2\r\n");
  EXPECT_EQ(run(a + "if b then ", "elseif b then a = 1 ", "else a = 2 end return a"), ":2\r\n");
  EXPECT_EQ(run(a + "if a then a = 3 ", "elseif b then a = 1 ", "end return a"), ":3\r\n");
}

// A value of an expression, and its text.
struct Expression {
  std::string text;
  int value;
};

constexpr std::array kValues = {"nil", "false", "true", "'x'", "7"};
constexpr int kFalse = 1;
constexpr int kTrue = 2;

bool IsTrue(int value) { return value >= kTrue; }

Expression MakeChain(Random& random, int depth);

Expression MakeTerm(Random& random, int depth) {
  const uint64_t way = depth == 0 ? 0 : random.Uniform(6);
  switch (way) {
    case 1: {
      const Expression term = MakeTerm(random, depth - 1);
      return {"not " + term.text, IsTrue(term.value) ? kFalse : kTrue};
    }
    case 2: {
      const Expression chain = MakeChain(random, depth - 1);
      return {"(" + chain.text + ")", chain.value};
    }
    case 3: {
      const Expression left = MakeChain(random, depth - 1);
      const Expression right = MakeChain(random, depth - 1);
      const bool is_equal = left.value == right.value;
      const bool asks_equal = random.OneIn(2);
      return {fmt::format("(({}) {} ({}))", left.text, asks_equal ? "==" : "~=", right.text),
              is_equal == asks_equal ? kTrue : kFalse};
    }
    case 4: {
      const Expression chain = MakeChain(random, depth - 1);
      return {"same(" + chain.text + ")", chain.value};
    }
    default: {
      const auto value = static_cast<int>(random.Uniform(kValues.size()));
      return {random.OneIn(2) ? kValues[value] : fmt::format("v[{}]", value + 1), value};
    }
  }
}

// Alternatives, each of terms that all have to be true.
Expression MakeChain(Random& random, int depth) {
  Expression chain;
  for (uint64_t i = 0, alternatives = 1 + random.Uniform(4); i < alternatives; ++i) {
    Expression both = MakeTerm(random, depth);
    for (uint64_t n = random.Uniform(4); n > 0; --n) {
      const Expression term = MakeTerm(random, depth);
      both.text += " and " + term.text;
      if (IsTrue(both.value)) both.value = term.value;
    }
    chain.text += (i == 0 ? "" : " or ") + both.text;
    if (i == 0 || !IsTrue(chain.value)) chain.value = both.value;
  }
  return chain;
}

TEST_F(CompileWorkTest, LogicIsThatOfLua) {
  ScriptRunner runner;
  const helio::SeedRange seeds = helio::TestSeeds(2000);
  for (uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
    Random random(seed);
    std::string source =
        "local v = {nil, false, true, 'x', 7} local function same(x) return x end "
        "local function number(x) if x == nil then return 0 elseif x == false then return 1 "
        "elseif x == true then return 2 elseif x == 'x' then return 3 else return 4 end end ";
    const Expression value = MakeChain(random, 3);
    // Which alternative is taken.
    std::string choice = "local taken = 0 ";
    int taken = 0;
    const uint64_t alternatives = 1 + random.Uniform(5);
    for (uint64_t i = 1; i <= alternatives; ++i) {
      const Expression condition = MakeChain(random, 2);
      choice += fmt::format("{} {} then taken = {} ", i == 1 ? "if" : "elseif", condition.text, i);
      if (taken == 0 && IsTrue(condition.value)) taken = static_cast<int>(i);
    }
    const bool has_else = random.OneIn(2);
    if (has_else && taken == 0) taken = 9;
    choice += has_else ? "else taken = 9 end " : "end ";
    const Expression until = MakeChain(random, 2);
    choice += fmt::format(
        "local turns = 0 repeat turns = turns + 1 if turns == 2 then break end "
        "until {} ",
        until.text);
    choice += fmt::format("while {} do turns = turns + 10 break end ", until.text);
    source += choice + fmt::format("local x = {} return {{number(x), number({}), taken, turns}}",
                                   value.text, value.text);
    const int turns = IsTrue(until.value) ? 11 : 2;
    EXPECT_EQ(runner.Run(source), fmt::format("*4\r\n:{}\r\n:{}\r\n:{}\r\n:{}\r\n", value.value,
                                              value.value, taken, turns))
        << source << "\nDFLY_SEED=" << seed;
  }
}

}  // namespace
}  // namespace dfly
