// SPDX-License-Identifier: Apache-2.0
// Lists, hashes and sets of which many elements are asked for or popped, in slices: where the name
// of the key ends oddly (DispatchForTest).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class CollectionSlicesTest : public CommandsTest {
 protected:
  static constexpr size_t kCount = 12'000;

  static std::string Element(size_t i) { return "element:" + std::to_string(i); }
  void Fill(const std::string& command, const std::string& key, size_t count = kCount) {
    std::vector<std::string> words = {command, key};
    for (size_t i = 0; i < count; ++i) {
      words.push_back(Element(i));
      if (command == "hset") words.push_back("text:" + std::to_string(i));
    }
    EXPECT_EQ(RunWords(words), ":" + std::to_string(count));
  }
  std::vector<std::string> Items(const std::string& command, const std::string& key,
                                 const std::string& count) {
    std::vector<std::string> items;
    for (const RespValue& item : Call({command, key, count}).items) items.push_back(item.text);
    return items;
  }
};

// --- Lists ---

TEST_P(CollectionSlicesTest, PopsOfManyElements) {
  for (const std::string command : {"lpop", "rpop"}) {
    for (const std::string count : {"8191", "8192", "11999", "12000", "9223372036854775807"}) {
      Fill("rpush", "l1");
      Fill("rpush", "l2");
      const std::string popped = Run(command + " l1 " + count);
      EXPECT_TRUE(popped == Run(command + " l2 " + count)) << command << count;
      EXPECT_NE(popped.find(Element(command == "lpop" ? 0 : kCount - 1)), std::string::npos);
      EXPECT_TRUE(Run("lrange l1 0 -1") == Run("lrange l2 0 -1")) << command << count;
      Run("del l1");
      Run("del l2");
    }
    EXPECT_EQ(Run(command + " l1 9000"), "(nil)");
    EXPECT_EQ(Run(command + " l1 9000 1"),
              "-ERR wrong number of arguments for '" + command + "' command");
    EXPECT_EQ(Run(command + " l1 -9000"), "-ERR value is out of range, must be positive");
    Run("set text1 x");
    EXPECT_EQ(Run(command + " text1 9000"), kWrongType);
  }
}

TEST_P(CollectionSlicesTest, PopsOfManyElementsOfTheFirstList) {
  for (const std::string end : {"left", "right"}) {
    for (const std::string count : {"8191", "8192", "12000", "20000"}) {
      Fill("rpush", "l1");
      Fill("rpush", "l2");
      std::string popped = Run("lmpop 2 l1 x " + end + " count " + count);
      std::string others = Run("lmpop 2 l2 x " + end + " count " + count);
      EXPECT_EQ(popped.substr(0, 5), "[\"l1\"");
      EXPECT_TRUE(popped.substr(5) == others.substr(5)) << end << count;
      // Over shards always by a coordinator.
      others = Run("lmpop 3 missing other l2 " + end + " count " + count);
      popped = Run("lmpop 1 l1 " + end + " count " + count);
      EXPECT_EQ(popped == "(nil)", others == "(nil)") << end << count;
      if (popped != "(nil)") {
        EXPECT_TRUE(popped.substr(5) == others.substr(5)) << end << count;
      }
      Run("del l1");
      Run("del l2");
    }
    Run("set text1 x");
    EXPECT_EQ(Run("lmpop 1 text1 " + end + " count 9000"), kWrongType);
    EXPECT_EQ(Run("lmpop 1 l1 " + end + " count 9000"), "(nil)");
  }
}

TEST_P(CollectionSlicesTest, PopsAreToldAsWhatTheyRemoved) {
  Fill("rpush", "l1");
  Run("set other x");
  Effects();
  Call({"lpop", "l1", "20000"});
  EXPECT_EQ(Effects(), std::vector<std::string>{"0 LPOP l1 12000"});
  Fill("sadd", "s1");
  Effects();
  Call({"spop", "s1", "20000"});
  EXPECT_EQ(Effects(), std::vector<std::string>{"0 DEL s1"});
}

// --- Random ones ---

TEST_P(CollectionSlicesTest, RandomFields) {
  Fill("hset", "h1");
  for (const std::string count : {"8192", "11999", "12000", "20000"}) {
    const auto fields = Items("hrandfield", "h1", count);
    EXPECT_EQ(fields.size(), std::min(kCount, std::stoul(count)));
    EXPECT_EQ(std::set(fields.begin(), fields.end()).size(), fields.size());
    for (const std::string& field : fields) ASSERT_EQ(field.substr(0, 8), "element:");
    const RespValue pairs = Call({"hrandfield", "h1", count, "withvalues"});
    ASSERT_EQ(pairs.items.size(), fields.size() * 2);
    for (size_t i = 0; i < pairs.items.size(); i += 2) {
      ASSERT_EQ("text:" + pairs.items[i].text.substr(8), pairs.items[i + 1].text);
    }
    resp3_ = true;
    EXPECT_EQ(Call({"hrandfield", "h1", count, "withvalues"}).items.size(), fields.size());
    EXPECT_EQ(Call({"hrandfield", "h1", count, "withvalues"}).items[7].items.size(), 2u);
    resp3_ = false;
  }
  EXPECT_EQ(Items("hrandfield", "h1", "-30000").size(), 30'000u);
  EXPECT_EQ(Call({"hrandfield", "h1", "-30000", "withvalues"}).items.size(), 60'000u);
  EXPECT_EQ(Run("hrandfield h1 -16777217"), "-ERR value is out of range");
  EXPECT_EQ(Run("hrandfield h1 9000 x"), kSyntaxError);
  EXPECT_EQ(Run("hrandfield h1 9223372036854775807 withvalues"), "-ERR value is out of range");
  EXPECT_EQ(Run("hrandfield missing1 9000"), "[]");
  EXPECT_EQ(Run("hrandfield missing1 -16777217"), "[]");
  Run("set text1 x");
  EXPECT_EQ(Run("hrandfield text1 9000"), kWrongType);
  EXPECT_EQ(Run("hrandfield text1 -16777217"), kWrongType);
}

TEST_P(CollectionSlicesTest, RandomMembers) {
  Fill("sadd", "s1");
  for (const std::string count : {"8192", "11999", "12000", "20000"}) {
    const auto members = Items("srandmember", "s1", count);
    EXPECT_EQ(members.size(), std::min(kCount, std::stoul(count)));
    EXPECT_EQ(std::set(members.begin(), members.end()).size(), members.size());
    for (const std::string& member : members) ASSERT_EQ(member.substr(0, 8), "element:");
  }
  EXPECT_EQ(Items("srandmember", "s1", "-30000").size(), 30'000u);
  EXPECT_EQ(Run("srandmember s1 -16777217"), "-ERR value is out of range");
  EXPECT_EQ(Run("srandmember s1 9000 x"), kSyntaxError);
  EXPECT_EQ(Run("srandmember missing1 9000"), "[]");
  Run("set text1 x");
  EXPECT_EQ(Run("srandmember text1 9000"), kWrongType);
}

// Few of many are drawn, others are chosen in a walk. Each member comes as often as any other.
TEST_P(CollectionSlicesTest, EachIsAsProbable) {
  constexpr size_t kMembers = 30'000;
  Fill("hset", "h1", kMembers);
  Fill("sadd", "s1", kMembers);
  for (const std::string command : {"hrandfield h1 ", "srandmember s1 "}) {
    for (const std::string count : {"9000", "20000", "-30000"}) {
      std::map<std::string, size_t> times;
      size_t all = 0;
      for (int i = 0; i < 4; ++i) {
        const size_t blank = command.find(' ');
        const auto items = Items(command.substr(0, blank), command.substr(blank + 1, 2), count);
        if (count[0] != '-') {
          ASSERT_EQ(std::set(items.begin(), items.end()).size(), items.size());
        }
        all += items.size();
        for (const std::string& item : items) ++times[item.substr(0, 9)];  // by the first digit
      }
      // A third of 30,000 begins with a 1, as does one with a 2; 1111 begin with each other digit.
      for (const auto& [first, count_of_first] : times) {
        const double share = first == "element:1" || first == "element:2" ? 11'111.0 / kMembers
                             : first == "element:0"                       ? 1.0 / kMembers
                                                                          : 1111.0 / kMembers;
        const auto expected = share * static_cast<double>(all);
        // Ten standard deviations, and a bit for what is rare.
        EXPECT_NEAR(static_cast<double>(count_of_first), expected, 10 * std::sqrt(expected) + 20)
            << command << count << " " << first;
      }
    }
  }
}

TEST_P(CollectionSlicesTest, WhereMostMembersAreDueTheOthersAreFound) {
  Fill("hset", "h1");
  std::vector<std::string> words = {"hpexpire", "h1", "5", "fields", "11000"};
  for (size_t i = 0; i < 11'000; ++i) words.push_back(Element(i));
  RunWords(words);
  now_ms_ += 10;
  const auto all = Items("hrandfield", "h1", "9000");
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 1000u);
  EXPECT_EQ(all.size(), 1000u);
  for (const std::string& field : Items("hrandfield", "h1", "-9000")) {
    ASSERT_GE(std::stoul(field.substr(8)), 11'000u);
  }
}

// --- SPOP ---

TEST_P(CollectionSlicesTest, PopsOfManyMembers) {
  for (const std::string count : {"8192", "11999", "12000", "20000"}) {
    Fill("sadd", "s1");
    const size_t popped = std::min(kCount, std::stoul(count));
    std::vector<std::string> all = Items("spop", "s1", count);
    EXPECT_EQ(all.size(), popped);
    EXPECT_EQ(Run("scard s1"), ":" + std::to_string(kCount - popped));
    for (const RespValue& item : Call({"smembers", "s1"}).items) all.push_back(item.text);
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), kCount);
    CheckReplica();
    Run("del s1");
  }
  EXPECT_EQ(Run("spop s1 9000"), "[]");
  EXPECT_EQ(Run("spop s1 -9000"), "-ERR value is out of range, must be positive");
  Run("set text1 x");
  EXPECT_EQ(Run("spop text1 9000"), kWrongType);
}

// As if it were done at once: "s1" and "s2" have the same encoding then.
TEST_P(CollectionSlicesTest, WhatPopsLeaveHasTheSameEncodingAndDeadline) {
  for (const std::string count : {"8192", "11000", "11990"}) {
    for (const std::string key : {"s1", "s2"}) {
      Fill("sadd", key);
      Run("pexpire " + key + " 100000");
      Call({"spop", key, count});
    }
    EXPECT_EQ(Run("object encoding s1"), Run("object encoding s2")) << count;
    EXPECT_EQ(Run("pttl s1"), ":100000");
    EXPECT_EQ(Run("sadd s1 one"), ":1");
    Run("del s1");
    Run("del s2");
  }
}

// A tenth of the members or less go one by one, and so they do where members have deadlines.
TEST_P(CollectionSlicesTest, FewOfManyMembersGoOneByOne) {
  Fill("sadd", "s1", 75'000);
  EXPECT_EQ(Items("spop", "s1", "9000").size(), 9000u);
  EXPECT_EQ(Run("scard s1"), ":66000");
  Fill("sadd", "t1");
  Run("saddex t1 1000 timed");
  const auto popped = Items("spop", "t1", "9000");
  EXPECT_EQ(popped.size(), 9000u);
  EXPECT_EQ(Run("scard t1"), ":3001");
}

// --- SINTERCARD ---

TEST_P(CollectionSlicesTest, CountsWhatSetsHaveInCommon) {
  Fill("sadd", "{s}1");
  Fill("sadd", "{s}2", 30'000);
  Fill("sadd", "t", 11'000);
  for (const std::string limit : {"", " limit 0", " limit 1", " limit 9000", " limit 12000",
                                  " limit 90000", " limit x", " limit"}) {
    EXPECT_EQ(Run("sintercard 2 {s}1 {s}2" + limit), Run("sintercard 2 {s}2 {s}1" + limit));
  }
  EXPECT_EQ(Run("sintercard 2 {s}1 {s}2"), ":12000");
  EXPECT_EQ(Run("sintercard 2 {s}1 {s}2 limit 9000"), ":9000");
  EXPECT_EQ(Run("sintercard 3 {s}1 {s}2 t"), ":11000");
  EXPECT_EQ(Run("sintercard 3 {s}1 {s}2 t limit 10000"), ":10000");
  EXPECT_EQ(Run("sintercard 3 {s}1 {s}2 missing limit 10000"), ":0");
  // Over shards what is found first in one may not be in the other.
  std::vector<std::string> words = {"sadd", "u"};
  for (int i = 0; i < 20'000; ++i) words.push_back((i < 10'000 ? "" : "not:") + Element(i));
  EXPECT_EQ(RunWords(words), ":20000");
  EXPECT_EQ(Run("sintercard 2 {s}2 u limit 9900"), ":9900");
}

INSTANTIATE_TEST_SUITE_P(Shards, CollectionSlicesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
