// SPDX-License-Identifier: Apache-2.0
#include "core/text/ascii_pack.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "helio/base/test_seed.h"

namespace dfly {
namespace {

std::string RandomAscii(std::mt19937_64& random, size_t size, char lowest = '\0') {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(lowest + random() % (128 - lowest));
  return text;
}

// A block of exactly so many bytes, so that a sanitizer sees what is read or written beyond them.
std::unique_ptr<char[]> Block(size_t bytes) { return std::make_unique<char[]>(bytes); }

TEST(AsciiPackTest, EightCharactersAreTheirBitsInOrder) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= uint64_t{static_cast<uint8_t>(i + 'a')} << (8 * i);
  uint64_t expected = 0;
  for (int i = 0; i < 8; ++i) expected |= uint64_t{static_cast<uint8_t>(i + 'a')} << (7 * i);
  EXPECT_EQ(Pack8(word), expected);
  EXPECT_EQ(Unpack8(expected), word);
  EXPECT_EQ(Unpack8(expected | 0xA5ULL << 56), word) << "what is above does not matter";
}

TEST(AsciiPackTest, GivesBackTextsOfAllLengths) {
  std::mt19937_64 random(helio::TestSeed());
  for (size_t size = kPackedAsciiMin; size <= 300; ++size) {
    const std::string text = RandomAscii(random, size);
    ASSERT_TRUE(IsAscii(text));
    const size_t bytes = PackedAsciiBytes(size);
    EXPECT_EQ(bytes, (size * 7 + 7) / 8);
    const auto packed = Block(bytes);
    PackAscii(text, packed.get());
    // Whichever instructions were chosen, the bits are the same.
    for (size_t i = 0; i < size; ++i) {
      for (size_t bit = 0; bit < 7; ++bit) {
        const size_t at = i * 7 + bit;
        ASSERT_EQ((packed[at / 8] >> (at % 8)) & 1, (text[i] >> bit) & 1) << size << " " << i;
      }
    }
    const auto unpacked = Block((size + 7) / 8 * 8);
    UnpackAscii(packed.get(), size, unpacked.get());
    EXPECT_EQ(std::string_view(unpacked.get(), size), text);
  }
}

TEST(AsciiPackTest, SeesACharacterAboveWhereverItStands) {
  for (size_t size = 8; size <= 40; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string text(size, 'x');
      text[at] = '\x80';
      EXPECT_FALSE(IsAscii(text)) << size << " " << at;
    }
  }
}

TEST(AsciiPackTest, FourteenToSixteenCharactersFitIn111Bits) {
  std::mt19937_64 random(helio::TestSeed());
  for (size_t size = ShortAscii::kMin; size <= ShortAscii::kMax; ++size) {
    for (int round = 0; round < 20'000; ++round) {
      std::string text = RandomAscii(random, 3, ' ') + RandomAscii(random, size - 3);
      if (text.back() == '\0') text.back() = '\x7F';
      const std::optional<ShortAscii> packed = PackShortAscii(text);
      ASSERT_TRUE(packed) << size;
      ASSERT_EQ(packed->high >> 47, 0u);
      char unpacked[ShortAscii::kMax];
      ASSERT_EQ(UnpackShortAscii(*packed, unpacked), size);
      ASSERT_EQ(std::string_view(unpacked, size), text);
    }
  }
}

TEST(AsciiPackTest, RefusesWhatDoesNotFitIn111Bits) {
  for (size_t size = ShortAscii::kMin; size <= ShortAscii::kMax; ++size) {
    const std::string good(size, 'x');
    EXPECT_TRUE(PackShortAscii(good));
    for (size_t at = 0; at < size; ++at) {
      std::string bad = good;
      bad[at] = '\xE9';
      EXPECT_FALSE(PackShortAscii(bad)) << "above 127, " << at;
      bad[at] = '\x1F';
      EXPECT_EQ(PackShortAscii(bad).has_value(), at >= 3) << "a control character, " << at;
      bad[at] = '\0';
      EXPECT_EQ(PackShortAscii(bad).has_value(), at >= 3 && at != size - 1) << "a zero, " << at;
    }
  }
}

}  // namespace
}  // namespace dfly
