// SPDX-License-Identifier: Apache-2.0
#include "helio/base/ascii.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace helio {
namespace {

using testing::ElementsAre;

TEST(AsciiTest, OnlyLettersChange) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string lower = LowerCase(all);
  const std::string upper = UpperCase(all);
  for (int c = 0; c < 256; ++c) {
    const auto at = static_cast<size_t>(c);
    EXPECT_EQ(lower[at], c >= 'A' && c <= 'Z' ? all[at + 32] : all[at]) << c;
    EXPECT_EQ(upper[at], c >= 'a' && c <= 'z' ? all[at - 32] : all[at]) << c;
  }
}

TEST(AsciiTest, EqualsIgnoreCase) {
  EXPECT_TRUE(EqualsIgnoreCase("", ""));
  EXPECT_TRUE(EqualsIgnoreCase("KeepTtl", "kEEPtTL"));
  EXPECT_FALSE(EqualsIgnoreCase("a", "ab"));
  EXPECT_FALSE(EqualsIgnoreCase("@", "`"));  // 32 apart, and no letters
  EXPECT_FALSE(EqualsIgnoreCase("[", "{"));
}

TEST(AsciiTest, WordsStandBetweenBlanks) {
  EXPECT_THAT(SplitWords(""), ElementsAre());
  EXPECT_THAT(SplitWords(" \t\r\n"), ElementsAre());
  EXPECT_THAT(SplitWords("one"), ElementsAre("one"));
  EXPECT_THAT(SplitWords("  one two\tthree\v\f four\n"),
              ElementsAre("one", "two", "three", "four"));
}

}  // namespace
}  // namespace helio
