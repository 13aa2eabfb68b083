// SPDX-License-Identifier: Apache-2.0
#include "core/types/bit_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "helio/base/random.h"

namespace dfly {
namespace {

using helio::Random;

// A string as bits, the dull way.
using Model = std::vector<bool>;

Model BitsOf(std::string_view bytes) {
  Model bits;
  for (char c : bytes) {
    for (int i = 7; i >= 0; --i) bits.push_back((static_cast<uint8_t>(c) >> i & 1) != 0);
  }
  return bits;
}

std::string RandomBytes(Random* random, size_t size) {
  std::string bytes(size, random->OneIn(3) ? '\0' : '\xFF');
  const size_t changes = random->OneIn(3) ? 0 : random->Uniform(size + 1);
  for (size_t i = 0; i < changes; ++i) {
    bytes[random->Uniform(size)] = static_cast<char>(random->Next());
  }
  return bytes;
}

TEST(BitOpsTest, CountAndFindDoWhatALoopDoes) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string bytes = RandomBytes(&random, 1 + random.Uniform(200));
    const Model bits = BitsOf(bytes);
    for (int i = 0; i < 30; ++i) {
      const uint64_t first = random.Uniform(bits.size());
      const uint64_t last = random.Between(first, bits.size() - 1);
      const auto begin = bits.begin() + static_cast<ptrdiff_t>(first);
      const auto end = bits.begin() + static_cast<ptrdiff_t>(last) + 1;
      EXPECT_EQ(CountBits(bytes, first, last), static_cast<uint64_t>(std::count(begin, end, true)));
      for (bool bit : {false, true}) {
        const auto found = std::find(begin, end, bit);
        const auto at = FindBit(bytes, bit, first, last);
        ASSERT_EQ(at.has_value(), found != end) << first << " " << last;
        if (at) {
          EXPECT_EQ(*at, static_cast<uint64_t>(found - bits.begin()));
        }
      }
      EXPECT_EQ(GetBit(bytes, first), bits[first]);
    }
    EXPECT_FALSE(GetBit(bytes, bits.size() + random.Uniform(100)));
  }
}

// What one bit of the result is, from that of X and how many of the others have it.
bool BitOf(BitOperation operation, bool first, size_t others, size_t count) {
  switch (operation) {
    case BitOperation::kAnd:
      return first && others == count - 1;
    case BitOperation::kOr:
      return first || others > 0;
    case BitOperation::kXor:
      return (others + first) % 2 == 1;
    case BitOperation::kNot:
      return !first;
    case BitOperation::kDiff:
      return first && others == 0;
    case BitOperation::kDiff1:
      return !first && others > 0;
    case BitOperation::kAndOr:
      return first && others > 0;
    default:
      return others + first == 1;
  }
}

TEST(BitOpsTest, CombineDoesWhatALoopDoesWithShorterOnesPadded) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto operation = static_cast<BitOperation>(random.Uniform(8));
    const size_t count = operation == BitOperation::kNot ? 1 : 1 + random.Uniform(5);
    // Each string is given to one of them, which are merged at the end.
    std::vector<BitCombiner> parts(1 + random.Uniform(3), BitCombiner(operation));
    std::vector<std::string> sources;
    size_t longest = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t size = random.Uniform(60);
      sources.push_back(size == 0 ? "" : RandomBytes(&random, size));
      longest = std::max(longest, size);
      BitCombiner& part = parts[operation == BitOperation::kNot ? 0 : random.Uniform(parts.size())];
      if (i == 0 && SetsFirstApart(operation)) {
        part.AddFirst(sources.back());
      } else {
        part.Add(sources.back());
      }
    }
    if (operation != BitOperation::kNot) {
      for (size_t i = 1; i < parts.size(); ++i) parts[0].Merge(parts[i]);
    }
    const std::string result = parts[0].Finish();
    ASSERT_EQ(result.size(), longest);
    for (uint64_t bit = 0; bit < longest * 8; ++bit) {
      size_t others = 0;
      for (size_t i = 1; i < count; ++i) others += GetBit(sources[i], bit) ? 1 : 0;
      ASSERT_EQ(GetBit(result, bit), BitOf(operation, GetBit(sources[0], bit), others, count))
          << "bit " << bit << " of operation " << static_cast<int>(operation);
    }
  }
}

TEST(BitOpsTest, FieldsAreReadAndWrittenWhereverTheyBegin) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string bytes = RandomBytes(&random, 20);
    const Model before = BitsOf(bytes);
    const BitFieldType type = {.is_signed = random.OneIn(2),
                               .bits = static_cast<uint32_t>(1 + random.Uniform(64))};
    const uint64_t offset = random.Uniform(20 * 8 - type.bits + 1);
    uint64_t expected = 0;
    for (uint32_t i = 0; i < type.bits; ++i) expected = expected << 1 | before[offset + i];
    if (type.is_signed && before[offset] && type.bits < 64) expected |= ~uint64_t{0} << type.bits;
    EXPECT_EQ(ReadBitField(bytes, offset, type), expected);

    const uint64_t number = random.Next();
    WriteBitField(bytes.data(), offset, type.bits, number);
    Model after = before;
    for (uint32_t i = 0; i < type.bits; ++i) {
      after[offset + i] = (number >> (type.bits - 1 - i) & 1) != 0;
    }
    EXPECT_EQ(BitsOf(bytes), after);
  }
  EXPECT_EQ(ReadBitField("\xFF", 4, {.is_signed = false, .bits = 8}), 0xF0u);
  EXPECT_EQ(ReadBitField("\xFF", 100, {.is_signed = true, .bits = 64}), 0u);
}

TEST(BitOpsTest, OverflowWrapsSaturatesOrFails) {
  using Overflow = BitFieldOverflow;
  const auto add = [](bool is_signed, uint32_t bits, int64_t number, int64_t by,
                      Overflow overflow) {
    const auto sum = AddToBitField({is_signed, bits}, static_cast<uint64_t>(number), by, overflow);
    return sum ? std::optional(static_cast<int64_t>(*sum)) : std::nullopt;
  };
  EXPECT_EQ(add(true, 8, 100, 27, Overflow::kFail), 127);
  EXPECT_EQ(add(true, 8, 100, 28, Overflow::kFail), std::nullopt);
  EXPECT_EQ(add(true, 8, 100, 28, Overflow::kSaturate), 127);
  EXPECT_EQ(add(true, 8, 100, 28, Overflow::kWrap), -128);
  EXPECT_EQ(add(true, 8, -100, -29, Overflow::kWrap), 127);
  EXPECT_EQ(add(true, 8, -100, -29, Overflow::kSaturate), -128);
  EXPECT_EQ(add(true, 64, INT64_MAX, 1, Overflow::kWrap), INT64_MIN);
  EXPECT_EQ(add(true, 64, INT64_MIN, INT64_MIN, Overflow::kSaturate), INT64_MIN);
  EXPECT_EQ(add(true, 64, INT64_MIN, INT64_MIN, Overflow::kFail), std::nullopt);
  EXPECT_EQ(add(true, 1, 0, 1, Overflow::kWrap), -1);
  EXPECT_EQ(add(false, 8, 255, 1, Overflow::kWrap), 0);
  EXPECT_EQ(add(false, 8, 255, 1, Overflow::kSaturate), 255);
  EXPECT_EQ(add(false, 8, 0, -1, Overflow::kWrap), 255);
  EXPECT_EQ(add(false, 8, 0, -1, Overflow::kSaturate), 0);
  EXPECT_EQ(add(false, 63, INT64_MAX, 1, Overflow::kWrap), 0);
  EXPECT_EQ(add(false, 8, -1, 0, Overflow::kSaturate), 255) << "-1 is large without a sign";
  EXPECT_EQ(add(false, 8, 300, 0, Overflow::kWrap), 44);
}

}  // namespace
}  // namespace dfly
