// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/frequent_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using testing::IsEmpty;
using testing::Le;

std::vector<std::pair<std::string, uint64_t>> Pairs(const FrequentItems& items, size_t count) {
  std::vector<std::pair<std::string, uint64_t>> pairs;
  for (const auto& [text, seen] : items.Top(count)) pairs.emplace_back(text, seen);
  return pairs;
}

TEST(FrequentItemsTest, FewAreCountedExactly) {
  FrequentItems items(4);
  EXPECT_THAT(items.Top(3), IsEmpty());
  for (const char* text : {"a", "b", "a", "c", "a", "b", ""}) items.Add(text);
  EXPECT_THAT(Pairs(items, 3), testing::ElementsAre(testing::Pair("a", 3), testing::Pair("b", 2),
                                                    testing::Pair("", 1)));
  EXPECT_EQ(items.Top(10).size(), 4u);
  EXPECT_EQ(items.total(), 7u);
  EXPECT_EQ(items.error(), 0u);
}

TEST(FrequentItemsTest, CountsAreMerged) {
  FrequentItems a(4);
  FrequentItems b(4);
  for (int i = 0; i < 5; ++i) a.Add("x");
  for (int i = 0; i < 3; ++i) b.Add("x");
  b.Add("y");
  a.Merge(b);
  EXPECT_THAT(Pairs(a, 2), testing::ElementsAre(testing::Pair("x", 8), testing::Pair("y", 1)));
  EXPECT_EQ(a.total(), 9u);
}

// Whatever comes: memory is bounded, counts are too low by at most error(), and that is bounded.
TEST(FrequentItemsTest, BoundsHoldForRandomStreams) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 20; ++round) {
    const size_t capacity = 8 + random.Uniform(100);
    const uint64_t different = 1 + random.Uniform(5000);
    const bool is_skewed = random.Uniform(2) == 0;
    FrequentItems first(capacity);
    FrequentItems second(capacity);
    std::map<std::string, uint64_t> exact;
    for (int i = 0; i < 20'000; ++i) {
      uint64_t number = random.Uniform(different);
      if (is_skewed && random.Uniform(2) == 0) number %= 5;
      const std::string text = std::to_string(number);
      ++exact[text];
      (random.Uniform(2) == 0 ? first : second).Add(text);
      ASSERT_THAT(first.size(), Le(capacity));
    }
    first.Merge(second);
    ASSERT_EQ(first.total(), 20'000u);
    ASSERT_THAT(first.size(), Le(capacity));
    // Each pruning takes away at least capacity / 2 times what it adds to the error.
    ASSERT_THAT(first.error(), Le(20'000u * 2 / (capacity - 1) + 1));
    std::map<std::string, uint64_t> found;
    for (const auto& [text, count] : first.Top(capacity)) {
      ASSERT_THAT(count, Le(exact[text]));
      ASSERT_THAT(exact[text], Le(count + first.error()));
      found[text] = count;
    }
    for (const auto& [text, count] : exact) {
      ASSERT_TRUE(count <= first.error() || found.contains(text)) << text << " of " << count;
    }
  }
}

}  // namespace
}  // namespace dfly
