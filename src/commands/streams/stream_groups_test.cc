// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class StreamGroupsTest : public CommandsTest {
 protected:
  // Five entries, 1-0 to 5-0, and a group that has read none of them.
  void MakeGroup(const std::string& key = "s") {
    for (int i = 1; i <= 5; ++i) Run("xadd " + key + " " + std::to_string(i) + "-0 a b");
    EXPECT_EQ(Run("xgroup create " + key + " g 0"), "+OK");
  }
  uint64_t Changes() {
    uint64_t sum = 0;
    shards_->AwaitOnAll([&](Shard& shard) { sum += shard.stats().changes; });
    return sum;
  }
};

TEST_P(StreamGroupsTest, AGroupNeedsAStreamOrMakesOne) {
  EXPECT_EQ(Run("xgroup create s g 0").substr(0, 54),
            "-ERR The XGROUP subcommand requires the key to exist. ");
  EXPECT_EQ(Run("xgroup create s g $ mkstream"), "+OK");
  EXPECT_EQ(Run("xgroup create s g $ mkstream"), "-BUSYGROUP Consumer Group name already exists");
  EXPECT_EQ(Run("xgroup create s h x"),
            "-ERR Invalid stream ID specified as stream command argument");
  EXPECT_EQ(Run("xgroup create s h 0 entriesread -2"),
            "-ERR value for ENTRIESREAD must be positive or -1");
  EXPECT_EQ(Run("xgroup setid s h 0"), "-NOGROUP No such consumer group 'h' for key name 's'");
  EXPECT_EQ(Run("xgroup destroy s h"), ":0");
  EXPECT_EQ(Run("xgroup destroy s g"), ":1");
  EXPECT_EQ(Run("xlen s"), ":0");
  EXPECT_EQ(Call({"xgroup", "help"}).items.size(), 17u);
}

TEST_P(StreamGroupsTest, WhatWasDeliveredIsPendingUntilItIsAcknowledged) {
  MakeGroup();
  EXPECT_EQ(Run("xreadgroup group g one count 2 streams s >"),
            "[[\"s\", [[\"1-0\", [\"a\", \"b\"]], [\"2-0\", [\"a\", \"b\"]]]]]");
  EXPECT_EQ(Call({"xreadgroup", "group", "g", "two", "noack", "count", "1", "streams", "s", ">"})
                .items.size(),
            1u);
  EXPECT_EQ(Run("xpending s g"), "[:2, \"1-0\", \"2-0\", [[\"one\", \"2\"]]]");
  now_ms_ += 100;
  EXPECT_EQ(Run("xpending s g - + 10"),
            "[[\"1-0\", \"one\", :100, :1], [\"2-0\", \"one\", :100, :1]]");
  EXPECT_EQ(Run("xpending s g idle 101 - + 10"), "[]");
  EXPECT_EQ(Run("xpending s g - + 10 two"), "[]");
  EXPECT_EQ(Run("xack s g 1-0 1-0 3-0"), ":1");
  EXPECT_EQ(Run("xreadgroup group g one streams s 0"), "[[\"s\", [[\"2-0\", [\"a\", \"b\"]]]]]");
  EXPECT_EQ(Run("xpending s g - + 10"), "[[\"2-0\", \"one\", :0, :2]]");
  Run("xdel s 2-0");
  EXPECT_EQ(Run("xreadgroup group g one streams s 0"), "[[\"s\", [[\"2-0\", (nil)]]]]");
}

TEST_P(StreamGroupsTest, AnEntryIsClaimedFromWhoHadItLongEnough) {
  MakeGroup();
  Run("xreadgroup group g one count 3 streams s >");
  now_ms_ += 1000;
  EXPECT_EQ(Run("xclaim s g two 2000 1-0"), "[]");
  EXPECT_EQ(Run("xclaim s g two 500 1-0 4-0 justid"), "[\"1-0\"]");
  EXPECT_EQ(Run("xclaim s g two 0 4-0 force justid retrycount 7"), "[\"4-0\"]");
  EXPECT_EQ(Run("xpending s g - + 10 two"),
            "[[\"1-0\", \"two\", :0, :1], [\"4-0\", \"two\", :0, :7]]");
  Run("xdel s 2-0");
  EXPECT_EQ(Run("xclaim s g two 0 2-0"), "[]");
  EXPECT_EQ(Run("xpending s g - + 10 one"), "[[\"3-0\", \"one\", :1000, :1]]");
  EXPECT_EQ(Run("xclaim s g two 0 1-0 foo"), "-ERR Unrecognized XCLAIM option 'foo'");
  EXPECT_EQ(Run("xclaim s x two 0 1-0"), "-NOGROUP No such key 's' or consumer group 'x'");
}

TEST_P(StreamGroupsTest, AutoClaimGoesOnFromWhereItSays) {
  MakeGroup();
  Run("xreadgroup group g one streams s >");
  Run("xdel s 2-0");
  now_ms_ += 1000;
  EXPECT_EQ(Run("xautoclaim s g two 10 0 count 3 justid"),
            "[\"4-0\", [\"1-0\", \"3-0\"], [\"2-0\"]]");
  EXPECT_EQ(Run("xautoclaim s g two 10 4-0"),
            "[\"0-0\", [[\"4-0\", [\"a\", \"b\"]], [\"5-0\", [\"a\", \"b\"]]], []]");
  EXPECT_EQ(Run("xautoclaim s g two 10 0"), "[\"0-0\", [], []]");
  EXPECT_EQ(Run("xautoclaim s g two 10 0 count 0"), "-ERR COUNT must be > 0");
}

TEST_P(StreamGroupsTest, InfoKnowsLagAndConsumers) {
  MakeGroup();
  Run("xreadgroup group g one count 2 streams s >");
  EXPECT_EQ(Run("xinfo groups s"),
            "[[\"name\", \"g\", \"consumers\", :1, \"pending\", :2, \"last-delivered-id\", "
            "\"2-0\", \"entries-read\", :2, \"lag\", :3]]");
  Run("xdel s 4-0");
  EXPECT_EQ(Call({"xinfo", "groups", "s"}).items[0].items[11].ToString(), "(nil)");
  now_ms_ += 7;
  EXPECT_EQ(Run("xgroup createconsumer s g two"), ":1");
  EXPECT_EQ(Run("xgroup createconsumer s g two"), ":0");
  EXPECT_EQ(Run("xinfo consumers s g"),
            "[[\"name\", \"one\", \"pending\", :2, \"idle\", :7, \"inactive\", :7], [\"name\", "
            "\"two\", \"pending\", :0, \"idle\", :0, \"inactive\", :-1]]");
  EXPECT_EQ(Run("xgroup delconsumer s g one"), ":2");
  EXPECT_EQ(Run("xpending s g"), "[:0, (nil), (nil), (nil)]");
  EXPECT_EQ(Run("xinfo stream missing"), "-ERR no such key");
  EXPECT_EQ(Call({"xinfo", "stream", "s"}).items.size(), 32u);
  EXPECT_EQ(Call({"xinfo", "stream", "s", "full"}).items.size(), 30u);
}

TEST_P(StreamGroupsTest, SeveralKeysAreReadOrNone) {
  for (const char* key : {"s0", "s1", "s2", "s3"}) MakeGroup(key);
  EXPECT_EQ(Run("xreadgroup group g one streams s0 missing > >"),
            "-NOGROUP No such key 'missing' or consumer group 'g' in XREADGROUP with GROUP option");
  EXPECT_EQ(Run("xpending s0 g"), "[:0, (nil), (nil), (nil)]");
  EXPECT_EQ(Call({"xreadgroup", "group", "g", "one", "streams", "s0", "s1", "s2", "s3", ">", ">",
                  ">", ">"})
                .items.size(),
            4u);
  EXPECT_EQ(Run("xreadgroup group g one streams s0 s1 s2 s3 > > > >"), "(nil)");
  EXPECT_EQ(Run("xreadgroup group g one streams s0 s1 > 4-9"),
            "[[\"s1\", [[\"5-0\", [\"a\", \"b\"]]]]]");
}

TEST_P(StreamGroupsTest, ChangesAreCountedAsInRedis) {
  MakeGroup();
  uint64_t before = Changes();
  const auto counts = [&](const std::string& line, uint64_t expected) {
    Run(line);
    EXPECT_EQ(Changes() - before, expected) << line;
    before = Changes();
  };
  counts("xreadgroup group g one count 3 streams s >", 2);  // and its consumer
  counts("xreadgroup group g one streams s 0", 1);
  counts("xack s g 1-0 2-0 9-0", 2);
  counts("xclaim s g one 0 3-0", 1);
  counts("xdel s 1-0 2-0 9-0", 2);
  counts("xtrim s maxlen 1", 2);
  counts("xgroup setid s g 0", 1);
  counts("xgroup delconsumer s g one", 1);
  counts("xgroup destroy s g", 1);
  counts("xgroup destroy s g", 0);
  counts("xsetid s 9-0", 1);
  counts("xrange s - +", 0);
}

TEST_P(StreamGroupsTest, ACopyHasTheGroupsToo) {
  MakeGroup("{t}s");
  Run("xreadgroup group g one count 3 streams {t}s >");
  EXPECT_EQ(Run("copy {t}s {t}copy"), ":1");
  Run("del {t}s");
  EXPECT_EQ(Run("xpending {t}copy g"), "[:3, \"1-0\", \"3-0\", [[\"one\", \"3\"]]]");
  EXPECT_EQ(Run("rename {t}copy other"), "+OK");
  EXPECT_EQ(Run("xack other g 1-0 2-0 3-0"), ":3");
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamGroupsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
