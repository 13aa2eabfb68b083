// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/quoted_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {

using testing::ElementsAre;

TEST(QuotedWordsTest, Words) {
  EXPECT_THAT(*SplitQuoted("a  b\tc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(*SplitQuoted("  "), ElementsAre());
  EXPECT_THAT(*SplitQuoted(R"(save "")"), ElementsAre("save", ""));
  EXPECT_THAT(*SplitQuoted(R"(a "b c" 'd "e')"), ElementsAre("a", "b c", "d \"e"));
  EXPECT_THAT(*SplitQuoted(R"("\n\r\t\a\b\x41\\\"\q")"), ElementsAre("\n\r\t\a\b\x41\\\"q"));
  EXPECT_THAT(*SplitQuoted(R"('it\'s \n')"), ElementsAre(R"(it's \n)"));
  EXPECT_THAT(*SplitQuoted(R"("\xzz")"), ElementsAre("xzz"));
}

TEST(QuotedWordsTest, QuotesHaveToBeClosed) {
  for (const char* line : {R"(a "b)", R"(a 'b)", R"(a "b"c)", R"(a 'b'c)", R"(a "b\")"}) {
    EXPECT_FALSE(SplitQuoted(line)) << line;
  }
}

}  // namespace
}  // namespace dfly
