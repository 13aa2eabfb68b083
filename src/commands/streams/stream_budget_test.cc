// SPDX-License-Identifier: Apache-2.0
// MAXCOUNT and MAXSIZE of XREAD and XREADGROUP.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/ascii.h"

namespace dfly {
namespace {

// An entry "i-0 f v" has 31 bytes in RESP, and 15 more stand before the entries of a key of one
// letter.
class StreamBudgetTest : public CommandsTest {
 protected:
  // Entries 1-0 to 5-0 in each of three streams, which are in several shards if there are some, and
  // a group that has read none of them.
  void SetUp() override {
    for (const std::string key : {"a", "b", "c"}) {
      for (int i = 1; i <= 5; ++i) Run("xadd " + key + " " + std::to_string(i) + "-0 f v");
      EXPECT_EQ(Run("xgroup create " + key + " g 0"), "+OK");
    }
  }

  // "a:3 b:2": how many entries of which keys a reply has; or what it is instead.
  std::string Counts(std::string_view line) {
    std::vector<std::string> words;
    for (std::string_view word : helio::SplitWords(line)) words.emplace_back(word);
    const RespValue reply = Call(words);
    std::string counts;
    for (const RespValue& of_key : reply.items) {
      if (!counts.empty()) counts += ' ';
      counts += of_key.items[0].text + ":" + std::to_string(of_key.items[1].items.size());
    }
    return counts.empty() ? reply.ToString() : counts;
  }
};

TEST_P(StreamBudgetTest, CountsEntriesOfAllStreams) {
  EXPECT_EQ(Counts("xread streams a b c 0 0 0"), "a:5 b:5 c:5");
  EXPECT_EQ(Counts("xread maxcount 15 streams a b c 0 0 0"), "a:5 b:5 c:5");
  EXPECT_EQ(Counts("xread maxcount 14 streams a b c 0 0 0"), "a:5 b:5 c:4");
  EXPECT_EQ(Counts("xread maxcount 6 streams a b c 0 0 0"), "a:5 b:1");
  EXPECT_EQ(Counts("xread maxcount 5 streams a b c 0 0 0"), "a:5");
  EXPECT_EQ(Counts("xread maxcount 1 streams c b a 0 0 0"), "c:1");
  EXPECT_EQ(Counts("xread count 2 maxcount 5 streams a b c 0 0 0"), "a:2 b:2 c:1");
  EXPECT_EQ(Counts("xread maxcount 2 count 2 streams a b c 0 0 0"), "a:2");
  EXPECT_EQ(Counts("xread maxcount 3 streams a b c 4 4 4"), "a:1 b:1 c:1");
  EXPECT_EQ(Counts("xread maxcount 3 streams a b none c 5 4 0 0"), "b:1 c:2");
  EXPECT_EQ(Counts("xread maxcount 3 streams a a 4 0"), "a:1 a:2");
  EXPECT_EQ(Counts("xread maxcount 1 streams a b + +"), "a:1");
  EXPECT_EQ(Counts("xread maxcount 9223372036854775807 streams a b 0 0"), "a:5 b:5");
  EXPECT_EQ(Counts("xread maxcount 3 streams a b 5 5"), "(nil)");
  resp3_ = true;
  EXPECT_EQ(Run("xread maxcount 2 streams a b 4 0"),
            R"({"a": [["5-0", ["f", "v"]]], "b": [["1-0", ["f", "v"]]]})");
}

TEST_P(StreamBudgetTest, CountsBytesOfTheReply) {
  EXPECT_EQ(Counts("xread maxsize 1 streams a b c 0 0 0"), "a:1");  // always one
  EXPECT_EQ(Counts("xread maxsize 76 streams a b c 0 0 0"), "a:1");
  EXPECT_EQ(Counts("xread maxsize 77 streams a b c 0 0 0"), "a:2");
  EXPECT_EQ(Counts("xread maxsize 170 streams a b c 0 0 0"), "a:5");
  EXPECT_EQ(Counts("xread maxsize 215 streams a b c 0 0 0"), "a:5");
  EXPECT_EQ(Counts("xread maxsize 216 streams a b c 0 0 0"), "a:5 b:1");
  EXPECT_EQ(Counts("xread maxsize 9223372036854775807 streams a b c 0 0 0"), "a:5 b:5 c:5");
  EXPECT_EQ(Counts("xread maxsize 77 maxcount 1 streams a b 0 0"), "a:1");
  EXPECT_EQ(Counts("xread maxsize 77 maxcount 9 streams a b 0 0"), "a:2");
  EXPECT_EQ(Counts("xread maxsize 9 streams a b 5 0"), "b:1");
  EXPECT_EQ(Counts("xread maxsize 9 streams a b 5 5"), "(nil)");
  // What does not fit ends the reply, also if something behind it would fit.
  Run("xadd big 1-0 f " + std::string(500, 'x'));
  EXPECT_EQ(Counts("xread maxsize 300 streams a big b 3 0 3"), "a:2");
  EXPECT_EQ(Counts("xread maxsize 300 streams big a 0 0"), "big:1");
  // Names that are in front of their node, and numbers.
  Run("xadd n 1-0 number -12345 f 1");
  Run("xadd n 2-0 number 6 f 1");
  EXPECT_EQ(Counts("xread maxsize 119 streams n 0"), "n:1");
  EXPECT_EQ(Counts("xread maxsize 120 streams n 0"), "n:2");
}

TEST_P(StreamBudgetTest, WhatAGroupDoesNotGetIsNotPending) {
  EXPECT_EQ(Counts("xreadgroup group g one maxcount 7 streams a b c > > >"), "a:5 b:2");
  EXPECT_EQ(Run("xpending a g"), "[:5, \"1-0\", \"5-0\", [[\"one\", \"5\"]]]");
  EXPECT_EQ(Run("xpending b g"), "[:2, \"1-0\", \"2-0\", [[\"one\", \"2\"]]]");
  EXPECT_EQ(Run("xpending c g"), "[:0, (nil), (nil), (nil)]");
  EXPECT_EQ(Run("xinfo consumers c g"), "[]");  // not even looked at
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 77 streams a b c > > >"), "b:2");
  EXPECT_EQ(Counts("xreadgroup group g two noack count 1 maxcount 1 streams a b c > > >"), "b:1");
  EXPECT_EQ(Counts("xreadgroup group g two maxcount 9 streams a b c > > >"), "c:5");
  EXPECT_EQ(Run("xpending b g"), "[:4, \"1-0\", \"4-0\", [[\"one\", \"4\"]]]");
}

TEST_P(StreamBudgetTest, TheHistoryOfAConsumerCountsToo) {
  Run("xreadgroup group g one count 3 streams a b c > > >");
  EXPECT_EQ(Counts("xreadgroup group g one maxcount 4 streams a b c 0 0 0"), "a:3 b:1");
  // Only what was given is delivered once more.
  EXPECT_EQ(Run("xpending b g - + 9"), R"([["1-0", "one", :0, :2], ["2-0", "one", :0, :1], )"
                                       R"(["3-0", "one", :0, :1]])");
  EXPECT_EQ(Run("xpending c g - + 1"), R"([["1-0", "one", :0, :1]])");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 77 streams a b c 0 0 0"), "a:2");
  // No stream looks as if all of it was acknowledged.
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 108 streams a b c 0 0 0"), "a:3");
  EXPECT_EQ(Counts("xreadgroup group g one maxcount 4 streams a b c 3 0 0"), "a:0 b:3 c:1");
  EXPECT_EQ(Counts("xreadgroup group g one maxcount 4 streams a b c 0 > 0"), "a:3 b:1");
  // What has gone from the stream has a size, too: 15 + 18, and 18.
  Run("xdel a 1-0 2-0");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 50 streams a 0"), "a:1");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 51 streams a 0"), "a:2");
  EXPECT_EQ(Counts("xreadgroup group g one maxcount 2 streams a b 0 0"), "a:2");
}

TEST_P(StreamBudgetTest, WhatIsClaimedCountsToo) {
  Run("xreadgroup group g one count 3 streams a b > >");
  now_ms_ += 100;
  EXPECT_EQ(Counts("xreadgroup group g two maxcount 4 claim 100 streams a b > >"), "a:4");
  EXPECT_EQ(Run("xpending a g"), R"([:4, "1-0", "4-0", [["two", "4"]]])");
  EXPECT_EQ(Run("xpending b g"), R"([:3, "1-0", "3-0", [["one", "3"]]])");
  // With CLAIM an entry has two numbers more: 6 + 4 bytes for ":100" and ":1", 8 for ":0" twice.
  EXPECT_EQ(Counts("xreadgroup group g two maxsize 96 claim 100 streams b a > >"), "b:1");
  EXPECT_EQ(Run("xpending b g"), R"([:3, "1-0", "3-0", [["one", "2"], ["two", "1"]]])");
  EXPECT_EQ(Counts("xreadgroup group g two maxsize 97 claim 100 streams b a > >"), "b:2");
  EXPECT_EQ(Run("xpending b g"), R"([:3, "1-0", "3-0", [["two", "3"]]])");
  EXPECT_EQ(Counts("xreadgroup group g two maxsize 93 claim 100 streams b a > >"), "b:2");
  EXPECT_EQ(Run("xpending b g"), R"([:5, "1-0", "5-0", [["two", "5"]]])");
}

TEST_P(StreamBudgetTest, LooksNoFurtherThanItClaims) {
  Run("xreadgroup group g one streams a >");
  Run("xdel a 1-0 5-0");
  now_ms_ += 100;
  // What has gone from the stream is acknowledged when it is met.
  EXPECT_EQ(Counts("xreadgroup group g two maxsize 1 claim 100 streams a >"), "a:1");
  EXPECT_EQ(Run("xpending a g"), R"([:4, "2-0", "5-0", [["one", "3"], ["two", "1"]]])");
}

TEST_P(StreamBudgetTest, KeysWithoutEntriesCountToo) {
  Run("xreadgroup group g one count 3 streams a b c > > >");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 76 streams c a b 3 2 3"), "c:0 a:1 b:0");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 75 streams c a b 3 2 3"), "c:0 a:1");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 30 streams a b c 3 3 3"), "a:0 b:0");
  // Always an entry, if there is one.
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 1 streams a b c 3 3 0"), "a:0 c:1");
  EXPECT_EQ(Counts("xreadgroup group g one maxsize 1 streams a b c 3 3 3"), "a:0");
}

TEST_P(StreamBudgetTest, WrongLimitsAreRefused) {
  for (const std::string name : {"MAXCOUNT", "MAXSIZE"}) {
    for (const std::string value : {"0", "-1", "x", "9223372036854775808", "1.5"}) {
      const std::string error = "-ERR " + name + " must be a positive integer";
      EXPECT_EQ(Run("xread " + name + " " + value + " streams a 0"), error);
      EXPECT_EQ(Run("xreadgroup group g one " + name + " " + value + " streams a >"), error);
    }
  }
  constexpr std::string_view kTooFew = "-ERR MAXCOUNT must be greater than or equal to COUNT";
  EXPECT_EQ(Run("xread count 3 maxcount 2 streams a 0"), kTooFew);
  EXPECT_EQ(Run("xreadgroup group g one maxcount 2 count 3 streams a >"), kTooFew);
  EXPECT_EQ(Counts("xread count 0 maxcount 2 streams a 0"), "a:2");
  EXPECT_EQ(Counts("xread count 9 maxsize 2 streams a 0"), "a:1");
  EXPECT_EQ(Run("xpending a g"), "[:0, (nil), (nil), (nil)]");
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamBudgetTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
