// SPDX-License-Identifier: Apache-2.0
#include "server/options/redis_conf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facade/parsers/quoted_words.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RedisConfTest, WhatIsQuotedIsOneWordAgain) {
  helio::Random random(helio::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    std::string word;
    for (uint64_t size = random.Uniform(12); size > 0; --size) {
      word.push_back(static_cast<char>(random.Uniform(256)));
    }
    const auto words = SplitQuoted("name " + QuoteConfigWord(word));
    ASSERT_TRUE(words);
    EXPECT_THAT(*words, ElementsAre("name", word));
  }
}

TEST(RedisConfTest, Files) {
  std::vector<ConfigLine> lines;
  EXPECT_EQ(ParseConfigText("# x\n\nPort 7\r\n  save 60 1 \n#\nend", "f", &lines), "");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0].words, ElementsAre("port", "7"));
  EXPECT_EQ(lines[0].where, "f:3");
  EXPECT_THAT(lines[1].words, ElementsAre("save", "60", "1"));
  EXPECT_EQ(lines[2].where, "f:6");
  EXPECT_THAT(ParseConfigText("port 1\nbind \"x\n", "f", &lines), HasSubstr("f:2: unbalanced"));
}

}  // namespace
}  // namespace dfly
