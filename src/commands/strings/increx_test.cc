// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <string>
#include <string_view>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

using testing::ElementsAre;

constexpr std::string_view kMax = "9223372036854775807";
constexpr std::string_view kMin = "-9223372036854775808";

class IncrExTest : public CommandsTest {
 protected:
  static constexpr std::string_view kOverflow = "-ERR increment or decrement would overflow";
  static constexpr std::string_view kInfinite = "-ERR increment would produce NaN or Infinity";
  static constexpr std::string_view kNotFloat = "-ERR value is not a valid float";
};

TEST_P(IncrExTest, CountsAsIncrDoes) {
  EXPECT_EQ(Run("increx k"), "[:1, :1]");
  EXPECT_EQ(Run("increx k"), "[:2, :1]");
  EXPECT_EQ(Run("increx k byint 5"), "[:7, :5]");
  EXPECT_EQ(Run("increx k BYINT -10"), "[:-3, :-10]");
  EXPECT_EQ(Run("increx k byint 0"), "[:-3, :0]");
  EXPECT_EQ(Run("get k"), "\"-3\"");
  Run("set text abc");
  EXPECT_EQ(Run("increx text"), kNotInteger);
  Run("set text 1.5");
  EXPECT_EQ(Run("increx text byint 1"), kNotInteger);
  MakeHash("h");
  EXPECT_EQ(Run("increx h"), kWrongType);
  EXPECT_EQ(Run("increx h byfloat 1"), kWrongType);
}

TEST_P(IncrExTest, AddsDecimalNumbers) {
  Run("set k 1.5");
  EXPECT_EQ(Run("increx k byfloat 0.25"), "[\"1.75\", \"0.25\"]");
  Run("set k 10");
  EXPECT_EQ(Run("increx k byfloat -0.5"), "[\"9.5\", \"-0.5\"]");
  EXPECT_EQ(Run("increx new byfloat 3"), "[\"3\", \"3\"]");
  EXPECT_EQ(Run("increx new"), "[:4, :1]");
  Run("set text abc");
  EXPECT_EQ(Run("increx text byfloat 1"), kNotFloat);
  Run("set text inf");
  EXPECT_EQ(Run("increx text byfloat 1"), kInfinite);
  resp3_ = true;
  EXPECT_EQ(Run("increx new byfloat 0.5"), "[,4.5, ,0.5]");
}

TEST_P(IncrExTest, RefusesWhatIsOutOfBounds) {
  Run("set k 99 ex 100");
  EXPECT_EQ(Run("increx k byint 5 ubound 100 ex 500"), "[:99, :0]");
  EXPECT_EQ(Run("increx k byint -5 lbound 95 persist"), "[:99, :0]");
  EXPECT_EQ(Run("ttl k"), ":100");
  EXPECT_EQ(Run("increx k byint 1 ubound 100 lbound 100"), "[:100, :1]");
  EXPECT_EQ(Run("increx new byint 5 ubound 4"), "[:0, :0]");
  EXPECT_EQ(Run("increx new byfloat 5 ubound 4.5"), "[\"0\", \"0\"]");
  EXPECT_EQ(Run("increx new lbound 5"), "[:0, :0]");
  EXPECT_EQ(Run("exists new"), ":0");
  RunWords({"set", "k", std::string(kMax)});
  EXPECT_EQ(Run("increx k"), "[:" + std::string(kMax) + ", :0]");
  RunWords({"set", "k", std::string(kMin)});
  EXPECT_EQ(Run("increx k byint -1"), "[:" + std::string(kMin) + ", :0]");
}

TEST_P(IncrExTest, SaturateStopsAtTheBound) {
  Run("set k 99");
  EXPECT_EQ(Run("increx k byint 5 ubound 100 saturate ex 50"), "[:100, :1]");
  EXPECT_EQ(Run("ttl k"), ":50");
  EXPECT_EQ(Run("increx k byint -500 saturate lbound 90 ubound 100"), "[:90, :-10]");
  EXPECT_EQ(Run("increx k byint 1 saturate lbound 95"), "[:95, :5]");
  EXPECT_EQ(Run("increx k byint 1 saturate ubound 5"), "[:5, :-90]");
  // It does not matter how far beyond the bound it would be.
  EXPECT_EQ(Run("increx k byint " + std::string(kMax) + " saturate ubound 10"), "[:10, :5]");
  EXPECT_EQ(Run("increx k byint " + std::string(kMin) + " saturate"),
            "[:-9223372036854775798, :" + std::string(kMin) + "]");
  EXPECT_EQ(Run("increx k byint -20 saturate"), "[:" + std::string(kMin) + ", :-10]");
  // What was added would be no such number.
  EXPECT_EQ(Run("increx k lbound 1 saturate"), kOverflow);
  EXPECT_EQ(Run("get k"), "\"" + std::string(kMin) + "\"");
  Run("set k 1.5");
  EXPECT_EQ(Run("increx k byfloat 5 ubound 4.25 saturate"), "[\"4.25\", \"2.75\"]");
  EXPECT_EQ(Run("increx k byfloat -1e4000 lbound -1 saturate"), "[\"-1\", \"-5.25\"]");
  EXPECT_EQ(Run("increx new saturate ubound -3"), "[:-3, :-3]");
}

TEST_P(IncrExTest, LargestDecimalNumbersAreBounds) {
  const std::string large = "1e4932";
  EXPECT_THAT(Run("increx k byfloat " + large), testing::StartsWith("[\"1000000000000000000"));
  const std::string before = Run("get k");
  EXPECT_THAT(Run("increx k byfloat " + large + " ubound inf"), kNotFloat);
  EXPECT_THAT(Run("increx k byfloat inf"), kNotFloat);
  for (int i = 0; i < 20; ++i) Run("increx k byfloat " + large);
  EXPECT_THAT(Run("increx k byfloat " + large), testing::EndsWith(", \"0\"]"));
  EXPECT_THAT(Run("increx k byfloat " + large + " saturate"),
              testing::StartsWith("[\"1189731495357231765"));
  Run("increx low byfloat -1e4932");
  EXPECT_EQ(Run("increx low byfloat 1 lbound 1e4932 saturate"), kInfinite);
}

TEST_P(IncrExTest, DeadlinesAreKeptSetOrRemoved) {
  EXPECT_EQ(Run("increx k ex 100"), "[:1, :1]");
  EXPECT_EQ(Run("ttl k"), ":100");
  EXPECT_EQ(Run("increx k"), "[:2, :1]");
  EXPECT_EQ(Run("ttl k"), ":100");
  EXPECT_EQ(Run("increx k px 5000 enx"), "[:3, :1]");
  EXPECT_EQ(Run("ttl k"), ":100");
  EXPECT_EQ(Run("increx k px 5000"), "[:4, :1]");
  EXPECT_EQ(Run("pttl k"), ":5000");
  EXPECT_EQ(Run("increx k persist"), "[:5, :1]");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("increx k ENX PXAT 1800000000123"), "[:6, :1]");
  EXPECT_EQ(Run("pexpiretime k"), ":1800000000123");
  EXPECT_EQ(Run("increx k byfloat 0.5 exat 1900000000"), "[\"6.5\", \"0.5\"]");
  EXPECT_EQ(Run("pexpiretime k"), ":1900000000000");
  EXPECT_EQ(Run("increx k byfloat 0.5 exat 1"), "[\"7\", \"0.5\"]");
  EXPECT_EQ(Run("exists k"), ":0");
}

TEST_P(IncrExTest, RefusesWhatMakesNoSense) {
  Run("set k 5");
  for (std::string_view rest :
       {"byint", "byfloat", "lbound", "ubound", "ex", "what", "byint 1 byfloat 1", "ex 10 px 10",
        "ex 10 persist", "persist ex 10", "persist enx", "ex 10 enx persist", "keepttl", "nx",
        "get", "ifeq 5"}) {
    EXPECT_EQ(Run("increx k " + std::string(rest)), kSyntaxError) << rest;
  }
  EXPECT_EQ(Run("increx k enx"), "-ERR ENX flag requires an expiration");
  for (std::string_view rest :
       {"byint x", "byint 1.5", "lbound 1.5", "ubound x", "byint 9223372036854775808", "ex x"}) {
    EXPECT_EQ(Run("increx k " + std::string(rest)), kNotInteger) << rest;
  }
  for (std::string_view rest :
       {"byfloat x", "byfloat 1 lbound x", "byfloat 1 ubound nan", "byfloat 1 lbound -inf"}) {
    EXPECT_EQ(Run("increx k " + std::string(rest)), kNotFloat) << rest;
  }
  EXPECT_EQ(Run("increx k lbound 2 ubound 1"), "-ERR LBOUND can't be greater than UBOUND");
  EXPECT_EQ(Run("increx k byfloat 1 lbound 2 ubound 1.5"),
            "-ERR LBOUND can't be greater than UBOUND");
  EXPECT_EQ(Run("increx k ex 0"), "-ERR invalid expire time in 'increx' command");
  EXPECT_EQ(Run("increx"), "-ERR wrong number of arguments for 'increx' command");
  EXPECT_EQ(Run("get k"), "\"5\"");
}

TEST_P(IncrExTest, ItsEffectIsWhatItHasMade) {
  Run("increx k byint 5");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k 5 KEEPTTL"));
  Run("increx k byfloat 0.5 pxat 1800000000123");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k 5.5 KEEPTTL; 0 PEXPIREAT k 1800000000123"));
  Run("increx k byfloat 0.5 persist");
  EXPECT_THAT(Effects(), ElementsAre("0 SET k 6 KEEPTTL; 0 PERSIST k"));
  Run("increx k ubound 3");
  EXPECT_THAT(Effects(), ElementsAre());
}

INSTANTIATE_TEST_SUITE_P(Shards, IncrExTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
