// SPDX-License-Identifier: Apache-2.0
#include "server/base/units.h"

#include <gtest/gtest.h>

#include "server/base/rate_meter.h"

namespace dfly {
namespace {

TEST(UnitsTest, ReadsSizesAsRedisConfDoes) {
  EXPECT_EQ(ParseMemory("0"), 0u);
  EXPECT_EQ(ParseMemory("100"), 100u);
  EXPECT_EQ(ParseMemory("100b"), 100u);
  EXPECT_EQ(ParseMemory("1k"), 1000u);
  EXPECT_EQ(ParseMemory("1kb"), 1024u);
  EXPECT_EQ(ParseMemory("20MB"), 20u << 20);
  EXPECT_EQ(ParseMemory("1m"), 1'000'000u);
  EXPECT_EQ(ParseMemory("2Gb"), 2ull << 30);
  EXPECT_EQ(ParseMemory("1g"), 1'000'000'000u);
}

TEST(UnitsTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "mb", "-1", "1.5gb", "1tb", "1 mb", "9223372036854775807kb",
                           "99999999999999999999", "+1"}) {
    EXPECT_EQ(ParseMemory(text), std::nullopt) << text;
  }
}

TEST(UnitsTest, ShowsSizesAsInfoDoes) {
  EXPECT_EQ(HumanBytes(0), "0B");
  EXPECT_EQ(HumanBytes(1023), "1023B");
  EXPECT_EQ(HumanBytes(1024), "1.00K");
  EXPECT_EQ(HumanBytes(1287696), "1.23M");
  EXPECT_EQ(HumanBytes(25276514304), "23.54G");
  EXPECT_EQ(HumanBytes(3ull << 40), "3.00T");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16384.00P");
}

TEST(RateMeterTest, TellsTheEventsOfTheLastCompleteSecond) {
  RateMeter meter;
  EXPECT_EQ(meter.Rate(5'000), 0u);
  meter.Update(10'000, 100);
  meter.Update(10'500, 130);
  EXPECT_EQ(meter.Rate(10'900), 0u);
  EXPECT_EQ(meter.Rate(11'100), 130u);
  meter.Update(11'200, 150);
  EXPECT_EQ(meter.Rate(11'900), 130u);
  EXPECT_EQ(meter.Rate(12'000), 20u);
}

TEST(RateMeterTest, IsZeroAfterASilentSecond) {
  RateMeter meter;
  meter.Update(10'000, 10);
  meter.Update(10'100, 20);
  EXPECT_EQ(meter.Rate(12'000), 0u);
  meter.Update(20'000, 21);
  EXPECT_EQ(meter.Rate(20'500), 0u);
}

TEST(SideMeterTest, RollsWithItsMeter) {
  RateMeter meter;
  SideMeter side;
  const auto update = [&](int64_t now_ms, uint64_t total) {
    const int64_t seconds = meter.Update(now_ms, 0);
    if (seconds != 0) side.Roll(seconds, total);
  };
  const auto rate = [&](int64_t now_ms, uint64_t total) {
    return side.Rate(meter.SecondsSince(now_ms), total);
  };
  update(10'000, 100);
  update(10'500, 130);
  EXPECT_EQ(rate(10'900, 140), 0u);
  EXPECT_EQ(rate(11'100, 140), 40u);
  update(11'200, 150);
  EXPECT_EQ(rate(11'900, 170), 50u);
  EXPECT_EQ(rate(12'000, 170), 20u);
  EXPECT_EQ(rate(13'000, 170), 0u);
  update(20'000, 500);
  EXPECT_EQ(rate(20'500, 600), 0u);
  side.Reset();
  EXPECT_EQ(rate(20'500, 0), 0u);
}

}  // namespace
}  // namespace dfly
