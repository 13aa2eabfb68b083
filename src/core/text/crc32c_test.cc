// SPDX-License-Identifier: Apache-2.0
#include "core/text/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "helio/base/random.h"

namespace dfly {
namespace {

TEST(Crc32cTest, KnownTextsHaveKnownChecksums) {
  EXPECT_EQ(Crc32c(0, ""), 0u);
  EXPECT_EQ(Crc32c(0, "123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(0, std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(0, std::string(32, '\xFF')), 0x62A8AB43u);
}

// Bit by bit, as the definition has it.
uint32_t SlowCrc32c(uint32_t crc, std::string_view bytes) {
  crc = ~crc;
  for (char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

TEST(Crc32cTest, AnyPartsGiveTheChecksumOfTheWhole) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    helio::Random random(seed);
    std::string bytes(random.Uniform(5000), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    uint32_t crc = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = 1 + random.Uniform(300);
      crc = Crc32c(crc, std::string_view(bytes).substr(at, count));
      at += count;
    }
    EXPECT_EQ(crc, SlowCrc32c(0, bytes));
    EXPECT_EQ(crc, Crc32c(0, bytes));
  }
}

}  // namespace
}  // namespace dfly
