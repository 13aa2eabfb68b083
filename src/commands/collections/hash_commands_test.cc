// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class HashCommandsTest : public CommandsTest {
 protected:
  // hash-max-listpack-entries and -value for all shards.
  void SetLimit(const PackedLimit& limit) {
    shards_->AwaitOnAll([&](Shard& shard) { shard.limits().hash = limit; });
  }
  void SetOld() { ASSERT_EQ(Run("hset h a 1 b 2 c x"), ":3"); }
  void ExpectOld() {
    EXPECT_EQ(Run("hmget h a b c"), R"(["1", "2", "x"])");
    EXPECT_EQ(Run("hlen h"), ":3");
    EXPECT_EQ(Run("dbsize"), ":1");
  }
  // The items of an array of strings.
  std::vector<std::string> Items(std::string_view line) {
    std::vector<std::string> items;
    std::string text = Run(line);
    for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
      const size_t end = text.find('"', at + 1);
      items.push_back(text.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    return items;
  }
  // For each encoding: with a limit that keeps hashes packed, and with one that does not.
  template <typename F>
  void ForBothEncodings(F&& test) {
    for (uint32_t entries : {512, 0}) {
      SCOPED_TRACE(entries);
      Run("flushall");
      SetLimit({.entries = entries, .element_bytes = 64});
      test(entries == 0 ? "hashtable" : "listpack");
    }
  }
};

TEST_P(HashCommandsTest, SetsAndGetsFields) {
  ForBothEncodings([&](const std::string& encoding) {
    EXPECT_EQ(Run("hset h a 1 b 2"), ":2");
    EXPECT_EQ(Run("hset h a 3 c '' a 4"), ":1");
    EXPECT_EQ(Run("object encoding h"), "\"" + encoding + "\"");
    EXPECT_EQ(Run("hget h a"), "\"4\"");
    EXPECT_EQ(Run("hget h c"), "\"\"");
    EXPECT_EQ(Run("hget h 1"), "(nil)");
    EXPECT_EQ(Run("hget missing a"), "(nil)");
    EXPECT_EQ(Run("hmget h a x b a"), R"(["4", (nil), "2", "4"])");
    EXPECT_EQ(Run("hmget missing a b"), "[(nil), (nil)]");
    EXPECT_EQ(Run("hmset h a 5 d 6"), "+OK");
    EXPECT_EQ(Run("hlen h"), ":4");
    EXPECT_EQ(Run("hlen missing"), ":0");
    EXPECT_EQ(Run("hexists h a"), ":1");
    EXPECT_EQ(Run("hexists h 5"), ":0");
    EXPECT_EQ(Run("hexists missing a"), ":0");
    EXPECT_EQ(Run("hstrlen h a"), ":1");
    EXPECT_EQ(Run("hstrlen h c"), ":0");
    EXPECT_EQ(Run("hstrlen h x"), ":0");
    EXPECT_EQ(Run("hstrlen missing x"), ":0");
    EXPECT_EQ(Run("type h"), "+hash");
  });
}

TEST_P(HashCommandsTest, PairsMustBeWhole) {
  SetOld();
  EXPECT_EQ(Run("hset h a"), "-ERR wrong number of arguments for 'hset' command");
  EXPECT_EQ(Run("hset h a 1 b"), "-ERR wrong number of arguments for 'hset' command");
  EXPECT_EQ(Run("hmset h a 1 b"), "-ERR wrong number of arguments for 'hmset' command");
  EXPECT_EQ(Run("hset new a 1 b"), "-ERR wrong number of arguments for 'hset' command");
  ExpectOld();
}

TEST_P(HashCommandsTest, SetNxLeavesAPresentFieldAlone) {
  EXPECT_EQ(Run("hsetnx h a 1"), ":1");
  EXPECT_EQ(Run("hsetnx h a 2"), ":0");
  EXPECT_EQ(Run("hsetnx h b 2"), ":1");
  EXPECT_EQ(Run("hmget h a b"), R"(["1", "2"])");
}

TEST_P(HashCommandsTest, GetAllIsAMapInResp3AndFlatInResp2) {
  ForBothEncodings([&](const std::string&) {
    EXPECT_EQ(Run("hgetall h"), "[]");
    EXPECT_EQ(Run("hkeys h"), "[]");
    EXPECT_EQ(Run("hvals h"), "[]");
    Run("hset h a 1");
    EXPECT_EQ(Run("hgetall h"), R"(["a", "1"])");
    EXPECT_EQ(Run("hkeys h"), R"(["a"])");
    EXPECT_EQ(Run("hvals h"), R"(["1"])");
    resp3_ = true;
    EXPECT_EQ(Call({"hgetall", "h"}).kind, ReplyKind::kMap);
    EXPECT_EQ(Call({"hgetall", "missing"}).kind, ReplyKind::kMap);
    EXPECT_EQ(Call({"hkeys", "h"}).kind, ReplyKind::kArray);
    EXPECT_EQ(Call({"hvals", "h"}).kind, ReplyKind::kArray);
    resp3_ = false;
  });
}

TEST_P(HashCommandsTest, AHashWithoutFieldsIsGone) {
  ForBothEncodings([&](const std::string&) {
    SetOld();
    EXPECT_EQ(Run("hdel h a x a"), ":1");
    EXPECT_EQ(Run("hdel missing a"), ":0");
    EXPECT_EQ(Run("hlen h"), ":2");
    EXPECT_EQ(Run("expire h 100"), ":1");
    EXPECT_EQ(Run("hdel h b c b"), ":2");
    EXPECT_EQ(Run("exists h"), ":0");
    EXPECT_EQ(Run("hset h a 1"), ":1");
    EXPECT_EQ(Run("ttl h"), ":-1");
  });
}

TEST_P(HashCommandsTest, CountersAddAndKnowTheirLimits) {
  ForBothEncodings([&](const std::string&) {
    SetOld();
    EXPECT_EQ(Run("hincrby h a 5"), ":6");
    EXPECT_EQ(Run("hincrby h new -3"), ":-3");
    EXPECT_EQ(Run("hincrby new n 3"), ":3");
    EXPECT_EQ(Run("hincrby h c 1"), "-ERR hash value is not an integer");
    EXPECT_EQ(Run("hincrby h c x"), kNotInteger);
    EXPECT_EQ(Run("hset h max 9223372036854775807 e ''"), ":2");
    EXPECT_EQ(Run("hincrby h max 1"), "-ERR increment or decrement would overflow");
    EXPECT_EQ(Run("hincrby h e 1"), "-ERR hash value is not an integer");
    EXPECT_EQ(Run("hincrby h max -9223372036854775808"), ":-1");
    EXPECT_EQ(Run("hget h max"), "\"-1\"");
    EXPECT_EQ(Run("hincrbyfloat h b 1.5"), "\"3.5\"");
    EXPECT_EQ(Run("hincrbyfloat h f 3.0e3"), "\"3000\"");
    EXPECT_EQ(Run("hincrbyfloat h c 1"), "-ERR hash value is not a float");
    EXPECT_EQ(Run("hincrbyfloat h c x"), "-ERR value is not a valid float");
    EXPECT_EQ(Run("hincrbyfloat h b inf"), "-ERR value is NaN or Infinity");
    EXPECT_EQ(Run("hset h big 1e4932"), ":1");
    EXPECT_EQ(Run("hincrbyfloat h big 1e4932"), "-ERR increment would produce NaN or Infinity");
    EXPECT_EQ(Run("hincrby h b 1"), "-ERR hash value is not an integer");
    EXPECT_EQ(Run("hget h b"), "\"3.5\"");
  });
}

TEST_P(HashCommandsTest, EveryCommandRefusesOtherTypesAndLeavesThemAlone) {
  Run("set s v");
  for (const char* line :
       {"hset s a 1", "hsetnx s a 1", "hmset s a 1", "hget s a", "hmget s a", "hgetall s",
        "hdel s a", "hexists s a", "hlen s", "hstrlen s a", "hkeys s", "hvals s", "hincrby s a 1",
        "hincrbyfloat s a 1", "hrandfield s", "hrandfield s 2", "hscan s 0", "hscan s 0 count 0"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(Run("get s"), "\"v\"");
}

TEST_P(HashCommandsTest, BecomesATableBehindEachLimitAndStaysOne) {
  SetLimit({.entries = 3, .element_bytes = 4});
  Run("hset h a 1 b 2 1234 1234");
  EXPECT_EQ(Run("object encoding h"), "\"listpack\"");
  Run("hset h a 1 b 3");
  EXPECT_EQ(Run("object encoding h"), "\"listpack\"");
  Run("hset h d 4");
  EXPECT_EQ(Run("object encoding h"), "\"hashtable\"");
  Run("hdel h d c b");
  EXPECT_EQ(Run("object encoding h"), "\"hashtable\"");
  Run("hset v a 12345");
  EXPECT_EQ(Run("object encoding v"), "\"hashtable\"");
  Run("hset f 12345 a");
  EXPECT_EQ(Run("object encoding f"), "\"hashtable\"");
  Run("hset n a 1");
  Run("hincrby n a 9999");
  EXPECT_EQ(Run("object encoding n"), "\"hashtable\"");
  EXPECT_EQ(Run("hget n a"), "\"10000\"");
}

TEST_P(HashCommandsTest, RandFieldChecksItsArguments) {
  SetOld();
  EXPECT_EQ(Run("hrandfield h x"), kNotInteger);
  EXPECT_EQ(Run("hrandfield h 2 foo"), kSyntaxError);
  EXPECT_EQ(Run("hrandfield h 2 withvalues x"), kSyntaxError);
  EXPECT_EQ(Run("hrandfield h -9223372036854775808"),
            "-ERR value is out of range, value must between -9223372036854775807 and "
            "9223372036854775807");
  EXPECT_EQ(Run("hrandfield h 4611686018427387904 withvalues"), "-ERR value is out of range");
  EXPECT_EQ(Run("hrandfield h -4611686018427387904 withvalues"), "-ERR value is out of range");
  EXPECT_EQ(Run("hrandfield h -4611686018427387903"), "-ERR value is out of range");
  EXPECT_EQ(Run("hrandfield missing"), "(nil)");
  EXPECT_EQ(Run("hrandfield missing -5"), "[]");
  EXPECT_EQ(Run("hrandfield h 0"), "[]");
}

TEST_P(HashCommandsTest, RandFieldWithACountGivesDifferentFields) {
  ForBothEncodings([&](const std::string&) {
    for (int i = 0; i < 100; ++i) {
      Run("hset h " + std::to_string(i) + " " + std::to_string(i * 2));
    }
    for (int count : {1, 5, 32, 34, 99, 100, 1000}) {
      const auto fields = Items("hrandfield h " + std::to_string(count));
      EXPECT_EQ(fields.size(), static_cast<size_t>(std::min(count, 100)));
      EXPECT_EQ(std::set<std::string>(fields.begin(), fields.end()).size(), fields.size());
    }
    const auto pairs = Items("hrandfield h -200 withvalues");
    ASSERT_EQ(pairs.size(), 400u);
    for (size_t i = 0; i < pairs.size(); i += 2) {
      EXPECT_EQ(std::stoi(pairs[i]) * 2, std::stoi(pairs[i + 1]));
    }
    resp3_ = true;
    const RespValue nested = Call({"hrandfield", "h", "3", "WITHVALUES"});
    resp3_ = false;
    ASSERT_EQ(nested.items.size(), 3u);
    EXPECT_EQ(nested.items[0].items.size(), 2u);
  });
}

// Chi-squared over 20 fields: 19 degrees of freedom, past 60 in one of two million runs.
TEST_P(HashCommandsTest, RandFieldIsUniformInEachFormAndEncoding) {
  constexpr int kFields = 20, kDraws = 8000;
  ForBothEncodings([&](const std::string&) {
    for (int i = 0; i < kFields; ++i) Run("hset h field:" + std::to_string(i) + " x");
    for (const std::string count : {"-4000", "5", "15"}) {
      std::map<std::string, int> drawn;
      int total = 0;
      while (total < kDraws) {
        for (const std::string& field : Items("hrandfield h " + count)) {
          ++drawn[field];
          ++total;
        }
      }
      double chi_squared = 0;
      const double expected = static_cast<double>(total) / kFields;
      for (int i = 0; i < kFields; ++i) {
        const double difference = drawn["field:" + std::to_string(i)] - expected;
        chi_squared += difference * difference / expected;
      }
      EXPECT_LT(chi_squared, 60) << count;
    }
  });
}

TEST_P(HashCommandsTest, ScanOfAPackedHashIsWholeWithCursor0) {
  for (int i = 0; i < 100; ++i) Run("hset h f" + std::to_string(i) + " v");
  const RespValue reply = Call({"hscan", "h", "0", "COUNT", "5"});
  ASSERT_EQ(reply.items.size(), 2u);
  EXPECT_EQ(reply.items[0].ToString(), "\"0\"");
  EXPECT_EQ(reply.items[1].items.size(), 200u);
  EXPECT_EQ(Run("hscan h 17 match f1"), R"(["0", ["f1", "v"]])");
  EXPECT_EQ(Run("hscan h 0 match f9? novalues").size(), Run("hscan h 0 match f1? novalues").size());
  EXPECT_EQ(Run("hscan h 0 match f7 novalues count 1"), R"(["0", ["f7"]])");
}

TEST_P(HashCommandsTest, ScanOfATableFindsAllThatIsThereAllTheTime) {
  constexpr int kFields = 3000;
  for (int i = 0; i < kFields; ++i) Run("hset h f" + std::to_string(i) + " " + std::to_string(i));
  std::map<std::string, int> seen;
  std::string cursor = "0";
  int calls = 0;
  do {
    const RespValue reply = Call({"hscan", "h", cursor, "COUNT", "20"});
    cursor = reply.items[0].ToString();
    cursor = cursor.substr(1, cursor.size() - 2);
    const auto& items = reply.items[1].items;
    EXPECT_LT(items.size(), 200u);
    for (size_t i = 0; i < items.size(); i += 2) {
      if (items[i].ToString()[1] != 'f') continue;
      EXPECT_EQ(items[i].ToString().substr(2), items[i + 1].ToString().substr(1));
      ++seen[items[i].ToString()];
    }
    // It grows and shrinks meanwhile.
    for (int i = 0; i < 40; ++i) {
      Run("hset h x" + std::to_string(calls) + ":" + std::to_string(i) + " 1");
      Run("hdel h x" + std::to_string(calls - 20) + ":" + std::to_string(i));
    }
    ++calls;
  } while (cursor != "0");
  for (int i = 0; i < kFields; ++i) EXPECT_EQ(seen["\"f" + std::to_string(i) + "\""], 1) << i;
  EXPECT_GT(calls, 30);
}

TEST_P(HashCommandsTest, ScanChecksItsArguments) {
  SetOld();
  EXPECT_EQ(Run("hscan h x"), "-ERR invalid cursor");
  EXPECT_EQ(Run("hscan missing x"), "-ERR invalid cursor");
  EXPECT_EQ(Run("hscan missing 0 count 0"), R"(["0", []])");
  EXPECT_EQ(Run("hscan h 0 count 0"), kSyntaxError);
  EXPECT_EQ(Run("hscan h 0 count x"), kNotInteger);
  EXPECT_EQ(Run("hscan h 0 match"), kSyntaxError);
  EXPECT_EQ(Run("hscan h 0 type hash"), kSyntaxError);
}

TEST_P(HashCommandsTest, MovesAndCopiesOverShardsWithAllItsFields) {
  ForBothEncodings([&](const std::string& encoding) {
    for (int i = 0; i < 20; ++i) {
      const std::string to = "to" + std::to_string(i);
      Run("hset h a 1 b 2");
      EXPECT_EQ(Run("copy h copy:" + to), ":1");
      EXPECT_EQ(Run("rename h " + to), "+OK");
      EXPECT_EQ(Run("exists h"), ":0");
      for (const std::string& key : {to, "copy:" + to}) {
        EXPECT_EQ(Run("hmget " + key + " a b"), R"(["1", "2"])");
        EXPECT_EQ(Run("object encoding " + key), "\"" + encoding + "\"");
      }
      EXPECT_EQ(Run("hset " + to + " c 3"), ":1");
      EXPECT_EQ(Run("hlen copy:" + to), ":2");
    }
  });
}

// Random commands against a plain map, across the conversion limits.
TEST_P(HashCommandsTest, BehavesLikeAMap) {
  helio::Random random(helio::TestSeed());
  SetLimit({.entries = 16, .element_bytes = 20});
  std::map<std::string, std::string> model;
  for (int step = 0; step < 6000; ++step) {
    const std::string field = "f" + std::to_string(random.Uniform(random.OneIn(3) ? 60 : 12));
    const uint64_t kind = random.Uniform(10);
    if (random.OneIn(400)) {
      EXPECT_EQ(Run("del h"), model.empty() ? ":0" : ":1");
      model.clear();
    } else if (kind < 3) {
      const std::string text =
          random.OneIn(50) ? std::string(30, 'x') : std::to_string(random.Uniform(100000));
      EXPECT_EQ(Run("hset h " + field + " " + text), model.count(field) ? ":0" : ":1");
      model[field] = text;
    } else if (kind < 6) {
      EXPECT_EQ(Run("hdel h " + field), model.erase(field) ? ":1" : ":0");
    } else if (kind < 7) {
      if (model.count(field) && model[field][0] == 'x') continue;
      const int64_t sum = (model.count(field) ? std::stoll(model[field]) : 0) + 7;
      EXPECT_EQ(Run("hincrby h " + field + " 7"), ":" + std::to_string(sum));
      model[field] = std::to_string(sum);
    } else {
      EXPECT_EQ(Run("hget h " + field), model.count(field) ? "\"" + model[field] + "\"" : "(nil)");
      EXPECT_EQ(Run("hlen h"), ":" + std::to_string(model.size()));
      EXPECT_EQ(Run("exists h"), model.empty() ? ":0" : ":1");
    }
    if (step % 500 != 0) continue;
    std::map<std::string, std::string> all;
    const auto items = Items("hgetall h");
    for (size_t i = 0; i < items.size(); i += 2) all[items[i]] = items[i + 1];
    ASSERT_EQ(all, model);
  }
}

// "h1" is read in slices, "h2" at once (DispatchForTest).
TEST_P(HashCommandsTest, LongReadsInSlicesReplyTheSame) {
  std::vector<std::string> words = {"hset", ""};
  for (int i = 0; i < 5000; ++i) {
    words.push_back("field:" + std::to_string(i));
    words.push_back("text:" + std::to_string(i));
  }
  for (const char* key : {"h1", "h2"}) {
    words[1] = key;
    EXPECT_EQ(RunWords(words), ":5000");
  }
  for (const std::string command : {"hgetall ", "hkeys ", "hvals "}) {
    auto in_slices = Items(command + "h1"), at_once = Items(command + "h2");
    EXPECT_EQ(in_slices.size(), command == "hgetall " ? 10'000u : 5000u);
    std::sort(in_slices.begin(), in_slices.end());
    std::sort(at_once.begin(), at_once.end());
    EXPECT_EQ(in_slices, at_once);
    EXPECT_EQ(Run(command + "missing1"), Run(command + "missing2"));
  }
  const auto all = Items("hgetall h1"), fields = Items("hkeys h1"), texts = Items("hvals h1");
  for (size_t i = 0; i < fields.size(); ++i) {
    ASSERT_EQ(all[2 * i], fields[i]);
    ASSERT_EQ(all[2 * i + 1], texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, HashCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
