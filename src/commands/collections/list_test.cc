// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class ListCommandsTest : public CommandsTest {
 protected:
  static constexpr std::string_view kNotPositive = "-ERR value is out of range, must be positive";

  // list_max_listpack_size for all shards.
  void SetLimit(int setting) {
    shards_->AwaitOnAll(
        [&](Shard& shard) { shard.limits().list = BlockLimit::FromSetting(setting); });
  }
  void SetOld() { ASSERT_EQ(Run("rpush l a b c"), ":3"); }
  void ExpectOld() {
    EXPECT_EQ(Run("lrange l 0 -1"), R"(["a", "b", "c"])");
    EXPECT_EQ(Run("dbsize"), ":1");
  }
};

TEST_P(ListCommandsTest, PushesAtBothEndsOneAfterAnother) {
  EXPECT_EQ(Run("rpush l a b"), ":2");
  EXPECT_EQ(Run("lpush l c d"), ":4");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["d", "c", "a", "b"])");
  EXPECT_EQ(Run("llen l"), ":4");
  EXPECT_EQ(Run("llen missing"), ":0");
  EXPECT_EQ(Run("type l"), "+list");
  EXPECT_EQ(Run("lpush l"), "-ERR wrong number of arguments for 'lpush' command");
}

TEST_P(ListCommandsTest, PushXNeedsAList) {
  EXPECT_EQ(Run("lpushx l a"), ":0");
  EXPECT_EQ(Run("rpushx l a"), ":0");
  EXPECT_EQ(Run("exists l"), ":0");
  SetOld();
  EXPECT_EQ(Run("lpushx l x y"), ":5");
  EXPECT_EQ(Run("rpushx l z"), ":6");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["y", "x", "a", "b", "c", "z"])");
}

TEST_P(ListCommandsTest, PopReturnsOneElementWithoutACountAndAnArrayWithOne) {
  EXPECT_EQ(Run("lpop l"), "(nil)");
  EXPECT_EQ(Run("rpush l a b c d e f"), ":6");
  EXPECT_EQ(Run("lpop l"), "\"a\"");
  EXPECT_EQ(Run("rpop l"), "\"f\"");
  EXPECT_EQ(Run("lpop l 0"), "[]");
  EXPECT_EQ(Run("lpop l 1"), R"(["b"])");
  EXPECT_EQ(Run("rpop l 2"), R"(["e", "d"])");
  EXPECT_EQ(Run("lpop l 9223372036854775807"), R"(["c"])");
  EXPECT_EQ(Run("exists l"), ":0");
}

TEST_P(ListCommandsTest, PopOfAMissingKeyWithACountIsANullArray) {
  EXPECT_EQ(Run("lpop l 1"), "(nil)");
  EXPECT_EQ(Run("rpop l 0"), "(nil)");
  resp3_ = true;
  EXPECT_EQ(Run("lpop l 2"), "(nil)");
}

TEST_P(ListCommandsTest, PopChecksItsCount) {
  SetOld();
  EXPECT_EQ(Run("lpop l -1"), kNotPositive);
  EXPECT_EQ(Run("lpop l x"), kNotPositive);
  EXPECT_EQ(Run("lpop missing -1"), kNotPositive);
  EXPECT_EQ(Run("rpop l 1 1"), "-ERR wrong number of arguments for 'rpop' command");
  EXPECT_EQ(Run("rpop missing x 1"), "-ERR wrong number of arguments for 'rpop' command");
  ExpectOld();
}

TEST_P(ListCommandsTest, AnEmptiedListIsRemovedAndItsDeadlineWithIt) {
  for (const char* line : {"lpop l", "rpop l 5", "ltrim l 1 0", "lrem l 0 a", "lmpop 1 l left",
                           "lmove l l2 left right", "rpoplpush l l2"}) {
    Run("flushall");
    EXPECT_EQ(Run("rpush l a"), ":1");
    EXPECT_EQ(Run("expire l 100"), ":1");
    Run(line);
    EXPECT_EQ(Run("exists l"), ":0") << line;
    EXPECT_EQ(Run("rpush l a"), ":1");
    EXPECT_EQ(Run("ttl l"), ":-1") << line;
  }
}

TEST_P(ListCommandsTest, IndexesCountFromBothEnds) {
  SetOld();
  EXPECT_EQ(Run("lindex l 0"), "\"a\"");
  EXPECT_EQ(Run("lindex l 2"), "\"c\"");
  EXPECT_EQ(Run("lindex l -1"), "\"c\"");
  EXPECT_EQ(Run("lindex l -3"), "\"a\"");
  EXPECT_EQ(Run("lindex l 3"), "(nil)");
  EXPECT_EQ(Run("lindex l -4"), "(nil)");
  EXPECT_EQ(Run("lindex l -9223372036854775808"), "(nil)");
  EXPECT_EQ(Run("lindex l x"), kNotInteger);
  EXPECT_EQ(Run("lindex missing x"), "(nil)");
}

TEST_P(ListCommandsTest, SetReplacesOneElement) {
  SetOld();
  EXPECT_EQ(Run("lset l 1 " + std::string(300, 'x')), "+OK");
  EXPECT_EQ(Run("lset l -3 17"), "+OK");
  EXPECT_EQ(Run("lset l -1 ''"), "+OK");
  EXPECT_EQ(Run("lrange l 0 -1"), "[\"17\", \"" + std::string(300, 'x') + "\", \"\"]");
  EXPECT_EQ(Run("lset l 3 y"), "-ERR index out of range");
  EXPECT_EQ(Run("lset l -4 y"), "-ERR index out of range");
  EXPECT_EQ(Run("lset l x y"), kNotInteger);
  EXPECT_EQ(Run("lset missing x y"), "-ERR no such key");
}

TEST_P(ListCommandsTest, RangeTakesAnyBounds) {
  SetOld();
  EXPECT_EQ(Run("lrange l 1 1"), R"(["b"])");
  EXPECT_EQ(Run("lrange l -2 -1"), R"(["b", "c"])");
  EXPECT_EQ(Run("lrange l -100 100"), R"(["a", "b", "c"])");
  EXPECT_EQ(Run("lrange l 2 1"), "[]");
  EXPECT_EQ(Run("lrange l 3 100"), "[]");
  EXPECT_EQ(Run("lrange l 0 -4"), "[]");
  EXPECT_EQ(Run("lrange l -9223372036854775808 9223372036854775807"), R"(["a", "b", "c"])");
  EXPECT_EQ(Run("lrange l 9223372036854775807 -9223372036854775808"), "[]");
  EXPECT_EQ(Run("lrange missing 0 -1"), "[]");
  EXPECT_EQ(Run("lrange l 0 x"), kNotInteger);
  EXPECT_EQ(Run("lrange missing x 0"), kNotInteger);
}

TEST_P(ListCommandsTest, TrimKeepsTheRange) {
  EXPECT_EQ(Run("rpush l a b c d e"), ":5");
  EXPECT_EQ(Run("ltrim l 1 -2"), "+OK");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["b", "c", "d"])");
  EXPECT_EQ(Run("ltrim l -100 100"), "+OK");
  EXPECT_EQ(Run("llen l"), ":3");
  EXPECT_EQ(Run("ltrim l x 0"), kNotInteger);
  EXPECT_EQ(Run("ltrim missing 0 1"), "+OK");
  EXPECT_EQ(Run("ltrim l 3 5"), "+OK");
  EXPECT_EQ(Run("exists l"), ":0");
}

TEST_P(ListCommandsTest, InsertFindsThePivotFromTheFront) {
  EXPECT_EQ(Run("rpush l a b a"), ":3");
  EXPECT_EQ(Run("linsert l before a x"), ":4");
  EXPECT_EQ(Run("linsert l AFTER a y"), ":5");
  EXPECT_EQ(Run("linsert l after nope y"), ":-1");
  EXPECT_EQ(Run("linsert missing after a y"), ":0");
  EXPECT_EQ(Run("linsert missing beside a y"), kSyntaxError);
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["x", "a", "y", "b", "a"])");
}

TEST_P(ListCommandsTest, RemTakesTheDirectionFromTheSign) {
  EXPECT_EQ(Run("rpush l a 1 a 1 a 1"), ":6");
  EXPECT_EQ(Run("lrem l 1 1"), ":1");
  EXPECT_EQ(Run("lrem l -1 1"), ":1");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["a", "a", "1", "a"])");
  EXPECT_EQ(Run("lrem l -2 a"), ":2");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["a", "1"])");
  EXPECT_EQ(Run("lrem l 0 nope"), ":0");
  EXPECT_EQ(Run("lrem missing 0 a"), ":0");
  EXPECT_EQ(Run("lrem l x a"), kNotInteger);
  EXPECT_EQ(Run("lrem l -9223372036854775808 a"), ":1");
}

TEST_P(ListCommandsTest, PosFindsByRankCountAndLength) {
  EXPECT_EQ(Run("rpush l a b c 1 2 3 c c"), ":8");
  EXPECT_EQ(Run("lpos l c"), ":2");
  EXPECT_EQ(Run("lpos l 3"), ":5");
  EXPECT_EQ(Run("lpos l nope"), "(nil)");
  EXPECT_EQ(Run("lpos l c rank 2"), ":6");
  EXPECT_EQ(Run("lpos l c RANK -1"), ":7");
  EXPECT_EQ(Run("lpos l c rank 4"), "(nil)");
  EXPECT_EQ(Run("lpos l c count 0"), "[:2, :6, :7]");
  EXPECT_EQ(Run("lpos l c count 2"), "[:2, :6]");
  EXPECT_EQ(Run("lpos l c rank -2 count 5"), "[:6, :2]");
  EXPECT_EQ(Run("lpos l c count 0 maxlen 7"), "[:2, :6]");
  EXPECT_EQ(Run("lpos l c rank -1 count 0 maxlen 2"), "[:7, :6]");
  EXPECT_EQ(Run("lpos l c maxlen 2"), "(nil)");
  EXPECT_EQ(Run("lpos l nope count 1"), "[]");
  EXPECT_EQ(Run("lpos missing c"), "(nil)");
  EXPECT_EQ(Run("lpos missing c count 0"), "[]");
}

TEST_P(ListCommandsTest, PosChecksItsOptionsBeforeTheKey) {
  for (const char* key : {"missing", "l"}) {
    const std::string head = std::string("lpos ") + key + " c ";
    EXPECT_EQ(Run(head + "rank 0").substr(0, 21), "-ERR RANK can't be ze");
    EXPECT_EQ(Run(head + "rank x"), kNotInteger);
    EXPECT_EQ(Run(head + "rank -9223372036854775808"),
              "-ERR value is out of range, value must between -9223372036854775807 and "
              "9223372036854775807");
    EXPECT_EQ(Run(head + "count -1"), "-ERR COUNT can't be negative");
    EXPECT_EQ(Run(head + "maxlen x"), "-ERR MAXLEN can't be negative");
    EXPECT_EQ(Run(head + "what 1"), kSyntaxError);
    EXPECT_EQ(Run(head + "rank 1 count"), kSyntaxError);
    Run("rpush l c");
  }
}

TEST_P(ListCommandsTest, MoveTakesFromOneListAndGivesToTheOther) {
  EXPECT_EQ(Run("rpush a 1 2 3 4"), ":4");
  EXPECT_EQ(Run("lmove a b left right"), "\"1\"");
  EXPECT_EQ(Run("lmove a b RIGHT LEFT"), "\"4\"");
  EXPECT_EQ(Run("rpoplpush a b"), "\"3\"");
  EXPECT_EQ(Run("lrange a 0 -1"), R"(["2"])");
  EXPECT_EQ(Run("lrange b 0 -1"), R"(["3", "4", "1"])");
  EXPECT_EQ(Run("lmove missing b left left"), "(nil)");
  EXPECT_EQ(Run("lmove a b up left"), kSyntaxError);
  EXPECT_EQ(Run("lmove missing b left down"), kSyntaxError);
}

TEST_P(ListCommandsTest, MoveWithinAListTurnsItAround) {
  SetOld();
  EXPECT_EQ(Run("lmove l l left right"), "\"a\"");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["b", "c", "a"])");
  EXPECT_EQ(Run("rpoplpush l l"), "\"a\"");
  EXPECT_EQ(Run("lmove l l left left"), "\"a\"");
  ExpectOld();
  EXPECT_EQ(Run("rpush one 1"), ":1");
  EXPECT_EQ(Run("expire one 100"), ":1");
  EXPECT_EQ(Run("lmove one one right left"), "\"1\"");
  EXPECT_EQ(Run("ttl one"), ":100");
}

TEST_P(ListCommandsTest, MovesLongElementsOfAListOfOne) {
  const std::string text(20000, 'x');
  EXPECT_EQ(Run("rpush l " + text), ":1");
  EXPECT_EQ(Call({"lmove", "l", "l", "left", "right"}).text, text);
  EXPECT_EQ(Call({"lmove", "l", "l2", "left", "right"}).text, text);
  EXPECT_EQ(Call({"lindex", "l2", "0"}).text, text);
}

TEST_P(ListCommandsTest, MPopTakesTheFirstListThatExists) {
  EXPECT_EQ(Run("lmpop 2 a b left"), "(nil)");
  EXPECT_EQ(Run("rpush b 1 2 3 4"), ":4");
  EXPECT_EQ(Run("lmpop 2 a b left"), R"(["b", ["1"]])");
  EXPECT_EQ(Run("lmpop 2 a b RIGHT count 2"), R"(["b", ["4", "3"]])");
  EXPECT_EQ(Run("lmpop 1 b right COUNT 100"), R"(["b", ["2"]])");
  EXPECT_EQ(Run("exists b"), ":0");
}

TEST_P(ListCommandsTest, MPopChecksItsArgumentsBeforeTheKeys) {
  SetOld();
  EXPECT_EQ(Run("lmpop 0 l left"), "-ERR numkeys should be greater than 0");
  EXPECT_EQ(Run("lmpop -1 l left"), "-ERR numkeys should be greater than 0");
  EXPECT_EQ(Run("lmpop x l left"), "-ERR numkeys should be greater than 0");
  EXPECT_EQ(Run("lmpop 9223372036854775807 l left"), kSyntaxError);
  EXPECT_EQ(Run("lmpop 1 l up"), kSyntaxError);
  EXPECT_EQ(Run("lmpop 1 l left count 0"), "-ERR count should be greater than 0");
  EXPECT_EQ(Run("lmpop 1 l left count"), kSyntaxError);
  EXPECT_EQ(Run("lmpop 1 l left count 1 count 1"), kSyntaxError);
  EXPECT_EQ(Run("lmpop 1 l left what 1"), kSyntaxError);
  if (GetParam() == 1) {  // two keys
    EXPECT_EQ(Run("lmpop 2 l left"), kSyntaxError);
  }
  ExpectOld();
}

TEST_P(ListCommandsTest, OtherTypesAreRefusedAndLeftAlone) {
  for (const char* line :
       {"lpush s a", "rpush s a", "lpushx s a", "rpushx s a", "lpop s", "rpop s 0", "llen s",
        "lindex s x", "lset s x a", "lrange s 0 1", "ltrim s 0 1", "linsert s before a b",
        "lrem s 0 a", "lpos s a", "lmove s s2 left left", "rpoplpush s s2", "rpoplpush s s",
        "lmpop 1 s left", "lmpop 2 s3 s right count 2"}) {
    Run("set s v");
    EXPECT_EQ(Run(line), kWrongType) << line;
    EXPECT_EQ(Run("get s"), "\"v\"");
    EXPECT_EQ(Run("dbsize"), ":1");
  }
  EXPECT_EQ(Run("rpush s2 a"), ":1");
  EXPECT_EQ(Run("lmove s2 s left left"), kWrongType);
  EXPECT_EQ(Run("lrange s2 0 -1"), R"(["a"])");
  for (const char* line : {"get s2", "append s2 x", "incr s2", "strlen s2", "getdel s2",
                           "set s2 v get", "setrange s2 0 x"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(Run("lrange s2 0 -1"), R"(["a"])");
  EXPECT_EQ(Run("set s2 v"), "+OK");
}

TEST_P(ListCommandsTest, TellsItsEncoding) {
  SetLimit(3);
  EXPECT_EQ(Run("rpush l 1 2 3"), ":3");
  EXPECT_EQ(Run("object encoding l"), "\"listpack\"");
  EXPECT_EQ(Run("linsert l after 2 x"), ":4");
  EXPECT_EQ(Run("object encoding l"), "\"quicklist\"");
  EXPECT_EQ(Run("lpop l 3"), R"(["1", "2", "x"])");
  EXPECT_EQ(Run("object encoding l"), "\"listpack\"");
  SetLimit(-2);
  EXPECT_EQ(Run("lset l 0 " + std::string(9000, 'x')), "+OK");
  EXPECT_EQ(Run("object encoding l"), "\"quicklist\"");
  EXPECT_EQ(Run("object refcount l"), ":1");
}

// Whatever the blocks are like, the same commands have the same replies; and at the end the
// harness recomputes what the lists cost.
TEST_P(ListCommandsTest, RepliesDoNotDependOnTheSizeOfBlocks) {
  const uint64_t seed = helio::TestSeed();
  std::vector<std::vector<std::string>> replies;
  for (int setting : {-2, 1, 2, 5}) {
    SetLimit(setting);
    Run("flushall");
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t bound) { return std::to_string(random() % bound); };
    const auto end = [&] { return random() % 2 == 0 ? " left" : " right"; };
    auto& mine = replies.emplace_back();
    for (int i = 0; i < 1500; ++i) {
      const std::string key = " " + below(3);
      switch (random() % 12) {
        case 0:
          mine.push_back(Run("lset" + key + " " + below(10) + " " + below(100)));
          break;
        case 1:
          mine.push_back(Run("linsert" + key + " before " + below(10) + " " + below(10)));
          break;
        case 2:
          mine.push_back(Run("lrem" + key + " -" + below(3) + " " + below(10)));
          break;
        case 3:
          mine.push_back(Run("lpop" + key + " " + below(4)));
          break;
        case 4:
          mine.push_back(Run("lmove" + key + " " + below(3) + end() + end()));
          break;
        case 5:
          mine.push_back(Run("lpos" + key + " " + below(10) + " rank -1 count 2"));
          break;
        case 6:
          mine.push_back(Run("ltrim" + key + " " + below(3) + " -" + below(4)));
          break;
        case 7:
          mine.push_back(Run("lmpop 2" + key + " 0" + end() + " count 2"));
          break;
        default:
          mine.push_back(Run((random() % 2 == 0 ? "lpush" : "rpush") + key + " " + below(10) + " " +
                             std::string(random() % 20, 'x') + "y"));
      }
      mine.push_back(Run("lrange" + key + " 0 -1"));
    }
    EXPECT_EQ(mine, replies[0]) << setting;
  }
}

// "l1" is read in slices, "l2" at once (DispatchForTest).
TEST_P(ListCommandsTest, LongReadsInSlicesReplyTheSame) {
  std::vector<std::string> words = {"rpush", ""};
  for (int i = 0; i < 5000; ++i) words.push_back("element:" + std::to_string(i));
  words.push_back(std::string(300'000, 'x'));  // a slice of its own
  for (const char* key : {"l1", "l2"}) {
    words[1] = key;
    EXPECT_EQ(RunWords(words), ":5001");
  }
  for (const std::string range :
       {"0 -1", "7 -7", "-3000 -2", "1000 2500", "4999 6000", "3 2", "-1 0", "9000 -1", "x 1"}) {
    EXPECT_EQ(Run("lrange l1 " + range), Run("lrange l2 " + range)) << range;
    EXPECT_EQ(Run("lrange missing1 " + range), Run("lrange missing2 " + range)) << range;
  }
  Run("set text1 x");
  EXPECT_EQ(Run("lrange text1 0 -1"), kWrongType);
}

INSTANTIATE_TEST_SUITE_P(Shards, ListCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
