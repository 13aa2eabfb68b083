// SPDX-License-Identifier: Apache-2.0
#include "core/sketches/top_k.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/table/compact_value.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

class TopKTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { TopK::RegisterType(); }

  // Ranks from 0 on, of which number r comes with a probability of about 1 / (r + 1)^exponent.
  class Zipf {
   public:
    Zipf(size_t ranks, double exponent, uint64_t seed) : random_(seed) {
      double sum = 0;
      for (size_t i = 0; i < ranks; ++i) {
        sum += 1 / std::pow(static_cast<double>(i + 1), exponent);
        sums_.push_back(sum);
      }
    }
    size_t Next() {
      const double at = random_.NextDouble() * sums_.back();
      return static_cast<size_t>(std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
    }

   private:
    helio::Random random_;
    std::vector<double> sums_;
  };
};

TEST_F(TopKTest, TheHeavyHittersOfAStreamAreListed) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    TopK top({.k = 20, .width = 500, .depth = 5, .decay = 0.9});
    Zipf zipf(50'000, 1.1, seed);
    std::map<std::string, uint32_t> counts;
    for (int i = 0; i < 200'000; ++i) {
      const std::string item = fmt::format("flow {}", zipf.Next());
      ++counts[item];
      top.Add(item, 1);
    }
    std::vector<std::pair<uint32_t, std::string>> sorted;
    for (const auto& [item, count] : counts) sorted.emplace_back(count, item);
    std::sort(sorted.rbegin(), sorted.rend());
    const std::vector<TopK::Listed> list = top.List();
    ASSERT_EQ(list.size(), 20u);
    size_t right = 0;
    for (const TopK::Listed& listed : list) {
      const uint32_t count = counts[std::string(listed.item)];
      EXPECT_LE(listed.count, count + count / 50 + 20) << "seed " << seed;
      right += count >= sorted[19].first;
    }
    EXPECT_GE(right, 17u) << "seed " << seed;
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_TRUE(top.Has(sorted[i].second)) << sorted[i].second << ", seed " << seed;
      EXPECT_NEAR(top.CountOf(sorted[i].second), sorted[i].first, sorted[i].first * 0.05)
          << "seed " << seed;
    }
  }
}

TEST_F(TopKTest, FewItemsAreCountedExactly) {
  TopK top({.k = 5, .width = 1000, .depth = 5});
  EXPECT_TRUE(top.List().empty());
  EXPECT_EQ(top.CountOf("a"), 0u);
  EXPECT_EQ(top.Add("a", 3), std::nullopt);
  EXPECT_EQ(top.Add("b", 1), std::nullopt);
  EXPECT_EQ(top.Add("c", 3), std::nullopt);
  EXPECT_EQ(top.Add("", 9), std::nullopt);
  EXPECT_EQ(top.Add("d", 0), std::nullopt);
  EXPECT_FALSE(top.Has("d"));
  EXPECT_EQ(top.Add("b", 1), std::nullopt);
  std::string shown;
  for (const TopK::Listed& listed : top.List()) {
    shown += fmt::format("{}={} ", listed.item, listed.count);
  }
  EXPECT_EQ(shown, "=9 a=3 c=3 b=2 ");
  EXPECT_TRUE(top.Has(""));
}

TEST_F(TopKTest, WhoeverHasToLeaveIsTold) {
  TopK top({.k = 2, .width = 1000, .depth = 5});
  EXPECT_EQ(top.Add("a", 5), std::nullopt);
  EXPECT_EQ(top.Add("b", 3), std::nullopt);
  EXPECT_EQ(top.Add("c", 3), std::nullopt) << "not more than the smallest one";
  EXPECT_FALSE(top.Has("c"));
  EXPECT_EQ(top.CountOf("c"), 3u);
  EXPECT_EQ(top.Add("c", 1), "b");
  EXPECT_FALSE(top.Has("b"));
  EXPECT_TRUE(top.Has("c"));
  EXPECT_EQ(top.CountOf("b"), 3u) << "its buckets remember it";
}

TEST_F(TopKTest, SeldomItemsMakeRoomAndFrequentOnesStay) {
  // One bucket for all.
  TopK top({.k = 1, .width = 1, .depth = 1, .decay = 0.9});
  top.Add("seldom", 1);
  top.Add("often", 1000);
  EXPECT_TRUE(top.Has("often"));
  const uint32_t before = top.CountOf("often");
  EXPECT_GT(before, 900u);
  for (int i = 0; i < 1000; ++i) top.Add(fmt::format("other {}", i), 100);
  top.Add("often", 1);
  EXPECT_EQ(top.CountOf("often"), before + 1) << "0.9^900 is as good as never";
}

// Two items that share a bucket, and are not listed as a third one is, which does not share it.
class TopKDecayTest : public TopKTest {
 protected:
  static TopK::Options OptionsOf(double decay) {
    return {.k = 1, .width = 2, .depth = 1, .decay = decay};
  }
  // The name of item `number` among those of a bucket.
  static std::string NameIn(uint64_t bucket, int number) {
    for (int i = 0;; ++i) {
      std::string name = fmt::format("{}", i);
      if (HashItem(name).At(0, 2) == bucket && number-- == 0) return name;
    }
  }

  const std::string listed_ = NameIn(0, 0);
  const std::string owner_ = NameIn(1, 0);
  const std::string other_ = NameIn(1, 1);
};

TEST_F(TopKDecayTest, DecayOfOneIsCertain) {
  TopK top(OptionsOf(1));
  top.Add(listed_, 1000);
  top.Add(owner_, 10);
  top.Add(other_, 4);
  EXPECT_EQ(top.CountOf(owner_), 6u);
  EXPECT_EQ(top.CountOf(other_), 0u);
  top.Add(other_, 5);
  EXPECT_EQ(top.CountOf(owner_), 1u);
  top.Add(other_, 3);
  EXPECT_EQ(top.CountOf(owner_), 0u);
  EXPECT_EQ(top.CountOf(other_), 3u) << "the first one frees the bucket";
}

// To draw how many chances pass is the same as to ask each of them.
TEST_F(TopKDecayTest, TimesAtOnceTakeAsMuchAsOneByOne) {
  constexpr uint32_t kOwned = 20, kTimes = 10;
  constexpr int kRounds = 4000;
  double at_once = 0, one_by_one = 0, expected = 0;
  for (int seed = 0; seed < kRounds; ++seed) {
    TopK first(OptionsOf(0.9), static_cast<uint64_t>(seed));
    TopK second(OptionsOf(0.9), static_cast<uint64_t>(seed) + kRounds);
    for (TopK* top : {&first, &second}) {
      top->Add(listed_, 1000);
      top->Add(owner_, kOwned);
    }
    first.Add(other_, kTimes);
    for (uint32_t i = 0; i < kTimes; ++i) second.Add(other_, 1);
    at_once += kOwned - first.CountOf(owner_);
    one_by_one += kOwned - second.CountOf(owner_);
  }
  // And as the definition says.
  std::vector<double> at(kOwned + 1);  // probabilities of counts
  at[kOwned] = 1;
  for (uint32_t i = 0; i < kTimes; ++i) {
    for (uint32_t count = 1; count <= kOwned; ++count) {
      const double taken = at[count] * std::pow(0.9, count);
      at[count] -= taken;
      at[count - 1] += taken;
    }
  }
  for (uint32_t count = 0; count <= kOwned; ++count) expected += at[count] * (kOwned - count);
  EXPECT_NEAR(at_once / kRounds, expected, 0.1);
  EXPECT_NEAR(one_by_one / kRounds, expected, 0.1);
}

TEST_F(TopKTest, TheLargestIncrementsFit) {
  TopK top({.k = 1, .width = 1, .depth = 2});
  for (int i = 0; i < 43'000; ++i) top.Add("a", TopK::kIncrementMax);
  EXPECT_EQ(top.CountOf("a"), UINT32_MAX);
  EXPECT_EQ(top.Add("a", TopK::kIncrementMax), std::nullopt);
  EXPECT_EQ(top.CountOf("a"), UINT32_MAX);
}

TEST_F(TopKTest, ACloneGoesOnAsTheOriginal) {
  CompactValue value;
  auto* const top = new TopK({.k = 10, .width = 20, .depth = 3, .decay = 0.8});
  value.SetObject(ValueType::kTopK, top, 0);
  helio::Random random(3);
  const auto item = [&random] {
    return fmt::format("an item with a long name {}", random.Uniform(1 + random.Uniform(200)));
  };
  for (int i = 0; i < 2000; ++i) top->Add(item(), 1);
  const CompactValue copy = value.Clone();
  auto* const clone = static_cast<TopK*>(copy.object());
  for (int i = 0; i < 2000; ++i) {
    const std::string next = item();
    ASSERT_EQ(top->Add(next, 2), clone->Add(next, 2)) << i;
    ASSERT_EQ(top->CountOf(next), clone->CountOf(next)) << i;
  }
  const auto left = top->List(), right = clone->List();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_EQ(left[i].item, right[i].item);
  EXPECT_GT(value.HeapBytes(), 20 * 3 * 8u);
  EXPECT_EQ(TypeName(value.type()), "TopK-TYPE");
}

TEST_F(TopKTest, MemoryIsCountedWhateverLeavesTheList) {
  const auto top = std::make_unique<TopK>(TopK::Options{.k = 3, .width = 50, .depth = 3});
  size_t most = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 10; ++i) top->Add(std::string(100, static_cast<char>('a' + i)), 1 + round);
    most = std::max(most, top->bytes());
    EXPECT_EQ(top->List().size(), 3u);
  }
  EXPECT_EQ(top->bytes(), most) << "three items of the same size";
}

TEST_F(TopKTest, ImpossibleOptionsAreKnown) {
  EXPECT_TRUE((TopK::Options{.k = 1, .width = 10, .depth = 5}.IsPossible(1000)));
  EXPECT_FALSE((TopK::Options{.k = 1, .width = 10, .depth = 5}.IsPossible(400)));
  EXPECT_FALSE((TopK::Options{.k = 1, .width = 10, .depth = 5}.IsPossible(0)));
  EXPECT_FALSE((TopK::Options{.k = 0, .width = 10, .depth = 5}.IsPossible(1000)));
  EXPECT_FALSE((TopK::Options{.k = 1, .width = 0, .depth = 5}.IsPossible(1000)));
  EXPECT_FALSE((TopK::Options{.k = 1, .width = 10, .depth = 0}.IsPossible(1000)));
  EXPECT_FALSE((TopK::Options{.k = TopK::kListMax + 1}.IsPossible(SIZE_MAX)));
  for (const uint64_t side : {uint64_t{1} << 32, uint64_t{1} << 62, UINT64_MAX}) {
    EXPECT_FALSE((TopK::Options{.k = 1, .width = side, .depth = side}.IsPossible(1 << 29)));
    EXPECT_FALSE((TopK::Options{.k = 1, .width = side, .depth = 1}.IsPossible(1 << 29)));
  }
}

}  // namespace
}  // namespace dfly
