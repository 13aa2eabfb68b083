// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/sketches/hyperloglog.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;

class HyperLogLogCommandsTest : public CommandsTest {
 protected:
  static constexpr std::string_view kNotOne =
      "-WRONGTYPE Key is not a valid HyperLogLog string value.";
  static constexpr std::string_view kCorrupt = "-INVALIDOBJ Corrupted HLL object detected";

  std::string Value(const std::string& key) { return Call({"get", key}).text; }
  void SetBytes(const std::string& key, const std::string& bytes) {
    EXPECT_EQ(RunWords({"set", key, bytes}), "+OK");
  }
  void AddMany(const std::string& key, int begin, int end) {
    for (int i = begin; i < end; i += 100) {
      Words words = {"pfadd", key};
      for (int j = i; j < std::min(end, i + 100); ++j) words.push_back(fmt::format("e{}", j));
      RunWords(words);
    }
  }
  // One run of all zeros, with a byte too many behind it.
  static std::string Corrupt() { return HyperLogLog().bytes() + '\0'; }
};

TEST_P(HyperLogLogCommandsTest, ElementsAreCountedOnce) {
  EXPECT_EQ(Run("pfadd h"), ":1") << "makes the key";
  EXPECT_EQ(Run("pfadd h"), ":0");
  EXPECT_EQ(Run("pfadd h a b c"), ":1");
  EXPECT_EQ(Run("pfadd h a b"), ":0");
  EXPECT_EQ(Run("pfcount h"), ":3");
  EXPECT_EQ(Run("pfcount h"), ":3");
  EXPECT_EQ(Run("pfcount missing"), ":0");
  EXPECT_EQ(Run("type h"), "+string");
  EXPECT_EQ(Run("object encoding h"), "\"raw\"");
  EXPECT_EQ(Run("pfdebug decode h"), "\"Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603\"");
}

TEST_P(HyperLogLogCommandsTest, TheCountIsKeptInTheKey) {
  Run("pfadd h a");
  EXPECT_EQ(Value("h")[15], '\x80');
  EXPECT_EQ(Run("pfcount h"), ":1");
  EXPECT_EQ(Value("h").substr(8, 8), std::string("\1\0\0\0\0\0\0\0", 8));
  std::string forged = Value("h");
  forged[8] = 77;
  SetBytes("h", forged);
  EXPECT_EQ(Run("pfcount h"), ":77") << "taken from the key";
  Run("pfadd h a");
  EXPECT_EQ(Run("pfcount h"), ":77") << "nothing was raised";
  Run("pfadd h b");
  EXPECT_EQ(Run("pfcount h"), ":2");
}

TEST_P(HyperLogLogCommandsTest, ItBecomesDenseAtTheLimit) {
  AddMany("h", 0, 300);
  EXPECT_EQ(Run("pfdebug encoding h"), "+sparse");
  AddMany("h", 300, 3000);
  EXPECT_EQ(Run("pfdebug encoding h"), "+dense");
  EXPECT_EQ(Run("strlen h"), ":12304");
  const auto count = std::stoi(Call({"pfcount", "h"}).text);
  EXPECT_NEAR(static_cast<double>(count), 3000, 100);
  EXPECT_EQ(Run("pfdebug decode h"), "-ERR HLL encoding is not sparse");
  for (ShardSet* shards : {shards_.get(), &replica_->replica()}) {
    shards->AwaitOnAll([](Shard& shard) { shard.limits().hll_sparse_bytes = 0; });
  }
  EXPECT_EQ(Run("pfadd g"), ":1");
  EXPECT_EQ(Run("pfdebug encoding g"), "+sparse");
  EXPECT_EQ(Run("pfadd g a"), ":1");
  EXPECT_EQ(Run("pfdebug encoding g"), "+dense");
}

TEST_P(HyperLogLogCommandsTest, SeveralKeysAreCountedTogether) {
  AddMany("a", 0, 200);
  for (const char* b : {"b", "c", "d", "e"}) {
    const std::string other(b);
    AddMany(other, 100, 400);
    Run("del t");
    EXPECT_EQ(Run("pfmerge t a " + other + " missing"), "+OK");
    const std::string count = Run("pfcount t");
    EXPECT_EQ(Run("pfcount a " + other), count);
    EXPECT_EQ(Run("pfcount " + other + " missing a a"), count);
    AddMany("model", 0, 400);
    EXPECT_EQ(Run("pfcount model"), count);
    EXPECT_EQ(Run("pfdebug encoding t"), "+sparse");
    EXPECT_EQ(Run("pfdebug todense " + other), ":1");
    EXPECT_EQ(Run("pfdebug todense " + other), ":0");
    EXPECT_EQ(Run("pfmerge t " + other), "+OK");
    EXPECT_EQ(Run("pfdebug encoding t"), "+dense") << "as one of them is";
    EXPECT_EQ(Run("pfcount t"), count);
  }
  EXPECT_EQ(Run("pfmerge n"), "+OK");
  EXPECT_EQ(Run("pfcount n"), ":0");
  EXPECT_EQ(Run("exists n"), ":1");
}

TEST_P(HyperLogLogCommandsTest, WhatIsNoneIsRefusedWhereverItStands) {
  Run("pfadd a x");
  Run("pfadd t y");
  for (const char* key : {"p", "q", "r", "s"}) {
    const std::string other(key);
    for (const auto& [text, error] : {std::pair<std::string, std::string_view>("foo", kNotOne),
                                      {"12345", kNotOne},
                                      {Corrupt(), kCorrupt}}) {
      SetBytes(other, text);
      if (error == kNotOne) {
        EXPECT_EQ(Run("pfadd " + other + " z"), error);
      }
      for (const char* line : {"pfcount a ", "pfmerge t a ", "pfmerge t "}) {
        EXPECT_EQ(Run(line + other), error) << line << other;
      }
      EXPECT_EQ(Run("pfmerge " + other + " a"), error);
      EXPECT_EQ(Value(other), text);
    }
    Run("del " + other);
    MakeHash(other);
    for (const char* line :
         {"pfcount ", "pfcount a ", "pfmerge t a ", "pfadd ", "pfdebug decode "}) {
      EXPECT_EQ(Run(line + other), kWrongType) << line << other;
    }
  }
  EXPECT_EQ(Run("pfcount t"), ":1");
  EXPECT_EQ(Run("pfdebug getreg missing"), "-ERR The specified key does not exist");
  EXPECT_EQ(Run("pfdebug foo a"), "-ERR Unknown PFDEBUG subcommand 'foo'");
}

TEST_P(HyperLogLogCommandsTest, TheFirstWrongKeyDecidesOnTheError) {
  for (const char* c : {"c", "d", "e", "f"}) {
    const std::string corrupt(c);
    SetBytes(corrupt, Corrupt());
    Run("del h");
    MakeHash("h");
    EXPECT_EQ(Run("pfcount missing " + corrupt + " h"), kCorrupt);
    EXPECT_EQ(Run("pfcount missing h " + corrupt), kWrongType);
  }
}

TEST_P(HyperLogLogCommandsTest, RegistersAreShown) {
  Run("pfadd h a b c");
  const RespValue reply = Call({"pfdebug", "getreg", "h"});
  ASSERT_EQ(reply.items.size(), HyperLogLog::kRegisters);
  EXPECT_EQ(reply.items[8436].text, "1");
  EXPECT_EQ(reply.items[8436 + 1 + 4274].text, "2");
  EXPECT_EQ(Run("pfdebug encoding h"), "+dense") << "as in Redis";
}

TEST_P(HyperLogLogCommandsTest, TheSelfTestPasses) { EXPECT_EQ(Run("pfselftest"), "+OK"); }

INSTANTIATE_TEST_SUITE_P(Shards, HyperLogLogCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
