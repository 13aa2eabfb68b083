// SPDX-License-Identifier: Apache-2.0
#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class LcsTest : public CommandsTest {
 protected:
  LcsTest() {
    Run("set a ohmytext");
    Run("set b mynewtext");
  }
};

// The expected replies are those of redis-server.
TEST_P(LcsTest, TellsBytesLengthOrRuns) {
  EXPECT_EQ(Run("lcs a b"), "\"mytext\"");
  EXPECT_EQ(Run("lcs a b LEN"), ":6");
  EXPECT_EQ(Run("lcs a b idx"),
            "[\"matches\", [[[:4, :7], [:5, :8]], [[:2, :3], [:0, :1]]], \"len\", :6]");
  EXPECT_EQ(Run("lcs a b idx minmatchlen 4"), "[\"matches\", [[[:4, :7], [:5, :8]]], \"len\", :6]");
  EXPECT_EQ(Run("lcs a b IDX MINMATCHLEN 4 WITHMATCHLEN"),
            "[\"matches\", [[[:4, :7], [:5, :8], :4]], \"len\", :6]");
  EXPECT_EQ(Run("lcs a b idx minmatchlen -1 withmatchlen"),
            "[\"matches\", [[[:4, :7], [:5, :8], :4], [[:2, :3], [:0, :1], :2]], \"len\", :6]");
  EXPECT_EQ(Run("lcs a a idx"), "[\"matches\", [[[:0, :7], [:0, :7]]], \"len\", :8]");
}

TEST_P(LcsTest, AMissingKeyIsTheEmptyString) {
  EXPECT_EQ(Run("lcs a missing"), "\"\"");
  EXPECT_EQ(Run("lcs missing a len"), ":0");
  EXPECT_EQ(Run("lcs missing nothing idx"), "[\"matches\", [], \"len\", :0]");
}

TEST_P(LcsTest, ErrorsAreThoseOfRedis) {
  EXPECT_EQ(Run("lcs a b idx len"),
            "-ERR If you want both the length and indexes, please just use IDX.");
  EXPECT_EQ(Run("lcs a b what"), kSyntaxError);
  EXPECT_EQ(Run("lcs a b minmatchlen"), kSyntaxError);
  EXPECT_EQ(Run("lcs a b minmatchlen x"), kNotInteger);
  EXPECT_EQ(Run("lcs a"), "-ERR wrong number of arguments for 'lcs' command");
  MakeHash("h");
  EXPECT_EQ(Run("lcs a h what"), "-ERR The specified keys must contain string values");
  EXPECT_EQ(Run("lcs h a"), "-ERR The specified keys must contain string values");
}

TEST_P(LcsTest, WhatWouldTakeTooLongIsRefused) {
  RunWords({"set", "long1", std::string(12'000, 'x')});
  RunWords({"set", "long2", std::string(12'000, 'x')});
  EXPECT_EQ(Run("lcs long1 long2"),
            "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
}

INSTANTIATE_TEST_SUITE_P(Shards, LcsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
