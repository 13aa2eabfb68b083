// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/count_min_sketch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/table/compact_value.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

using Shape = CountMinSketch::Shape;
constexpr uint32_t kCountMax = CountMinSketch::kCountMax;

class CountMinSketchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { CountMinSketch::RegisterType(); }

  static std::vector<int64_t> NoSums(const Shape& shape) {
    return std::vector<int64_t>(CountMinSketch::SumsOf(shape));
  }
};

TEST_F(CountMinSketchTest, NoCountIsTooSmallAndFewAreTooLarge) {
  for (const uint64_t seed : {1, 2, 3}) {
    constexpr double kError = 0.002;
    constexpr double kProbability = 0.01;
    CountMinSketch sketch(Shape::For(kError, kProbability));
    helio::Random random(seed);
    std::map<std::string, uint64_t> counts;
    int64_t total = 0;
    for (int i = 0; i < 30'000; ++i) {
      const uint64_t number = random.Uniform(1 + random.Uniform(5000));  // small ones more often
      const std::string item = fmt::format("item {}", number);
      const uint64_t count = random.Between(0, 5);
      const uint64_t told = sketch.Add(HashItem(item), count);
      counts[item] += count;
      total += static_cast<int64_t>(count);
      ASSERT_GE(told, counts[item]);
    }
    EXPECT_EQ(sketch.total(), total);
    size_t too_large = 0;
    for (const auto& [item, count] : counts) {
      const uint64_t told = sketch.CountOf(HashItem(item));
      ASSERT_GE(told, count) << "seed " << seed;
      too_large += static_cast<double>(told - count) > kError * static_cast<double>(total);
    }
    EXPECT_LE(static_cast<double>(too_large), 2 * kProbability * static_cast<double>(counts.size()))
        << "seed " << seed;
  }
}

TEST_F(CountMinSketchTest, ShapesFollowFromTheErrorAndItsProbability) {
  EXPECT_EQ(Shape::For(0.001, 0.01), (Shape{.width = 2000, .depth = 7}));
  EXPECT_EQ(Shape::For(0.01, 0.01), (Shape{.width = 200, .depth = 7}));
  EXPECT_EQ(Shape::For(0.9, 0.9), (Shape{.width = 3, .depth = 1}));
  EXPECT_EQ(Shape::For(0.5, 0.5), (Shape{.width = 4, .depth = 1}));
  EXPECT_FALSE(Shape::For(1e-300, 0.5).IsPossible(1 << 29));
  EXPECT_FALSE(Shape::For(1e-300, 1e-300).IsPossible(SIZE_MAX));
}

TEST_F(CountMinSketchTest, ImpossibleShapesAreKnown) {
  EXPECT_TRUE((Shape{.width = 10, .depth = 5}.IsPossible(51 * 8)));
  EXPECT_FALSE((Shape{.width = 10, .depth = 5}.IsPossible(51 * 8 - 1)));
  EXPECT_FALSE((Shape{.width = 0, .depth = 5}.IsPossible(1 << 20)));
  EXPECT_FALSE((Shape{.width = 10, .depth = 0}.IsPossible(1 << 20)));
  EXPECT_FALSE((Shape{.width = 1, .depth = 1}.IsPossible(0)));
  for (const uint64_t side : {uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_FALSE((Shape{.width = side, .depth = side}.IsPossible(1 << 29)));
    EXPECT_FALSE((Shape{.width = side, .depth = 1}.IsPossible(1 << 29)));
    EXPECT_FALSE((Shape{.width = 1, .depth = side}.IsPossible(1 << 29)));
  }
}

TEST_F(CountMinSketchTest, CountsStayAtTheirMaximum) {
  CountMinSketch sketch({.width = 10, .depth = 3});
  const ItemHash item = HashItem("a");
  EXPECT_EQ(sketch.Add(item, kCountMax - 1), kCountMax - 1);
  EXPECT_EQ(sketch.Add(item, 1), kCountMax);
  EXPECT_EQ(sketch.Add(item, 1), kCountMax);
  EXPECT_EQ(sketch.total(), int64_t{kCountMax} + 1);
  EXPECT_EQ(sketch.Add(item, INT64_MAX), kCountMax);
  EXPECT_EQ(sketch.total(), INT64_MAX);
}

TEST_F(CountMinSketchTest, MergingIsAddingToOne) {
  const Shape shape = {.width = 50, .depth = 4};
  CountMinSketch first(shape), second(shape), both(shape), merged(shape);
  helio::Random random(4);
  for (int i = 0; i < 1000; ++i) {
    const ItemHash item = HashItem(fmt::format("{}", random.Uniform(300)));
    const uint64_t count = random.Between(1, 9);
    (i % 3 == 0 ? first : second).Add(item, count);
    both.Add(item, count * (i % 3 == 0 ? 2 : 5));
  }
  std::vector<int64_t> sums = NoSums(shape);
  ASSERT_TRUE(first.AddTo(sums, 2));
  ASSERT_TRUE(second.AddTo(sums, 5));
  ASSERT_TRUE(merged.Assign(sums));
  EXPECT_EQ(merged.total(), both.total());
  for (int i = 0; i < 300; ++i) {
    const ItemHash item = HashItem(fmt::format("{}", i));
    ASSERT_EQ(merged.CountOf(item), both.CountOf(item)) << i;
  }
}

TEST_F(CountMinSketchTest, SumsThatAreNoCountsChangeNothing) {
  const Shape shape = {.width = 10, .depth = 2};
  CountMinSketch sketch(shape), target(shape);
  sketch.Add(HashItem("a"), 1000);
  target.Add(HashItem("b"), 3);
  std::vector<int64_t> sums = NoSums(shape);
  ASSERT_TRUE(sketch.AddTo(sums, -1));
  EXPECT_FALSE(target.Assign(sums));
  sums = NoSums(shape);
  ASSERT_TRUE(sketch.AddTo(sums, kCountMax));
  EXPECT_FALSE(target.Assign(sums));
  sums = NoSums(shape);
  EXPECT_FALSE(sketch.AddTo(sums, INT64_MAX));
  EXPECT_EQ(target.total(), 3);
  EXPECT_EQ(target.CountOf(HashItem("b")), 3u);
}

TEST_F(CountMinSketchTest, ACloneIsTheSame) {
  CompactValue value;
  auto* const sketch = new CountMinSketch({.width = 100, .depth = 3});
  value.SetObject(ValueType::kCountMinSketch, sketch, 0);
  sketch->Add(HashItem("a"), 7);
  const CompactValue copy = value.Clone();
  sketch->Add(HashItem("a"), 1);
  const auto* const clone = static_cast<const CountMinSketch*>(copy.object());
  EXPECT_EQ(clone->CountOf(HashItem("a")), 7u);
  EXPECT_EQ(clone->total(), 7);
  EXPECT_EQ(copy.HeapBytes(), value.HeapBytes());
  EXPECT_GE(copy.HeapBytes(), 1200u);
  EXPECT_EQ(TypeName(value.type()), "CMSk-TYPE");
}

}  // namespace
}  // namespace dfly
