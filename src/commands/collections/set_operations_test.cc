// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "commands/collections/set_commands.h"
#include "commands/testing/test_harness.h"
#include "core/types/set_value.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;
using Members = std::set<std::string>;

class SetOperationsTest : public CommandsTest {
 protected:
  static constexpr std::string_view kNoKeys = "-ERR numkeys should be greater than 0";

  void SetLimits(const SetLimit& limit) {
    shards_->AwaitOnAll([&](Shard& shard) { shard.limits().set = limit; });
  }
  // What a command replies, each member once.
  Members Found(const std::string& line) {
    Words words;
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(' ', begin), line.size());
      words.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    const RespValue reply = Call(words);
    Members found;
    for (const RespValue& item : reply.items) {
      EXPECT_TRUE(found.insert(item.text).second) << line << ": twice " << item.text;
    }
    return found;
  }
  std::string Encoding(const std::string& key) { return Call({"object", "encoding", key}).text; }
  void AddNumbers(const std::string& key, int begin, int end, const std::string& prefix = "") {
    Words words = {"sadd", key};
    for (int i = begin; i < end; ++i) words.push_back(prefix + std::to_string(i));
    RunWords(words);
  }
};

TEST_P(SetOperationsTest, IntersectUniteAndSubtract) {
  Run("sadd a 1 2 3 x");
  Run("sadd b 2 3 4");
  Run("sadd c 3 x y");
  EXPECT_EQ(Found("sinter a b"), (Members{"2", "3"}));
  EXPECT_EQ(Found("sinter a b c"), (Members{"3"}));
  EXPECT_EQ(Found("sinter a"), (Members{"1", "2", "3", "x"}));
  EXPECT_EQ(Found("sinter a a"), (Members{"1", "2", "3", "x"}));
  EXPECT_EQ(Found("sunion a b c"), (Members{"1", "2", "3", "4", "x", "y"}));
  EXPECT_EQ(Found("sunion b b"), (Members{"2", "3", "4"}));
  EXPECT_EQ(Found("sdiff a b"), (Members{"1", "x"}));
  EXPECT_EQ(Found("sdiff a b c"), (Members{"1"}));
  EXPECT_EQ(Found("sdiff b a"), (Members{"4"}));
  EXPECT_EQ(Found("sdiff a a"), Members());
  EXPECT_EQ(Run("sintercard 2 a b"), ":2");
  EXPECT_EQ(Run("sintercard 2 a b limit 1"), ":1");
  EXPECT_EQ(Run("sintercard 2 a b limit 0"), ":2");
  EXPECT_EQ(Run("sintercard 2 a b LIMIT 1 limit 5"), ":2");
}

TEST_P(SetOperationsTest, RepliesAreSetsInResp3) {
  Run("sadd a 1");
  Run("sadd b 1");
  resp3_ = true;
  for (const char* line : {"sinter a b", "sunion a b"}) EXPECT_EQ(Run(line), R"(~["1"])") << line;
  EXPECT_EQ(Run("sdiff a b"), "~[]");
  EXPECT_EQ(Run("sinter a missing"), "~[]");
  EXPECT_EQ(Run("sunion missing missing2"), "~[]");
}

TEST_P(SetOperationsTest, AMissingKeyIsAnEmptySet) {
  Run("sadd a 1 2");
  for (const char* m : {"m", "n", "o", "p"}) {  // in some other shard
    const std::string missing(m);
    EXPECT_EQ(Found("sinter a " + missing), Members());
    EXPECT_EQ(Found("sinter " + missing + " a"), Members());
    EXPECT_EQ(Found("sunion " + missing + " a"), (Members{"1", "2"}));
    EXPECT_EQ(Found("sdiff a " + missing), (Members{"1", "2"}));
    EXPECT_EQ(Found("sdiff " + missing + " a"), Members());
    EXPECT_EQ(Run("sintercard 2 a " + missing), ":0");
    Run("set t old");
    EXPECT_EQ(Run("sinterstore t a " + missing), ":0");
    EXPECT_EQ(Run("exists t"), ":0") << "an empty result removes the target, whatever it was";
    EXPECT_EQ(Run("sinterstore t a " + missing), ":0");
    EXPECT_EQ(Run("sunionstore t a " + missing), ":2");
    EXPECT_EQ(Run("sdiffstore t " + missing + " a"), ":0");
    EXPECT_EQ(Run("exists t"), ":0");
  }
  EXPECT_EQ(Run("dbsize"), ":1");
}

TEST_P(SetOperationsTest, AnotherTypeIsRefusedWhereverItStandsAndNothingIsWritten) {
  Run("sadd a 1 2");
  Run("sadd t old");
  for (const char* s : {"q", "r", "s", "u"}) {
    const std::string text(s);
    Run("set " + text + " v");
    for (const char* name :
         {"sinter", "sunion", "sdiff", "sinterstore t", "sunionstore t", "sdiffstore t"}) {
      for (const std::string& keys :
           {"a " + text, text + " a", "missing " + text, text + " missing", "a missing " + text}) {
        EXPECT_EQ(Run(name + (" " + keys)), kWrongType) << name << " " << keys;
      }
    }
    EXPECT_EQ(Run("sintercard 2 missing " + text), kWrongType);
    EXPECT_EQ(Found("smembers t"), (Members{"old"}));
    EXPECT_EQ(Run("sinterstore " + text + " a a"), ":2") << "the target may be anything";
    EXPECT_EQ(Run("type " + text), "+set");
  }
}

TEST_P(SetOperationsTest, CountChecksItsArguments) {
  Run("sadd a 1");
  Run("set s v");
  EXPECT_EQ(Run("sintercard 0 a"), kNoKeys);
  EXPECT_EQ(Run("sintercard x a"), kNoKeys);
  EXPECT_EQ(Run("sintercard -1 a"), kNoKeys);
  EXPECT_EQ(Run("sintercard 2 a"), "-ERR Number of keys can't be greater than number of args");
  EXPECT_EQ(Run("sintercard 1 a limit -1"), "-ERR LIMIT can't be negative");
  EXPECT_EQ(Run("sintercard 1 a limit x"), "-ERR LIMIT can't be negative");
  EXPECT_EQ(Run("sintercard 1 a limit"), kSyntaxError);
  EXPECT_EQ(Run("sintercard 1 a foo"), kSyntaxError);
  EXPECT_EQ(Run("sintercard 1 s foo"), kSyntaxError);
  EXPECT_EQ(Run("sintercard 1"), "-ERR wrong number of arguments for 'sintercard' command");
}

TEST_P(SetOperationsTest, TheTargetMayBeAmongTheSourcesAndLosesItsDeadline) {
  for (const char* o : {"b", "c", "d", "e"}) {
    const std::string other(o);
    Run("flushall");
    Run("sadd a 1 2 3");
    Run("sadd " + other + " 3 4");
    Run("expire a 100");
    EXPECT_EQ(Run("sunionstore a a " + other), ":4");
    EXPECT_EQ(Found("smembers a"), (Members{"1", "2", "3", "4"}));
    EXPECT_EQ(Run("ttl a"), ":-1");
    EXPECT_EQ(Run("sinterstore a " + other + " a"), ":2");
    EXPECT_EQ(Found("smembers a"), (Members{"3", "4"}));
    EXPECT_EQ(Run("sdiffstore a a " + other), ":0");
    EXPECT_EQ(Run("exists a"), ":0");
    EXPECT_EQ(Found("smembers " + other), (Members{"3", "4"}));
  }
}

TEST_P(SetOperationsTest, TheResultIsEncodedAsRedisDoes) {
  AddNumbers("small", 0, 10);
  AddNumbers("numbers", 0, 600);  // a table
  AddNumbers("texts", 0, 10, "m");
  AddNumbers("table", 0, 200, "m");
  Run("sadd mixed 1 2 a");
  AddNumbers("mixedtable", 0, 200);
  Run("sadd mixedtable a");
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"sinterstore t numbers small", "intset"},
      {"sinterstore t numbers numbers", "hashtable"},
      {"sinterstore t mixed numbers", "intset"},
      {"sinterstore t mixedtable numbers", "intset"},
      {"sinterstore t mixed mixedtable", "listpack"},
      {"sinterstore t table texts", "listpack"},
      {"sinterstore t table table", "hashtable"},
      {"sunionstore t small small", "intset"},
      {"sunionstore t small texts", "listpack"},
      {"sunionstore t small table", "hashtable"},
      {"sunionstore t numbers", "hashtable"},
      {"sunionstore t mixed small", "listpack"},
      // Few of the others, so Redis asks them for each member of the first.
      {"sdiffstore t mixed texts", "listpack"},
      {"sdiffstore t table texts small numbers mixedtable", "hashtable"},
      {"sdiffstore t small texts", "intset"},
      // It copies the first set and takes members away: what was a table stays one.
      {"sdiffstore t mixedtable mixed small texts missing", "hashtable"},
      {"sdiffstore t mixed missing missing2", "listpack"},
  };
  for (const auto& [line, encoding] : wanted) {
    Run(line);
    EXPECT_EQ(Encoding("t"), encoding) << line;
  }
  AddNumbers("first", 0, 200);
  Run("sadd first a");
  AddNumbers("most", 0, 199);
  Run("sadd few a");
  Run("sdiffstore t first most");
  EXPECT_EQ(Encoding("t"), "listpack") << "two sets: looked up one by one";
  Run("sadd f2 b");
  Run("sadd f3 c");
  Run("sdiffstore t first most few f2 f3");
  EXPECT_EQ(Encoding("t"), "hashtable") << "copied, then taken away from";
  EXPECT_EQ(Found("smembers t"), (Members{"199"}));
}

// Each operation on random sets of all encodings against std::set, and its STORE form into a
// random target.
TEST_P(SetOperationsTest, RandomOperationsDoWhatTheModelDoes) {
  helio::Random random(helio::TestSeed());
  SetLimits({.integers = 16, .packed = {.entries = 8, .element_bytes = 6}});
  std::map<std::string, Members> model;
  const auto key = [&] { return "k" + std::to_string(random.Uniform(8)); };
  for (int step = 0; step < 2000; ++step) {
    const std::string changed = key();
    if (random.OneIn(3)) {
      Run("del " + changed);
      model[changed].clear();
      const bool only_numbers = random.OneIn(2);
      for (uint64_t i = random.Uniform(random.OneIn(2) ? 6 : 40); i > 0; --i) {
        const std::string member =
            (only_numbers || random.OneIn(2) ? "" : "m") + std::to_string(random.Uniform(100));
        model[changed].insert(member);
        Run("sadd " + changed + " " + member);
      }
    }
    std::vector<std::string> keys;
    for (uint64_t i = random.Uniform(5) + 1; i > 0; --i) keys.push_back(key());
    Members expected = model[keys[0]];
    const uint64_t operation = random.Uniform(3);
    for (const std::string& other : std::span(keys).subspan(1)) {
      const Members& right = model[other];
      if (operation == 1) {
        expected.insert(right.begin(), right.end());
      } else {
        std::erase_if(expected, [&](const std::string& member) {
          return right.contains(member) == (operation == 2);
        });
      }
    }
    const std::string name = std::vector<std::string>{"sinter", "sunion", "sdiff"}[operation];
    std::string list;
    for (const std::string& one : keys) list += " " + one;
    ASSERT_EQ(Found(name + list), expected) << name << list;
    if (operation == 0) {
      const std::string line = "sintercard " + std::to_string(keys.size()) + list;
      ASSERT_EQ(Run(line), ":" + std::to_string(expected.size()));
      ASSERT_EQ(Run(line + " limit 2"), ":" + std::to_string(std::min<size_t>(expected.size(), 2)));
    }
    if (random.OneIn(2)) {
      const std::string target = key();
      ASSERT_EQ(Run(name + "store " + target + list), ":" + std::to_string(expected.size()));
      model[target] = expected;
      ASSERT_EQ(Found("smembers " + target), expected) << name << list;
      ASSERT_EQ(Run("exists " + target), expected.empty() ? ":0" : ":1");
    }
  }
}

// Sets that are read in slices, in one shard or in several.
TEST_P(SetOperationsTest, LargeSets) {
  constexpr int kCount = 2 * static_cast<int>(kLargeMembers) + 2;
  constexpr int kHalf = kCount / 2;
  AddNumbers("a", 0, kCount, "m:");
  AddNumbers("b", kHalf, kCount + kHalf, "m:");
  AddNumbers("c", 0, 20, "m:");
  AddNumbers("same", 0, kCount, "m:");
  struct Case {
    const char* line;
    int begin;
    int end;
  };
  for (const Case& one :
       {Case{"union r a b", 0, kCount + kHalf}, Case{"union s a b c", 0, kCount + kHalf},
        Case{"union s a same a", 0, kCount}, Case{"union r c a", 0, kCount},
        Case{"union a a b", 0, kCount + kHalf}, Case{"inter r a b", kHalf, kCount + kHalf},
        Case{"inter r c a", 0, 20}, Case{"inter s b same", kHalf, kCount},
        Case{"diff s same b", 0, kHalf}, Case{"diff s same c", 20, kCount},
        Case{"diff s same a", 0, 0}, Case{"diff r c b", 0, 20}}) {
    const std::string text = one.line;
    const size_t space = text.find(' ');
    const std::string name = "s" + text.substr(0, space);
    const std::string target(
        1, text[space + 1]);  // in one shard `r` is made at once, the others in slices
    const std::string keys = text.substr(space + 3);
    Members expected;
    for (int i = one.begin; i < one.end; ++i) expected.insert("m:" + std::to_string(i));
    EXPECT_EQ(Found(name + " " + keys), expected) << text;
    EXPECT_EQ(Run(name + "store " + target + " " + keys), ":" + std::to_string(expected.size()));
    EXPECT_EQ(Found("smembers " + target), expected) << text;
    if (!expected.empty()) {
      EXPECT_EQ(Encoding(target), expected.size() > 128 ? "hashtable" : "listpack") << text;
    }
  }
}

TEST_P(SetOperationsTest, LargeSetsOfNumbersKeepTheirEncoding) {
  constexpr int kCount = 2 * static_cast<int>(kLargeMembers);
  SetLimits({.integers = kCount});
  AddNumbers("a", 0, kCount - 1);
  AddNumbers("b", 10, kCount);
  for (const char* target : {"r", "s"}) {
    const std::string name(target);
    Run("sunionstore " + name + " a b");
    EXPECT_EQ(Encoding(name), "intset");
    Run("sinterstore " + name + " a b");
    EXPECT_EQ(Encoding(name), "intset");
  }
  AddNumbers("b", 10, kCount + 10);
  EXPECT_EQ(Run("sunionstore r a b"), ":" + std::to_string(kCount + 10));
  EXPECT_EQ(Encoding("r"), "hashtable");
}

// A command that reads in one hop and writes in another, or in slices, is told as it came. Another
// one, whose clock is later, meets a key of it that is due between two of its hops.
class ExpiresMeanwhileTest : public SetOperationsTest {
 protected:
  struct Case {
    const char* line;
    std::string with;  // `other` is there
    std::string without;
  };

  // `other` is a copy of `kept`, and expires.
  void Check(const Case& one, const std::string& kept, uint64_t turns) {
    Run("copy " + kept + " other replace");
    Run("pexpireat other " + std::to_string(now_ms_ + 10));
    std::atomic<bool> has_ended{false};
    pool_.at(0)->DispatchFiber("expiry", [&] {
      for (uint64_t i = 0; i < turns && !has_ended; ++i) helio::this_fiber::Yield();
      shards_->AwaitOnAll([&](Shard& shard) {
        ShardTurn turn(shard);  // as all that changes a shard: its effects are told at the end
        turn.Begin(0, now_ms_ + 11).Peek("other");
      });
      has_ended = true;
    });
    const std::string reply = Run(one.line);
    EXPECT_TRUE(reply == one.with || reply == one.without) << one.line << " " << reply;
    CheckReplica();
    pool_.at(0)->AwaitFiber("end", [&] {
      while (!has_ended) helio::this_fiber::Yield();
    });
  }

  helio::Random random_{helio::TestSeed()};
};

TEST_P(ExpiresMeanwhileTest, LargeValues) {
  constexpr int kCount = 2 * static_cast<int>(kLargeMembers);
  const std::string all = std::to_string(kCount);
  const Case cases[] = {{"sunionstore s other mine", ":" + std::to_string(kCount + 1), ":1"},
                        {"sinterstore s other same", ":" + all, ":0"},
                        {"sinterstore s same other", ":" + all, ":0"},
                        {"sdiffstore s same other", ":0", ":" + all},
                        {"sdiffstore s other mine", ":" + all, ":0"},
                        {"zunionstore s 2 other mine", ":" + std::to_string(kCount + 1), ":1"},
                        {"zinterstore s 2 same other", ":" + all, ":0"},
                        {"zdiffstore s 2 same other", ":0", ":" + all},
                        {"copy other s replace", ":1", ":0"},
                        {"sort other by nosort store r", ":" + all, ":0"}};
  AddNumbers("mine", -1, 0, "m:");
  AddNumbers("same", 0, kCount, "m:");
  AddNumbers("kept", 0, kCount, "m:");
  for (const Case& one : cases) {
    for (int round = 0; round < 2; ++round) Check(one, "kept", random_.Uniform(100));
  }
}

TEST_P(ExpiresMeanwhileTest, SmallValues) {
  Run("sadd mine 0");
  Run("set text 1");
  Run("pfadd items 1");
  Run("pfadd more 2");
  Run("geoadd places 1 1 a");
  Run("rpush list 1");
  struct Small : Case {
    const char* kept;
  };
  const Small cases[] = {
      {{"sunionstore s other mine", ":2", ":1"}, "members"},
      {{"zunionstore s 2 other mine", ":2", ":1"}, "members"},
      {{"copy other s replace", ":1", ":0"}, "text"},
      {{"rename other s", "+OK", "-ERR no such key"}, "text"},
      {{"bitop or s other absent", ":1", ":0"}, "text"},
      {{"pfmerge s other more", "+OK", "+OK"}, "items"},
      {{"zrangestore s other 0 -1", ":1", ":0"}, "places"},
      {{"geosearchstore s other fromlonlat 1 1 byradius 9 km", ":1", ":0"}, "places"},
      {{"rpoplpush other s", "\"1\"", "(nil)"}, "list"}};
  Run("sadd members 1");
  for (const Small& one : cases) {
    for (int round = 0; round < 20; ++round) {
      Run("del s");
      Check(one, one.kept, random_.Uniform(12));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ExpiresMeanwhileTest, testing::Values(1, 2, 4));
TEST_P(SetOperationsTest, UnionsAndDifferencesAreCounted) {
  Run("sadd a 1 2 3 x");
  Run("sadd b 3 4 x y z");
  Run("sadd c 1 y 9");
  EXPECT_EQ(Run("sunioncard 3 a b c"), ":8");
  EXPECT_EQ(Run("sunioncard 3 a b c limit 3"), ":3");
  EXPECT_EQ(Run("sunioncard 3 a b c LIMIT 6"), ":6");
  EXPECT_EQ(Run("sunioncard 3 a b c limit 100"), ":8");
  EXPECT_EQ(Run("sunioncard 2 a b limit 0"), ":7");
  EXPECT_EQ(Run("sunioncard 2 a a"), ":4");
  EXPECT_EQ(Run("sunioncard 1 b limit 2"), ":2");
  EXPECT_EQ(Run("sunioncard 2 a b approx"), ":7");
  EXPECT_EQ(Run("sunioncard 2 a b limit 4 APPROX"), ":4");
  EXPECT_EQ(Run("sunioncard 2 none a"), ":4");
  EXPECT_EQ(Run("sunioncard 1 none"), ":0");
  EXPECT_EQ(Run("sdiffcard 2 a b"), ":2");
  EXPECT_EQ(Run("sdiffcard 3 a b c"), ":1");
  EXPECT_EQ(Run("sdiffcard 2 b a limit 2"), ":2");
  EXPECT_EQ(Run("sdiffcard 2 b a limit 0"), ":3");
  EXPECT_EQ(Run("sdiffcard 1 a"), ":4");
  EXPECT_EQ(Run("sdiffcard 1 a limit 3"), ":3");
  EXPECT_EQ(Run("sdiffcard 2 none a"), ":0");
  EXPECT_EQ(Run("sdiffcard 2 a none"), ":4");
  EXPECT_EQ(Run("sdiffcard 2 a a"), ":0");
  // Large ones, which are read in slices, in one shard and in several.
  for (int i = 0; i < 20'000; i += 100) {
    std::vector<std::string> even = {"sadd", "{t}even"}, all = {"sadd", "{t}all"};
    for (int j = i; j < i + 100; ++j) {
      if (j % 2 == 0) even.push_back(std::to_string(j));
      all.push_back("m" + std::to_string(j));
    }
    RunWords(even);
    RunWords(all);
    all[1] = "other";
    RunWords(all);
  }
  EXPECT_EQ(Run("sunioncard 2 {t}even {t}all"), ":30000");
  EXPECT_EQ(Run("sunioncard 2 {t}even other"), ":30000");
  EXPECT_EQ(Run("sunioncard 2 {t}even other limit 20001"), ":20001");
  EXPECT_EQ(Run("sunioncard 3 {t}even {t}all other"), ":30000");
  EXPECT_EQ(Run("sdiffcard 2 {t}all {t}even"), ":20000");
  EXPECT_EQ(Run("sdiffcard 2 {t}all other"), ":0");
  EXPECT_EQ(Run("sdiffcard 2 {t}even other limit 9999"), ":9999");
}

TEST_P(SetOperationsTest, CountsRefuseWhatMakesNoSense) {
  Run("sadd a x");
  Run("set text v");
  for (std::string_view name : {"sunioncard", "sdiffcard"}) {
    const std::string command(name);
    EXPECT_EQ(Run(command + " 0 a"), kNoKeys);
    EXPECT_EQ(Run(command + " x a"), kNoKeys);
    EXPECT_EQ(Run(command + " 2 a"), "-ERR Number of keys can't be greater than number of args");
    EXPECT_EQ(Run(command + " 1 a limit"), kSyntaxError);
    EXPECT_EQ(Run(command + " 1 a what 1"), kSyntaxError);
    EXPECT_EQ(Run(command + " 1 a limit -1"), "-ERR LIMIT can't be negative");
    EXPECT_EQ(Run(command + " 2 a text"), kWrongType);
    EXPECT_EQ(Run(command + " 2 text a"), kWrongType);
    EXPECT_EQ(Run(command + " 1"), "-ERR wrong number of arguments for '" + command + "' command");
  }
  EXPECT_EQ(Run("sdiffcard 1 a approx"), kSyntaxError);
  EXPECT_EQ(Run("sintercard 1 a approx"), kSyntaxError);
}

INSTANTIATE_TEST_SUITE_P(Shards, SetOperationsTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace dfly
