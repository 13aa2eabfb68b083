// SPDX-License-Identifier: Apache-2.0
// Long reads in slices. Of two keys with the same stream "s1" is read in slices, "s2" at once
// (DispatchForTest).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class StreamSlicesTest : public CommandsTest {
 protected:
  static constexpr int kEntries = 3000;

  // Some of the entries are gone, some are long.
  void SetUp() override {
    for (const std::string key : {"s1", "s2"}) {
      for (int i = 1; i <= kEntries; ++i) {
        const std::string id = std::to_string(i / 7) + "-" + std::to_string(i);
        const std::string value = i % 500 == 0 ? std::string(100'000, 'x') : std::to_string(i);
        std::vector<std::string> words = {"xadd", key, id, "field", value};
        if (i % 3 == 0) words.insert(words.end(), {"other", "'text'"});
        RunWords(words);
      }
      for (int i = 5; i <= kEntries; i += 11) {
        Run("xdel " + key + " " + std::to_string(i / 7) + "-" + std::to_string(i));
      }
    }
  }
  void Group(const std::string& name, int64_t entries) {
    for (const std::string key : {"s1", "s2"}) {
      EXPECT_EQ(Run("xgroup create " + key + " " + name + " 0"), "+OK");
      for (const std::string consumer : {"a", "b", "c"}) {
        Run("xreadgroup group " + name + " " + consumer + " count " + std::to_string(entries) +
            " streams " + key + " >");
        now_ms_ += 10;
      }
      now_ms_ -= 30;
      Run("xnack " + key + " " + name + " fail ids 2 0-1 0-2");
    }
  }
  // `line` has a $ for the key's number.
  std::string RunOn(const std::string& line, char number) {
    std::string its_line = line;
    for (char& letter : its_line) letter = letter == '$' ? number : letter;
    return Run(its_line);
  }
  void ExpectTheSame(const std::string& line) {
    for (const bool resp3 : {false, true}) {
      resp3_ = resp3;
      EXPECT_TRUE(RunOn(line, '1') == RunOn(line, '2')) << line;
    }
    resp3_ = false;
  }
};

TEST_P(StreamSlicesTest, Ranges) {
  for (const std::string count :
       {"", " count 0", " count -1", " count 1", " count 1023", " count 1024", " count 1025",
        " count 9000", " count x", " count", " more 1"}) {
    for (const std::string ends :
         {"- +", "100 +", "- (300-2104", "5 5", "300 2", "0-1 0-1", "17-121 400", "500 +", "x +",
          "- x", "(18446744073709551615 +"}) {
      ExpectTheSame("xrange s$ " + ends + count);
      const size_t blank = ends.find(' ');
      ExpectTheSame("xrevrange s$ " + ends.substr(blank + 1) + " " + ends.substr(0, blank) + count);
    }
    ExpectTheSame("xrange missing$ - +" + count);
  }
  EXPECT_EQ(Call({"xrange", "s1", "-", "+"}).items.size(), kEntries - 273u);
  Run("set text1 x");
  EXPECT_EQ(Run("xrange text1 - +"), kWrongType);
  EXPECT_EQ(Run("xrevrange text1 + -"), kWrongType);
}

TEST_P(StreamSlicesTest, ReadsBehindAnId) {
  // What is replied besides the name of the key.
  const auto read = [this](const std::string& options, const std::string& id, char number) {
    const std::string key = std::string("s") + number;
    const RespValue reply = Call({"xread", "count", options, "streams", key, id});
    if (reply.items.empty()) return reply.ToString();
    if (resp3_) return reply.items[1].ToString();
    return reply.items[0].items[1].ToString();
  };
  for (const bool resp3 : {false, true}) {
    resp3_ = resp3;
    for (const char* count : {"0", "-1", "1", "1024", "1025", "9000", "x"}) {
      for (const char* id : {"0", "0-1", "200-1404", "428-2999", "428-3000", "500", "$", "+", "x",
                             "18446744073709551615-18446744073709551615"}) {
        EXPECT_TRUE(read(count, id, '1') == read(count, id, '2')) << count << " " << id;
      }
    }
  }
}

// Over one shard or several, and with a budget for all of them.
TEST_P(StreamSlicesTest, ReadsOfSeveralKeys) {
  Run("rename s1 {t}1");
  Run("rename s2 {t}2");
  Run("xadd {t}3 1-1 a b");
  Run("xadd u 1-1 a b");
  for (const std::string options :
       {"", "count 1500 ", "maxcount 1 ", "maxcount 2500 ", "maxsize 1 ", "maxsize 150000 ",
        "maxsize 900000 ", "maxcount 4000 maxsize 700000 "}) {
    // In slices where the first key ends oddly.
    std::string mine = Run("xread " + options + "streams {t}1 {t}4 {t}3 0 0 0");
    std::string others = Run("xread " + options + "streams {t}2 {t}4 {t}3 0 0 0");
    const size_t at = others.find("{t}2");
    if (at != std::string::npos) others.replace(at, 4, "{t}1");
    EXPECT_TRUE(mine == others) << options;
    // Over shards always so.
    const std::string order = Run("xread " + options + "streams u {t}2 missing 0 0 0");
    EXPECT_EQ(order.substr(0, 5), "[[\"u\"") << options;
    EXPECT_EQ(order.find("{t}2") != std::string::npos, options.find(" 1 ") == std::string::npos)
        << options;
  }
  EXPECT_EQ(Run("xread streams {t}1 {t}3 x 0"),
            "-ERR Invalid stream ID specified as stream command argument");
  EXPECT_EQ(Run("xread streams {t}1 {t}3 $ 1-1"), "(nil)");
  Run("set {t}5 x");
  EXPECT_EQ(Run("xread streams {t}1 {t}5 0 0"), kWrongType);
}

TEST_P(StreamSlicesTest, WhatIsPending) {
  Group("g", 1000);
  for (const std::string range :
       {"- + 9000", "- + 0", "- + 1", "- + 1024", "- + 1025", "- + -7", "20 300 9000", "- (0-3 5",
        "300 20 9000", "x + 1", "- + x", "- +"}) {
    for (const std::string consumer : {"", " a", " b", " none"}) {
      for (const std::string idle : {"", "idle 0 ", "idle 15 ", "idle 1000 ", "idle x "}) {
        ExpectTheSame("xpending s$ g " + idle + range + consumer);
      }
    }
  }
  ExpectTheSame("xpending s$ g");
  EXPECT_EQ(Run("xpending s1 none"), "-NOGROUP No such key 's1' or consumer group 'none'");
  EXPECT_EQ(Run("xpending s1 none - + 9000"), "-NOGROUP No such key 's1' or consumer group 'none'");
  EXPECT_EQ(Run("xpending no1 g - + 9000"), "-NOGROUP No such key 'no1' or consumer group 'g'");
  EXPECT_EQ(Call({"xpending", "s1", "g", "-", "+", "9000"}).items.size(), kEntries - 273u);
}

TEST_P(StreamSlicesTest, AllOfAStream) {
  ExpectTheSame("xinfo stream s$ full count 0");
  Group("g", 1000);
  Group("few", 3);
  Group("whole", 0);
  for (const std::string key : {"s1", "s2"}) {
    Run("xgroup create " + key + " empty 0");
    Run("xgroup createconsumer " + key + " few ''");
  }
  for (const std::string options :
       {"", " full", " full count 0", " full count 1", " full count -3", " full count 8192",
        " full count 1500", " full count x", " full count", " fuller", " full more 0"}) {
    ExpectTheSame("xinfo stream s$" + options);
    ExpectTheSame("xinfo stream missing$" + options);
  }
  Run("set text1 x");
  EXPECT_EQ(Run("xinfo stream text1 full count 0"), kWrongType);
}

// Slices of one thing each: all of them get further.
TEST_P(StreamSlicesTest, AllOfAStreamOfFewLongEntries) {
  for (const std::string key : {"few1", "few2"}) {
    for (const std::string id : {"1-1", "1-2", "1-3"}) {
      RunWords({"xadd", key, id, "field", std::string(300'000, 'x')});
    }
    for (const std::string group : {"a", "b", "empty"}) {
      Run("xgroup create " + key + " " + group + " 0");
      Run("xgroup createconsumer " + key + " " + group + " idle");
    }
    Run("xreadgroup group a c count 2 streams " + key + " >");
    Run("xreadgroup group a d count 1 streams " + key + " >");
    Run("xreadgroup group b c count 1 streams " + key + " >");
  }
  ExpectTheSame("xinfo stream few$ full count 0");
  ExpectTheSame("xinfo stream few$ full count 8192");
}

TEST_P(StreamSlicesTest, AllOfAStreamOfManyConsumers) {
  for (const std::string key : {"many1", "many2"}) {
    Run("xadd " + key + " 1-1 field value");
    for (const std::string group : {"a", "b", "c"}) {
      Run("xgroup create " + key + " " + group + " 0");
      for (int i = 0; i < 5000; ++i) {
        Run("xgroup createconsumer " + key + " " + group + " consumer" + std::to_string(i));
      }
    }
  }
  ExpectTheSame("xinfo stream many$ full count 0");
}

TEST_P(StreamSlicesTest, AConsumerGoesWithAllThatItHasPending) {
  Group("g", 1500);
  for (const std::string consumer : {"b", "a", "c", "none", "a"}) {
    ExpectTheSame("xinfo stream s$ full count 0");
    EXPECT_EQ(Run("xgroup delconsumer s1 g " + consumer),
              Run("xgroup delconsumer s2 g " + consumer));
  }
  ExpectTheSame("xinfo stream s$ full count 0");
  // Nobody's stay.
  EXPECT_EQ(Call({"xpending", "s1", "g", "-", "+", "10"}).items.size(), 2u);
  EXPECT_EQ(Run("xgroup delconsumer s1 none a"),
            "-NOGROUP No such consumer group 'none' for key name 's1'");
  Run("set text1 x");
  EXPECT_EQ(Run("xgroup delconsumer text1 g a"), kWrongType);
}

// Of XAUTOCLAIM, whose slices are as long as what it may look at.
TEST_P(StreamSlicesTest, Claims) {
  Group("g", 1000);
  now_ms_ += 20;
  for (const std::string rest : {"d 1000 0 count 9000", "d 15 0 count 9000 justid",
                                 "e 0 0-5 count 1100", "e 0 100 count 9000", "e 0 0 count 0",
                                 "e x 0", "e 0 x", "e 0 0 more", "a 0 0 count 9000"}) {
    EXPECT_TRUE(Run("xautoclaim s1 g " + rest) == Run("xautoclaim s2 g " + rest)) << rest;
    ExpectTheSame("xinfo stream s$ full count 0");
    CheckReplica();
  }
  EXPECT_EQ(Run("xautoclaim s1 none c 0 0 count 9000"),
            "-NOGROUP No such key 's1' or consumer group 'none'");
}

// Of XREADGROUP: new entries, and what a consumer has got before.
TEST_P(StreamSlicesTest, ReadsForAGroup) {
  for (const std::string key : {"s1", "s2"}) EXPECT_EQ(Run("xgroup create " + key + " g 0"), "+OK");
  for (const std::string rest :
       {"count 1024 streams s$ >", "count 1 streams s$ >", "count 1025 noack streams s$ >",
        "streams s$ 0", "count 1024 streams s$ 0", "streams s$ 10", "streams s$ >", "streams s$ >",
        "streams s$ 0-3", "count 5000 streams s$ 0", "streams s$ x"}) {
    std::string mine = RunOn("xreadgroup group g c " + rest, '1');
    std::string others = RunOn("xreadgroup group g c " + rest, '2');
    const size_t at = others.find("\"s2\"");
    if (at != std::string::npos) others[at + 2] = '1';
    EXPECT_TRUE(mine == others) << rest;
    ExpectTheSame("xinfo stream s$ full count 0");
    CheckReplica();
  }
  EXPECT_EQ(Run("xreadgroup group none c streams s1 >"),
            "-NOGROUP No such key 's1' or consumer group 'none' in XREADGROUP with GROUP option");
}

INSTANTIATE_TEST_SUITE_P(Shards, StreamSlicesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
