// SPDX-License-Identifier: Apache-2.0
// What waits for members is tested with a server, in tests/test_blocking.py.
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class ZsetPopsTest : public CommandsTest {
 protected:
  // fn() with keys a, b and c anywhere and of both encodings; b has 4 members.
  template <typename F>
  void InBothEncodings(F&& fn) {
    for (uint32_t entries : {128u, 0u}) {
      SCOPED_TRACE(entries == 0 ? "skiplist" : "listpack");
      shards_->AwaitOnAll([entries](Shard& shard) {
        shard.limits().zset = {.entries = entries, .element_bytes = 64};
      });
      Run("flushall");
      ASSERT_EQ(Run("zadd b 1 w 2 x 3 y 4 z"), ":4");
      fn();
    }
  }
};

TEST_P(ZsetPopsTest, TheFirstKeyThatExistsIsPoppedFrom) {
  InBothEncodings([this] {
    Run("zadd c 9 later");
    EXPECT_EQ(Run("zmpop 3 a b c min"), R"(["b", [["w", "1"]]])");
    EXPECT_EQ(Run("zmpop 3 a b c MAX count 2"), R"(["b", [["z", "4"], ["y", "3"]]])");
    EXPECT_EQ(Run("zmpop 3 a b c max count 99"), R"(["b", [["x", "2"]]])");
    EXPECT_EQ(Run("exists b"), ":0");
    EXPECT_EQ(Run("zmpop 2 a b min"), "(nil)");
    EXPECT_EQ(Run("zmpop 3 a b c min"), R"(["c", [["later", "9"]]])");
    EXPECT_EQ(Run("dbsize"), ":0");
  });
}

TEST_P(ZsetPopsTest, WithoutWaitingBlockingFormsDoTheSame) {
  // As in EXEC, where nobody waits.
  InBothEncodings([this] {
    EXPECT_EQ(Run("bzpopmin a b c 0"), R"(["b", "w", "1"])");
    EXPECT_EQ(Run("bzpopmax b 0.5"), R"(["b", "z", "4"])");
    EXPECT_EQ(Run("bzmpop 0 3 a b c max count 9"), R"(["b", [["y", "3"], ["x", "2"]]])");
    EXPECT_EQ(Run("bzpopmin a b c 0"), "(nil)");
    EXPECT_EQ(Run("bzmpop 0 2 a b min"), "(nil)");
  });
}

// From "z1" in slices, from "z2" at once.
TEST_P(ZsetPopsTest, ManyArePoppedInSlices) {
  std::vector<std::string> words = {"zadd", ""};
  for (int i = 0; i < 20'000; ++i) {
    words.push_back(std::to_string(i / 2));
    words.push_back("member:" + std::to_string(i));
  }
  for (const bool is_resp3 : {false, true}) {
    resp3_ = is_resp3;
    for (const std::string key : {"z1", "z2"}) {
      words[1] = key;
      EXPECT_EQ(RunWords(words), ":20000");
      Run("expire " + key + " 1000");
    }
    for (const std::string pop : {"zpopmin", "zpopmax"}) {
      for (const char* count : {" 3", " 4000", " 0", "", " x", " -1", " 1 2"}) {
        EXPECT_EQ(Run(pop + " z1" + count), Run(pop + " z2" + count)) << pop << count;
        EXPECT_EQ(Run("zcard z1"), Run("zcard z2"));
      }
    }
    EXPECT_EQ(Run("zcard z1"), ":11992");
    EXPECT_EQ(Run("ttl z1"), ":1000");
    Effects();
    const std::string all = Run("zpopmax z1 9000000");
    EXPECT_EQ(Effects(), std::vector<std::string>{"0 ZPOPMAX z1 11992"});
    EXPECT_EQ(all, Run("zpopmax z2 11992"));
    EXPECT_EQ(Run("exists z1 z2"), ":0");
    EXPECT_EQ(Run("zpopmin z1 9000"), "[]");
    EXPECT_EQ(Run("zpopmin z1"), "[]");
    Run("set z1 x");
    EXPECT_EQ(Run("zpopmin z1 9000"), kWrongType);
    Run("del z1");
  }
}

TEST_P(ZsetPopsTest, Resp3HasDoubles) {
  resp3_ = true;
  InBothEncodings([this] {
    EXPECT_EQ(Run("zpopmin b"), R"(["w", ,1])");
    EXPECT_EQ(Run("zpopmax b 1"), R"([["z", ,4]])");
    EXPECT_EQ(Run("zmpop 1 b min"), R"(["b", [["x", ,2]]])");
    EXPECT_EQ(Run("bzpopmin b 0"), R"(["b", "y", ,3])");
  });
}

TEST_P(ZsetPopsTest, WhatIsRefusedChangesNothing) {
  InBothEncodings([this] {
    Run("set text x");
    EXPECT_EQ(Run("zmpop 0 b min"), "-ERR numkeys should be greater than 0");
    EXPECT_EQ(Run("zmpop x b min"), "-ERR numkeys should be greater than 0");
    EXPECT_EQ(Run("zmpop 2 b min"), kSyntaxError);
    EXPECT_EQ(Run("zmpop 1 b mid"), kSyntaxError);
    EXPECT_EQ(Run("zmpop 1 b min count 0"), "-ERR count should be greater than 0");
    EXPECT_EQ(Run("zmpop 1 b min count 1 count 1"), kSyntaxError);
    EXPECT_EQ(Run("zmpop 1 b min count"), kSyntaxError);
    EXPECT_EQ(Run("zmpop 2 text b min"), kWrongType);
    EXPECT_EQ(Run("bzpopmin text b 0"), kWrongType);
    EXPECT_EQ(Run("bzpopmin b x"), "-ERR timeout is not a float or out of range");
    EXPECT_EQ(Run("bzpopmin b -1"), "-ERR timeout is negative");
    EXPECT_EQ(Run("bzmpop -1 1 b min"), "-ERR timeout is negative");
    EXPECT_EQ(Run("bzmpop x 0 b min"), "-ERR numkeys should be greater than 0");
    EXPECT_EQ(Run("zcard b"), ":4");
  });
}

INSTANTIATE_TEST_SUITE_P(Shards, ZsetPopsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
