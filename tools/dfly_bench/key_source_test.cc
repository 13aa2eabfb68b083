// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/key_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace dfly::bench {
namespace {

constexpr uint64_t kSeed = 20260101;
constexpr int kDraws = 200'000;

std::vector<int> CountDraws(const KeySourceOptions& options, int draws = kDraws) {
  KeySource source(options, kSeed);
  std::vector<int> counts(options.maximum - options.minimum + 1);
  for (int i = 0; i < draws; ++i) {
    const uint64_t key = source.Next();
    EXPECT_GE(key, options.minimum);
    EXPECT_LE(key, options.maximum);
    ++counts.at(key - options.minimum);
  }
  return counts;
}

// Pearson's statistic over its degrees of freedom: near 1 if the draws follow the weights.
double ChiSquare(const std::vector<int>& counts, const std::vector<double>& weights) {
  double total = 0;
  for (double weight : weights) total += weight;
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = weights[i] / total * kDraws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum / static_cast<double>(counts.size() - 1);
}

TEST(KeySourceTest, UniformKeysAreEquallyLikely) {
  const KeySourceOptions options{.minimum = 1000, .maximum = 1099};
  EXPECT_LT(ChiSquare(CountDraws(options), std::vector<double>(100, 1.0)), 1.5);
}

TEST(KeySourceTest, ZipfianKeysHaveTheirExactProbabilities) {
  for (const double alpha : {0.0, 0.5, 0.99, 1.0, 1.2, 2.0}) {
    const KeySourceOptions options{.distribution = KeyDistribution::kZipfian,
                                   .minimum = 5,
                                   .maximum = 54,
                                   .zipf_alpha = alpha};
    std::vector<double> weights;
    for (int k = 1; k <= 50; ++k) weights.push_back(std::pow(k, -alpha));
    EXPECT_LT(ChiSquare(CountDraws(options), weights), 1.7) << "alpha " << alpha;
  }
}

TEST(KeySourceTest, AHugeZipfianRangeIsNoSlowerAndKeepsItsHottestKey) {
  KeySource source({.distribution = KeyDistribution::kZipfian, .maximum = (1ull << 52)}, kSeed);
  int hottest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t key = source.Next();
    ASSERT_LE(key, 1ull << 52);
    hottest += key == 0;
  }
  // 1 / H with H = (2^52)^0.01 - 1) / 0.01 + about 0.58: 2.26 %.
  EXPECT_NEAR(static_cast<double>(hottest) / kDraws, 0.0226, 0.002);
}

TEST(KeySourceTest, NormalKeysLieAroundTheMiddle) {
  const KeySourceOptions options{
      .distribution = KeyDistribution::kNormal, .minimum = 100, .maximum = 699};
  const std::vector<int> counts = CountDraws(options);
  double sum = 0;
  int within_sigma = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sum += static_cast<double>(i) * counts[i];
    if (i >= 200 && i < 400) within_sigma += counts[i];
  }
  EXPECT_NEAR(sum / kDraws, 299.5, 2);
  EXPECT_NEAR(static_cast<double>(within_sigma) / kDraws, 0.6845, 0.01);  // 0.6827 / 0.9973
}

TEST(KeySourceTest, SequentialSourcesTogetherVisitEachKeyOnce) {
  std::multiset<uint64_t> seen;
  for (uint64_t i = 0; i < 4; ++i) {
    KeySource source({.distribution = KeyDistribution::kSequential,
                      .minimum = 10,
                      .maximum = 29,
                      .sequence_start = i,
                      .sequence_step = 4},
                     kSeed);
    for (int n = 0; n < 5; ++n) seen.insert(source.Next());
    EXPECT_EQ(source.Next(), 10 + i) << "it begins again";
  }
  EXPECT_EQ(seen.size(), 20u);
  for (uint64_t key = 10; key < 30; ++key) EXPECT_EQ(seen.count(key), 1u) << key;
}

TEST(KeySourceTest, ASingleKeyIsAlwaysChosen) {
  for (const auto distribution : {KeyDistribution::kUniform, KeyDistribution::kNormal,
                                  KeyDistribution::kZipfian, KeyDistribution::kSequential}) {
    KeySource source({.distribution = distribution, .minimum = 7, .maximum = 7}, kSeed);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(source.Next(), 7u);
  }
}

TEST(KeySourceTest, TheSeedDecides) {
  const KeySourceOptions options{.maximum = 1'000'000};
  KeySource a(options, 1), b(options, 1), c(options, 2);
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t key = a.Next();
    EXPECT_EQ(key, b.Next());
    same += key == c.Next();
  }
  EXPECT_LT(same, 5);
}

}  // namespace
}  // namespace dfly::bench
