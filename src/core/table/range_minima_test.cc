// SPDX-License-Identifier: Apache-2.0
#include "core/table/range_minima.h"

#include <gtest/gtest.h>

#include <map>

#include "helio/base/random.h"

namespace dfly {
namespace {

constexpr int64_t kNever = RangeMinima::kNever;

TEST(RangeMinimaTest, NothingIsDueWhereNothingWasNoted) {
  RangeMinima minima;
  EXPECT_EQ(minima.earliest(), kNever);
  EXPECT_EQ(minima.EarliestAt(7), kNever);
  minima.Fit(0);
  minima.CheckInvariants();
  EXPECT_EQ(minima.bytes(), 0u);
}

TEST(RangeMinimaTest, ARangeThatWasLookedAtHasItsOwnTimeAgain) {
  RangeMinima minima;
  minima.Fit(RangeMinima::kEntriesMax + 1);  // 4 ranges
  minima.Note(0, 50);
  minima.Note(UINT32_MAX, 20);
  minima.Note(UINT32_MAX - 1, 30);
  EXPECT_EQ(minima.earliest(), 20);
  const auto range = minima.FindBefore(21);
  EXPECT_EQ(range.begin, 3ull << 30);
  EXPECT_EQ(range.end, 1ull << 32);
  EXPECT_TRUE(range.Has(UINT32_MAX));
  EXPECT_FALSE(range.Has(0));
  minima.Set(range, 30);
  EXPECT_EQ(minima.earliest(), 30);
  minima.Set(range, kNever);
  EXPECT_EQ(minima.earliest(), 50);
  EXPECT_EQ(minima.FindBefore(51).begin, 0u);
}

TEST(RangeMinimaTest, KeepsToTheEarliestThroughGrowthAndShrinking) {
  helio::Random random(7);
  RangeMinima minima;
  std::map<uint32_t, int64_t> times;
  const auto visit = [&](int64_t before_ms) {
    while (minima.earliest() < before_ms) {
      const auto range = minima.FindBefore(before_ms);
      int64_t next = kNever;
      const auto end = range.end > UINT32_MAX ? times.end()
                                              : times.lower_bound(static_cast<uint32_t>(range.end));
      for (auto it = times.lower_bound(static_cast<uint32_t>(range.begin)); it != end;) {
        if (it->second < before_ms) {
          it = times.erase(it);
        } else {
          next = std::min(next, (it++)->second);
        }
      }
      minima.Set(range, next);
    }
    for (const auto& [position, at_ms] : times) ASSERT_GE(at_ms, before_ms);
  };
  int64_t now = 0;
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 5000; ++i) {
      const auto position = static_cast<uint32_t>(random());
      const int64_t at_ms = now + static_cast<int64_t>(random.Uniform(1000));
      times[position] = at_ms;
      minima.Fit(times.size());
      minima.Note(position, at_ms);
      if (i % 500 == 0) visit(now += 10);
    }
    minima.CheckInvariants();
    for (const auto& [position, at_ms] : times) ASSERT_LE(minima.EarliestAt(position), at_ms);
    visit(now += 900);
    minima.Fit(times.size());
  }
  visit(now + 2000);
  EXPECT_TRUE(times.empty());
  EXPECT_EQ(minima.earliest(), kNever);
  minima.Fit(0);
  EXPECT_EQ(minima.bytes(), 0u);
}

}  // namespace
}  // namespace dfly
