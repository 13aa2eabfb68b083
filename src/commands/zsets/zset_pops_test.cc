// SPDX-License-Identifier: Apache-2.0
// What waits for members is tested with a server, in tests/test_blocking.py.
#include <string>

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
