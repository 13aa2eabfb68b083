// SPDX-License-Identifier: Apache-2.0
#include "core/table/compact_value.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/text/ascii_pack.h"
#include "core/text/numbers.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

enum class Alphabet : uint8_t { kDigits, kAscii, kBytes };

std::string RandomBytes(std::mt19937_64& random, size_t size, Alphabet alphabet) {
  std::string bytes(size, '\0');
  for (char& c : bytes) {
    switch (alphabet) {
      case Alphabet::kDigits:
        c = static_cast<char>('0' + random() % 10);
        break;
      case Alphabet::kAscii:
        c = static_cast<char>(random() % 128);
        break;
      case Alphabet::kBytes:
        c = static_cast<char>(random() % 256);
    }
  }
  return bytes;
}

Alphabet RandomAlphabet(std::mt19937_64& random) { return static_cast<Alphabet>(random() % 3); }

TEST(CompactValueTest, KeepsStringsOfAllLengths) {
  std::mt19937_64 random(helio::TestSeed());
  CompactValue reused;
  for (size_t size = 0; size <= 300; ++size) {
    for (int round = 0; round < 60; ++round) {
      std::string text = RandomBytes(random, size, RandomAlphabet(random));
      CompactValue value(text);
      reused.SetString(text);
      EXPECT_EQ(value.ToString(), text);
      EXPECT_EQ(reused.ToString(), text);
      EXPECT_EQ(value.StringSize(), size);
      EXPECT_EQ(value.is_int(), ParseInt64(text).has_value());
      EXPECT_EQ(value.TryInt(), ParseInt64(text));
      EXPECT_EQ(value.HeapBytes() == 0, value.HeapAddress() == nullptr);
      if (value.is_int() || size <= CompactValue::kMaxInline) {
        EXPECT_EQ(value.HeapBytes(), 0u);
      } else if (size > 16) {
        EXPECT_GE(value.HeapBytes(), PackedAsciiBytes(size - 8));
      }
      value.Append("");
      EXPECT_EQ(value.ToString(), text) << "as it is when it can be changed in place";
    }
  }
}

#ifndef DFLY_SANITIZED
TEST(CompactValueTest, PaysExactlyForItsBytesOrForSevenBitsOfEachCharacter) {
  EXPECT_EQ(CompactValue(std::string(32, '\xFF')).HeapBytes(), 32u);
  EXPECT_EQ(CompactValue(std::string(64, '\xFF')).HeapBytes(), 64u);
  EXPECT_EQ(CompactValue(std::string(14, '\xFF')).HeapBytes(), 16u);
  EXPECT_EQ(CompactValue(std::string(14, 'x')).HeapBytes(), 0u);
  EXPECT_EQ(CompactValue(std::string(16, 'x')).HeapBytes(), 0u);
  EXPECT_EQ(CompactValue(std::string(17, 'x')).HeapBytes(), 8u);
  EXPECT_EQ(CompactValue(std::string(26, 'x')).HeapBytes(), 16u);
  EXPECT_EQ(CompactValue(std::string(36, 'x')).HeapBytes(), 32u);
  EXPECT_EQ(CompactValue(std::string(100, 'x')).HeapBytes(), 96u);
  EXPECT_EQ(CompactValue(std::string(200, 'x')).HeapBytes(), 192u);
  EXPECT_EQ(CompactValue(std::string(272, 'x')).HeapBytes(), 256u);
  // Some would need the same block anyway, and long ones are as they are.
  EXPECT_EQ(CompactValue(std::string(32, 'x')).HeapBytes(), 32u);
  EXPECT_EQ(CompactValue(std::string(64, 'x')).HeapBytes(), 64u);
  EXPECT_EQ(CompactValue(std::string(273, 'x')).HeapBytes(), 320u);
}

TEST(CompactValueTest, KeepsItsBlockWhenAPackedStringOfItsSizeComes) {
  CompactValue value(std::string(200, 'x'));
  const void* const block = value.HeapAddress();
  value.SetString(std::string(198, 'y'));
  EXPECT_EQ(value.HeapAddress(), block);
  EXPECT_EQ(value.ToString(), std::string(198, 'y'));
  value.SetString(std::string(36, 'z'));
  EXPECT_NE(value.HeapAddress(), block);
  EXPECT_EQ(value.HeapBytes(), 32u);
  EXPECT_EQ(value.ToString(), std::string(36, 'z'));
}
#endif

TEST(CompactValueTest, EncodesOnlyCanonicalIntegersAsIntegers) {
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808", "1234"}) {
    CompactValue value{std::string_view(text)};
    EXPECT_TRUE(value.is_int()) << text;
    EXPECT_EQ(value.ToString(), text);
    EXPECT_EQ(value.StringEncoding(), "int");
  }
  for (const char* text : {"", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1.0"}) {
    CompactValue value{std::string_view(text)};
    EXPECT_FALSE(value.is_int()) << text;
    EXPECT_EQ(value.ToString(), text);
    EXPECT_EQ(value.StringEncoding(), "embstr");
  }
  EXPECT_EQ(CompactValue(std::string(45, 'x')).StringEncoding(), "raw");
}

TEST(CompactValueTest, ReadsAnIntegerOutOfAStringThatWasChangedInPlace) {
  CompactValue value("12");
  value.Append("34");
  EXPECT_FALSE(value.is_int());
  EXPECT_EQ(value.StringEncoding(), "raw");
  EXPECT_EQ(value.TryInt(), 1234);
  value.Append("x");
  EXPECT_EQ(value.TryInt(), std::nullopt);
}

TEST(CompactValueTest, EditsAgreeWithAModel) {
  std::mt19937_64 random(helio::TestSeed());
  CompactValue value;
  std::string model;
  for (int i = 0; i < 20000; ++i) {
    const size_t size = random() % (random() % (random() % 8 == 0 ? 300 : 50) + 1);
    std::string text = RandomBytes(random, size, RandomAlphabet(random));
    switch (random() % 9) {
      case 0:
      case 8:
        value.SetString(text);
        model = text;
        break;
      case 1: {
        auto number = static_cast<int64_t>(random());
        value.SetInt(number);
        model = std::to_string(number);
        break;
      }
      case 2:
        value.Prepend(text);
        model.insert(0, text);
        break;
      case 3:
      case 4: {
        size_t offset = random() % 60;
        if (model.size() < offset + text.size()) model.resize(offset + text.size());
        model.replace(offset, text.size(), text);
        value.SetRange(offset, text);
        break;
      }
      default:
        value.Append(text);
        model += text;
    }
    value.set_access_clock(static_cast<uint16_t>(i));
    if (random() % 4 == 0) {
      CompactValue moved(std::move(value));
      value = std::move(moved);
    }
    if (random() % 4 == 0) {
      BlockMover mover(nullptr);
      uint64_t cursor = 0;
      value.Move(mover, &cursor);
    }
    if (random() % 4 == 0) value = value.Clone();
    ASSERT_EQ(value.ToString(), model);
    ASSERT_EQ(value.StringSize(), model.size());
    ASSERT_EQ(value.access_clock(), static_cast<uint16_t>(i));
    if (model.size() > 5000) {
      value.SetString("");
      model.clear();
    }
  }
}

TEST(CompactValueTest, AClonedStringIsAnotherOneWithTheSameEncoding) {
  for (const char* text :
       {"", "short", "-12345", "thirteen byte", "fourteen bytes", "sixteen bytes ok",
        "\xFFourteen bytes", "some 36 characters, and all are ASCII",
        "a string that is so long that it is raw in any case"}) {
    for (const bool is_appended : {false, true}) {
      CompactValue value(text);
      if (is_appended) value.Append("x");
      value.set_access_clock(7);
      CompactValue copy = value.Clone();
      EXPECT_EQ(copy.ToString(), value.ToString());
      EXPECT_EQ(copy.StringEncoding(), value.StringEncoding());
      EXPECT_EQ(copy.access_clock(), 7);
      const std::string before = value.ToString();
      copy.Append("y");
      EXPECT_EQ(value.ToString(), before);
    }
  }
}

TEST(CompactValueTest, MayBeSetToAPartOfItself) {
  for (const std::string_view end : {"at all", "at \xFF"}) {
    CompactValue value("a string that does not fit inline " + std::string(end));
    char scratch[CompactValue::kScratchSize];
    value.SetString(value.View(scratch).substr(2, 30));
    EXPECT_EQ(value.ToString(), "string that does not fit inlin");
    value.SetString(value.View(scratch).substr(0, 6));
    EXPECT_EQ(value.ToString(), "string");
  }
  // What lies in the block that goes may be packed, or short.
  for (const size_t size : {16, 24, 100}) {
    CompactValue value("\xFF" + std::string(300, 'x'));
    value.SetString(value.View(nullptr).substr(1, size));
    EXPECT_EQ(value.ToString(), std::string(size, 'x'));
  }
}

TEST(CompactValueTest, PackedTextsAreStringsThatNobodyChangedInPlace) {
  for (const size_t size : {14, 15, 16, 17, 32, 44, 45, 200, 272}) {
    for (char c = 'A'; c <= 'z'; ++c) {  // all bits of the tag of a short one
      CompactValue value(std::string(size, c));
      ASSERT_TRUE(value.is_string());
      ASSERT_EQ(value.type(), ValueType::kString);
      ASSERT_FALSE(value.is_int());
      ASSERT_EQ(value.lent_block(), nullptr);
      ASSERT_EQ(value.TryInt(), std::nullopt);
      ASSERT_EQ(value.StringEncoding(), size > 44 ? "raw" : "embstr");
      ASSERT_EQ(value.StringSize(), size);
      value.SetRaw(std::string(size, c));
      ASSERT_EQ(value.StringEncoding(), "raw");
      ASSERT_EQ(value.ToString(), std::string(size, c));
    }
  }
  CompactValue digits;
  digits.SetText("12345678901234567");
  EXPECT_EQ(digits.TryInt(), 12345678901234567);
  digits.SetText("123456789012345");
  EXPECT_EQ(digits.TryInt(), 123456789012345);
}

TEST(CompactValueTest, AppendsAreAmortised) {
  CompactValue value("start of the string");
  int moves = 0;
  const void* block = value.HeapAddress();
  for (int i = 0; i < 100000; ++i) {
    value.Append("x");
    if (value.HeapAddress() != block) ++moves;
    block = value.HeapAddress();
  }
  EXPECT_EQ(value.StringSize(), 100019u);
  EXPECT_LT(moves, 20);
}

int objects_alive = 0;

TEST(CompactValueTest, OwnsObjectsOfOtherTypes) {
  RegisterObjectType(ValueType::kHash, {.destroy =
                                            [](void* object, uint8_t encoding) {
                                              EXPECT_EQ(encoding, 3);
                                              delete static_cast<int*>(object);
                                              --objects_alive;
                                            },
                                        .bytes = [](const void*, uint8_t) -> size_t { return 77; },
                                        .is_empty = [](const void*, uint8_t) { return true; },
                                        .clone = [](const void* object, uint8_t) -> void* {
                                          ++objects_alive;
                                          return new int(*static_cast<const int*>(object));
                                        }});
  {
    CompactValue value("text");
    value.SetObject(ValueType::kHash, new int(5), 3);
    ++objects_alive;
    EXPECT_FALSE(value.is_string());
    EXPECT_EQ(TypeName(value.type()), "hash");
    EXPECT_EQ(value.HeapBytes(), 77u);
    EXPECT_TRUE(value.IsEmptyObject());
    EXPECT_EQ(*static_cast<int*>(value.object()), 5);
    value.SetString("text again");
    EXPECT_EQ(objects_alive, 0);
    value.SetObject(ValueType::kHash, new int(6), 3);
    ++objects_alive;
    value.set_access_clock(99);
    const CompactValue copy = value.Clone();
    EXPECT_EQ(objects_alive, 2);
    EXPECT_NE(copy.object(), value.object());
    EXPECT_EQ(*static_cast<int*>(copy.object()), 6);
    EXPECT_EQ(copy.object_encoding(), 3);
    EXPECT_EQ(copy.type(), ValueType::kHash);
    EXPECT_EQ(copy.access_clock(), 99);
  }
  EXPECT_EQ(objects_alive, 0);
}

// Whoever sends a large string from its block sees it as it was, and the value changes in a copy.
TEST(CompactValueTest, ALentStringStaysAsItIsWhateverHappensToTheValue) {
  const std::string text(70'000, 'x');
  const std::string expected = "$70000\r\n" + text + "\r\n";
  const std::vector<void (*)(CompactValue*)> changes = {
      [](CompactValue* value) { value->Append("y"); },
      [](CompactValue* value) { value->Prepend("y"); },
      [](CompactValue* value) { value->SetRange(5, "yyy"); },
      [](CompactValue* value) { value->Widen(10)[0] = 'y'; },
      [](CompactValue* value) { value->SetString(std::string(70'000, 'y')); },
      [](CompactValue* value) { value->SetString("7"); },
      [](CompactValue* value) { *value = CompactValue(); },
      [](CompactValue* value) {
        BlockMover mover(nullptr);
        uint64_t cursor = 0;
        value->Move(mover, &cursor);
      }};
  for (const auto change : changes) {
    CompactValue value(text);
    CompactValue own(text);
    ASSERT_NE(value.lent_block(), nullptr);
    const std::string_view reply = LentBlock::Lend(value.lent_block(), value.StringSize());
    const std::string_view again = LentBlock::Lend(value.lent_block(), value.StringSize());
    EXPECT_EQ(reply.data(), again.data());
    change(&value);
    change(&own);
    EXPECT_EQ(value.ToString(), own.ToString());
    EXPECT_TRUE(reply == expected);
    LentBlock::ReturnReply(reply.data());
    EXPECT_TRUE(again == expected);
    LentBlock::ReturnReply(again.data());
    EXPECT_EQ(value.ToString(), own.ToString());
  }
}

TEST(CompactValueTest, ALargeStringHasALentBlockAndCostsItsPages) {
  CompactValue value(std::string(LentBlock::kMin - 1, 'x'));
  EXPECT_EQ(value.lent_block(), nullptr);
  const std::string more(LentBlock::kMin / 2, 'y');
  value.Append(more);
  ASSERT_NE(value.lent_block(), nullptr);
  EXPECT_EQ(value.ToString(), std::string(LentBlock::kMin - 1, 'x') + more);
  value.SetString(std::string(1 << 20, 'z'));
  EXPECT_LE(value.HeapBytes(), (size_t{1} << 20) + 4096);
  EXPECT_GT(value.HeapBytes(), size_t{1} << 20);
  EXPECT_EQ(value.StringEncoding(), "raw");
  const CompactValue copy = value.Clone();
  EXPECT_NE(copy.lent_block(), value.lent_block());
  EXPECT_EQ(copy.ToString(), value.ToString());
  BlockMover mover(nullptr);
  uint64_t cursor = 0;
  const char* const before = value.lent_block();
  const size_t bytes = value.HeapBytes();
  value.Move(mover, &cursor);
  EXPECT_NE(value.lent_block(), before);
  EXPECT_EQ(value.HeapBytes(), bytes);
  EXPECT_EQ(copy.ToString(), value.ToString());
}

// Against a std::string: with pages of its own it grows in place, and zeros are not written.
TEST(CompactValueTest, AStringOfManyMegabytesChangesLikeASmallOne) {
  constexpr size_t kLarge = LentBlock::kMappedMin;
  CompactValue value("small");
  std::string model = "small";
  const auto expect_same = [&] {
    ASSERT_EQ(value.StringSize(), model.size());
    EXPECT_TRUE(value.View(nullptr) == model);
  };
  value.SetRange(kLarge + 5, "far");
  model.resize(kLarge + 5);
  model += "far";
  expect_same();
  ASSERT_TRUE(LentBlock::is_mapped(value.lent_block()));
  value.Append("more");
  model += "more";
  const char* const block = value.lent_block();
  value.Widen(kLarge + 300'000);
  model.resize(kLarge + 300'000);
  expect_same();
  EXPECT_EQ(value.lent_block(), block) << "there is room";
  // What it loses and gets again is 0.
  model.assign(kLarge + 1'300'000, 'x');
  value.SetText(model);
  model.resize(kLarge + 1);
  value.SetText(model);
  expect_same();
  value.SetRange(kLarge + 1'200'000, "y");
  model.resize(kLarge + 1'200'000);
  model += 'y';
  expect_same();
  for (int i = 0; i < 5; ++i) {
    const std::string more(700'000, static_cast<char>('a' + i));
    value.Append(more);
    model += more;
  }
  expect_same();
  value.Prepend("front");
  model.insert(0, "front");
  expect_same();
  EXPECT_GE(value.HeapBytes(), model.size());
  EXPECT_LE(value.HeapBytes(), model.size() + (1 << 20) + 8192);
  // While somebody sends it, it changes in a copy.
  const std::string_view reply = LentBlock::Lend(value.lent_block(), value.StringSize());
  const std::string sent(reply);
  value.Append("!");
  model += '!';
  expect_same();
  EXPECT_TRUE(reply == sent);
  LentBlock::ReturnReply(reply.data());
  BlockMover mover(nullptr);
  uint64_t cursor = 0;
  value.Move(mover, &cursor);
  EXPECT_EQ(cursor, 0u);
  expect_same();
  const CompactValue copy = value.Clone();
  value = CompactValue();
  EXPECT_TRUE(copy.View(nullptr) == model);
}

// Whatever was there before it, a string has no parts: who moves values need not come back.
TEST(CompactValueTest, MovingAStringLeavesNoCursor) {
  const auto cursor_after_move = [](CompactValue* value) {
    BlockMover mover(nullptr);
    uint64_t cursor = 7;
    value->Move(mover, &cursor);
    return cursor;
  };
  CompactValue mapped(std::string(LentBlock::kMappedMin, 'x'));
  ASSERT_TRUE(LentBlock::is_mapped(mapped.lent_block()));
  EXPECT_EQ(cursor_after_move(&mapped), 0u);
  CompactValue own(std::string(70'000, 'x'));
  EXPECT_EQ(cursor_after_move(&own), 0u);
  const std::string_view reply = LentBlock::Lend(own.lent_block(), own.StringSize());
  EXPECT_EQ(cursor_after_move(&own), 0u) << "lent";
  LentBlock::ReturnReply(reply.data());
  CompactValue small(std::string(100, 'x'));
  EXPECT_EQ(cursor_after_move(&small), 0u);
  CompactValue inlined("x");
  EXPECT_EQ(cursor_after_move(&inlined), 0u);
}

TEST(CompactValueTest, ALargeStringIsCopiedInSteps) {
  for (size_t size : {size_t{100}, size_t{256 * 1024}, size_t{256 * 1024 + 1}, size_t{3'000'000}}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + (i >> 12));
    CompactValue value(text);
    value.Append("raw");
    value.set_access_clock(77);
    CompactValue copy;
    uint64_t cursor = 0;
    size_t steps = 0;
    do {
      value.CloneSome(&copy, &cursor);
      ++steps;
    } while (cursor != 0);
    EXPECT_EQ(steps, (size + 3 + 256 * 1024 - 1) / (256 * 1024));
    EXPECT_TRUE(copy.ToString() == text + "raw");
    EXPECT_EQ(copy.StringEncoding(), "raw");
    EXPECT_EQ(copy.access_clock(), 77);
  }
}

// A reader on another thread may be the last who uses it.
TEST(CompactValueTest, ALentStringOutlivesItsValue) {
  for (int round = 0; round < 100; ++round) {
    CompactValue value(std::string(70'000, static_cast<char>('a' + round % 26)));
    const std::string_view reply = LentBlock::Lend(value.lent_block(), value.StringSize());
    std::thread reader([reply, round] {
      const std::string text(70'000, static_cast<char>('a' + round % 26));
      EXPECT_TRUE(reply.substr(8, 70'000) == text);
      LentBlock::ReturnReply(reply.data());
    });
    if (round % 2 == 0) {
      value.SetRange(3, "y");
    } else {
      value = CompactValue();
    }
    reader.join();
  }
}

}  // namespace
}  // namespace dfly
