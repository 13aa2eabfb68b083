// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

// Everything in both encodings: a set that is packed, and one that is a table from the start.
class ZsetCommandsTest : public CommandsTest {
 protected:
  static constexpr std::string_view kNotFloat = "-ERR value is not a valid float";

  void SetLimit(uint32_t entries) {
    shards_->AwaitOnAll([entries](Shard& shard) {
      shard.limits().zset = {.entries = entries, .element_bytes = 64};
    });
  }
  // fn() with a packed and with a large z of a 1, b 2, c 2, d 3.
  template <typename F>
  void InBothEncodings(F&& fn) {
    for (uint32_t entries : {128u, 0u}) {
      SCOPED_TRACE(entries == 0 ? "skiplist" : "listpack");
      SetLimit(entries);
      Run("flushall");
      ASSERT_EQ(Run("zadd z 3 d 2 c 1 a 2 b"), ":4");
      ASSERT_EQ(Run("object encoding z"), entries == 0 ? "\"skiplist\"" : "\"listpack\"");
      fn();
    }
  }
};

TEST_P(ZsetCommandsTest, AddOptions) {
  InBothEncodings([this] {
    EXPECT_EQ(Run("zadd z nx 9 a 5 e"), ":1");
    EXPECT_EQ(Run("zadd z xx 9 a 5 new"), ":0");
    EXPECT_EQ(Run("zadd z xx ch 8 a 5 new"), ":1");
    EXPECT_EQ(Run("zadd z gt ch 7 a 9 b"), ":1");
    EXPECT_EQ(Run("zadd z lt ch 7 a 10 b 4 f"), ":2") << "LT adds what is new";
    EXPECT_EQ(Run("zmscore z a b e f new"), R"(["7", "9", "5", "4", (nil)])");
    EXPECT_EQ(Run("zadd z incr 0.5 a"), "\"7.5\"");
    EXPECT_EQ(Run("zadd z nx incr 1 a"), "(nil)");
    EXPECT_EQ(Run("zadd z xx incr 1 new"), "(nil)");
    EXPECT_EQ(Run("zincrby z -8 a"), "\"-0.5\"");
    EXPECT_EQ(Run("zincrby z 1 new"), "\"1\"");
    EXPECT_EQ(Run("zadd z inf a"), ":0");
    EXPECT_EQ(Run("zincrby z -inf a"), "-ERR resulting score is not a number (NaN)");
    EXPECT_EQ(Run("zscore z a"), "\"inf\"");
  });
}

TEST_P(ZsetCommandsTest, AddRefusesWhatItCannotDoAndChangesNothing) {
  EXPECT_EQ(Run("zadd z xx 1 a"), ":0");
  EXPECT_EQ(Run("zadd z xx incr 1 a"), "(nil)");
  EXPECT_EQ(Run("zadd z 1 a 2"), kSyntaxError);
  EXPECT_EQ(Run("zadd z nx"), "-ERR wrong number of arguments for 'zadd' command");
  EXPECT_EQ(Run("zadd z nx ch"), kSyntaxError);
  EXPECT_EQ(Run("zadd z nx xx 1 a"), "-ERR XX and NX options at the same time are not compatible");
  for (const char* options : {"gt lt", "nx gt", "nx lt"}) {
    EXPECT_EQ(Run("zadd z " + std::string(options) + " 1 a"),
              "-ERR GT, LT, and/or NX options at the same time are not compatible");
  }
  EXPECT_EQ(Run("zadd z incr 1 a 2 b"),
            "-ERR INCR option supports a single increment-element pair");
  EXPECT_EQ(Run("zadd z 1 a x b"), kNotFloat);
  EXPECT_EQ(Run("zadd z nan a"), kNotFloat);
  EXPECT_EQ(Run("zincrby z x a"), kNotFloat);
  EXPECT_EQ(Run("dbsize"), ":0");
  Run("set s text");
  for (const char* command :
       {"zadd s 1 a", "zincrby s 1 a", "zcard s", "zscore s a", "zmscore s a", "zrank s a",
        "zrem s a", "zcount s 0 1", "zlexcount s - +", "zrange s 0 1", "zremrangebyrank s 0 1",
        "zpopmin s", "zrandmember s"}) {
    EXPECT_EQ(Run(command), kWrongType) << command;
  }
}

TEST_P(ZsetCommandsTest, RanksAndRanges) {
  InBothEncodings([this] {
    EXPECT_EQ(Run("zcard z"), ":4");
    EXPECT_EQ(Run("zrank z c"), ":2");
    EXPECT_EQ(Run("zrevrank z c"), ":1");
    EXPECT_EQ(Run("zrank z c withscore"), R"([:2, "2"])");
    EXPECT_EQ(Run("zrank z x"), "(nil)");
    EXPECT_EQ(Run("zrank z c score"), kSyntaxError);
    EXPECT_EQ(Run("zrank z c withscore x"), "-ERR wrong number of arguments for 'zrank' command");
    EXPECT_EQ(Run("zrange z 0 -1"), R"(["a", "b", "c", "d"])");
    EXPECT_EQ(Run("zrange z 1 2 rev withscores"), R"(["c", "2", "b", "2"])");
    EXPECT_EQ(Run("zrevrange z -2 -1"), R"(["b", "a"])");
    EXPECT_EQ(Run("zrange z 2 (3 byscore"), R"(["b", "c"])");
    EXPECT_EQ(Run("zrange z +inf 2 byscore rev limit 1 2"), R"(["c", "b"])");
    EXPECT_EQ(Run("zrangebyscore z -inf inf limit 1 -1"), R"(["b", "c", "d"])");
    EXPECT_EQ(Run("zrangebyscore z -inf inf limit -1 2"), "[]");
    EXPECT_EQ(Run("zrevrangebyscore z 3 (2 withscores"), R"(["d", "3"])");
    EXPECT_EQ(Run("zcount z (1 3"), ":3");
    EXPECT_EQ(Run("zcount z 3 1"), ":0");
    EXPECT_EQ(Run("zrange z 0 1 limit 0 1"),
              "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or "
              "BYLEX");
    EXPECT_EQ(Run("zrange z - + bylex withscores"),
              "-ERR syntax error, WITHSCORES not supported in combination with BYLEX");
    EXPECT_EQ(Run("zcount z x 1"), "-ERR min or max is not a float");
    EXPECT_EQ(Run("zrange z a 1"), kNotInteger);
  });
}

TEST_P(ZsetCommandsTest, RangesOfMembers) {
  for (uint32_t entries : {128u, 0u}) {
    SetLimit(entries);
    Run("flushall");
    Run("zadd z 0 a 0 b 0 ba 0 c");
    EXPECT_EQ(Run("zrangebylex z [b (c"), R"(["b", "ba"])");
    EXPECT_EQ(Run("zrange z + (b bylex rev limit 0 2"), R"(["c", "ba"])");
    EXPECT_EQ(Run("zrevrangebylex z [ba -"), R"(["ba", "b", "a"])");
    EXPECT_EQ(Run("zlexcount z - +"), ":4");
    EXPECT_EQ(Run("zlexcount z + -"), ":0");
    EXPECT_EQ(Run("zlexcount z b +"), "-ERR min or max not valid string range item");
    EXPECT_EQ(Run("zremrangebylex z (a [ba"), ":2");
    EXPECT_EQ(Run("zrange z 0 -1"), R"(["a", "c"])");
  }
}

TEST_P(ZsetCommandsTest, TheKeyGoesWithItsLastMember) {
  for (const char* command : {"zrem z a b c d", "zpopmin z 9", "zpopmax z 4",
                              "zremrangebyrank z 0 -1", "zremrangebyscore z -inf +inf"}) {
    InBothEncodings([&] {
      Run(command);
      EXPECT_EQ(Run("exists z"), ":0") << command;
    });
  }
}

TEST_P(ZsetCommandsTest, Pops) {
  InBothEncodings([this] {
    EXPECT_EQ(Run("zpopmin z"), R"(["a", "1"])");
    EXPECT_EQ(Run("zpopmax z 2"), R"(["d", "3", "c", "2"])");
    EXPECT_EQ(Run("zpopmin z 0"), "[]");
    EXPECT_EQ(Run("zpopmin z -1"), "-ERR value is out of range, must be positive");
    EXPECT_EQ(Run("zpopmin z 1 1"), kSyntaxError);
    EXPECT_EQ(Run("zpopmin missing"), "[]");
    EXPECT_EQ(Run("zrange z 0 -1"), R"(["b"])");
  });
}

TEST_P(ZsetCommandsTest, MembersAtRandomAreNotTooMany) {
  Run("zadd z 1 a");
  EXPECT_EQ(Run("zrandmember z -3"), R"(["a", "a", "a"])");
  EXPECT_EQ(Run("zrandmember z -16777217"), "-ERR value is out of range");
  EXPECT_EQ(Run("zrandmember z 16777217"), R"(["a"])");
}

TEST_P(ZsetCommandsTest, AWalkMeetsEachMemberOnce) {
  InBothEncodings([this] {
    EXPECT_EQ(Run("zscan z 0 match [ab]"), Run("object encoding z") == "\"listpack\""
                                               ? R"(["0", ["a", "1", "b", "2"]])"
                                               : Run("zscan z 0 match [ab] count 9"));
    EXPECT_EQ(Call({"zscan", "z", "0", "count", "100"}).items[1].items.size(), 8u);
    EXPECT_EQ(Run("zscan missing 5 count x"), R"(["0", []])");
    EXPECT_EQ(Run("zscan z x"), "-ERR invalid cursor");
    EXPECT_EQ(Run("zscan z 0 count 0"), kSyntaxError);
    EXPECT_EQ(Run("zscan z 0 novalues"), kSyntaxError);
    for (int i = 0; i < 100; ++i) Run("zadd z 0.5 member" + std::to_string(i));
    std::map<std::string, std::string> seen;
    std::string cursor = "0";
    size_t calls = 0;
    do {
      const RespValue reply = Call({"zscan", "z", cursor, "count", "10"});
      cursor = reply.items[0].text;
      const auto& items = reply.items[1].items;
      for (size_t i = 0; i < items.size(); i += 2) {
        EXPECT_TRUE(seen.emplace(items[i].text, items[i + 1].text).second) << items[i].text;
      }
      ++calls;
    } while (cursor != "0");
    EXPECT_EQ(seen.size(), 104u);
    EXPECT_EQ(seen["member7"], "0.5");
    if (Run("object encoding z") == "\"listpack\"") {
      EXPECT_EQ(calls, 1u);
    } else {
      EXPECT_GT(calls, 3u);
    }
  });
  Run("set s x");
  EXPECT_EQ(Run("zscan s 0"), kWrongType);
}

// Pearson's chi-squared test; its value is above 4 n once in millions of runs.
TEST_P(ZsetCommandsTest, EachMemberIsDrawnAsOftenAsAnother) {
  constexpr int kMembers = 20, kDraws = 4000;
  for (uint32_t entries : {128u, 0u}) {
    SetLimit(entries);
    Run("flushall");
    for (int i = 0; i < kMembers; ++i) {
      Run("zadd z " + std::to_string(i) + " m" + std::to_string(i));
      Run("zadd y " + std::to_string(i) + " m" + std::to_string(i));  // is read in slices
    }
    // One, some of them without and with repetition; few and many.
    for (const std::string draw : {"z 1", "z 3", "z 15", "z -3", "y 3", "y 6", "y 15", "y -3"}) {
      std::map<std::string, double> drawn;
      double total = 0;
      for (int i = 0; i < kDraws; ++i) {
        const std::string reply = Run("zrandmember " + draw);
        for (size_t at = 0; (at = reply.find('m', at)) != std::string::npos; ++at, ++total) {
          ++drawn[reply.substr(at, reply.find('"', at) - at)];
        }
      }
      double chi_squared = 0;
      const double each = total / kMembers;
      for (const auto& [member, times] : drawn) {
        chi_squared += (times - each) * (times - each) / each;
      }
      EXPECT_EQ(drawn.size(), static_cast<size_t>(kMembers));
      EXPECT_LT(chi_squared, 4.0 * kMembers) << draw;
    }
  }
}

// "z1" is read in slices, "z2" at once (DispatchForTest).
TEST_P(ZsetCommandsTest, LongReadsInSlicesReplyTheSame) {
  std::vector<std::string> words = {"zadd", ""};
  for (int i = 0; i < 5000; ++i) {
    words.push_back(std::to_string(i / 2));
    words.push_back("member:" + std::to_string(i));
  }
  for (const char* key : {"z1", "z2"}) {
    words[1] = key;
    EXPECT_EQ(RunWords(words), ":5000");
  }
  const auto expect_same = [&](const std::string& before, const std::string& after) {
    for (const std::string key : {"z", "missing"}) {
      EXPECT_EQ(Run(before + key + "1 " + after), Run(before + key + "2 " + after)) << after;
    }
  };
  for (const std::string range : {"0 -1", "7 -7", "-3000 -2", "1000 2500", "3 2", "x 1"}) {
    expect_same("zrange ", range);
    expect_same("zrange ", range + " rev");
    expect_same("zrange ", range + " withscores");
    expect_same("zrevrange ", range + " withscores");
  }
  expect_same("zrange ", "(10 +inf byscore limit 3 4000");
  expect_same("zrange ", "+inf 10 byscore rev withscores");
  expect_same("zrange ", "- + bylex");
  for (const std::string limit : {"", " limit 0 3", " limit 1500 3000", " limit 1 -1"}) {
    expect_same("zrangebyscore ", "5 inf" + limit);
    expect_same("zrangebyscore ", "(5 2000 withscores" + limit);
    expect_same("zrevrangebyscore ", "inf 5" + limit);
    expect_same("zrangebylex ", "- +" + limit);
    expect_same("zrevrangebylex ", "+ -" + limit);
    expect_same("zrange ", "+ - bylex rev" + limit);
  }
  expect_same("zrangebyscore ", "x 5");
  expect_same("zrangebylex ", "- x");
  expect_same("zrangebyscore ", "1 2 limit 0");
}

// "t1" is made in slices, if it is in one shard with the other key, and "t2" at once.
TEST_P(ZsetCommandsTest, LongRangesAreStoredInSlices) {
  std::vector<std::string> words = {"zadd", "{t1}z"};
  for (int i = 0; i < 20'000; ++i) {
    words.push_back(std::to_string(i / 2));
    words.push_back("member:" + std::to_string(i));
  }
  EXPECT_EQ(RunWords(words), ":20000");
  words[1] = "{t2}z";
  EXPECT_EQ(RunWords(words), ":20000");
  for (const std::string range :
       {"0 -1", "7 -7", "5 15000 rev", "10 inf byscore", "- + bylex limit 10 12000", "3 2", "1 x",
        "1 (2 byscore", "0 -1 withscores"}) {
    Run("set t1 x");
    Run("set t2 x");
    Effects();
    EXPECT_EQ(Run("zrangestore t1 {t1}z " + range), Run("zrangestore t2 {t2}z " + range));
    for (const std::string& unit : Effects()) EXPECT_TRUE(unit.starts_with("0 zrangestore t"));
    EXPECT_EQ(Run("type t1"), Run("type t2"));
    EXPECT_EQ(Run("zrange t1 0 -1 withscores"), Run("zrange t2 0 -1 withscores")) << range;
  }
  EXPECT_EQ(Run("zrangestore {t1}z {t1}z 5 -5"), ":19991") << "over itself";
  EXPECT_EQ(Run("zrange {t1}z 0 0"), R"(["member:5"])");
  Run("set {t1}text x");
  EXPECT_EQ(Run("zrangestore t1 {t1}text 0 -1"), kWrongType);
  EXPECT_EQ(Run("zrangestore t1 {t1}none 0 -1"), ":0");
  EXPECT_EQ(Run("exists t1"), ":0");
}

// "z1" in slices, "z2" at once.
TEST_P(ZsetCommandsTest, ManyMembersAreDrawn) {
  constexpr size_t kMembers = 20'000;
  std::vector<std::string> words = {"zadd", ""};
  std::map<std::string, std::string> scores;
  for (size_t i = 0; i < kMembers; ++i) {
    words.push_back(std::to_string(i));
    words.push_back("member:" + std::to_string(i));
    scores[words.back()] = std::to_string(i);
  }
  for (const std::string key : {"z1", "z2"}) {
    words[1] = key;
    EXPECT_EQ(RunWords(words), ":20000");
    for (const size_t count : {2u, 700u, 5000u, 6666u, 6667u, 15'000u, 19'999u}) {
      for (const bool may_repeat : {false, true}) {
        const RespValue found = Call(
            {"zrandmember", key, (may_repeat ? "-" : "") + std::to_string(count), "withscores"});
        std::map<std::string, std::string> different;
        ASSERT_EQ(found.items.size(), 2 * count);
        for (size_t i = 0; i < found.items.size(); i += 2) {
          ASSERT_EQ(scores[found.items[i].text], found.items[i + 1].text);
          different.emplace(found.items[i].text, "");
        }
        EXPECT_EQ(different.size() == count, !may_repeat || count < 600);
      }
    }
    EXPECT_EQ(Call({"zrandmember", key, "-50000"}).items.size(), 50'000u);
    EXPECT_EQ(Run("zrandmember " + key + " 0"), "[]");
    EXPECT_EQ(Run("zrandmember " + key + " x"), kNotInteger);
    EXPECT_EQ(Run("zrandmember " + key + " 1 x"), kSyntaxError);
    EXPECT_EQ(Run("zrandmember " + key + " -16777217"), "-ERR value is out of range");
    EXPECT_TRUE(Run("zrandmember " + key).starts_with("\"member:"));
  }
  EXPECT_EQ(Run("zrandmember z1 20000"), Run("zrandmember z2 30000"));
  EXPECT_EQ(Run("zrandmember z1 20000 withscores"), Run("zrevrange z2 0 -1 withscores"));
  for (const std::string missing : {"y1", "y2"}) {
    EXPECT_EQ(Run("zrandmember " + missing), "(nil)");
    EXPECT_EQ(Run("zrandmember " + missing + " 5"), "[]");
    EXPECT_EQ(Run("zrandmember " + missing + " -16777217"), "[]");
    Run("set " + missing + " x");
    EXPECT_EQ(Run("zrandmember " + missing + " 9000"), kWrongType);
  }
}

TEST_P(ZsetCommandsTest, LongRangesAreRemoved) {
  std::vector<std::string> words = {"zadd", "z"};
  for (int i = 0; i < 20'000; ++i) {
    words.push_back(std::to_string(i));
    words.push_back("member:" + std::to_string(i));
  }
  EXPECT_EQ(RunWords(words), ":20000");
  Run("expire z 1000");
  EXPECT_EQ(Run("zremrangebyrank z 0 4999"), ":5000");
  EXPECT_EQ(Run("zremrangebyscore z (6000 7000"), ":1000");
  EXPECT_EQ(Run("zcard z"), ":14000");
  EXPECT_EQ(Run("zrange z 1000 1001"), R"(["member:6000", "member:7001"])");
  EXPECT_EQ(Run("zremrangebyrank z 3 -3"), ":13995") << "all but a few";
  EXPECT_EQ(Run("zrange z 0 -1"),
            R"(["member:5000", "member:5001", "member:5002", "member:19998", "member:19999"])");
  EXPECT_EQ(Run("ttl z"), ":1000");
  EXPECT_EQ(RunWords(words), ":19995");
  EXPECT_EQ(Call({"zpopmax", "z", "19000"}).items.size(), 38'000u);
  EXPECT_EQ(Run("zcard z"), ":1000");
  EXPECT_EQ(RunWords(words), ":19000");
  EXPECT_EQ(Run("zremrangebylex z - +"), ":20000");
  EXPECT_EQ(Run("exists z"), ":0");
}

INSTANTIATE_TEST_SUITE_P(Shards, ZsetCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
