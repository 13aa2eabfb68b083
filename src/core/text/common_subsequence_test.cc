// SPDX-License-Identifier: Apache-2.0
#include "core/text/common_subsequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "helio/base/test_seed.h"

namespace dfly {
namespace {

// By the definition, without any table.
size_t SlowLength(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return 0;
  if (a.back() == b.back()) {
    return SlowLength(a.substr(0, a.size() - 1), b.substr(0, b.size() - 1)) + 1;
  }
  return std::max(SlowLength(a.substr(0, a.size() - 1), b),
                  SlowLength(a, b.substr(0, b.size() - 1)));
}

bool IsSubsequence(std::string_view part, std::string_view whole) {
  size_t found = 0;
  for (char c : whole) found += found < part.size() && part[found] == c;
  return found == part.size();
}

TEST(CommonSubsequenceTest, NothingIsCommonWithTheEmptyString) {
  EXPECT_EQ(FindCommonSubsequence("", "abc").text, "");
  EXPECT_EQ(FindCommonSubsequence("abc", "").text, "");
  EXPECT_EQ(CommonSubsequenceLength("", ""), 0u);
  EXPECT_TRUE(FindCommonSubsequence("abc", "def").runs.empty());
}

TEST(CommonSubsequenceTest, RunsComeFromTheEnd) {
  const CommonSubsequence found = FindCommonSubsequence("ohmytext", "mynewtext");
  EXPECT_EQ(found.text, "mytext");
  ASSERT_EQ(found.runs.size(), 2u);
  EXPECT_EQ(found.runs[0].a_begin, 4u);
  EXPECT_EQ(found.runs[0].b_begin, 5u);
  EXPECT_EQ(found.runs[0].size, 4u);
  EXPECT_EQ(found.runs[1].a_begin, 2u);
  EXPECT_EQ(found.runs[1].b_begin, 0u);
  EXPECT_EQ(found.runs[1].size, 2u);
}

TEST(CommonSubsequenceTest, IsTheLongestInBothAndMadeOfItsRuns) {
  std::mt19937 random(helio::TestSeed());
  const auto text = [&random] {
    std::string made(random() % 9, 'a');
    for (char& c : made) c = static_cast<char>('a' + random() % 3);
    return made;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = text();
    const std::string b = text();
    SCOPED_TRACE(a + " " + b);
    const CommonSubsequence found = FindCommonSubsequence(a, b);
    ASSERT_EQ(found.text.size(), SlowLength(a, b));
    ASSERT_EQ(CommonSubsequenceLength(a, b), found.text.size());
    ASSERT_TRUE(IsSubsequence(found.text, a));
    ASSERT_TRUE(IsSubsequence(found.text, b));
    std::string joined;
    for (const CommonRun& run : found.runs) {
      ASSERT_EQ(a.substr(run.a_begin, run.size), b.substr(run.b_begin, run.size));
      joined.insert(0, a.substr(run.a_begin, run.size));
    }
    ASSERT_EQ(joined, found.text);
  }
}

}  // namespace
}  // namespace dfly
