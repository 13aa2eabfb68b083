// SPDX-License-Identifier: Apache-2.0
#include "core/types/zset_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

constexpr PackedLimit kLimit = {.entries = 4, .element_bytes = 8};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ZsetValueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ZsetValue::RegisterType(); }
  ZsetValueTest() { ZsetValue::Create(&value_, 1, 1, kLimit); }

  using Pairs = std::vector<std::pair<std::string, double>>;
  static Pairs All(CompactValue* value) {
    Pairs pairs;
    ZsetValue(value).ForEach(
        [&](std::string_view member, double score) { pairs.emplace_back(member, score); });
    return pairs;
  }

  CompactValue value_;
};

TEST_F(ZsetValueTest, IsAListpackUpToEachLimitAndASkiplistBehindIt) {
  ZsetValue zset(&value_);
  for (const char* member : {"a", "b", "c", "12345678"}) EXPECT_TRUE(zset.Set(member, 1, kLimit));
  EXPECT_FALSE(zset.Set("a", 2.5, kLimit));
  EXPECT_EQ(value_.ObjectEncodingName(), "listpack");
  EXPECT_TRUE(zset.Set("d", 0, kLimit));
  EXPECT_EQ(value_.ObjectEncodingName(), "skiplist");
  EXPECT_EQ(All(&value_), (Pairs{{"d", 0}, {"12345678", 1}, {"b", 1}, {"c", 1}, {"a", 2.5}}));
  for (const char* member : {"a", "b", "c", "d", "12345678"}) EXPECT_TRUE(zset.Erase(member));
  EXPECT_TRUE(value_.IsEmptyObject());

  ZsetValue::Create(&value_, 1, 1, kLimit);
  EXPECT_TRUE(zset.Set("ninebytes", 1, kLimit));
  EXPECT_EQ(value_.ObjectEncodingName(), "skiplist");
  ZsetValue::Create(&value_, 9, 1, kLimit);
  EXPECT_EQ(value_.ObjectEncodingName(), "skiplist");
  ZsetValue::Create(&value_, 1, 5, kLimit);
  EXPECT_EQ(value_.ObjectEncodingName(), "skiplist");
}

TEST_F(ZsetValueTest, ScoresComeBackAsTheyWere) {
  double digits;  // whose bytes look like a number
  std::memcpy(&digits, "12345678", sizeof(digits));
  const PackedLimit limit = {.entries = 100, .element_bytes = 8};
  ZsetValue zset(&value_);
  int count = 0;
  for (double score : {0.0, -0.0, 1.0, -1.0, 0.1, 1e300, -1e-300, 9007199254740991.0,
                       9007199254740992.0, kInfinity, -kInfinity, digits, 5e-324}) {
    const std::string member = "m" + std::to_string(count++);
    zset.Set(member, score, limit);
    ASSERT_TRUE(zset.Score(member));
    EXPECT_EQ(*zset.Score(member), score);
    EXPECT_EQ(std::signbit(*zset.Score(member)), std::signbit(score) && score != 0);
  }
  EXPECT_EQ(value_.ObjectEncodingName(), "listpack");
  EXPECT_EQ(zset.Score("m99"), std::nullopt);
  EXPECT_EQ(zset.Score("1"), std::nullopt) << "a score is no member";
}

TEST_F(ZsetValueTest, RandomChangesAgreeWithASet) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 100; ++round) {
    const PackedLimit limit = {.entries = static_cast<uint32_t>(random.Uniform(60)),
                               .element_bytes = static_cast<uint32_t>(random.Uniform(16))};
    const uint64_t names = 1 + random.Uniform(150);
    const uint64_t distinct = 1 + random.Uniform(20);
    const auto any_score = [&] {
      const double score = static_cast<double>(random.Uniform(distinct)) / 2 - 3;
      return random.OneIn(20) ? (random.OneIn(2) ? kInfinity : -kInfinity) : score;
    };
    ZsetValue::Create(&value_, 1, random.Uniform(80), limit);
    ZsetValue zset(&value_);
    std::map<std::string, double> scores;
    std::set<std::pair<double, std::string>> order;
    for (int step = 0; step < 400; ++step) {
      const std::string member = "m" + std::to_string(random.Uniform(names));
      const auto it = scores.find(member);
      if (!random.OneIn(3)) {
        const double score = any_score();
        ASSERT_EQ(zset.Set(member, score, limit), it == scores.end());
        if (it != scores.end()) order.erase({it->second, member});
        scores[member] = score;
        order.insert({score, member});
      } else if (random.OneIn(20) && !order.empty()) {
        const size_t first = random.Uniform(order.size());
        const size_t count = random.Uniform(order.size() - first + 1);
        zset.EraseRange(first, count);
        auto at = std::next(order.begin(), static_cast<ptrdiff_t>(first));
        for (size_t i = 0; i < count; ++i) {
          scores.erase(at->second);
          at = order.erase(at);
        }
      } else {
        ASSERT_EQ(zset.Erase(member), it != scores.end());
        if (it != scores.end()) {
          order.erase({it->second, member});
          scores.erase(it);
        }
      }
      ASSERT_EQ(zset.size(), scores.size());
      ASSERT_EQ(value_.IsEmptyObject(), scores.empty());
      const auto known = scores.find(member);
      ASSERT_EQ(zset.Score(member).has_value(), known != scores.end());
      if (known != scores.end()) {
        const auto at = order.find({known->second, member});
        const auto rank = static_cast<size_t>(std::distance(order.begin(), at));
        ASSERT_EQ(zset.Rank(member), std::pair(rank, known->second));
      }
      const double score = any_score();
      const auto below =
          static_cast<size_t>(std::distance(order.begin(), order.lower_bound({score, ""})));
      const auto up_to = static_cast<size_t>(
          std::distance(order.begin(), order.lower_bound({std::nextafter(score, kInfinity), ""})));
      ASSERT_EQ(zset.CountBelow(score), below);
      ASSERT_EQ(zset.CountUpTo(score), score == kInfinity ? order.size() : up_to);
    }
    Pairs expected;
    for (const auto& [score, member] : order) expected.emplace_back(member, score);
    ASSERT_EQ(All(&value_), expected);
    CompactValue copy = value_.Clone();
    ASSERT_EQ(All(&copy), expected);
    if (!expected.empty()) {
      const size_t first = random.Uniform(expected.size());
      Pairs backwards;
      zset.ForRange(first, first + 1, true, [&](std::string_view member, double its_score) {
        backwards.emplace_back(member, its_score);
      });
      const auto end = expected.begin() + static_cast<ptrdiff_t>(first) + 1;
      ASSERT_EQ(backwards, Pairs(std::reverse_iterator(end), expected.rend()));
    }
    std::map<std::string, double> seen;
    uint32_t cursor = 0;
    do {
      cursor = zset.Scan(cursor, [&](std::string_view member, double its_score) {
        seen.emplace(member, its_score);
      });
    } while (cursor != 0);
    ASSERT_EQ(seen, scores);
  }
}

TEST_F(ZsetValueTest, LongRangesAreErased) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 30; ++round) {
    const size_t size = 100 + random.Uniform(5000);
    ZsetValue::Create(&value_, 1, size, kLimit);
    ZsetValue zset(&value_);
    Pairs expected;
    for (size_t i = 0; i < size; ++i) {
      const std::string member = "m" + std::to_string(i) + (i % 2 == 0 ? "" : " on the heap");
      zset.Set(member, static_cast<double>(i), kLimit);
      expected.emplace_back(member, i);
    }
    while (!expected.empty()) {
      // Often all but a few.
      const size_t most = random.OneIn(3) ? expected.size() : 1 + random.Uniform(expected.size());
      const size_t first = std::min(random.Uniform(10), expected.size() - 1);
      const size_t count = std::min<size_t>(most, expected.size() - first);
      zset.EraseRange(first, count);
      const auto at = expected.begin() + static_cast<ptrdiff_t>(first);
      const std::string gone = at->first;
      expected.erase(at, at + static_cast<ptrdiff_t>(count));
      ASSERT_EQ(zset.encoding(), ZsetValue::kTable);
      ASSERT_EQ(All(&value_), expected);
      ASSERT_EQ(zset.Score(gone), std::nullopt);
      if (expected.empty()) break;
      ASSERT_EQ(zset.Score(expected.back().first), expected.back().second);
    }
    ASSERT_TRUE(value_.IsEmptyObject());
    ASSERT_TRUE(zset.Set("again", 1, kLimit));
    ASSERT_EQ(All(&value_), (Pairs{{"again", 1}}));
  }
}

TEST_F(ZsetValueTest, AMemberOfALargeSetCostsLittle) {
  constexpr size_t kCount = 100'000;
  helio::Random random(1);
  ZsetValue zset(&value_);
  for (size_t i = 0; i < kCount; ++i) {
    zset.Set("member:" + std::to_string(i), random.NextDouble(), kLimit);
  }
  EXPECT_LT(value_.HeapBytes() / kCount, 66u);  // a skip list's: 105 and more
}

}  // namespace
}  // namespace dfly
