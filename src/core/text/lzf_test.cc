// SPDX-License-Identifier: Apache-2.0
#include "core/text/lzf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "helio/base/random.h"

namespace dfly {
namespace {

std::string Expanded(std::string_view packed, size_t size) {
  std::string text;
  return ExpandLzf(packed, size, &text) ? text : "(refused)";
}

TEST(LzfTest, LiteralsAndRepetitionsAreExpanded) {
  EXPECT_EQ(Expanded(std::string("\x02"
                                 "abc"),
                     3),
            "abc");
  // "a", then 9 bytes from one byte back.
  EXPECT_EQ(Expanded(std::string("\x00"
                                 "a"
                                 "\xe0\x00\x00",
                                 5),
                     10),
            "aaaaaaaaaa");
  EXPECT_EQ(Expanded(std::string("\x02"
                                 "abc"
                                 "\x20\x02",
                                 6),
                     6),
            "abcabc");
  EXPECT_EQ(Expanded(std::string("\x00"
                                 "a"
                                 "\xe0\xff\x00",
                                 5),
                     265),
            std::string(265, 'a'));
}

TEST(LzfTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(Expanded("", 0), "(refused)");
  EXPECT_EQ(Expanded(std::string("\x02"
                                 "abc"),
                     0),
            "(refused)");
  EXPECT_EQ(Expanded(std::string("\x02"
                                 "ab"),
                     3),
            "(refused)")
      << "cut off";
  EXPECT_EQ(Expanded(std::string("\x02"
                                 "abc"),
                     2),
            "(refused)")
      << "too long";
  EXPECT_EQ(Expanded(std::string("\x02"
                                 "abc"),
                     4),
            "(refused)")
      << "too short";
  EXPECT_EQ(Expanded(std::string("\x00"
                                 "a"
                                 "\x20\x01",
                                 4),
                     4),
            "(refused)")
      << "before the start";
  EXPECT_EQ(Expanded(std::string("\x00"
                                 "a"
                                 "\x20",
                                 3),
                     4),
            "(refused)")
      << "no offset";
  EXPECT_EQ(Expanded(std::string("\x00"
                                 "a"
                                 "\xe0",
                                 3),
                     12),
            "(refused)")
      << "no length";
  EXPECT_EQ(Expanded(std::string("\x00"
                                 "a"),
                     size_t{1} << 60),
            "(refused)")
      << "no memory is taken";
}

TEST(LzfTest, WhatWasCompressedIsExpanded) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    helio::Random random(seed);
    std::string text(random.OneIn(20) ? random.Uniform(50'000) : 1 + random.Uniform(300), '\0');
    const uint64_t letters = random.OneIn(2) ? 3 : 40;
    for (char& c : text) c = static_cast<char>(random.Uniform(letters));
    // Exactly so much room as is allowed; the address sanitizer sees what is written behind it.
    const size_t room = random.OneIn(2) ? text.size() * 2 + 10 : random.Uniform(text.size());
    const std::unique_ptr<char[]> packed(new char[room]);
    const size_t size = CompressLzf(text, packed.get(), room);
    EXPECT_LE(size, room);
    if (size == 0) {
      EXPECT_LT(room, text.size() + 10);
      continue;
    }
    EXPECT_TRUE(Expanded({packed.get(), size}, text.size()) == text);
    std::string other(1 + random.Uniform(2000), '\0');
    for (char& c : other) c = static_cast<char>(random.Uniform(letters));
    std::string unused(other.size() * 2, '\0');
    CompressLzf(other, unused.data(), unused.size());
    const std::unique_ptr<char[]> again(new char[room]);
    ASSERT_EQ(CompressLzf(text, again.get(), room), size);
    EXPECT_EQ(std::memcmp(packed.get(), again.get(), size), 0) << "it depends on what was before";
  }
}

TEST(LzfTest, RepetitionsBecomeShort) {
  for (size_t size : {21, 100, 101, 5000}) {
    std::string packed(size, '\0');
    const size_t bytes = CompressLzf(std::string(size, 'a'), packed.data(), size - 4);
    EXPECT_GT(bytes, 0u);
    EXPECT_LT(bytes, 12 + size / 50);
  }
}

TEST(LzfTest, RandomBytesDoNoHarm) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    helio::Random random(seed);
    std::string packed(random.Uniform(40), '\0');
    for (char& c : packed)
      c = static_cast<char>(random.OneIn(3) ? random.Uniform(4) : random.Next());
    std::string text;
    const size_t size = random.Uniform(200);
    if (ExpandLzf(packed, size, &text)) {
      EXPECT_EQ(text.size(), size);
    }
  }
}

}  // namespace
}  // namespace dfly
