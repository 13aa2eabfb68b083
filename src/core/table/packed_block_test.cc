// SPDX-License-Identifier: Apache-2.0
#include "core/table/packed_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

std::vector<std::string> TextsOf(PackedBlock block) {
  std::vector<std::string> texts;
  for (auto at = block.begin(); at != block.end(); at = PackedBlock::Next(at)) {
    texts.push_back(PackedElement(at).ToString());
  }
  return texts;
}

std::string AnyText(helio::Random& random) {
  switch (random.Uniform(5)) {
    case 0:
      return std::to_string(static_cast<int64_t>(random.Next()) >> random.Uniform(64));
    case 1:
      return std::to_string(random.Uniform(100));
    case 2:
      return std::string(random.Uniform(200), 'a');
    case 3:
      return "007";
    default:
      return random.OneIn(20) ? std::string(9000, 'x') : "f" + std::to_string(random.Uniform(30));
  }
}

TEST(PackedBlockTest, HoldsTextsAndFindsThem) {
  PackedBlock block = PackedBlock::Make();
  EXPECT_TRUE(block.empty());
  EXPECT_EQ(block.begin(), block.end());
  for (const char* text : {"field", "1", "other", "field"}) block.Append(PackedText(text));
  EXPECT_EQ(block.entries(), 4u);
  EXPECT_EQ(block.Find(PackedText("field")), block.begin());
  EXPECT_EQ(block.Find(PackedText("1")), block.At(1));
  EXPECT_EQ(block.Find(PackedText(1)), block.At(1));
  EXPECT_EQ(block.Find(PackedText("1"), 2), block.end()) << "a value is no field";
  EXPECT_EQ(block.Find(PackedText("")), block.end());
  EXPECT_EQ(PackedElement(block.At(1)).TryInt(), 1);
  EXPECT_EQ(PackedElement(block.At(0)).TryInt(), std::nullopt);
  block.Free();
}

TEST(PackedBlockTest, GivesMemoryBack) {
  PackedBlock block = PackedBlock::Make();
  for (int i = 0; i < 100; ++i) block.Append(PackedText("text number " + std::to_string(i)));
  const size_t large = block.bytes();
  block.Erase(block.At(1), 99);
  EXPECT_LT(block.bytes(), large / 4);
  EXPECT_EQ(TextsOf(block), std::vector<std::string>{"text number 0"});
  block.Free();
}

TEST(PackedBlockTest, RandomChangesAgreeWithAVector) {
  helio::Random random(helio::TestSeed());
  PackedBlock block = PackedBlock::Make(random.Uniform(64));
  std::vector<std::string> model;
  for (int step = 0; step < 20'000; ++step) {
    const size_t index = random.Uniform(model.size() + 1);
    const auto where = model.begin() + static_cast<ptrdiff_t>(index);
    const std::string text = AnyText(random);
    PackedBlock::Place place = nullptr;
    const uint64_t what = random.Uniform(model.size() > 150 ? 10 : 6);
    if (what < 3 || index == model.size()) {
      place = block.Insert(block.At(index), PackedText(text));
      model.insert(where, text);
    } else if (what < 5) {
      place = block.Set(block.At(index), PackedText(text));
      *where = text;
    } else {
      const size_t count = std::min<size_t>(1 + random.Uniform(3), model.size() - index);
      place = block.Erase(block.At(index), count);
      model.erase(where, where + static_cast<ptrdiff_t>(count));
    }
    ASSERT_EQ(place, block.At(index));
    ASSERT_EQ(block.entries(), model.size());
    if (step % 16 == 0) {
      ASSERT_EQ(TextsOf(block), model);
      ASSERT_TRUE(PackedBlock::IsSound({block.begin(), block.entry_bytes()}, block.entries()));
      const auto found = block.Find(PackedText(text));
      const auto at = std::find(model.begin(), model.end(), text);
      ASSERT_EQ(found, block.At(static_cast<size_t>(at - model.begin())));
      PackedBlock copy = block.Clone();
      ASSERT_EQ(TextsOf(copy), model);
      copy.Free();
    }
  }
  block.Free();
}

// Found by packed_block_fuzz: heads that mean nothing were read as those of large texts, beyond the
// end; integers of 0 or of 9 to 15 bytes were shifted by what a number has not; and a text in a
// form that we do not write would not have been found again.
TEST(PackedBlockTest, EntriesOfFormsThatWeDoNotWriteAreNotSound) {
  const auto is_sound = [](std::string_view content) {
    std::vector<char> entry(content.begin(), content.end());  // ends where its allocation does
    entry.push_back(static_cast<char>(content.size()));
    return PackedBlock::IsSound({entry.data(), entry.size()}, 1);
  };
  EXPECT_TRUE(is_sound(std::string_view("\xe2\x00\x40", 3)));
  EXPECT_FALSE(is_sound("\xf1"));
  EXPECT_FALSE(is_sound("\xff"));
  EXPECT_FALSE(is_sound("\xe0")) << "an integer of no bytes";
  EXPECT_FALSE(is_sound("\xe1\x7f"));
  EXPECT_FALSE(
      is_sound("\xe9"
               "abcdefghi"));
  EXPECT_FALSE(
      is_sound("\xef"
               "abcdefghijklmno"));
  EXPECT_FALSE(is_sound(std::string_view("\xe3\x00\x40\x00", 4))) << "two bytes do";
  EXPECT_FALSE(is_sound(std::string_view("\xe2\x05\x00", 3))) << "5 has a shorter form";
  EXPECT_FALSE(is_sound("\x84\x05"));
  EXPECT_FALSE(
      is_sound("\xc0\x01"
               "a"));
  EXPECT_FALSE(
      is_sound(std::string_view("\xf0\x01\x00\x00\x00"
                                "a",
                                6)));
}

// What a stranger wrote is refused, whatever it is; the sanitizers watch that nothing else is read.
TEST(PackedBlockTest, SpoiltBytesAreNotSound) {
  helio::Random random(7);
  PackedBlock block = PackedBlock::Make();
  for (int i = 0; i < 20; ++i) block.Append(PackedText(AnyText(random)));
  const std::string good(block.begin(), block.entry_bytes());
  ASSERT_TRUE(PackedBlock::IsSound(good, 20));
  EXPECT_FALSE(PackedBlock::IsSound(good, 19));
  EXPECT_FALSE(PackedBlock::IsSound(good, 21));
  EXPECT_TRUE(PackedBlock::IsSound("", 0));
  for (int i = 0; i < 20'000; ++i) {
    const std::string bytes = good.substr(0, random.Uniform(good.size() + 1));
    const std::vector<char> exact(bytes.begin(), bytes.end());  // ends where its allocation does
    const bool is_sound = PackedBlock::IsSound({exact.data(), exact.size()}, 20);
    EXPECT_EQ(is_sound, bytes.size() == good.size());
    std::vector<char> spoilt(good.begin(), good.end());
    for (int n = 0; n < 3; ++n) {
      spoilt[random.Uniform(spoilt.size())] = static_cast<char>(random.Next());
    }
    PackedBlock::IsSound({spoilt.data(), spoilt.size()}, 20);
  }
  block.Free();
}

}  // namespace
}  // namespace dfly
