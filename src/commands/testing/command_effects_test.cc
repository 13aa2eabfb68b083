// SPDX-License-Identifier: Apache-2.0
// The effects of commands that are not their own, word by word. That those of all commands are
// right is what every test of this folder checks at its end (commands/testing/replica_check.h).
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::MatchesRegex;

class CommandEffectsTest : public CommandsTest {
 protected:
  // Of one command. Its units are joined by " | ".
  std::string EffectsOf(std::string_view line) {
    Effects();
    Run(line);
    std::string text = absl::StrJoin(Effects(), " | ");
    return text;
  }
};

// The clock stands at 1'700'000'000'000.
TEST_P(CommandEffectsTest, OfStrings) {
  EXPECT_EQ(EffectsOf("set k v"), "0 set k v");
  EXPECT_EQ(EffectsOf("SET k v NX"), "");
  EXPECT_EQ(EffectsOf("set k v keepttl"), "0 set k v keepttl");
  EXPECT_EQ(EffectsOf("set k v ex 10"), "0 SET k v PXAT 1700000010000");
  EXPECT_EQ(EffectsOf("set k v px 10 get nx"), "");
  EXPECT_EQ(EffectsOf("set k v exat 1700000020"), "0 SET k v PXAT 1700000020000");
  EXPECT_EQ(EffectsOf("set k v stick px 5000"), "0 SET k v PXAT 1700000005000; 0 STICK k");
  EXPECT_EQ(EffectsOf("set k w get"), "0 SET k w");
  EXPECT_EQ(EffectsOf("set k w keepttl stick xx"), "0 SET k w KEEPTTL; 0 STICK k");
  EXPECT_EQ(EffectsOf("set k v exat 1"), "0 DEL k");
  EXPECT_EQ(EffectsOf("set k v exat 1"), "");
  EXPECT_EQ(EffectsOf("setex k 10 v"), "0 SET k v PXAT 1700000010000");
  EXPECT_EQ(EffectsOf("psetex k 10 v"), "0 SET k v PXAT 1700000000010");
  EXPECT_EQ(EffectsOf("getset k w"), "0 SET k w");
  EXPECT_EQ(EffectsOf("getex k"), "");
  EXPECT_EQ(EffectsOf("getex k persist"), "");
  EXPECT_EQ(EffectsOf("getex k px 7"), "0 PEXPIREAT k 1700000000007");
  EXPECT_EQ(EffectsOf("getex k persist"), "0 PERSIST k");
  EXPECT_EQ(EffectsOf("getex k exat 1"), "0 DEL k");
  EXPECT_EQ(EffectsOf("incrbyfloat f 0.5"), "0 SET f 0.5 KEEPTTL");
  EXPECT_EQ(EffectsOf("prepend f 1"), "0 SET f 10.5 KEEPTTL");
  EXPECT_EQ(EffectsOf("getdel f"), "0 DEL f");
  EXPECT_EQ(EffectsOf("getdel f"), "");
  EXPECT_EQ(EffectsOf("incr n"), "0 incr n");
  EXPECT_EQ(EffectsOf("cl.throttle t 5 10 60"), "0 SET t 1700000006000000000 PXAT 1700000006000");
}

TEST_P(CommandEffectsTest, OfKeys) {
  Run("set k v");
  EXPECT_EQ(EffectsOf("expire k 10"), "0 PEXPIREAT k 1700000010000");
  EXPECT_EQ(EffectsOf("expire k 10 nx"), "");
  EXPECT_EQ(EffectsOf("pexpire k 30000 gt"), "0 PEXPIREAT k 1700000030000");
  EXPECT_EQ(EffectsOf("expireat k 1700000040"), "0 PEXPIREAT k 1700000040000");
  EXPECT_EQ(EffectsOf("persist k"), "0 PERSIST k");
  EXPECT_EQ(EffectsOf("persist k"), "");
  EXPECT_EQ(EffectsOf("stick k"), "0 stick k");
  EXPECT_EQ(EffectsOf("stick k"), "");
  EXPECT_EQ(EffectsOf("pexpireat k 1"), "0 DEL k");
  Run("mset a 1 b 2 c 3");
  EXPECT_EQ(EffectsOf("del a b nothing c"), "0 del a b nothing c");
  EXPECT_EQ(EffectsOf("del a b nothing c"), "");
  EXPECT_EQ(EffectsOf("msetnx a 1 b 2 c 3"), "0 msetnx a 1 b 2 c 3");
  EXPECT_EQ(EffectsOf("msetnx a 1 b 2 c 3"), "");
  EXPECT_EQ(EffectsOf("rename a z"), "0 rename a z");
  EXPECT_EQ(EffectsOf("copy z y"), "0 copy z y");
  EXPECT_EQ(EffectsOf("move y 3"), "0 move y 3");
  EXPECT_EQ(EffectsOf("flushdb"), "0 flushdb");
  Run("rpush l 3 1 2");
  EXPECT_EQ(EffectsOf("sort l store s"), "0 DEL s; 0 RPUSH s 1 2 3");
}

TEST_P(CommandEffectsTest, WhatIsDueGoesBefore) {
  Run("psetex due 5 v");
  Run("set other v");
  now_ms_ += 10;
  EXPECT_EQ(EffectsOf("copy other due"), "0 DEL due | 0 copy other due");
  Run("pexpire due 5");
  now_ms_ += 10;
  EXPECT_EQ(EffectsOf("get due"), "0 DEL due");
}

TEST_P(CommandEffectsTest, OfLists) {
  Run("rpush l a b c d e");
  EXPECT_EQ(EffectsOf("lmpop 2 none l right count 2"), "0 RPOP l 2");
  EXPECT_EQ(EffectsOf("blpop none l 0"), "0 LPOP l");
  EXPECT_EQ(EffectsOf("blmpop 0 1 l left"), "0 LPOP l 1");
  EXPECT_EQ(EffectsOf("blmove l l right left 0"), "0 LMOVE l l RIGHT LEFT");
  EXPECT_EQ(EffectsOf("brpoplpush l m 0"), "0 LMOVE l m RIGHT LEFT");
  Run("rpush from 1 2 3 4 5 6 7 8");
  EXPECT_EQ(EffectsOf("lmovem from to left left"), "0 LPUSH to 1; 0 LPOP from 1");
  EXPECT_EQ(EffectsOf("lmovem from to right left exactly 2 bulk"), "0 LPUSH to 8 7; 0 RPOP from 2");
  EXPECT_EQ(EffectsOf("lmovem from to right right count 2 obo"), "0 RPUSH to 6 5; 0 RPOP from 2");
  EXPECT_EQ(EffectsOf("blmovem from from left left 0 count 9 obo"),
            "0 LSET from 0 4; 0 LSET from 1 3; 0 LSET from 2 2");
  EXPECT_EQ(EffectsOf("lmovem from from right right exactly 2 obo"),
            "0 LSET from -2 2; 0 LSET from -1 3");
  for (const char* unchanged :
       {"lmovem from from left left", "lmovem from from right right exactly 2 bulk",
        "lmovem from from right right exactly 1 obo", "blmovem from from left left 0 count 9 bulk",
        "blmovem from from left left 0"}) {
    EXPECT_EQ(EffectsOf(unchanged), "") << unchanged;
  }
  EXPECT_EQ(EffectsOf("lmovem from from left right exactly 3 bulk"),
            "0 RPUSH from 4 2 3; 0 LPOP from 3");
  EXPECT_EQ(EffectsOf("lmovem from to left left exactly 4 bulk"), "");
  EXPECT_EQ(EffectsOf("lpop l"), "");
  EXPECT_EQ(EffectsOf("lpushx l x"), "");
}

TEST_P(CommandEffectsTest, OfSets) {
  Run("sadd s a");
  EXPECT_EQ(EffectsOf("spop s"), "0 SREM s a");
  Run("sadd s a b c");
  EXPECT_EQ(EffectsOf("spop s 5"), "0 DEL s");
  Run("sadd s a b c");
  EXPECT_THAT(EffectsOf("spop s 2"), MatchesRegex("0 SREM s [abc] [abc]"));
  EXPECT_EQ(EffectsOf("saddex s 10 x y"), "0 SADD s x y; 0 FIELDPEXPIREAT s 1700000010000 x y");
  now_ms_ += 20'000;
  EXPECT_THAT(EffectsOf("sadd s x"), MatchesRegex("0 SREM s [xy] [xy] [|] 0 sadd s x"));
}

TEST_P(CommandEffectsTest, OfHashes) {
  EXPECT_EQ(EffectsOf("hsetex h ex 10 fields 2 f 1 g 2"),
            "0 HSET h f 1 g 2; 0 HPEXPIREAT h 1700000010000 FIELDS 2 f g");
  EXPECT_EQ(EffectsOf("hsetex h keepttl fields 2 f 3 i 4"),
            "0 HSET h f 3 i 4; 0 HPEXPIREAT h 1700000010000 FIELDS 1 f");
  EXPECT_EQ(EffectsOf("hincrbyfloat h f 0.5"),
            "0 HSET h f 3.5; 0 HPEXPIREAT h 1700000010000 FIELDS 1 f");
  EXPECT_EQ(EffectsOf("hexpire h 20 fields 2 f none"), "0 HPEXPIREAT h 1700000020000 FIELDS 1 f");
  EXPECT_EQ(EffectsOf("hexpire h 0 fields 1 f"), "0 HDEL h f");
  EXPECT_EQ(EffectsOf("hgetex h persist fields 2 g i"), "0 HPERSIST h FIELDS 2 g i");
  EXPECT_EQ(EffectsOf("hgetex h px 5 fields 1 g"), "0 HPEXPIREAT h 1700000000005 FIELDS 1 g");
  EXPECT_EQ(EffectsOf("hgetdel h fields 2 none i"), "0 HDEL h none i");
  EXPECT_EQ(EffectsOf("hgetdel h fields 1 none"), "");
  now_ms_ += 10;
  EXPECT_EQ(EffectsOf("hget h g"), "0 DEL h");
}

TEST_P(CommandEffectsTest, OfSortedSets) {
  Run("zadd z 1 a 2 b 3 c");
  EXPECT_EQ(EffectsOf("zmpop 2 none z max count 2"), "0 ZPOPMAX z 2");
  EXPECT_EQ(EffectsOf("bzpopmin z 0"), "0 ZPOPMIN z 1");
  Run("geoadd g 13.361389 38.115556 p");
  EXPECT_THAT(EffectsOf("geosearchstore d g fromlonlat 13 38 byradius 200 km"),
              MatchesRegex("0 DEL d; 0 ZADD d [0-9.e+]+ p"));
  EXPECT_EQ(EffectsOf("geosearchstore d g fromlonlat 0 0 byradius 1 km"), "0 DEL d");
  // Servers before Redis 8.8 do not know AGGREGATE COUNT.
  Run("zadd w 7 b");
  EXPECT_EQ(EffectsOf("zunionstore d 2 w none weights 2.5 1 aggregate count"),
            "0 DEL d; 0 ZADD d 2.5 b");
  EXPECT_EQ(EffectsOf("zinterstore d 2 w none aggregate count"), "0 DEL d");
  EXPECT_EQ(EffectsOf("zunionstore d 1 w aggregate sum"), "0 zunionstore d 1 w aggregate sum");
}

TEST_P(CommandEffectsTest, ALargeResultIsToldInPortions) {
  constexpr size_t kMembers = 5000;
  std::string line = "zadd large";
  for (size_t i = 0; i < kMembers; ++i) line += " 7 m" + std::to_string(i);
  Run(line);
  const std::string effects = EffectsOf("zunionstore d 2 large none aggregate count");
  const std::vector<std::string> commands = absl::StrSplit(effects, "; ");
  EXPECT_EQ(commands.front(), "0 DEL d");
  size_t members = 0;
  for (const std::string& command : std::span(commands).subspan(1)) {
    EXPECT_THAT(command, testing::StartsWith("0 ZADD d 1 m"));
    const auto words = static_cast<size_t>(std::count(command.begin(), command.end(), ' '));
    EXPECT_LE(words, 2 + 2 * 1024u);
    members += (words - 2) / 2;
  }
  EXPECT_EQ(members, kMembers);
  EXPECT_EQ(Run("zcard d"), ":" + std::to_string(kMembers));
}

TEST_P(CommandEffectsTest, OfStreams) {
  EXPECT_EQ(EffectsOf("xadd s * f v"), "0 XADD s 1700000000000-0 f v");
  EXPECT_EQ(EffectsOf("xadd s maxlen = 1 1700000000000-* f w"),
            "0 XADD s 1700000000000-1 f w; 0 XTRIM s MAXLEN = 1");
  EXPECT_EQ(EffectsOf("xgroup create s g 0"), "0 xgroup create s g 0");
  EXPECT_EQ(EffectsOf("xreadgroup group g c streams s >"),
            "0 XGROUP CREATECONSUMER s g c; "
            "0 XCLAIM s g c 0 1700000000000-1 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID "
            "1700000000000-1; "
            "0 XGROUP SETID s g 1700000000000-1 ENTRIESREAD 2");
  now_ms_ += 5;
  EXPECT_EQ(EffectsOf("xclaim s g d 0 1700000000000-1"),
            "0 XGROUP CREATECONSUMER s g d; "
            "0 XCLAIM s g d 0 1700000000000-1 TIME 1700000000005 RETRYCOUNT 2 FORCE JUSTID LASTID "
            "1700000000000-1");
  Run("xadd s * f x");
  EXPECT_EQ(EffectsOf("xreadgroup group g c noack streams s >"),
            "0 XGROUP SETID s g 1700000000005-0 ENTRIESREAD 3");
  EXPECT_EQ(EffectsOf("xtrim s maxlen 0"), "0 XTRIM s MAXLEN = 0");
  EXPECT_EQ(EffectsOf("xautoclaim s g c 0 0"), "0 XACK s g 1700000000000-1");
  EXPECT_EQ(EffectsOf("xread streams s 0"), "");
  EXPECT_EQ(EffectsOf("xreadgroup group g nobody streams s 0"),
            "0 XGROUP CREATECONSUMER s g nobody");
  EXPECT_EQ(EffectsOf("xreadgroup group g nobody streams s 0"), "");
}

TEST_P(CommandEffectsTest, OfDumps) {
  Run("set k v");
  const std::string payload = Call({"dump", "k"}).text;
  Effects();
  RunWords({"restore", "k", "50", payload, "REPLACE"});
  EXPECT_THAT(Effects(), ElementsAre("0 RESTORE k 1700000000050 " + payload + " REPLACE ABSTTL"));
  RunWords({"restore", "k", "1", payload, "REPLACE", "ABSTTL"});
  EXPECT_THAT(Effects(), ElementsAre("0 DEL k"));
  RunWords({"restore", "k", "1", payload, "REPLACE", "ABSTTL"});
  EXPECT_THAT(Effects(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Shards, CommandEffectsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
