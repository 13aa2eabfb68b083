// SPDX-License-Identifier: Apache-2.0
// MSETEX. MSET and MSETNX: string_test.cc.
#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

using testing::ElementsAre;

class StringPairsTest : public CommandsTest {
 protected:
  static constexpr std::string_view kBadCount = "-ERR invalid numkeys value or out of range";
  static constexpr std::string_view kBadExpire = "-ERR invalid expire time in 'msetex' command";
};

TEST_P(StringPairsTest, MSetExSetsManyKeysAndTheirDeadline) {
  EXPECT_EQ(Run("msetex 4 a 1 b 2 c 3 d 4 ex 100"), ":1");
  EXPECT_EQ(Run("mget a b c d"), "[\"1\", \"2\", \"3\", \"4\"]");
  for (std::string_view key : {"a", "b", "c", "d"}) {
    EXPECT_EQ(Run("ttl " + std::string(key)), ":100");
  }
  EXPECT_EQ(Run("msetex 2 a 5 b 6 keepttl"), ":1");
  EXPECT_EQ(Run("ttl a"), ":100");
  EXPECT_EQ(Run("ttl b"), ":100");
  EXPECT_EQ(Run("msetex 2 a 7 b 8"), ":1");
  EXPECT_EQ(Run("ttl a"), ":-1");
  EXPECT_EQ(Run("ttl b"), ":-1");
  EXPECT_EQ(Run("msetex 2 a 7 c 8 PXAT 1800000000123"), ":1");
  EXPECT_EQ(Run("pexpiretime a"), ":1800000000123");
  EXPECT_EQ(Run("pexpiretime c"), ":1800000000123");
  EXPECT_EQ(Run("msetex 1 a 7 ex 10 ex 20"), ":1");
  EXPECT_EQ(Run("ttl a"), ":20");
}

TEST_P(StringPairsTest, MSetExSetsAllOrNothing) {
  EXPECT_EQ(Run("msetex 3 a 1 b 2 c 3 xx"), ":0");
  EXPECT_EQ(Run("dbsize"), ":0");
  EXPECT_EQ(Run("msetex 3 a 1 b 2 c 3 nx ex 50"), ":1");
  EXPECT_EQ(Run("msetex 3 d 1 e 2 c 4 nx"), ":0");
  EXPECT_EQ(Run("msetex 3 a 7 b 8 d 9 ex 10 xx"), ":0");
  EXPECT_EQ(Run("mget a b c d e"), "[\"1\", \"2\", \"3\", (nil), (nil)]");
  EXPECT_EQ(Run("ttl a"), ":50");
  EXPECT_EQ(Run("msetex 3 a 4 b 5 c 6 XX px 9000 xx"), ":1");
  EXPECT_EQ(Run("mget a b c"), "[\"4\", \"5\", \"6\"]");
  EXPECT_EQ(Run("pttl b"), ":9000");
  MakeHash("h");
  EXPECT_EQ(Run("msetex 2 x 1 h 2 nx"), ":0");
  EXPECT_EQ(Run("msetex 2 a 1 h 2 xx"), ":1");
  EXPECT_EQ(Run("type h"), "+string");
}

TEST_P(StringPairsTest, ADeadlineInThePastDeletes) {
  Run("mset a 1 b 2 c 3");
  EXPECT_EQ(Run("msetex 3 a 1 b 2 d 4 exat 1"), ":1");
  EXPECT_EQ(Run("mget a b c d"), "[(nil), (nil), \"3\", (nil)]");
}

TEST_P(StringPairsTest, MSetExRefusesWhatMakesNoSense) {
  for (std::string_view count : {"0", "-1", "x", "''", "2147483648", "9223372036854775807"}) {
    EXPECT_EQ(Run("msetex " + std::string(count) + " a 1"), kBadCount) << count;
  }
  for (std::string_view rest :
       {"2 a 1", "2 a 1 b", "2147483647 a 1", "1 a 1 b", "1 a 1 nx xx", "1 a 1 ex 10 px 10",
        "1 a 1 get", "1 a 1 ex", "1 a 1 keepttl ex 10", "1 a 1 ex 10 keepttl", "1 a 1 persist",
        "1 a 1 stick", "1 a 1 ifeq 1"}) {
    EXPECT_EQ(Run("msetex " + std::string(rest)), kSyntaxError) << rest;
  }
  for (std::string_view deadline : {"ex 0", "px -1", "pxat 0", "ex 9223372036854775807"}) {
    EXPECT_EQ(Run("msetex 2 a 1 b 2 " + std::string(deadline)), kBadExpire) << deadline;
  }
  EXPECT_EQ(Run("msetex 2 a 1 b 2 ex x"), kNotInteger);
  EXPECT_EQ(Run("msetex 1 a"), "-ERR wrong number of arguments for 'msetex' command");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(StringPairsTest, TheLastStringOfAKeyCounts) {
  const std::string large(100'000, 'x'), larger(100'001, 'y');
  EXPECT_EQ(RunWords({"msetex", "3", "a", large, "b", "1", "a", larger}), ":1");
  EXPECT_EQ(Run("strlen a"), ":100001");
  EXPECT_EQ(RunWords({"msetex", "3", "a", large, "b", "1", "a", larger, "ex", "10"}), ":1");
  EXPECT_EQ(Run("strlen a"), ":100001");
  EXPECT_EQ(RunWords({"msetnx", "c", large, "d", "1", "c", larger}), ":1");
  EXPECT_EQ(Run("strlen c"), ":100001");
}

TEST_P(StringPairsTest, ItsEffectIsASetOfEachKey) {
  Run("msetex 2 {t}a 1 {t}b 2");
  EXPECT_THAT(Effects(), ElementsAre("0 SET {t}a 1; 0 SET {t}b 2"));
  Run("msetex 2 {t}a 3 {t}b 4 keepttl");
  EXPECT_THAT(Effects(), ElementsAre("0 SET {t}a 3 KEEPTTL; 0 SET {t}b 4 KEEPTTL"));
  Run("msetex 1 {t}a 3 pxat 1800000000123");
  EXPECT_THAT(Effects(), ElementsAre("0 SET {t}a 3 PXAT 1800000000123"));
  Run("msetex 2 {t}a 1 {t}c 2 nx");
  EXPECT_THAT(Effects(), ElementsAre());
  Run("msetex 4 a 1 b 2 c 3 d 4");
  EXPECT_EQ(Effects().size(), 1u);  // whatever the number of shards
}

INSTANTIATE_TEST_SUITE_P(Shards, StringPairsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
