// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/types/set_value.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class SetCommandsTest : public CommandsTest {
 protected:
  static constexpr std::string_view kNotPositive = "-ERR value is out of range, must be positive";

  void SetLimits(const SetLimit& limit) {
    shards_->AwaitOnAll([&](Shard& shard) { shard.limits().set = limit; });
  }
  // The texts of an array or a set, sorted.
  std::vector<std::string> Sorted(const std::vector<std::string>& words) {
    std::vector<std::string> texts;
    for (const RespValue& item : Call(words).items) texts.push_back(item.text);
    std::sort(texts.begin(), texts.end());
    return texts;
  }
  std::set<std::string> Members(const std::string& key) {
    const std::vector<std::string> members = Sorted({"smembers", key});
    std::set<std::string> different(members.begin(), members.end());
    EXPECT_EQ(different.size(), members.size());
    return different;
  }
  std::string Encoding(const std::string& key) { return Call({"object", "encoding", key}).text; }
  // A set of `count` members in each of the three encodings: "i", "p" and "t".
  void MakeThree(size_t count) {
    SetLimits({.integers = 4096, .packed = {.entries = 4096, .element_bytes = 64}});
    for (size_t i = 0; i < count; ++i) {
      Run("sadd i " + std::to_string(i * 1000));
      Run("sadd p m" + std::to_string(i));
    }
    SetLimits({.integers = 0, .packed = {.entries = 0, .element_bytes = 0}});
    for (size_t i = 0; i < count; ++i) Run("sadd t m" + std::to_string(i));
    SetLimits({.integers = 4096, .packed = {.entries = 4096, .element_bytes = 64}});
    ASSERT_EQ(Encoding("i"), "intset");
    ASSERT_EQ(Encoding("p"), "listpack");
    ASSERT_EQ(Encoding("t"), "hashtable");
  }
};

TEST_P(SetCommandsTest, MembersAreThereOnce) {
  EXPECT_EQ(Run("sadd s a b a"), ":2");
  EXPECT_EQ(Run("sadd s b c"), ":1");
  EXPECT_EQ(Run("sadd s c"), ":0");
  EXPECT_EQ(Run("scard s"), ":3");
  EXPECT_EQ(Run("type s"), "+set");
  EXPECT_EQ(Run("sismember s a"), ":1");
  EXPECT_EQ(Run("sismember s x"), ":0");
  EXPECT_EQ(Run("smismember s a x c a"), "[:1, :0, :1, :1]");
  EXPECT_EQ(Run("srem s a x a"), ":1");
  EXPECT_EQ(Members("s"), (std::set<std::string>{"b", "c"}));
  EXPECT_EQ(Run("sadd s"), "-ERR wrong number of arguments for 'sadd' command");
}

TEST_P(SetCommandsTest, AMissingKeyIsAnEmptySet) {
  EXPECT_EQ(Run("scard s"), ":0");
  EXPECT_EQ(Run("smembers s"), "[]");
  EXPECT_EQ(Run("sismember s a"), ":0");
  EXPECT_EQ(Run("smismember s a b"), "[:0, :0]");
  EXPECT_EQ(Run("srem s a"), ":0");
  EXPECT_EQ(Run("spop s"), "(nil)");
  EXPECT_EQ(Run("spop s 2"), "[]");
  EXPECT_EQ(Run("srandmember s"), "(nil)");
  EXPECT_EQ(Run("srandmember s 2"), "[]");
  EXPECT_EQ(Run("srandmember s -9223372036854775807"), "[]");
  EXPECT_EQ(Run("sscan s 0"), R"(["0", []])");
  EXPECT_EQ(Run("sscan s 0 count 0"), R"(["0", []])");
  EXPECT_EQ(Run("smove s s2 a"), ":0");
  EXPECT_EQ(Run("dbsize"), ":0");
  resp3_ = true;
  EXPECT_EQ(Run("smembers s"), "~[]");
  EXPECT_EQ(Run("spop s 2"), "~[]");
  EXPECT_EQ(Run("srandmember s 2"), "[]");
  EXPECT_EQ(Run("smismember s a"), "[:0]");
}

TEST_P(SetCommandsTest, OtherTypesAreRefusedAndLeftAlone) {
  Run("set s v");
  Run("sadd real a");
  for (const char* line : {"sadd s a", "srem s a", "sismember s a", "smismember s a", "scard s",
                           "smembers s", "spop s", "spop s 1", "srandmember s", "srandmember s 1",
                           "sscan s 0", "sscan s 0 count 0", "smove s real a", "smove real s a"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(Run("get s"), "\"v\"");
  EXPECT_EQ(Run("scard real"), ":1");
  EXPECT_EQ(Run("get real"), kWrongType);
}

TEST_P(SetCommandsTest, AnEmptiedSetIsRemovedAndItsDeadlineWithIt) {
  for (const char* line : {"srem s a", "spop s", "spop s 1", "spop s 9", "smove s s2 a"}) {
    Run("flushall");
    for (const char* member : {"a", "7"}) {
      EXPECT_EQ(Run(std::string("sadd s ") + member), ":1");
      EXPECT_EQ(Run("expire s 100"), ":1");
      std::string emptying(line);
      if (emptying.back() == 'a') emptying.replace(emptying.size() - 1, 1, member);
      Run(emptying);
      EXPECT_EQ(Run("exists s"), ":0") << line;
      EXPECT_EQ(Run("sadd s a"), ":1");
      EXPECT_EQ(Run("ttl s"), ":-1") << line;
      Run("del s");
    }
  }
}

TEST_P(SetCommandsTest, EncodingsChangeAtTheLimitsAndNotBack) {
  SetLimits({.integers = 4, .packed = {.entries = 3, .element_bytes = 5}});
  Run("sadd i 1 2 3 4");
  EXPECT_EQ(Encoding("i"), "intset");
  Run("sadd i 4");
  EXPECT_EQ(Encoding("i"), "intset");
  Run("sadd i 5");
  EXPECT_EQ(Encoding("i"), "hashtable");
  Run("srem i 5 4 3 2");
  EXPECT_EQ(Encoding("i"), "hashtable");

  Run("sadd mixed 1 2");
  Run("sadd mixed a");
  EXPECT_EQ(Encoding("mixed"), "listpack");
  Run("sadd mixed a");
  EXPECT_EQ(Encoding("mixed"), "listpack");
  Run("sadd mixed b");
  EXPECT_EQ(Encoding("mixed"), "hashtable");
  EXPECT_EQ(Members("mixed"), (std::set<std::string>{"1", "2", "a", "b"}));

  Run("sadd bytes 12345");
  Run("sadd bytes abcde");
  EXPECT_EQ(Encoding("bytes"), "listpack");
  Run("sadd bytes abcdef");
  EXPECT_EQ(Encoding("bytes"), "hashtable");
  Run("sadd long 123456");
  EXPECT_EQ(Encoding("long"), "intset");
  Run("sadd long a");
  EXPECT_EQ(Encoding("long"), "hashtable") << "the integer is too long for a block";

  // As many arguments as would not fit, different or not, as in Redis 7.2.
  Run("sadd many2 a a a a");
  EXPECT_EQ(Encoding("many2"), "hashtable");
  Run("sadd later a");
  Run("sadd later a a a a");
  EXPECT_EQ(Encoding("later"), "hashtable");
  Run("sadd later2 1");
  Run("sadd later2 1 1 1 1");
  EXPECT_EQ(Encoding("later2"), "intset");
}

TEST_P(SetCommandsTest, DefaultLimitsAreThoseOfRedis) {
  std::vector<std::string> integers = {"sadd", "i"};
  std::vector<std::string> texts = {"sadd", "p"};
  for (int i = 0; i < 512; ++i) integers.push_back(std::to_string(i));
  for (int i = 0; i < 128; ++i) texts.push_back("m" + std::to_string(i));
  EXPECT_EQ(RunWords(integers), ":512");
  EXPECT_EQ(RunWords(texts), ":128");
  EXPECT_EQ(Encoding("i"), "intset");
  EXPECT_EQ(Encoding("p"), "listpack");
  Run("sadd i 512");
  Run("sadd p m128");
  EXPECT_EQ(Encoding("i"), "hashtable");
  EXPECT_EQ(Encoding("p"), "hashtable");
  RunWords({"sadd", "v", std::string(64, 'x')});
  EXPECT_EQ(Encoding("v"), "listpack");
  RunWords({"sadd", "v", std::string(65, 'x')});
  EXPECT_EQ(Encoding("v"), "hashtable");
}

TEST_P(SetCommandsTest, TextsThatAreNearlyIntegersAreTexts) {
  for (const char* text : {"007", "+7", "-0", "1.0", "9223372036854775808", "", "1e3"}) {
    Run("del s");
    RunWords({"sadd", "s", "7", text});
    EXPECT_EQ(Run("scard s"), ":2") << text;
    EXPECT_EQ(Encoding("s"), "listpack") << text;
    EXPECT_EQ(RunWords({"sismember", "s", text}), ":1") << text;
    EXPECT_EQ(Members("s"), (std::set<std::string>{"7", text})) << text;
  }
  Run("sadd edges 9223372036854775807 -9223372036854775808 0");
  EXPECT_EQ(Encoding("edges"), "intset");
  EXPECT_EQ(Run("smembers edges"), R"(["-9223372036854775808", "0", "9223372036854775807"])");
}

TEST_P(SetCommandsTest, CountsOfRandomMembersAreChecked) {
  Run("sadd s a b c");
  Run("set str v");
  EXPECT_EQ(Run("spop s x"), kNotPositive);
  EXPECT_EQ(Run("spop s -1"), kNotPositive);
  EXPECT_EQ(Run("spop str -1"), kNotPositive);
  EXPECT_EQ(Run("spop s 1 2"), kSyntaxError);
  EXPECT_EQ(Run("spop missing x 2"), kSyntaxError);
  EXPECT_EQ(Run("srandmember s x"), kNotInteger);
  EXPECT_EQ(Run("srandmember str x"), kNotInteger);
  EXPECT_EQ(Run("srandmember s 1 2"), kSyntaxError);
  EXPECT_EQ(Run("srandmember s 9223372036854775808"), kNotInteger);
  EXPECT_EQ(Run("srandmember s -9223372036854775808"),
            "-ERR value is out of range, value must between -9223372036854775807 and "
            "9223372036854775807");
  EXPECT_EQ(Run("srandmember s -9223372036854775807"), "-ERR value is out of range");
  EXPECT_EQ(Run("srandmember s 0"), "[]");
  EXPECT_EQ(Run("spop s 0"), "[]");
  EXPECT_EQ(Run("scard s"), ":3");
}

TEST_P(SetCommandsTest, PopReturnsMembersAndRemovesThem) {
  for (size_t count : {1, 2, 7, 20, 26, 29, 30, 31}) {
    Run("flushall");
    MakeThree(30);
    for (const char* key : {"i", "p", "t"}) {
      const std::set<std::string> before = Members(key);
      const std::string encoding = Encoding(key);
      const auto popped = Sorted({"spop", key, std::to_string(count)});
      EXPECT_EQ(popped.size(), std::min<size_t>(count, 30));
      std::set<std::string> both = Members(key);
      EXPECT_EQ(both.size(), 30 - popped.size());
      if (count <= 20) {
        EXPECT_EQ(Encoding(key), encoding) << count;
      }
      both.insert(popped.begin(), popped.end());
      EXPECT_EQ(both, before) << key << " " << count;
    }
  }
  // Of a table that nearly all was popped from, the rest is a block again.
  Run("flushall");
  MakeThree(30);
  Run("spop t 27");
  EXPECT_EQ(Encoding("t"), "listpack");
  resp3_ = true;
  EXPECT_EQ(Call({"spop", "t", "1"}).kind, ReplyKind::kSet);
  EXPECT_EQ(Call({"srandmember", "t", "1"}).kind, ReplyKind::kArray);
}

TEST_P(SetCommandsTest, RandomMembersAreDifferentOrNotAsAskedFor) {
  MakeThree(50);
  for (const char* key : {"i", "p", "t"}) {
    const std::set<std::string> all = Members(key);
    for (size_t count : {1, 5, 20, 49, 50, 51, 1000}) {
      const auto drawn = Sorted({"srandmember", key, std::to_string(count)});
      EXPECT_EQ(drawn.size(), std::min<size_t>(count, 50));
      EXPECT_EQ(std::set<std::string>(drawn.begin(), drawn.end()).size(), drawn.size());
      for (const std::string& member : drawn) EXPECT_TRUE(all.contains(member));
      const auto repeated = Sorted({"srandmember", key, "-" + std::to_string(count)});
      EXPECT_EQ(repeated.size(), count);
      for (const std::string& member : repeated) EXPECT_TRUE(all.contains(member));
    }
    EXPECT_TRUE(all.contains(Call({"srandmember", key}).text));
    EXPECT_EQ(Members(key), all);
  }
}

// Each member comes up as often as the others: chi-squared of 19 degrees of freedom is above 62
// once in two million runs.
TEST_P(SetCommandsTest, AllMembersAreDrawnEquallyOften) {
  constexpr size_t kMembers = 20;
  constexpr double kTooMuch = 62;
  MakeThree(kMembers);
  struct Way {
    std::vector<std::string> words;  // behind the key
    const char* name;
    int rounds;
  };
  const std::vector<Way> ways = {{{}, "srandmember", 4000},     {{"3"}, "srandmember", 1500},
                                 {{"12"}, "srandmember", 500},  {{"-100"}, "srandmember", 60},
                                 {{"-3"}, "srandmember", 1500}, {{}, "spop", 2500},
                                 {{"2"}, "spop", 1500},         {{"18"}, "spop", 500}};
  for (const char* key : {"i", "p", "t"}) {
    for (const Way& way : ways) {
      std::map<std::string, double> seen;
      double total = 0;
      size_t per_round = 0;
      for (int round = 0; round < way.rounds; ++round) {
        std::string used = key;
        if (std::string_view(way.name) == "spop") {
          Run(std::string("copy ") + key + " copy replace");
          used = "copy";
        }
        std::vector<std::string> words = {way.name, used};
        words.insert(words.end(), way.words.begin(), way.words.end());
        const RespValue reply = Call(words);
        if (reply.items.empty()) ++seen[reply.text];
        for (const RespValue& item : reply.items) ++seen[item.text];
        per_round = std::max<size_t>(reply.items.size(), 1);
        total += static_cast<double>(per_round);
      }
      ASSERT_EQ(seen.size(), kMembers) << key << " " << way.name;
      const double expected = total / kMembers;
      double chi_squared = 0;
      for (const auto& [member, count] : seen) {
        chi_squared += (count - expected) * (count - expected) / expected;
      }
      EXPECT_LT(chi_squared, kTooMuch) << key << " " << way.name << " " << per_round;
    }
  }
}

TEST_P(SetCommandsTest, SmallSetsAreScannedWhole) {
  MakeThree(100);
  for (const char* key : {"i", "p"}) {
    const RespValue reply = Call({"sscan", key, "0", "count", "5"});
    EXPECT_EQ(reply.items[0].text, "0");
    EXPECT_EQ(reply.items[1].items.size(), 100u);
  }
  const RespValue first = Call({"sscan", "t", "0", "count", "5"});
  EXPECT_NE(first.items[0].text, "0");
  EXPECT_LT(first.items[1].items.size(), 100u);
}

TEST_P(SetCommandsTest, AScanOfATableMeetsAllThatStays) {
  SetLimits({.integers = 0, .packed = {.entries = 0, .element_bytes = 0}});
  for (int i = 0; i < 500; ++i) Run("sadd t stays" + std::to_string(i));
  std::set<std::string> found;
  std::string cursor = "0";
  int calls = 0;
  do {
    const RespValue reply = Call({"sscan", "t", cursor});
    cursor = reply.items[0].text;
    for (const RespValue& item : reply.items[1].items) found.insert(item.text);
    for (int i = 0; i < 40; ++i) {
      Run("sadd t comes" + std::to_string(calls * 40 + i));
      if (i % 2 == 0) Run("srem t comes" + std::to_string(calls * 40 + i));
    }
    ASSERT_LT(++calls, 1000);
  } while (cursor != "0");
  EXPECT_GT(calls, 5);
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(found.contains("stays" + std::to_string(i)));
}

TEST_P(SetCommandsTest, ScanOptionsAreCheckedBehindTheKey) {
  Run("sadd s aa ab b");
  EXPECT_EQ(Run("sscan s 0 match b"), R"(["0", ["b"]])");
  EXPECT_EQ(Run("sscan s 0 MATCH c* COUNT 1"), R"(["0", []])");
  EXPECT_EQ(Call({"sscan", "s", "0", "match", "a?"}).items[1].items.size(), 2u);
  EXPECT_EQ(Run("sscan s x"), "-ERR invalid cursor");
  EXPECT_EQ(Run("sscan missing x"), "-ERR invalid cursor");
  EXPECT_EQ(Run("sscan s 0 count 0"), kSyntaxError);
  EXPECT_EQ(Run("sscan s 0 count x"), kNotInteger);
  EXPECT_EQ(Run("sscan s 0 type set"), kSyntaxError);
  EXPECT_EQ(Run("sscan s 0 match"), kSyntaxError);
  EXPECT_EQ(Call({"sscan", "s", "5"}).items[1].items.size(), 3u);
}

TEST_P(SetCommandsTest, MoveTakesAMemberFromOneSetToAnother) {
  for (const char* target : {"b", "c", "d", "e", "f"}) {  // in this shard or in another one
    const std::string to(target);
    Run("flushall");
    Run("sadd a 1 x y");
    EXPECT_EQ(Run("smove a " + to + " x"), ":1");
    EXPECT_EQ(Members("a"), (std::set<std::string>{"1", "y"}));
    EXPECT_EQ(Members(to), (std::set<std::string>{"x"}));
    EXPECT_EQ(Encoding(to), "listpack");
    EXPECT_EQ(Run("smove a " + to + " x"), ":0") << "it is not there any more";
    EXPECT_EQ(Run("sadd a x"), ":1");
    EXPECT_EQ(Run("smove a " + to + " x"), ":1") << "the target has it already";
    EXPECT_EQ(Run("scard a"), ":2");
    EXPECT_EQ(Run("scard " + to), ":1");
    Run("smove a " + to + " y");
    EXPECT_EQ(Run("smove a " + to + " 1"), ":1");
    EXPECT_EQ(Run("exists a"), ":0");
    EXPECT_EQ(Run("scard " + to), ":3");
    EXPECT_EQ(Run("smove missing " + to + " z"), ":0");
    Run("set " + to + " v");
    EXPECT_EQ(Run("smove missing " + to + " z"), ":0") << "a missing source comes first";
    Run("sadd a q");
    EXPECT_EQ(Run("smove a " + to + " nothing"), kWrongType);
    EXPECT_EQ(Run("smove " + to + " a q"), kWrongType);
    EXPECT_EQ(Run("scard a"), ":1");
  }
  EXPECT_EQ(Run("smove a a q"), ":1");
  EXPECT_EQ(Run("smove a a z"), ":0");
  EXPECT_EQ(Run("scard a"), ":1");
}

TEST_P(SetCommandsTest, RenameAndCopyKeepTheSetAsItIs) {
  MakeThree(30);
  for (const char* key : {"i", "p", "t"}) {
    const auto members = Members(key);
    const std::string encoding = Encoding(key);
    for (const char* other : {"x", "y", "z", "u", "v"}) {
      EXPECT_EQ(Run(std::string("copy ") + key + " " + other + " replace"), ":1");
      EXPECT_EQ(Members(other), members);
      EXPECT_EQ(Encoding(other), encoding);
      EXPECT_EQ(Run(std::string("sadd ") + other + " more"), ":1");
      EXPECT_EQ(Members(key), members) << "the copy is another one";
      Run(std::string("rename ") + other + " renamed");
      EXPECT_EQ(Run("scard renamed"), ":31");
    }
  }
}

// Random commands, with the same on a std::set.
TEST_P(SetCommandsTest, RandomCommandsDoWhatTheModelDoes) {
  helio::Random random(helio::TestSeed());
  const std::vector<SetLimit> limits = {
      {.integers = 512, .packed = {.entries = 128, .element_bytes = 64}},
      {.integers = 16, .packed = {.entries = 8, .element_bytes = 6}},
      {.integers = 0, .packed = {.entries = 0, .element_bytes = 0}}};
  for (const SetLimit& limit : limits) {
    SetLimits(limit);
    Run("flushall");
    std::map<std::string, std::set<std::string>> model;
    const auto key = [&] { return "k" + std::to_string(random.Uniform(5)); };
    const auto member = [&] {
      if (random.OneIn(2)) return std::to_string(random.Uniform(40));
      return std::string(random.OneIn(8) ? 20 : 1, static_cast<char>('a' + random.Uniform(26)));
    };
    for (int step = 0; step < 3000; ++step) {
      const std::string name = key();
      std::set<std::string>& set = model[name];
      switch (random.Uniform(8)) {
        case 0:
        case 1:
        case 2: {
          std::vector<std::string> words = {"sadd", name};
          size_t added = 0;
          for (uint64_t i = random.Uniform(4) + 1; i > 0; --i) {
            words.push_back(member());
            added += set.insert(words.back()).second;
          }
          ASSERT_EQ(RunWords(words), ":" + std::to_string(added));
          break;
        }
        case 3: {
          const std::string gone = member();
          ASSERT_EQ(RunWords({"srem", name, gone}), ":" + std::to_string(set.erase(gone)));
          break;
        }
        case 4: {
          const size_t count = random.Uniform(random.OneIn(10) ? 40 : 4);
          const auto popped = Sorted({"spop", name, std::to_string(count)});
          ASSERT_EQ(popped.size(), std::min(count, set.size()));
          for (const std::string& gone : popped) ASSERT_EQ(set.erase(gone), 1u) << gone;
          break;
        }
        case 5: {
          const std::string to = key();
          const std::string moved = member();
          const bool is_there = set.contains(moved);
          ASSERT_EQ(RunWords({"smove", name, to, moved}), is_there ? ":1" : ":0");
          if (is_there) {
            set.erase(moved);
            model[to].insert(moved);
          }
          break;
        }
        case 6: {
          const std::string asked = member();
          ASSERT_EQ(RunWords({"sismember", name, asked}), set.contains(asked) ? ":1" : ":0");
          break;
        }
        default: {
          const auto drawn = Sorted({"srandmember", name, "3"});
          ASSERT_EQ(drawn.size(), std::min<size_t>(3, set.size()));
          for (const std::string& one : drawn) ASSERT_TRUE(set.contains(one));
        }
      }
      ASSERT_EQ(Members(name), model[name]);
      ASSERT_EQ(Run("exists " + name), model[name].empty() ? ":0" : ":1");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, SetCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
