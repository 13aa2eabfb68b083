// SPDX-License-Identifier: Apache-2.0
#include "core/lzf.h"

#include <gtest/gtest.h>

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
