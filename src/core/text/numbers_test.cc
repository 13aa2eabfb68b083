// SPDX-License-Identifier: Apache-2.0
#include "core/text/numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace dfly {
namespace {

std::string Text(double value) {
  char out[kDoubleTextMax];
  return std::string(FormatDouble(value, out));
}

TEST(NumbersTest, ReadsCanonicalIntegersOnly) {
  EXPECT_EQ(ParseInt64("0"), 0);
  EXPECT_EQ(ParseInt64("-1"), -1);
  EXPECT_EQ(ParseInt64("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(ParseInt64("-9223372036854775808"), INT64_MIN);
  for (std::string_view text :
       {"", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1a", "0x1", "1.0", "1e3",
        "9223372036854775808", "-9223372036854775809", "18446744073709551616",
        "99999999999999999999", "999999999999999999999"}) {
    EXPECT_EQ(ParseInt64(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseInt64(std::string_view("1\0", 2)), std::nullopt);
}

TEST(NumbersTest, IntegersSurviveARoundTrip) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    auto number = static_cast<int64_t>(random() >> (random() % 64));
    if (random() % 2 == 0) number = -number;
    EXPECT_EQ(ParseInt64(std::to_string(number)), number);
  }
}

TEST(NumbersTest, ReadsDoublesAsRedisDoes) {
  EXPECT_EQ(ParseDouble("3.5"), 3.5);
  EXPECT_EQ(ParseDouble("+3.5"), 3.5);
  EXPECT_EQ(ParseDouble("1e3"), 1000.0);
  EXPECT_EQ(ParseDouble("0x10"), 16.0);
  EXPECT_EQ(ParseDouble("inf"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ParseDouble("-Infinity"), -std::numeric_limits<double>::infinity());
  for (std::string_view text : {"", " 1", "1 ", "nan", "NaN", "abc", "1.2.3", "1e999", "1e-400"}) {
    EXPECT_EQ(ParseDouble(text), std::nullopt) << text;
    if (text != "1e999" && text != "1e-400") {
      EXPECT_EQ(ParseLongDouble(text), std::nullopt) << text;
    }
  }
  EXPECT_EQ(ParseDouble(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(ParseDouble(std::string(6000, '1')), std::nullopt);
  EXPECT_EQ(ParseDouble("0." + std::string(200, '1')), 1.0 / 9);
  EXPECT_EQ(ParseLongDouble("inf"), std::numeric_limits<long double>::infinity());
}

TEST(NumbersTest, WritesLongDoublesWithoutTrailingZeros) {
  EXPECT_EQ(FormatLongDouble(10.5L), "10.5");
  EXPECT_EQ(FormatLongDouble(3.0L), "3");
  EXPECT_EQ(FormatLongDouble(-0.0L), "0");
  EXPECT_EQ(FormatLongDouble(*ParseLongDouble("0.1") + *ParseLongDouble("0.2")), "0.3");
  EXPECT_EQ(FormatLongDouble(5e20L), "500000000000000000000");
  EXPECT_EQ(FormatLongDouble(std::numeric_limits<long double>::infinity()), "inf");
  EXPECT_EQ(FormatLongDouble(std::numeric_limits<long double>::max()).size(), 4933u);
}

TEST(NumbersTest, WritesDoublesShortest) {
  EXPECT_EQ(Text(0), "0");
  EXPECT_EQ(Text(-0.0), "-0");
  EXPECT_EQ(Text(3), "3");
  EXPECT_EQ(Text(-3.5), "-3.5");
  EXPECT_EQ(Text(0.1), "0.1");
  EXPECT_EQ(Text(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(Text(1e10), "10000000000");
  EXPECT_EQ(Text(1e25), "1e+25");
  EXPECT_EQ(Text(0.00001), "0.00001");
  EXPECT_EQ(Text(1e-7), "1e-7");
  EXPECT_EQ(Text(1.5e300), "1.5e+300");
  EXPECT_EQ(Text(9007199254740993.0), "9007199254740992");
  EXPECT_EQ(Text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(Text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(Text(std::nan("")), "nan");
}

TEST(NumbersTest, DoublesSurviveARoundTrip) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100000; ++i) {
    auto value = std::bit_cast<double>(static_cast<uint64_t>(random()));
    if (!std::isfinite(value)) continue;
    std::string text = Text(value);
    ASSERT_LE(text.size(), kDoubleTextMax);
    ASSERT_EQ(ParseDouble(text), value) << text;
  }
}

}  // namespace
}  // namespace dfly
