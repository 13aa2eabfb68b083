// SPDX-License-Identifier: Apache-2.0
#include "core/table/compact_key.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/text/hash.h"

namespace dfly {
namespace {

KeyProbe Probe(std::string_view key) { return KeyProbe(key, HashKey(key)); }

std::string RandomBytes(std::mt19937_64& random, size_t size, bool ascii) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random() % (ascii ? 128 : 256));
  return bytes;
}

TEST(CompactKeyTest, KeepsKeysOfAllLengths) {
  std::mt19937_64 random(1);
  for (size_t size = 0; size <= 40; ++size) {
    for (int round = 0; round < 200; ++round) {
      std::string text = RandomBytes(random, size, round % 2 == 0);
      CompactKey key(Probe(text));
      EXPECT_EQ(key.ToString(), text);
      EXPECT_EQ(key.size(), size);
      EXPECT_EQ(key.Hash(), HashKey(text));
      EXPECT_TRUE(key.Equals(Probe(text)));
      if (key.is_heap()) {
        EXPECT_EQ(key.HashBits24(), (HashKey(text) >> 32) & 0xFFFFFF);
        EXPECT_GE(key.HeapBytes(), size);
      } else {
        EXPECT_EQ(key.HeapBytes(), 0u);
      }
    }
  }
}

TEST(CompactKeyTest, OnlyLongOrBinaryKeysUseTheHeap) {
  EXPECT_FALSE(CompactKey(Probe("key:000000000001")).is_heap());
  EXPECT_FALSE(CompactKey(Probe("12345678901234567")).is_heap());
  EXPECT_TRUE(CompactKey(Probe("x23456789012345678")).is_heap());
  EXPECT_FALSE(
      CompactKey(Probe("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")).is_heap());
  EXPECT_TRUE(CompactKey(Probe("123456789012345\xff")).is_heap());
  EXPECT_TRUE(CompactKey(Probe("1234567890123456\xff")).is_heap());
}

TEST(CompactKeyTest, LargeNumbersAreInlineInTheirCanonicalForm) {
  for (const char* text : {"123456789012345678", "-12345678901234567", "1234567890123456789",
                           "9223372036854775807", "-9223372036854775808"}) {
    CompactKey key(Probe(text));
    EXPECT_FALSE(key.is_heap()) << text;
    EXPECT_EQ(key.ToString(), text);
    EXPECT_EQ(key.size(), std::string_view(text).size());
    EXPECT_EQ(key.Hash(), HashKey(text));
    EXPECT_TRUE(key.Equals(Probe(text)));
    EXPECT_FALSE(key.Equals(Probe(std::string("0") + text)));
    EXPECT_FALSE(key.Equals(Probe(std::string(text) + " ")));
  }
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "012345678901234567",
                           "+12345678901234567", "12345678901234567 ", "18446744073709551615"}) {
    CompactKey key(Probe(text));
    EXPECT_TRUE(key.is_heap()) << text;
    EXPECT_EQ(key.ToString(), text);
    EXPECT_TRUE(key.Equals(Probe(text)));
  }
}

TEST(CompactTextTest, IsWhatItWasSetToLast) {
  std::mt19937_64 random(3);
  CompactText text;
  char scratch[CompactText::kScratchSize];
  EXPECT_EQ(text.View(scratch), "");
  for (int round = 0; round < 20'000; ++round) {
    const std::string wanted = random() % 4 == 0
                                   ? std::to_string(static_cast<int64_t>(random()))
                                   : RandomBytes(random, random() % 60, round % 2 == 0);
    text.Set(wanted);
    ASSERT_EQ(text.View(scratch), wanted);
    const CompactText copy = text.Clone();
    ASSERT_EQ(copy.ToString(), wanted);
    ASSERT_GE(text.HeapBytes() + 20, wanted.size());
    if (wanted.size() > 20) {
      ASSERT_NE(copy.View(scratch).data(), text.View(scratch).data());
    }
  }
}

TEST(CompactTextTest, ABlockThatFitsIsUsedAgain) {
  CompactText text;
  char scratch[CompactText::kScratchSize];
  text.Set(std::string(48, 'a'));
  const char* const block = text.View(scratch).data();
  text.Set(std::string(47, 'b'));
  EXPECT_EQ(text.View(scratch).data(), block);
  EXPECT_EQ(text.View(scratch), std::string(47, 'b'));
  text.Set("short");
  EXPECT_EQ(text.HeapBytes(), 0u);
}

TEST(CompactKeyTest, DiffersFromEveryKeyWithOneOtherByteOrLength) {
  std::mt19937_64 random(2);
  for (size_t size = 0; size <= 24; ++size) {
    for (bool ascii : {true, false}) {
      std::string text = RandomBytes(random, size, ascii);
      CompactKey key(Probe(text));
      for (size_t i = 0; i < size; ++i) {
        for (int bit = 0; bit < 8; ++bit) {
          std::string other = text;
          other[i] = static_cast<char>(other[i] ^ (1 << bit));
          EXPECT_FALSE(key.Equals(Probe(other)));
        }
      }
      EXPECT_FALSE(key.Equals(Probe(text + '\0')));
      EXPECT_FALSE(key.Equals(Probe(text + 'a')));
      if (size > 0) {
        EXPECT_FALSE(key.Equals(Probe(text.substr(0, size - 1))));
      }
    }
  }
}

TEST(CompactKeyTest, FlagsChangeNeitherBytesNorEquality) {
  for (std::string text : {"", "short", "exactly15bytes!", "sixteen bytes ok", "seventeen bytes !",
                           "a key that lives on the heap, being long"}) {
    CompactKey key(Probe(text));
    key.set_flag(CompactKey::kHasExpire, true);
    key.set_flag(CompactKey::kSticky, true);
    key.set_flag(CompactKey::kCutParity, true);
    EXPECT_TRUE(key.has_flag(CompactKey::kHasExpire));
    EXPECT_FALSE(key.has_flag(CompactKey::kHasMemberExpire));
    EXPECT_EQ(key.ToString(), text);
    EXPECT_TRUE(key.Equals(Probe(text)));
    key.set_flag(CompactKey::kSticky, false);
    EXPECT_FALSE(key.has_flag(CompactKey::kSticky));
    EXPECT_TRUE(key.has_flag(CompactKey::kHasExpire));
  }
}

TEST(CompactKeyTest, MovesWithoutCopyingTheHeapPart) {
  std::string text(100, 'x');
  CompactKey key(Probe(text));
  const void* address = key.HeapAddress();
  CompactKey moved(std::move(key));
  EXPECT_EQ(moved.HeapAddress(), address);
  EXPECT_EQ(moved.ToString(), text);
  EXPECT_EQ(key.ToString(), "");
}

}  // namespace
}  // namespace dfly
