// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

constexpr std::string_view kBadId = "-ERR Invalid stream ID specified as stream command argument";
constexpr std::string_view kSmaller =
    "-ERR The ID specified in XADD is equal or smaller than the target stream top item";

class StreamCommandsTest : public CommandsTest {};

TEST_P(StreamCommandsTest, AnIdIsMadeFromTheClockOrFromTheLastOne) {
  EXPECT_EQ(Run("xadd s * a 1"), "\"1700000000000-0\"");
  EXPECT_EQ(Run("xadd s * a 2"), "\"1700000000000-1\"");
  now_ms_ += 5;
  EXPECT_EQ(Run("xadd s * a 3"), "\"1700000000005-0\"");
  EXPECT_EQ(Run("xadd s 1700000000005-* a 4"), "\"1700000000005-1\"");
  EXPECT_EQ(Run("xadd s 1700000000009-* a 5"), "\"1700000000009-0\"");
  EXPECT_EQ(Run("xadd s * a 6"), "\"1700000000009-1\"");
  EXPECT_EQ(Run("xadd zero 0-* a 1"), "\"0-1\"");
  EXPECT_EQ(Run("xlen s"), ":6");
  EXPECT_EQ(Run("xlen missing"), ":0");
}

TEST_P(StreamCommandsTest, AnErrorOfXAddChangesNothing) {
  Run("xadd s 5-5 a 1");
  EXPECT_EQ(Run("xadd s 5-5 a 1"), kSmaller);
  EXPECT_EQ(Run("xadd s 4-* a 1"), kSmaller);
  EXPECT_EQ(Run("xadd s 0-0 a 1"), "-ERR The ID specified in XADD must be greater than 0-0");
  EXPECT_EQ(Run("xadd s x a 1"), kBadId);
  EXPECT_EQ(Run("xadd s - a 1"), kBadId);
  EXPECT_EQ(Run("xadd s * a 1 b"), "-ERR wrong number of arguments for 'xadd' command");
  EXPECT_EQ(Run("xadd s maxlen -1 * a 1"), "-ERR The MAXLEN argument must be >= 0.");
  EXPECT_EQ(Run("xadd s limit 5 * a 1"),
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
  EXPECT_EQ(Run("xadd s maxlen 5 limit 5 * a 1"),
            "-ERR syntax error, LIMIT cannot be used without the special ~ option");
  EXPECT_EQ(Run("xadd s maxlen 5 minid 5 * a 1"),
            "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
  EXPECT_EQ(Run("xrange s - +"), "[[\"5-5\", [\"a\", \"1\"]]]");
  EXPECT_EQ(Run("xadd none nomkstream * a 1"), "(nil)");
  EXPECT_EQ(Run("exists none"), ":0");
  Run("xsetid s 18446744073709551615-18446744073709551615");
  EXPECT_EQ(Run("xadd s * a 1"),
            "-ERR The stream has exhausted the last possible ID, unable to add more items");
}

TEST_P(StreamCommandsTest, OtherTypesAreRefused) {
  Run("set k v");
  for (const char* line :
       {"xadd k * a 1", "xlen k", "xrange k - +", "xrevrange k + -", "xdel k 1-1",
        "xtrim k maxlen 1", "xsetid k 1-1", "xread streams k 0", "xack k g 1-1",
        "xgroup create k g 0", "xgroup create k g 0 mkstream", "xgroup destroy k g",
        "xreadgroup group g c streams k >", "xpending k g", "xclaim k g c 0 1-1",
        "xautoclaim k g c 0 0", "xinfo stream k", "xinfo groups k"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(Run("get k"), "\"v\"");
}

TEST_P(StreamCommandsTest, RangesHaveBothEnds) {
  for (const char* id : {"1-1", "1-2", "2-0", "3-7"}) Run(std::string("xadd s ") + id + " a b");
  EXPECT_EQ(Call({"xrange", "s", "-", "+"}).items.size(), 4u);
  EXPECT_EQ(Call({"xrange", "s", "1", "1"}).items.size(), 2u);
  EXPECT_EQ(Call({"xrange", "s", "(1-1", "(3-7"}).items.size(), 2u);
  EXPECT_EQ(Run("xrevrange s + - count 1"), "[[\"3-7\", [\"a\", \"b\"]]]");
  EXPECT_EQ(Run("xrange s - + count 0"), "(nil)");
  EXPECT_EQ(Run("xrange s - + count"), kSyntaxError);
  EXPECT_EQ(Run("xrange s (- +"), kBadId);
  EXPECT_EQ(Run("xrange s (18446744073709551615-18446744073709551615 +"),
            "-ERR invalid start ID for the interval");
  EXPECT_EQ(Run("xrange s - (0-0"), "-ERR invalid end ID for the interval");
  EXPECT_EQ(Run("xrange missing - +"), "[]");
}

TEST_P(StreamCommandsTest, AStreamWithoutEntriesStays) {
  Run("xadd s 1-1 a b");
  EXPECT_EQ(Run("xdel s 1-1 1-1 7-7"), ":1");
  EXPECT_EQ(Run("exists s"), ":1");
  EXPECT_EQ(Run("type s"), "+stream");
  EXPECT_EQ(Run("object encoding s"), "\"stream\"");
  EXPECT_EQ(Run("xadd s 1-1 a b"), kSmaller);
  EXPECT_EQ(Run("xadd s 2-1 a b"), "\"2-1\"");
  EXPECT_EQ(Run("xtrim s maxlen 0"), ":1");
  EXPECT_EQ(Run("xlen s"), ":0");
}

TEST_P(StreamCommandsTest, TrimsTakeNodesOrEntries) {
  for (int i = 1; i <= 250; ++i) Run("xadd s " + std::to_string(i) + " a b");
  EXPECT_EQ(Run("xtrim s maxlen ~ 120"), ":100");
  EXPECT_EQ(Run("xtrim s maxlen = 120"), ":30");
  EXPECT_EQ(Run("xtrim s minid 140"), ":9");
  EXPECT_EQ(Run("xtrim s maxlen ~ 0 limit 10"), ":0");
  EXPECT_EQ(Run("xtrim s"), "-ERR wrong number of arguments for 'xtrim' command");
  EXPECT_EQ(Run("xtrim s foo 1"), kSyntaxError);
  EXPECT_EQ(Run("xadd s maxlen 2 * a b"), "\"1700000000000-0\"");
  EXPECT_EQ(Run("xlen s"), ":2");
}

// Over as many shards as there are keys.
TEST_P(StreamCommandsTest, XReadReturnsTheKeysThatHaveSomething) {
  for (int i = 0; i < 8; ++i) {
    Run("xadd s" + std::to_string(i) + " 1-1 key " + std::to_string(i));
  }
  EXPECT_EQ(Run("xread streams s0 s1 s2 missing 0 1-1 0 0"),
            "[[\"s0\", [[\"1-1\", [\"key\", \"0\"]]]], [\"s2\", [[\"1-1\", [\"key\", \"2\"]]]]]");
  EXPECT_EQ(Run("xread streams s0 s1 1-1 $"), "(nil)");
  EXPECT_EQ(Run("xread block 0 streams s0 s1 s2 s3 1-1 $ 1-1 5"), "(nil)");  // none waits here
  EXPECT_EQ(Run("xread streams s0 s1 s2 0 x $"), kBadId);
  Run("set k v");
  EXPECT_EQ(Run("xread streams s0 k s2 0 0 x"), kWrongType);
  EXPECT_EQ(Run("xread streams s0 k s2 x 0 0"), kBadId);
  EXPECT_EQ(Run("xread streams s0 s1 0"),
            "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be "
            "specified.");
  EXPECT_EQ(Run("xread count x streams s0 0"), kNotInteger);
  EXPECT_EQ(Run("xread block -1 streams s0 0"), "-ERR timeout is negative");
  EXPECT_EQ(Run("xread group g c streams s0 0"),
            "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
  resp3_ = true;
  EXPECT_EQ(Call({"xread", "streams", "s0", "s1", "0", "0"}).items.size(), 4u);
}

TEST_P(StreamCommandsTest, OptionsThatLookLikeOthersAreNoKeys) {
  Run("xgroup create streams streams 0 mkstream");
  Run("xadd streams 1-1 a b");
  EXPECT_EQ(Run("xreadgroup group streams streams streams streams >"),
            "[[\"streams\", [[\"1-1\", [\"a\", \"b\"]]]]]");
  EXPECT_EQ(Run("xreadgroup group streams block count 5 streams streams 0"), "[[\"streams\", []]]");
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
