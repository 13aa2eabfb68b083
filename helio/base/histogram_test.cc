// SPDX-License-Identifier: Apache-2.0
#include "helio/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "helio/base/random.h"

namespace helio {
namespace {

TEST(HistogramTest, EmptyHistogramOwnsNothingAndAnswersZero) {
  Histogram histogram;
  EXPECT_EQ(histogram.memory_used(), 0u);
  EXPECT_EQ(histogram.Percentile(99), 0u);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.min(), 0u);
  histogram.Merge(Histogram());
  EXPECT_EQ(histogram.memory_used(), 0u);
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 0; value <= 100; value++) histogram.Add(value);
  EXPECT_EQ(histogram.Percentile(0), 0u);
  EXPECT_EQ(histogram.Percentile(50), 50u);
  EXPECT_EQ(histogram.Percentile(99), 99u);
  EXPECT_EQ(histogram.Percentile(100), 100u);
  EXPECT_EQ(histogram.mean(), 50);
  EXPECT_EQ(histogram.count(), 101u);
}

TEST(HistogramTest, BucketsCoverEveryValueOnce) {
  for (unsigned bit = 0; bit < 40; bit++) {
    for (int64_t delta : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bit) + static_cast<uint64_t>(delta);
      Histogram histogram;
      histogram.Add(value);
      int buckets = 0;
      histogram.ForEachBucket([&](uint64_t low, uint64_t high, uint64_t count) {
        buckets++;
        EXPECT_LE(low, value);
        EXPECT_GE(high, value);
        EXPECT_LE(static_cast<double>(high - low), static_cast<double>(value) / 64);
        EXPECT_EQ(count, 1u);
      });
      EXPECT_EQ(buckets, 1) << value;
    }
  }
}

TEST(HistogramTest, HugeValuesKeepAnExactMaximum) {
  Histogram histogram;
  histogram.Add(UINT64_MAX);
  histogram.Add(1, 99);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
  EXPECT_EQ(histogram.Percentile(100), UINT64_MAX);
  EXPECT_EQ(histogram.Percentile(99), 1u);
}

TEST(HistogramTest, PercentilesAreWithinOnePercentOfSortedValues) {
  const uint64_t seed = 3;
  SCOPED_TRACE(seed);
  Random random(seed);
  Histogram first, second;
  std::vector<uint64_t> values;
  for (int i = 0; i < 50'000; i++) {
    const uint64_t value = random.Next() >> random.Between(24, 63);
    values.push_back(value);
    (i % 3 == 0 ? first : second).Add(value);
  }
  first.Merge(second);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(first.count(), values.size());
  EXPECT_EQ(first.min(), values.front());
  for (double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const size_t rank =
        static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
    const double exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(first.Percentile(percent)), exact, exact * 0.01) << percent;
  }
  first.Clear();
  EXPECT_EQ(first.count(), 0u);
  EXPECT_EQ(first.Percentile(50), 0u);
}

}  // namespace
}  // namespace helio
