// SPDX-License-Identifier: Apache-2.0
#include "core/rdb/foreign_entries.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/rdb/foreign_entries_testing.h"

namespace dfly {
namespace {

using Kind = ForeignEntries::Kind;
using testkit::Listpack;
using testkit::Texts;
using testkit::Ziplist;

// What a block has, and whether it is sound.
std::pair<Texts, bool> Read(Kind kind, std::string_view block) {
  ForeignEntries entries(kind, block);
  Texts texts;
  while (const auto text = entries.Next()) texts.emplace_back(*text);
  return {texts, entries.is_sound()};
}

TEST(ForeignEntriesTest, AListpackHasTheBytesThatRedisWrites) {
  const std::string two(
      "\x0c\0\0\0\x02\0\x81"
      "a\x02\x01\x01\xff",
      12);
  EXPECT_EQ(Listpack({"a", "1"}), two);
  EXPECT_EQ(Listpack({"-1"}), std::string("\x0a\0\0\0\x01\0\xdf\xff\x02\xff", 10));
  EXPECT_EQ(Listpack({}), std::string("\x07\0\0\0\0\0\xff", 7));
}

TEST(ForeignEntriesTest, EveryFormOfListpackEntryIsReadBack) {
  Texts texts;
  for (int shift = 0; shift < 64; ++shift) {
    for (int64_t near : {-1, 0, 1}) {
      const auto number =
          static_cast<int64_t>((uint64_t{1} << shift) + static_cast<uint64_t>(near));
      texts.push_back(std::to_string(number));
      texts.push_back(std::to_string(-1 - (number & INT64_MAX)));
    }
  }
  for (size_t size : {0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16376, 16377, 16378, 16379, 2097144,
                      2097145, 2097146}) {
    texts.emplace_back(size, 'x');
  }
  EXPECT_EQ(Read(Kind::kListpack, Listpack(texts)), std::pair(texts, true));
}

TEST(ForeignEntriesTest, SizesBehindEntriesGrowWhereRedisLetsThemGrow) {
  // 16382 bytes of head and text take two bytes, 16383 already three.
  EXPECT_EQ(Listpack({std::string(16377, 'x')}).size(), 6u + 16382 + 2 + 1);
  EXPECT_EQ(Listpack({std::string(16378, 'x')}).size(), 6u + 16383 + 3 + 1);
}

TEST(ForeignEntriesTest, AWrappedTextIsAListpack) {
  for (size_t size : {0, 10, 100, 5000, 20000, 3000000}) {
    const std::string text(size, 'x');
    const auto wrapping = ListpackWriter::WrappingOf(text);
    EXPECT_EQ(wrapping.before + text + wrapping.behind, Listpack({text}));
  }
}

TEST(ForeignEntriesTest, MoreEntriesThanTheHeaderCanCountAreRead) {
  const Texts texts(70000, "7");
  EXPECT_EQ(Read(Kind::kListpack, Listpack(texts)), std::pair(texts, true));
}

TEST(ForeignEntriesTest, EveryFormOfZiplistEntryIsRead) {
  const std::string big(300, 'y');
  const std::string huge(20000, 'z');
  const std::string block = Ziplist({
      std::string("\x01"
                  "a"),
      std::string("\x00", 1),
      std::string("\x41\x2c") + big,
      std::string("\x80\x00\x00\x4e\x20", 5) + huge,
      std::string("\xc0\x39\x30"),
      std::string("\xd0\x15\xcd\x5b\x07"),
      std::string("\xe0\x00\x00\x00\x00\x00\x00\x00\x80", 9),
      std::string("\xf0\xff\xff\xff"),
      std::string("\xfe\x80"),
      std::string("\xf1"),
      std::string("\xfd"),
  });
  EXPECT_EQ(Read(Kind::kZiplist, block),
            std::pair(Texts({"a", "", big, huge, "12345", "123456789", "-9223372036854775808", "-1",
                             "-128", "0", "12"}),
                      true));
}

TEST(ForeignEntriesTest, WhatMakesNoSenseIsNotSound) {
  const std::string listpack = Listpack({"a", "1", "1000", "hello"});
  const std::string ziplist = Ziplist({std::string("\x01"
                                                   "a"),
                                       std::string("\xf2")});
  for (const auto& [kind, block] :
       {std::pair(Kind::kListpack, listpack), {Kind::kZiplist, ziplist}}) {
    EXPECT_TRUE(Read(kind, block).second);
    for (size_t size = 0; size < block.size(); ++size) {
      EXPECT_FALSE(Read(kind, block.substr(0, size)).second) << size;
    }
    EXPECT_FALSE(Read(kind, block + '\xff').second);
    std::string other_count = block;
    ++other_count[kind == Kind::kListpack ? 4 : 8];
    EXPECT_FALSE(Read(kind, other_count).second);
    std::string other_size = block;
    ++other_size[0];
    EXPECT_FALSE(Read(kind, other_size).second);
  }
  std::string other_way_back = listpack;
  other_way_back[8] = 3;  // of "a"
  EXPECT_FALSE(Read(Kind::kListpack, other_way_back).second);
}

}  // namespace
}  // namespace dfly
