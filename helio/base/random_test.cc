// SPDX-License-Identifier: Apache-2.0
#include "helio/base/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace helio {
namespace {

TEST(RandomTest, SameSeedGivesSameSequence) {
  Random a(42), b(42), c(43);
  bool differs = false;
  for (int i = 0; i < 100; i++) {
    const uint64_t value = a.Next();
    EXPECT_EQ(value, b.Next());
    differs |= value != c.Next();
  }
  EXPECT_TRUE(differs);
}

// The first values of splitmix64 from state 0, as published with the algorithm.
TEST(RandomTest, SplitMixMatchesItsReference) {
  uint64_t state = 0;
  EXPECT_EQ(SplitMix64(&state), 0xe220a8397b1dcdafu);
  EXPECT_EQ(SplitMix64(&state), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(SplitMix64(&state), 0x06c45d188009454fu);
}

TEST(RandomTest, UniformFillsItsRangeEvenly) {
  Random random(1);
  std::vector<int> hits(10, 0);
  for (int i = 0; i < 100'000; i++) hits.at(random.Uniform(10))++;
  for (int count : hits) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 1000; i++) {
    const uint64_t value = random.Between(5, 7);
    ASSERT_TRUE(value >= 5 && value <= 7);
    const double real = random.NextDouble();
    ASSERT_TRUE(real >= 0 && real < 1);
  }
  random.Between(0, UINT64_MAX);  // the whole range has no size that fits
  EXPECT_EQ(random.Uniform(1), 0u);
}

TEST(RandomTest, SystemSeedsAreForeseenOnlyWhenTheyAreFixed) {
  EXPECT_NE(SystemSeed(), SystemSeed());
  FixSystemSeeds(7);
  const uint64_t first = SystemSeed();
  const uint64_t second = SystemSeed();
  EXPECT_NE(first, second);
  FixSystemSeeds(7);
  EXPECT_EQ(SystemSeed(), first);
  EXPECT_EQ(SystemSeed(), second);
  FixSystemSeeds(8);
  EXPECT_NE(SystemSeed(), first);
}

}  // namespace
}  // namespace helio
