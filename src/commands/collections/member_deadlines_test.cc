// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdlib>
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

class MemberDeadlinesTest : public CommandsTest {
 protected:
  // One step of active expiry on all shards. Returns how many members and keys it has erased.
  size_t ExpireStep(size_t budget) {
    std::atomic<size_t> expired = 0;
    shards_->AwaitOnAll(
        [&](Shard& shard) { expired += shard.ExpireStep(now_ms_, budget).expired; });
    return expired;
  }
  // Members of an array or a set, in order.
  std::string Sorted(const std::string& line) {
    std::vector<std::string> words;
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(' ', begin), line.size());
      words.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    std::vector<std::string> texts;
    for (const RespValue& item : Call(words).items) texts.push_back(item.text);
    std::sort(texts.begin(), texts.end());
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : " ") + text;
    return all;
  }
  // "s" has a and b, which are due, and c, which stays.
  void MakeMixed() {
    Run("del s");
    ASSERT_EQ(Run("saddex s 1 a b"), ":2");
    ASSERT_EQ(Run("sadd s c"), ":1");
    now_ms_ += 1001;
  }
};

TEST_P(MemberDeadlinesTest, SAddExAddsMembersWithADeadline) {
  EXPECT_EQ(Run("saddex s 10 a b a"), ":2");
  EXPECT_EQ(Run("saddex s 20 b c"), ":1");
  EXPECT_EQ(Run("fieldttl s a"), ":10");
  EXPECT_EQ(Run("fieldttl s b"), ":20") << "the new deadline";
  EXPECT_EQ(Run("fieldttl s c"), ":20");
  EXPECT_EQ(Run("saddex s keepttl 30 a d"), ":1");
  EXPECT_EQ(Run("fieldttl s a"), ":10");
  EXPECT_EQ(Run("fieldttl s d"), ":30");
  EXPECT_EQ(Run("object encoding s"), "\"hashtable\"");
  EXPECT_EQ(Run("ttl s"), ":-1");

  EXPECT_EQ(Run("sadd old 1 2"), ":2");
  EXPECT_EQ(Run("saddex old KeepTTL 10 1"), ":0");
  EXPECT_EQ(Run("fieldttl old 1"), ":-1") << "none is kept, too";
  EXPECT_EQ(Run("object encoding old"), "\"intset\"");
  EXPECT_EQ(Run("saddex old 10 1"), ":0");
  EXPECT_EQ(Run("fieldttl old 1"), ":10");
  EXPECT_EQ(Run("fieldttl old 2"), ":-1");
  EXPECT_EQ(Run("object encoding old"), "\"hashtable\"");
}

TEST_P(MemberDeadlinesTest, SAddKeepsADeadlineAndADueMemberIsNew) {
  EXPECT_EQ(Run("saddex s 10 a"), ":1");
  EXPECT_EQ(Run("sadd s a b"), ":1");
  EXPECT_EQ(Run("fieldttl s a"), ":10");
  EXPECT_EQ(Run("fieldttl s b"), ":-1");
  now_ms_ += 10'000;
  EXPECT_EQ(Run("sadd s a"), ":0") << "the clock is not past it";
  now_ms_ += 1;
  EXPECT_EQ(Run("sadd s a"), ":1");
  EXPECT_EQ(Run("fieldttl s a"), ":-1");
  EXPECT_EQ(Run("saddex s 1 a"), ":0");
  now_ms_ += 1001;
  EXPECT_EQ(Run("saddex s keepttl 5 a"), ":1");
  EXPECT_EQ(Run("fieldttl s a"), ":5");
}

TEST_P(MemberDeadlinesTest, FieldTtlTellsWhatIsMissing) {
  Run("sadd s a");
  Run("hset h f 1");
  Run("hpexpire h 1500 fields 1 f");
  EXPECT_EQ(Run("fieldttl none a"), ":-2");
  EXPECT_EQ(Run("fieldttl s x"), ":-3");
  EXPECT_EQ(Run("fieldttl s a"), ":-1");
  EXPECT_EQ(Run("fieldttl h x"), ":-3");
  EXPECT_EQ(Run("fieldttl h f"), ":2") << "rounded up, as HTTL does";
  Run("hset h g 1");
  EXPECT_EQ(Run("fieldttl h g"), ":-1");
  now_ms_ += 1501;
  EXPECT_EQ(Run("fieldttl h f"), ":-3");
}

TEST_P(MemberDeadlinesTest, FieldExpireSetsDeadlinesInSetsAndHashes) {
  Run("sadd s 1 2 3");
  Run("hset h 1 a 2 b 3 c");
  EXPECT_EQ(Run("fieldexpire none 10 a b"), "[:-2, :-2]");
  EXPECT_EQ(Run("exists none"), ":0");
  for (const auto& [key, small] :
       std::map<std::string, std::string>{{"s", "\"intset\""}, {"h", "\"listpack\""}}) {
    EXPECT_EQ(Run("fieldexpire " + key + " 10 x"), "[:-2]");
    EXPECT_EQ(Run("object encoding " + key), small);
    EXPECT_EQ(Run("fieldexpire " + key + " 10 1 x 2"), "[:1, :-2, :1]");
    EXPECT_EQ(Run("object encoding " + key), "\"hashtable\"");
    EXPECT_EQ(Run("fieldexpire " + key + " 20 2"), "[:1]");
    EXPECT_EQ(Run("fieldttl " + key + " 1"), ":10");
    EXPECT_EQ(Run("fieldttl " + key + " 2"), ":20");
    EXPECT_EQ(Run("fieldttl " + key + " 3"), ":-1");
    EXPECT_EQ(Run("fieldexpire " + key + " 0 1 x"), "[:2, :-2]");
    EXPECT_EQ(Run("fieldttl " + key + " 1"), ":-3");
    EXPECT_EQ(Run("fieldexpire " + key + " 0 2 3 3"), "[:2, :2, :-2]");
    EXPECT_EQ(Run("exists " + key), ":0");
  }
}

TEST_P(MemberDeadlinesTest, ArgumentsAreChecked) {
  Run("sadd s a");
  Run("set text v");
  for (const auto& [line, error] : std::map<std::string, std::string>{
           {"saddex s 10", "-ERR wrong number of arguments for 'saddex' command"},
           {"saddex s keepttl 10", "-ERR wrong number of arguments for 'saddex' command"},
           {"saddex s x a", std::string(kNotInteger)},
           {"saddex s keepttl x a", std::string(kNotInteger)},
           {"saddex text x a", std::string(kNotInteger)},
           {"saddex s 0 a", "-ERR invalid expire time in 'saddex' command"},
           {"saddex s -1 a", "-ERR invalid expire time in 'saddex' command"},
           {"saddex s 9223372036854775807 a", "-ERR invalid expire time in 'saddex' command"},
           {"saddex text 10 a", std::string(kWrongType)},
           {"fieldexpire s 10", "-ERR wrong number of arguments for 'fieldexpire' command"},
           {"fieldexpire s x a", std::string(kNotInteger)},
           {"fieldexpire s -1 a", "-ERR invalid expire time, must be >= 0"},
           {"fieldexpire s 281474976711 a", "-ERR invalid expire time in 'fieldexpire' command"},
           {"fieldexpire text 10 a", std::string(kWrongType)},
           {"fieldttl s", "-ERR wrong number of arguments for 'fieldttl' command"},
           {"fieldttl text a", std::string(kWrongType)}}) {
    EXPECT_EQ(Run(line), error) << line;
  }
  EXPECT_EQ(Run("smembers s"), R"(["a"])");
  EXPECT_EQ(Run("get text"), "\"v\"");
  EXPECT_EQ(Run("saddex s 10 keepttl"), ":1") << "a member of that name";
  EXPECT_EQ(Run("fieldttl s keepttl"), ":10");
}

TEST_P(MemberDeadlinesTest, ADueMemberIsAbsentForEveryCommand) {
  for (const auto& [line, reply] :
       std::map<std::string, std::string>{{"scard s", ":1"},
                                          {"smembers s", R"(["c"])"},
                                          {"sismember s a", ":0"},
                                          {"smismember s a b c", "[:0, :0, :1]"},
                                          {"srandmember s", "\"c\""},
                                          {"srandmember s 5", R"(["c"])"},
                                          {"srandmember s 1", R"(["c"])"},
                                          {"srandmember s -2", R"(["c", "c"])"},
                                          {"sscan s 0", R"(["0", ["c"]])"},
                                          {"srem s a b", ":0"},
                                          {"smove s other a", ":0"},
                                          {"sort s alpha", R"(["c"])"},
                                          {"sinter s", R"(["c"])"},
                                          {"sunion s", R"(["c"])"},
                                          {"sdiff s", R"(["c"])"},
                                          {"fieldttl s a", ":-3"},
                                          {"fieldexpire s 10 a c", "[:-2, :1]"},
                                          {"spop s 3", R"(["c"])"}}) {
    MakeMixed();
    EXPECT_EQ(Run(line), reply) << line;
  }
  MakeMixed();
  EXPECT_EQ(Run("spop s"), "\"c\"");
  EXPECT_EQ(Run("exists s"), ":0") << "due ones are still in it";
  MakeMixed();
  EXPECT_EQ(Run("srem s c"), ":1");
  EXPECT_EQ(Run("dbsize"), ":0");
  MakeMixed();
  EXPECT_EQ(Run("sadd s a b c"), ":2");
  EXPECT_EQ(Run("scard s"), ":3");
}

TEST_P(MemberDeadlinesTest, OperationsOverShardsLeaveDueMembersOut) {
  for (int i = 0; i < 12; ++i) {
    const std::string other = "o" + std::to_string(i), target = "t" + std::to_string(i);
    MakeMixed();
    Run("sadd " + other + " a b c d");
    EXPECT_EQ(Sorted("sinter s " + other), "c");
    EXPECT_EQ(Sorted("sinter " + other + " s"), "c");
    EXPECT_EQ(Run("sintercard 2 s " + other), ":1");
    EXPECT_EQ(Sorted("sdiff s " + other), "");
    EXPECT_EQ(Sorted("sdiff " + other + " s"), "a b d");
    EXPECT_EQ(Sorted("sunion s none"), "c");
    EXPECT_EQ(Sorted("sunion s " + other), "a b c d");
    EXPECT_EQ(Run("sunionstore " + target + " s none"), ":1");
    EXPECT_EQ(Run("sinterstore " + target + " s " + other), ":1");
    EXPECT_EQ(Sorted("smembers " + target), "c");
    EXPECT_EQ(Run("object encoding " + target), "\"listpack\"");
    EXPECT_EQ(Run("zunion 2 s " + other + " withscores"),
              R"(["a", "1", "b", "1", "d", "1", "c", "2"])");
    EXPECT_EQ(Run("zinter 2 s " + other), R"(["c"])");
    EXPECT_EQ(Run("zdiff 2 " + other + " s"), R"(["a", "b", "d"])");
    EXPECT_EQ(Run("zunionstore " + target + " 2 s none"), ":1");
    EXPECT_EQ(Run("smove s " + other + " a"), ":0");
    EXPECT_EQ(Run("smove s " + target + "x c"), ":1");
    EXPECT_EQ(Run("exists s"), ":0");
  }
}

TEST_P(MemberDeadlinesTest, WhatIsMovedOrStoredHasNoDeadline) {
  for (int i = 0; i < 12; ++i) {
    const std::string to = "to" + std::to_string(i);
    Run("saddex s 10 a b");
    EXPECT_EQ(Run("smove s " + to + " a"), ":1");
    EXPECT_EQ(Run("fieldttl " + to + " a"), ":-1");
    EXPECT_EQ(Run("sunionstore " + to + " s"), ":1");
    EXPECT_EQ(Run("fieldttl " + to + " b"), ":-1");
    Run("saddex " + to + " 20 b");
    EXPECT_EQ(Run("smove s " + to + " b"), ":1");
    EXPECT_EQ(Run("fieldttl " + to + " b"), ":20") << "as SADD leaves it";
    EXPECT_EQ(Run("sdiffstore " + to + " s"), ":0");
    EXPECT_EQ(Run("exists " + to), ":0");
  }
}

TEST_P(MemberDeadlinesTest, ASetOfDueMembersIsAbsentForEveryCommand) {
  const auto make = [&] {
    Run("del s other");
    EXPECT_EQ(Run("saddex s 1 a b c"), ":3");
    now_ms_ += 1001;
  };
  for (const auto& [line, reply] :
       std::map<std::string, std::string>{{"exists s", ":0"},
                                          {"type s", "+none"},
                                          {"scard s", ":0"},
                                          {"smembers s", "[]"},
                                          {"srandmember s", "(nil)"},
                                          {"spop s", "(nil)"},
                                          {"spop s 2", "[]"},
                                          {"srem s a", ":0"},
                                          {"sinter s s", "[]"},
                                          {"del s", ":0"},
                                          {"fieldttl s a", ":-2"},
                                          {"fieldexpire s 1 a", "[:-2]"},
                                          {"rename s other", "-ERR no such key"},
                                          {"copy s other", ":0"},
                                          {"keys *", "[]"},
                                          {"get s", "(nil)"},
                                          {"rpush s x", ":1"},
                                          {"sadd s a", ":1"},
                                          {"saddex s 1 a", ":1"}}) {
    make();
    EXPECT_EQ(Run(line), reply) << line;
  }
  make();
  EXPECT_EQ(Run("sadd s z"), ":1");
  EXPECT_EQ(Run("smembers s"), R"(["z"])");
  EXPECT_EQ(Run("object encoding s"), "\"listpack\"");
}

TEST_P(MemberDeadlinesTest, ExpireStepsEraseDueMembersSoManyAtATime) {
  std::string line = "saddex s 1";
  for (int i = 0; i < 100; ++i) line += " m" + std::to_string(i);
  EXPECT_EQ(Run(line), ":100");
  Run("sadd s stays");
  Run("saddex gone 1 a");
  EXPECT_EQ(ExpireStep(1000), 0u);
  now_ms_ += 1001;
  EXPECT_EQ(Run("dbsize"), ":2");
  size_t total = 0;
  int steps = 0;
  for (; total < 101 && steps < 100; ++steps) {
    const size_t expired = ExpireStep(10);
    EXPECT_LE(expired, 24u);
    total += expired;
  }
  EXPECT_EQ(total, 101u);
  EXPECT_GE(steps, 5);
  EXPECT_EQ(Run("dbsize"), ":1");
  EXPECT_EQ(Run("smembers s"), R"(["stays"])");
  shards_->AwaitOnAll([](Shard& shard) { EXPECT_FALSE(shard.needs_steps()); });
}

TEST_P(MemberDeadlinesTest, TravelWithTheSetOverShards) {
  for (int i = 0; i < 20; ++i) {
    const std::string to = "to" + std::to_string(i);
    Run("saddex s 10 a");
    Run("sadd s b");
    EXPECT_EQ(Run("copy s copy:" + to), ":1");
    EXPECT_EQ(Run("rename s " + to), "+OK");
    for (const std::string& key : {to, "copy:" + to}) {
      EXPECT_EQ(Run("fieldttl " + key + " a"), ":10");
      EXPECT_EQ(Run("fieldttl " + key + " b"), ":-1");
    }
    now_ms_ += 10'001;
    EXPECT_EQ(Run("smembers " + to), R"(["b"])");
    EXPECT_EQ(Run("smembers copy:" + to), R"(["b"])");
  }
  ExpireStep(10'000);
  shards_->AwaitOnAll([](Shard& shard) { EXPECT_FALSE(shard.needs_steps()); });
}

// Most members are due: what draws must neither find one of these nor search for long.
TEST_P(MemberDeadlinesTest, RandomMembersAreLiveWhateverTheirShare) {
  for (const int due : {0, 100, 900, 5000}) {
    for (const auto& [name, count] : std::multimap<std::string, int>{{"spop", 40},
                                                                     {"spop", 90},
                                                                     {"srandmember", 20},
                                                                     {"srandmember", 90},
                                                                     {"srandmember", -500}}) {
      Run("del s");
      std::set<std::string> live;
      std::vector<std::string> add_live = {"saddex", "s", "100"}, add_due = {"saddex", "s", "1"};
      for (int i = 0; i < 100; ++i) {
        add_live.push_back("m" + std::to_string(i));
        live.insert(add_live.back());
      }
      for (int i = 0; i < due; ++i) add_due.push_back("due" + std::to_string(i));
      EXPECT_EQ(RunWords(add_live), ":100");
      if (due > 0) {
        EXPECT_EQ(RunWords(add_due), ":" + std::to_string(due));
      }
      now_ms_ += 1001;
      const RespValue reply = Call({name, "s", std::to_string(count)});
      EXPECT_EQ(reply.items.size(), static_cast<size_t>(std::abs(count)));
      std::set<std::string> drawn;
      for (const RespValue& item : reply.items) {
        EXPECT_TRUE(live.contains(item.text)) << item.text;
        drawn.insert(item.text);
      }
      if (count > 0) {
        EXPECT_EQ(drawn.size(), reply.items.size());
      } else {
        EXPECT_GT(drawn.size(), 80u);  // of 100: below that once in 10^15 runs
      }
      const size_t popped = name == "spop" ? drawn.size() : 0;
      EXPECT_EQ(Run("scard s"), ":" + std::to_string(100 - popped));
    }
  }
}

// Random commands against a plain map of deadlines, while time passes and steps are taken.
TEST_P(MemberDeadlinesTest, BehaveLikeAMapOfDeadlines) {
  helio::Random random(helio::TestSeed());
  std::map<std::string, int64_t> model;
  for (int step = 0; step < 8000; ++step) {
    now_ms_ += static_cast<int64_t>(random.Uniform(400));
    std::erase_if(model, [&](const auto& item) { return item.second < now_ms_; });
    const std::string member = "m" + std::to_string(random.Uniform(30));
    const bool exists = model.count(member) != 0;
    const auto after_s = static_cast<int64_t>(random.Uniform(8));
    const std::string after = std::to_string(after_s);
    switch (random.Uniform(10)) {
      case 0:
        EXPECT_EQ(Run("sadd s " + member), exists ? ":0" : ":1");
        model.try_emplace(member, INT64_MAX);
        break;
      case 1:
      case 2:
        if (after_s == 0) break;
        EXPECT_EQ(Run("saddex s " + after + " " + member), exists ? ":0" : ":1");
        model[member] = now_ms_ + after_s * 1000;
        break;
      case 3:
        if (after_s == 0) break;
        EXPECT_EQ(Run("saddex s keepttl " + after + " " + member), exists ? ":0" : ":1");
        model.try_emplace(member, now_ms_ + after_s * 1000);
        break;
      case 4:
        EXPECT_EQ(Run("srem s " + member), exists ? ":1" : ":0");
        model.erase(member);
        break;
      case 5:
        EXPECT_EQ(Run("fieldexpire s " + after + " " + member), !exists        ? "[:-2]"
                                                                : after_s == 0 ? "[:2]"
                                                                               : "[:1]");
        if (exists && after_s == 0) model.erase(member);
        if (exists && after_s != 0) model[member] = now_ms_ + after_s * 1000;
        break;
      case 6: {
        const int64_t at_ms = exists ? model[member] : 0;
        const std::string seconds = std::to_string((at_ms - now_ms_ + 999) / 1000);
        EXPECT_EQ(Run("fieldttl s " + member), model.empty()        ? ":-2"
                                               : !exists            ? ":-3"
                                               : at_ms == INT64_MAX ? ":-1"
                                                                    : ":" + seconds);
        break;
      }
      case 7: {
        std::string all;
        for (const auto& [each, at_ms] : model) all += (all.empty() ? "" : " ") + each;
        EXPECT_EQ(Sorted("smembers s"), all);
        EXPECT_EQ(Sorted("sunion s none"), all);
        EXPECT_EQ(Run("scard s"), ":" + std::to_string(model.size()));
        EXPECT_EQ(Run("exists s"), model.empty() ? ":0" : ":1");
        EXPECT_EQ(Run("sismember s " + member), exists ? ":1" : ":0");
        break;
      }
      case 8: {
        const RespValue popped = Call({"spop", "s"});
        const size_t expected = model.empty() ? 0 : 1;
        EXPECT_EQ(model.erase(popped.text), expected) << popped.text;
        break;
      }
      case 9:
        if (random.OneIn(2)) ExpireStep(1 + random.Uniform(5));
        break;
    }
    if (HasFailure()) FAIL() << "at step " << step;
    if (step % 256 == 0) {
      shards_->AwaitOnAll([](Shard& shard) { shard.CheckInvariants(); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, MemberDeadlinesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
