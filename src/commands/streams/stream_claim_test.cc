// SPDX-License-Identifier: Apache-2.0
// XREADGROUP CLAIM and XNACK.
#include <gtest/gtest.h>

#include <string>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class StreamClaimTest : public CommandsTest {
 protected:
  // Entries 1-0 to 5-0, of which the group has given three to `one`, 10 ms apart.
  void MakeGroup(const std::string& key = "s") {
    for (int i = 1; i <= 5; ++i) Run("xadd " + key + " " + std::to_string(i) + "-0 a b");
    Run("xgroup create " + key + " g 0");
    for (int i = 0; i < 3; ++i) {
      Run("xreadgroup group g one count 1 streams " + key + " >");
      now_ms_ += 10;
    }
  }
  std::string Read(const std::string& options, const std::string& key = "s") {
    return Run("xreadgroup group g two " + options + " streams " + key + " >");
  }
  // "id owner deliveries" of each.
  std::string Pending(const std::string& key = "s") {
    std::string text;
    for (const auto& entry : Call({"xpending", key, "g", "-", "+", "100"}).items) {
      text += entry.items[0].text + " " + entry.items[1].text + " " + entry.items[3].ToString();
      text += "; ";
    }
    return text;
  }
  // Of XINFO STREAM FULL, the group's "nacked-count".
  std::string Returned(const std::string& key = "s") {
    return Call({"xinfo", "stream", key, "full"}).items.back().items[0].items.back().ToString();
  }
};

TEST_P(StreamClaimTest, WhatIsIdleComesFirst) {
  MakeGroup();
  EXPECT_EQ(Read("count 3 claim 20"),
            "[[\"s\", [[\"1-0\", [\"a\", \"b\"], :30, :1], [\"2-0\", [\"a\", \"b\"], :20, :1], "
            "[\"4-0\", [\"a\", \"b\"], :0, :0]]]]");
  EXPECT_EQ(Pending(), "1-0 two :2; 2-0 two :2; 3-0 one :1; 4-0 two :1; ");
  EXPECT_EQ(Read("count 1 claim 20"), "[[\"s\", [[\"5-0\", [\"a\", \"b\"], :0, :0]]]]");
  EXPECT_EQ(Read("claim 20"), "(nil)");
  now_ms_ += 10;
  EXPECT_EQ(Read("claim 20"), "[[\"s\", [[\"3-0\", [\"a\", \"b\"], :20, :1]]]]");
  EXPECT_EQ(Call({"xreadgroup", "group", "g", "two", "claim", "0", "streams", "s", ">"})
                .items[0]
                .items[1]
                .items.size(),
            5u);
}

TEST_P(StreamClaimTest, TheLongestIdleComesFirst) {
  MakeGroup();
  Run("xclaim s g one 0 1-0 idle 5 justid");
  Run("xclaim s g one 0 2-0 idle 5000 justid");
  EXPECT_EQ(
      Read("count 2 claim 5"),
      "[[\"s\", [[\"2-0\", [\"a\", \"b\"], :5000, :1], [\"3-0\", [\"a\", \"b\"], :10, :1]]]]");
  EXPECT_EQ(Read("count 1 claim 5"), "[[\"s\", [[\"1-0\", [\"a\", \"b\"], :5, :1]]]]");
}

TEST_P(StreamClaimTest, NoAckIsForNewEntriesOnly) {
  MakeGroup();
  Run("xdel s 2-0");
  EXPECT_EQ(Read("claim 5 noack"),
            "[[\"s\", [[\"1-0\", [\"a\", \"b\"], :30, :1], [\"3-0\", [\"a\", \"b\"], :10, :1], "
            "[\"4-0\", [\"a\", \"b\"], :0, :0], [\"5-0\", [\"a\", \"b\"], :0, :0]]]]");
  // What has gone from the stream is not pending any more.
  EXPECT_EQ(Pending(), "1-0 two :2; 3-0 two :2; ");
}

TEST_P(StreamClaimTest, WhatHasGoneIsNotPendingAnyMore) {
  MakeGroup();
  Run("xtrim s maxlen 0");
  EXPECT_EQ(Read("claim 0"), "(nil)");
  EXPECT_EQ(Pending(), "");
}

TEST_P(StreamClaimTest, AnIdOtherThanNewOnesIgnoresIt) {
  MakeGroup();
  EXPECT_EQ(Run("xreadgroup group g one claim 0 count 1 streams s 0"),
            "[[\"s\", [[\"1-0\", [\"a\", \"b\"]]]]]");
}

TEST_P(StreamClaimTest, SeveralKeysAreClaimedFrom) {
  for (const char* key : {"s0", "s1", "s2"}) MakeGroup(key);
  const auto reply = Call({"xreadgroup", "group", "g", "two", "count", "2", "claim", "5", "streams",
                           "s0", "s1", "s2", ">", ">", ">"});
  ASSERT_EQ(reply.items.size(), 3u);
  EXPECT_EQ(reply.items[1].items[1].items[1].ToString(), "[\"2-0\", [\"a\", \"b\"], :50, :1]");
}

TEST_P(StreamClaimTest, BadNumbersOfClaimAreRefused) {
  MakeGroup();
  for (const char* number : {"-1", "x", "1.5", "9223372036854775808"}) {
    EXPECT_EQ(Read(std::string("claim ") + number),
              "-ERR min-idle-time must be a positive integer");
  }
  EXPECT_EQ(Run("xread claim 5 streams s 0"),
            "-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.");
  EXPECT_EQ(Run("xreadgroup group g two streams s > claim"),
            "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must "
            "be specified.");
  Read("count 2 claim 9223372036854775807");
  EXPECT_EQ(Pending(), "1-0 one :1; 2-0 one :1; 3-0 one :1; 4-0 two :1; 5-0 two :1; ");
}

TEST_P(StreamClaimTest, WhatIsGivenBackIsNobodys) {
  MakeGroup();
  EXPECT_EQ(Run("xnack s g fail ids 3 2-0 1-0 9-9"), ":2");
  EXPECT_EQ(Run("xpending s g - + 10"),
            "[[\"1-0\", \"\", :-1, :1], [\"2-0\", \"\", :-1, :1], [\"3-0\", \"one\", :10, :1]]");
  EXPECT_EQ(Run("xpending s g"), "[:3, \"1-0\", \"3-0\", [[\"one\", \"1\"]]]");
  EXPECT_EQ(Run("xpending s g idle 100000 - + 10"),
            "[[\"1-0\", \"\", :-1, :1], [\"2-0\", \"\", :-1, :1]]");
  EXPECT_EQ(Run("xpending s g - + 10 two"), "[]");
  EXPECT_EQ(Run("xreadgroup group g one streams s 0"), "[[\"s\", [[\"3-0\", [\"a\", \"b\"]]]]]");
  EXPECT_EQ(Returned(), ":2");
  EXPECT_EQ(Call({"xinfo", "consumers", "s", "g"}).items.size(), 1u);
  // In the order in which they were given back, before what is idle, whatever the time.
  EXPECT_EQ(Call({"xreadgroup", "group", "g", "two", "count", "1", "claim", "9000000000", "streams",
                  "s", ">"})
                .items[0]
                .items[1]
                .items[0]
                .items[0]
                .text,
            "2-0");
  EXPECT_EQ(Run("xack s g 1-0"), ":1");
  EXPECT_EQ(Returned(), ":0");
  EXPECT_EQ(Pending(), "2-0 two :2; 3-0 one :2; ");
}

TEST_P(StreamClaimTest, ModesSayHowOftenItWasDelivered) {
  MakeGroup();
  EXPECT_EQ(Run("xnack s g silent ids 1 1-0"), ":1");
  EXPECT_EQ(Run("xnack s g fatal ids 1 2-0"), ":1");
  EXPECT_EQ(Run("xnack s g fail ids 1 3-0 retrycount 7"), ":1");
  EXPECT_EQ(Pending(), "1-0  :0; 2-0  :9223372036854775807; 3-0  :7; ");
  EXPECT_EQ(Run("xnack s g silent ids 1 1-0"), ":1");
  EXPECT_EQ(Run("xclaim s g two 1000 1-0 2-0"),
            "[[\"1-0\", [\"a\", \"b\"]], [\"2-0\", [\"a\", \"b\"]]]");
  EXPECT_EQ(Pending(), "1-0 two :1; 2-0 two :9223372036854775807; 3-0  :7; ");
  EXPECT_EQ(Run("xautoclaim s g two 1000 0 justid"), "[\"0-0\", [\"3-0\"], []]");
  // Of what is there only, and only if forced.
  EXPECT_EQ(Run("xnack s g fail ids 2 4-0 9-9"), ":0");
  EXPECT_EQ(Run("xnack s g fail force ids 2 4-0 9-9"), ":1");
  EXPECT_EQ(Run("xnack s g fatal ids 1 5-0 force"), ":1");
  EXPECT_EQ(Pending(),
            "1-0 two :1; 2-0 two :9223372036854775807; 3-0 two :7; 4-0  :0; 5-0  "
            ":9223372036854775807; ");
}

// The empty name is a name as any other.
TEST_P(StreamClaimTest, AConsumerWithoutANameIsNotNobody) {
  MakeGroup();
  EXPECT_EQ(Call({"xgroup", "createconsumer", "s", "g", ""}).ToString(), ":1");
  Run("xnack s g fail ids 1 1-0");
  EXPECT_EQ(Call({"xclaim", "s", "g", "", "0", "2-0", "justid"}).ToString(), "[\"2-0\"]");
  EXPECT_EQ(Call({"xpending", "s", "g", "-", "+", "9", ""}).ToString(),
            "[[\"2-0\", \"\", :0, :1]]");
  EXPECT_EQ(Run("xpending s g"), "[:3, \"1-0\", \"3-0\", [[\"\", \"1\"], [\"one\", \"1\"]]]");
  EXPECT_EQ(Call({"xinfo", "consumers", "s", "g"}).items.size(), 2u);
  EXPECT_EQ(Call({"xgroup", "delconsumer", "s", "g", ""}).ToString(), ":1");
  EXPECT_EQ(Pending(), "1-0  :1; 3-0 one :1; ");
  EXPECT_EQ(Returned(), ":1");
}

TEST_P(StreamClaimTest, PayloadsAndCopiesHaveWhatWasGivenBack) {
  MakeGroup("{t}s");
  Call({"xgroup", "createconsumer", "{t}s", "g", ""});
  Run("xnack {t}s g fail ids 2 3-0 1-0");
  const auto payload = Call({"dump", "{t}s"});
  EXPECT_EQ(Call({"restore", "{t}made", "0", payload.text}).ToString(), "+OK");
  EXPECT_EQ(Run("copy {t}s {t}copy"), ":1");
  for (const std::string key : {"{t}made", "{t}copy"}) {
    EXPECT_EQ(Pending(key), "1-0  :1; 2-0 one :1; 3-0  :1; ") << key;
    EXPECT_EQ(Returned(key), ":2");
    EXPECT_EQ(Call({"xinfo", "consumers", key, "g"}).items.size(), 2u);
    EXPECT_EQ(
        Call({"xreadgroup", "group", "g", "two", "count", "1", "claim", "99", "streams", key, ">"})
            .items[0]
            .items[1]
            .items[0]
            .items[0]
            .text,
        "3-0");
  }
}

TEST_P(StreamClaimTest, ErrorsOfXNackChangeNothing) {
  MakeGroup();
  EXPECT_EQ(Run("xnack s g bad ids 1 1-0"), "-ERR mode must be SILENT, FAIL, or FATAL");
  EXPECT_EQ(Run("xnack s x fail ids 1 1-0"), "-NOGROUP No such key 's' or consumer group 'x'");
  EXPECT_EQ(Run("xnack n g fail ids 1 1-0"), "-NOGROUP No such key 'n' or consumer group 'g'");
  EXPECT_EQ(Run("xnack s g fail ids 2 1-0"),
            "-ERR The `numids` parameter must match the number of arguments");
  EXPECT_EQ(Run("xnack s g fail ids 0 1-0"), "-ERR Number of IDs must be a positive integer");
  EXPECT_EQ(Run("xnack s g fail 1 1-0 force"), kSyntaxError);
  EXPECT_EQ(Run("xnack s g fail ids 1 1-0 foo"), kSyntaxError);
  EXPECT_EQ(Run("xnack s g fail ids 1 1-0 retrycount -1"),
            "-ERR Invalid RETRYCOUNT option argument for XNACK");
  EXPECT_EQ(Run("xnack s g fail ids 2 1-0 x"),
            "-ERR Invalid stream ID specified as stream command argument");
  EXPECT_EQ(Pending(), "1-0 one :1; 2-0 one :1; 3-0 one :1; ");
  Run("set k v");
  EXPECT_EQ(Run("xnack k g fail ids 1 1-0"), kWrongType);
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamClaimTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
