// SPDX-License-Identifier: Apache-2.0
#include "core/text/crc64.h"

#include <gtest/gtest.h>

#include <string>

#include "helio/base/random.h"

namespace dfly {
namespace {

TEST(Crc64Test, KnownTextsHaveKnownChecksums) {
  EXPECT_EQ(Crc64(0, ""), 0u);
  EXPECT_EQ(Crc64(0, "123456789"), 0xe9c6d914c4b8d9cau);  // Redis' own test
}

// Bit by bit, as the definition has it.
uint64_t SlowCrc64(uint64_t crc, std::string_view bytes) {
  for (char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x95ac9329ac4bc9b5 : 0);
  }
  return crc;
}

TEST(Crc64Test, AnyPartsGiveTheChecksumOfTheWhole) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    helio::Random random(seed);
    std::string bytes(random.Uniform(3000), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    const uint64_t expected = SlowCrc64(0, bytes);
    EXPECT_EQ(Crc64(0, bytes), expected);
    const size_t cut = random.Uniform(bytes.size() + 1);
    EXPECT_EQ(Crc64(Crc64(0, bytes.substr(0, cut)), bytes.substr(cut)), expected);
  }
}

}  // namespace
}  // namespace dfly
