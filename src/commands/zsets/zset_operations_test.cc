// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/text/numbers.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class ZsetOperationsTest : public CommandsTest {
 protected:
  void SetLimit(uint32_t entries, uint32_t element_bytes = 64) {
    shards_->AwaitOnAll([=](Shard& shard) {
      shard.limits().zset = {.entries = entries, .element_bytes = element_bytes};
    });
  }
  // fn(prefix): with keys that have one tag, so one shard, and with keys anywhere; small and large.
  template <typename F>
  void InAllWays(F&& fn) {
    for (uint32_t entries : {128u, 0u}) {
      for (const char* prefix : {"{tag}", ""}) {
        SCOPED_TRACE(testing::Message() << entries << " " << prefix);
        SetLimit(entries);
        Run("flushall");
        fn(std::string(prefix));
      }
    }
  }
  // Words that begin with '#' are keys.
  std::string RunKeys(const std::string& prefix, std::string_view line) {
    std::string written;
    for (char c : line) c == '#' ? written += prefix : written += c;
    return Run(written);
  }
};

TEST_P(ZsetOperationsTest, CountsWhichInputsHaveAMember) {
  InAllWays([this](const std::string& prefix) {
    const auto run = [&](std::string_view line) { return RunKeys(prefix, line); };
    run("zadd #a 7 x -inf y inf z");
    run("zadd #b 10 y 20 z 30 w");
    run("sadd #s z w v");
    EXPECT_EQ(run("zunion 3 #a #b #s aggregate count withscores"),
              R"(["v", "1", "x", "1", "w", "2", "y", "2", "z", "3"])");
    EXPECT_EQ(run("zinter 2 #a #b aggregate COUNT withscores"), R"(["y", "2", "z", "2"])");
    EXPECT_EQ(run("zunion 3 #a #b #s weights 1 2 0.5 aggregate count withscores"),
              R"(["v", "0.5", "x", "1", "w", "2.5", "y", "3", "z", "3.5"])");
    EXPECT_EQ(run("zinter 3 #a #b #s aggregate count weights 1 -2 4 withscores"), R"(["z", "3"])");
    EXPECT_EQ(run("zunion 2 #a #a aggregate count withscores"),
              R"(["x", "2", "y", "2", "z", "2"])");
    EXPECT_EQ(run("zinter 2 #a #b weights inf -inf aggregate count withscores"),
              R"(["y", "0", "z", "0"])");
    EXPECT_EQ(run("zunion 1 #a weights 0 aggregate count withscores"),
              R"(["x", "0", "y", "0", "z", "0"])");
    EXPECT_EQ(run("zunion 2 #a #none aggregate sum aggregate count withscores"),
              R"(["x", "1", "y", "1", "z", "1"])");
    EXPECT_EQ(run("zunionstore #t 3 #a #b #s weights 1 2 3 aggregate count"), ":5");
    EXPECT_EQ(run("zrange #t 0 -1 withscores"),
              R"(["x", "1", "v", "3", "y", "3", "w", "5", "z", "6"])");
    EXPECT_EQ(run("zinterstore #t 2 #t #a aggregate count"), ":3");
    EXPECT_EQ(run("zrange #t 0 -1 withscores"), R"(["x", "2", "y", "2", "z", "2"])");
    EXPECT_EQ(run("zinterstore #t 2 #a #none aggregate count"), ":0");
    EXPECT_EQ(run("exists #t"), ":0");
    EXPECT_EQ(run("zdiff 1 #a aggregate count"), kSyntaxError);
    EXPECT_EQ(run("zintercard 1 #a aggregate count"), kSyntaxError);
    EXPECT_EQ(run("zunion 1 #a aggregate counts"), kSyntaxError);
    EXPECT_EQ(run("zunion 1 #a count"), kSyntaxError);
  });
}

// It is made in slices; so is what others are told of it.
TEST_P(ZsetOperationsTest, CountsMembersOfLargeInputs) {
  for (const std::string key : {"a", "b"}) {
    for (int i = 0; i < 30; ++i) {
      std::vector<std::string> words = {"zadd", key};
      for (int k = 0; k < 100; ++k) {
        words.insert(words.end(),
                     {"7", key == "a" || i % 2 == 0 ? std::to_string(i * 100 + k)
                                                    : "b" + std::to_string(i * 100 + k)});
      }
      EXPECT_EQ(RunWords(words), ":100");
    }
  }
  EXPECT_EQ(Run("zunionstore t 2 a b aggregate count"), ":4500");
  EXPECT_EQ(Run("zcount t 2 2"), ":1500");
  EXPECT_EQ(Run("zinterstore t 2 a b weights 3 4 aggregate count"), ":1500");
  EXPECT_EQ(Run("zcount t 7 7"), ":1500");
}

// In one shard those whose first key ends with 1 are read in slices, the others at once; without a
// tag, and with several shards, they are all the same.
TEST_P(ZsetOperationsTest, LargeInputsAreReadInSlices) {
  for (const std::string prefix : {"{tag}", ""}) {
    const auto fill = [&](const std::string& key, int begin, int end, int factor, bool is_set) {
      for (const char* digit : {"1", "2"}) {
        std::vector<std::string> words = {is_set ? "sadd" : "zadd", prefix + key + digit};
        for (int i = begin; i < end; ++i) {
          if (!is_set) words.push_back(std::to_string(i % 1000 * factor));
          words.push_back("member:" + std::to_string(i));
        }
        RunWords(words);
      }
    };
    fill("a", 0, 10'000, 1, false);
    fill("b", 3000, 14'000, -2, false);
    fill("s", 2000, 11'500, 0, true);
    fill("few", 2500, 3500, 1, false);
    Run("set " + prefix + "text x");
    const auto run = [&](std::string line, const std::string& digit) {
      std::string written;
      for (char c : line) {
        if (c == '#') {
          written += prefix;
        } else if (c == '@') {
          written += digit;
        } else {
          written += c;
        }
      }
      return Run(written);
    };
    const auto expect_same = [&](const std::string& line) {
      const std::string found = run(line, "1");
      EXPECT_EQ(found, run(line, "2")) << line;
      return found;
    };
    for (const std::string keys : {"1 #a@", "2 #a@ #b@", "2 #b@ #a@", "3 #a@ #b@ #s@", "2 #s@ #a@",
                                   "2 #few@ #a@", "2 #a@ #few@", "2 #a@ #a@", "2 #a@ #none@",
                                   "2 #none@ #a@", "2 #a@ #text", "3 #a@ #b@ #text"}) {
      for (const char* options :
           {"", " withscores", " weights 1 2", " weights 2 -1 aggregate max withscores",
            " weights 1 2 3 aggregate min", " aggregate count withscores", " limit 5"}) {
        expect_same("zunion " + keys + options);
        expect_same("zinter " + keys + options);
        expect_same("zdiff " + keys + options);
      }
      for (const char* options : {"", " limit 1", " limit 1025", " limit 0", " limit 100000"}) {
        expect_same("zintercard " + keys + options);
      }
      for (const char* options : {"", " aggregate count"}) {
        for (const char* command : {"zunionstore", "zinterstore", "zdiffstore"}) {
          expect_same(std::string(command) + " #t@ " + keys + options);
          EXPECT_EQ(run("zrange #t1 0 -1 withscores", ""), run("zrange #t2 0 -1 withscores", ""));
        }
      }
    }
    EXPECT_EQ(expect_same("zintercard 2 #a@ #b@"), ":7000");
    EXPECT_EQ(expect_same("zintercard 2 #a@ #b@ limit 1025"), ":1025");
    resp3_ = true;
    expect_same("zunion 2 #a@ #b@ withscores");
    expect_same("zinter 2 #a@ #b@ withscores");
    resp3_ = false;
  }
}

TEST_P(ZsetOperationsTest, UnionsIntersectionsAndDifferences) {
  InAllWays([this](const std::string& prefix) {
    const auto run = [&](std::string_view line) { return RunKeys(prefix, line); };
    run("zadd #a 1 x 2 y 3 z");
    run("zadd #b 10 y 20 z 30 w");
    run("sadd #s z w v");
    EXPECT_EQ(run("zunion 2 #a #b withscores"), R"(["x", "1", "y", "12", "z", "23", "w", "30"])");
    EXPECT_EQ(run("zunion 3 #a #b #s"), R"(["v", "x", "y", "z", "w"])");
    EXPECT_EQ(run("zunion 2 #a #b weights 2 0.5 aggregate max withscores"),
              R"(["x", "2", "y", "5", "z", "10", "w", "15"])");
    EXPECT_EQ(run("zinter 2 #a #b withscores"), R"(["y", "12", "z", "23"])");
    EXPECT_EQ(run("zinter 3 #a #b #s weights 1 1 100 withscores"), R"(["z", "123"])");
    EXPECT_EQ(run("zinter 2 #a #b aggregate min withscores"), R"(["y", "2", "z", "3"])");
    EXPECT_EQ(run("zinter 2 #a #missing"), "[]");
    EXPECT_EQ(run("zinter 2 #a #a withscores"), R"(["x", "2", "y", "4", "z", "6"])");
    EXPECT_EQ(run("zdiff 2 #a #b withscores"), R"(["x", "1"])");
    EXPECT_EQ(run("zdiff 2 #s #a"), R"(["v", "w"])");
    EXPECT_EQ(run("zdiff 2 #missing #a"), "[]");
    EXPECT_EQ(run("zintercard 2 #a #b"), ":2");
    EXPECT_EQ(run("zintercard 2 #a #b limit 1"), ":1");
    EXPECT_EQ(run("zintercard 2 #a #b limit 0"), ":2");
    EXPECT_EQ(run("zunionstore #t 2 #a #b aggregate min"), ":4");
    EXPECT_EQ(run("zrange #t 0 -1 withscores"), R"(["x", "1", "y", "2", "z", "3", "w", "30"])");
    EXPECT_EQ(run("zinterstore #a 2 #a #b"), ":2");
    EXPECT_EQ(run("zrange #a 0 -1 withscores"), R"(["y", "12", "z", "23"])");
    EXPECT_EQ(run("zdiffstore #s 2 #s #a"), ":2");
    EXPECT_EQ(run("zrange #s 0 -1 withscores"), R"(["v", "1", "w", "1"])");
    EXPECT_EQ(run("zdiffstore #t 2 #a #a"), ":0");
    EXPECT_EQ(run("exists #t"), ":0");
  });
}

TEST_P(ZsetOperationsTest, NoResultIsNan) {
  InAllWays([this](const std::string& prefix) {
    const auto run = [&](std::string_view line) { return RunKeys(prefix, line); };
    run("zadd #a inf x 0 y");
    run("zadd #b -inf x inf y");
    EXPECT_EQ(run("zunion 2 #a #b withscores"), R"(["x", "0", "y", "inf"])");
    EXPECT_EQ(run("zunion 2 #a #b weights 0 0 withscores"), R"(["x", "0", "y", "0"])");
    EXPECT_EQ(run("zinter 2 #a #b withscores"), R"(["x", "0", "y", "inf"])");
    EXPECT_EQ(run("zinter 2 #a #b weights inf 1 withscores"), R"(["x", "0", "y", "inf"])");
  });
}

TEST_P(ZsetOperationsTest, TypesAreLookedAtBeforeOptions) {
  InAllWays([this](const std::string& prefix) {
    const auto run = [&](std::string_view line) { return RunKeys(prefix, line); };
    run("set #text x");
    run("zadd #a 1 x");
    EXPECT_EQ(run("zunion 2 #a #text what"), kWrongType);
    EXPECT_EQ(run("zinterstore #t 2 #missing #text"), kWrongType);
    EXPECT_EQ(run("zdiff 2 #missing #text"), kWrongType);
    EXPECT_EQ(run("zintercard 2 #text #a"), kWrongType);
    EXPECT_EQ(run("zunion 2 #a #b weights 1 x"), "-ERR weight value is not a float");
    EXPECT_EQ(run("zunion 2 #a #b weights 1"), kSyntaxError);
    EXPECT_EQ(run("zunion 2 #a #b aggregate avg"), kSyntaxError);
    EXPECT_EQ(run("zunionstore #t 2 #a #b withscores"), kSyntaxError);
    EXPECT_EQ(run("zdiff 2 #a #b weights 1 1"), kSyntaxError);
    EXPECT_EQ(run("zintercard 2 #a #b limit -1"), "-ERR LIMIT can't be negative");
    EXPECT_EQ(run("zintercard 2 #a #b limit x"), "-ERR LIMIT can't be negative");
    EXPECT_EQ(run("zunion 0 #a"), "-ERR at least 1 input key is needed for 'zunion' command");
    EXPECT_EQ(run("ZInterStore #t 0 #a"),
              "-ERR at least 1 input key is needed for 'zinterstore' command");
    EXPECT_EQ(run("zunion x #a"), kNotInteger);
    EXPECT_EQ(run("zunion 3 #a #b"), kSyntaxError);
    EXPECT_EQ(run("exists #t"), ":0");
    EXPECT_EQ(run("zunionstore #text 1 #a"), ":1") << "the target may be anything";
  });
}

TEST_P(ZsetOperationsTest, RangesAreStored) {
  InAllWays([this](const std::string& prefix) {
    const auto run = [&](std::string_view line) { return RunKeys(prefix, line); };
    run("zadd #a 1 x 2 y 3 z");
    run("set #t x px 1000");
    EXPECT_EQ(run("zrangestore #t #a 1 -1"), ":2");
    EXPECT_EQ(run("zrange #t 0 -1 withscores"), R"(["y", "2", "z", "3"])");
    EXPECT_EQ(run("ttl #t"), ":-1");
    EXPECT_EQ(run("zrangestore #t #a inf (1 byscore rev limit 0 1"), ":1");
    EXPECT_EQ(run("zrange #t 0 -1"), R"(["z"])");
    EXPECT_EQ(run("zrangestore #a #a 0 0"), ":1");
    EXPECT_EQ(run("zrange #a 0 -1"), R"(["x"])");
    EXPECT_EQ(run("zrangestore #t #a 0 -1 withscores"), kSyntaxError);
    EXPECT_EQ(run("zrangestore #t #a x 1"), kNotInteger);
    run("set #text x");
    EXPECT_EQ(run("zrangestore #t #text 0 1"), kWrongType);
    EXPECT_EQ(run("zrange #t 0 -1"), R"(["z"])") << "an error changes nothing";
    EXPECT_EQ(run("zrangestore #t #missing 0 -1"), ":0");
    EXPECT_EQ(run("exists #t"), ":0");
  });
}

TEST_P(ZsetOperationsTest, WhatIsStoredIsPackedUpToTheLimits) {
  SetLimit(3, 4);
  Run("zadd {t}a 1 a 2 b 3 c 4 d");
  EXPECT_EQ(Run("object encoding {t}a"), "\"skiplist\"");
  Run("zrangestore {t}t {t}a 0 2");
  EXPECT_EQ(Run("object encoding {t}t"), "\"listpack\"");
  Run("zunionstore {t}t 1 {t}a");
  EXPECT_EQ(Run("object encoding {t}t"), "\"skiplist\"");
  Run("zadd {t}b 1 five5");
  Run("zunionstore {t}t 1 {t}b");
  EXPECT_EQ(Run("object encoding {t}t"), "\"skiplist\"");
  Run("zadd {t}c 1 four");
  Run("zdiffstore {t}t 2 {t}c {t}b");
  EXPECT_EQ(Run("object encoding {t}t"), "\"listpack\"");
}

TEST_P(ZsetOperationsTest, DoWhatAModelDoes) {
  std::mt19937 random(helio::TestSeed());
  const auto below = [&random](size_t end) { return random() % end; };
  using Model = std::map<std::string, double>;
  std::map<std::string, Model> all;
  for (int round = 0; round < 400; ++round) {
    if (round % 40 == 0) SetLimit(below(2) == 0 ? 128 : 5);
    const std::string changed = "k" + std::to_string(below(6));
    for (size_t i = below(12); i > 0; --i) {
      const std::string member = "m" + std::to_string(below(30));
      const int score = static_cast<int>(below(9)) - 4;
      Run("zadd " + changed + " " + std::to_string(score) + " " + member);
      all[changed][member] = score;
    }
    std::vector<std::string> keys;
    std::string line;
    for (size_t i = 1 + below(4); i > 0; --i) keys.push_back("k" + std::to_string(below(6)));
    for (const std::string& key : keys) line += " " + key;
    Model expected;
    const size_t operation = below(3);
    for (size_t i = 0; i < keys.size(); ++i) {
      const Model& input = all[keys[i]];
      for (const auto& [member, score] : input) {
        if (operation == 1) {
          expected[member] += score;
        } else if (i == 0) {
          const auto has = [&](size_t k) { return all[keys[k]].contains(member); };
          bool in_all = true, in_other = false;
          double sum = 0;
          for (size_t k = 0; k < keys.size(); ++k) {
            in_all &= has(k);
            in_other |= k > 0 && has(k);
            if (has(k)) sum += all[keys[k]][member];
          }
          if (operation == 0 && in_all) expected[member] = sum;
          if (operation == 2 && !in_other) expected[member] = score;
        }
      }
    }
    constexpr const char* kNames[] = {"zinter", "zunion", "zdiff"};
    const std::string target = "k" + std::to_string(below(6));
    const std::string count = std::to_string(keys.size()) + line;
    if (operation == 0) {
      EXPECT_EQ(Run("zintercard " + count), ":" + std::to_string(expected.size()));
    }
    Model shown;
    const RespValue reply = Call({"zscan", "none", "0"});
    std::vector<std::string> words = {kNames[operation], std::to_string(keys.size())};
    words.insert(words.end(), keys.begin(), keys.end());
    words.emplace_back("withscores");
    const RespValue found = Call(words);
    for (size_t i = 0; i + 1 < found.items.size(); i += 2) {
      shown[found.items[i].text] = *ParseDouble(found.items[i + 1].text);
    }
    ASSERT_EQ(shown, expected) << kNames[operation] << line;
    EXPECT_EQ(Run(std::string(kNames[operation]) + "store " + target + " " + count),
              ":" + std::to_string(expected.size()));
    all[target] = expected;
    EXPECT_EQ(Run("zcard " + target), ":" + std::to_string(expected.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ZsetOperationsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
