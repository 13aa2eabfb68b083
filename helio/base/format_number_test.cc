// SPDX-License-Identifier: Apache-2.0
#include "helio/base/format_number.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "helio/base/random.h"

namespace helio {
namespace {

std::string Integer(int64_t value) {
  char text[kMaxIntegerChars];
  return std::string(text, FormatInteger(value, text));
}

std::string Double(double value) {
  char text[kMaxDoubleChars];
  return std::string(text, FormatDouble(value, text));
}

TEST(FormatNumberTest, IntegersMatchTheStandardLibrary) {
  for (int64_t value : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(Integer(value), std::to_string(value));
  }
  for (int64_t power = 1; power <= 100'000'000'000'000'000; power *= 10) {
    for (int64_t value : {power - 1, power, power + 1, -power, 1 - power}) {
      EXPECT_EQ(Integer(value), std::to_string(value));
    }
  }
  Random random(1);
  for (int i = 0; i < 100'000; i++) {
    const int64_t value = static_cast<int64_t>(random.Next() >> random.Uniform(64));
    ASSERT_EQ(Integer(value), std::to_string(value));
    ASSERT_EQ(Integer(-value), std::to_string(-value));
  }
  char text[kMaxIntegerChars];
  EXPECT_EQ(std::string(text, FormatUnsigned(UINT64_MAX, text)), "18446744073709551615");
}

TEST(FormatNumberTest, DoublesLookAsInRedis) {
  EXPECT_EQ(Double(0), "0");
  EXPECT_EQ(Double(-0.0), "-0");
  EXPECT_EQ(Double(3), "3");
  EXPECT_EQ(Double(-17), "-17");
  EXPECT_EQ(Double(0.1), "0.1");
  EXPECT_EQ(Double(3.141), "3.141");
  EXPECT_EQ(Double(-2.5), "-2.5");
  EXPECT_EQ(Double(100000000000000000), "100000000000000000");
  EXPECT_EQ(Double(1e21), "1e+21");
  EXPECT_EQ(Double(1.5e-7), "1.5e-7");
  EXPECT_EQ(Double(0.000001), "0.000001");
  EXPECT_EQ(Double(0.001234567891234), "0.001234567891234");
  EXPECT_EQ(Double(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(Double(5e-324), "5e-324");
  EXPECT_EQ(Double(INFINITY), "inf");
  EXPECT_EQ(Double(-INFINITY), "-inf");
  EXPECT_EQ(Double(NAN), "nan");
}

TEST(FormatNumberTest, EveryDoubleReadsBackAndFits) {
  const uint64_t seed = 7;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 200'000; i++) {
    const uint64_t bits = random.Next();
    double value;
    if (i % 2 == 0) {
      memcpy(&value, &bits, sizeof(value));
      if (!std::isfinite(value)) continue;
    } else {  // everyday magnitudes
      value = static_cast<double>(static_cast<int64_t>(bits) >> 20) / std::pow(10, i % 20);
    }
    const std::string text = Double(value);
    ASSERT_LE(text.size(), kMaxDoubleChars);
    double back = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), back);
    ASSERT_EQ(result.ptr, text.data() + text.size()) << text;
    ASSERT_EQ(back, value) << text;
  }
}

}  // namespace
}  // namespace helio
