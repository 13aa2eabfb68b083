// SPDX-License-Identifier: Apache-2.0
#include "core/text/rdb_encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace dfly {
namespace {

std::string WrittenLength(uint64_t length) {
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter(&sink).Length(length);
  return bytes;
}

std::string WrittenString(std::string_view text) {
  std::string bytes;
  StringSink sink(&bytes);
  RdbWriter(&sink).String(text);
  return bytes;
}

constexpr size_t kStringMax = 1000;

std::optional<std::string> ReadString(std::string_view bytes, size_t left = 0) {
  ViewSource source(bytes);
  RdbReader reader(&source, kStringMax);
  const auto text = reader.String();
  if (!text) return std::nullopt;
  EXPECT_EQ(source.left(), left);
  return std::string(*text);
}

TEST(RdbEncodingTest, LengthsTakeAsFewBytesAsTheirFormAllows) {
  EXPECT_EQ(WrittenLength(0), std::string("\0", 1));
  EXPECT_EQ(WrittenLength(63), "\x3f");
  EXPECT_EQ(WrittenLength(64), "\x40\x40");
  EXPECT_EQ(WrittenLength(16383), "\x7f\xff");
  EXPECT_EQ(WrittenLength(16384), std::string("\x80\0\0\x40\0", 5));
  EXPECT_EQ(WrittenLength(UINT32_MAX), "\x80\xff\xff\xff\xff");
  EXPECT_EQ(WrittenLength(uint64_t{1} << 32), std::string("\x81\0\0\0\x01\0\0\0\0", 9));
  for (uint64_t length : {uint64_t{0}, uint64_t{63}, uint64_t{64}, uint64_t{16383}, uint64_t{16384},
                          uint64_t{UINT32_MAX}, uint64_t{1} << 32, UINT64_MAX}) {
    const std::string bytes = WrittenLength(length);
    ViewSource source(bytes);
    EXPECT_EQ(RdbReader(&source, 0).Length(), length);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      ViewSource part(std::string_view(bytes).substr(0, cut));
      EXPECT_EQ(RdbReader(&part, 0).Length(), std::nullopt);
    }
  }
  for (const char* wrong : {"\x82\xff\xff\xff\xff", "\xc0\x01", "\xbf\xff\xff\xff\xff"}) {
    ViewSource source(wrong);
    EXPECT_EQ(RdbReader(&source, 0).Length(), std::nullopt);
  }
}

TEST(RdbEncodingTest, StringsThatAreSmallIntegersAreWrittenAsSuch) {
  EXPECT_EQ(WrittenString("12"), std::string("\xc0\x0c"));
  EXPECT_EQ(WrittenString("-128"), std::string("\xc0\x80"));
  EXPECT_EQ(WrittenString("128"), std::string("\xc1\x80\0", 3));
  EXPECT_EQ(WrittenString("32768"), std::string("\xc2\0\x80\0\0", 5));
  EXPECT_EQ(WrittenString("-2147483648"), std::string("\xc2\0\0\0\x80", 5));
  EXPECT_EQ(WrittenString("2147483648"),
            "\x0a"
            "2147483648");
  EXPECT_EQ(WrittenString("012"),
            "\x03"
            "012");
  EXPECT_EQ(WrittenString(""), std::string("\0", 1));
  for (const char* text : {"", "a", "0", "-1", "127", "128", "-129", "32767", "-32769",
                           "2147483647", "2147483648", "-2147483648", "-2147483649", "+1", "1.5"}) {
    EXPECT_EQ(ReadString(WrittenString(text)), text);
  }
  const std::string longest(kStringMax, 'x');
  EXPECT_EQ(ReadString(WrittenString(longest)), longest);
  EXPECT_EQ(ReadString(WrittenString(longest + 'x')), std::nullopt);
}

TEST(RdbEncodingTest, CompressedStringsAreExpanded) {
  EXPECT_EQ(ReadString(std::string("\xc3\x05\x0a\x00"
                                   "a"
                                   "\xe0\x00\x00"
                                   "more",
                                   12),
                       4),
            "aaaaaaaaaa");
  EXPECT_EQ(ReadString(std::string("\xc3\x05\x0b\x00"
                                   "a"
                                   "\xe0\x00\x00",
                                   8)),
            std::nullopt);
  EXPECT_EQ(ReadString(std::string("\xc3\x06\x0a\x00"
                                   "a"
                                   "\xe0\x00\x00",
                                   8)),
            std::nullopt);
  EXPECT_EQ(ReadString(std::string("\xc3\x05\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00"
                                   "a"
                                   "\xe0\x00\x00",
                                   16)),
            std::nullopt);
}

TEST(RdbEncodingTest, LongStringsAreCompressedIfThatIsAskedFor) {
  const auto compressed = [](std::string_view text) {
    std::string bytes;
    StringSink sink(&bytes);
    RdbWriter(&sink, RdbWriter::Compression::kLzf).String(text);
    return bytes;
  };
  const auto is_compressed = [&](std::string_view text) {
    const std::string bytes = compressed(text);
    ViewSource source(bytes);
    EXPECT_TRUE(RdbReader(&source, text.size()).String() == text);
    EXPECT_EQ(source.left(), 0u);
    return bytes[0] == '\xc3';
  };
  EXPECT_FALSE(is_compressed(std::string(20, 'a')));
  EXPECT_TRUE(is_compressed(std::string(21, 'a')));
  EXPECT_EQ(compressed(std::string(30, 'a')), std::string("\xc3\x09\x1e\x01"
                                                          "aa\xe0\x11\x00\x01"
                                                          "aa",
                                                          12))
      << "as redis-server 7.0";
  EXPECT_TRUE(is_compressed(std::string(1000, 'a')));
  EXPECT_TRUE(is_compressed(std::string(1 << 20, 'a')));
  EXPECT_FALSE(is_compressed(std::string((1 << 20) + 1, 'a')));
  EXPECT_FALSE(is_compressed("abcdefghijklmnopqrstuvwxyz0123456789"));
  EXPECT_EQ(compressed("12"), "\xc0\x0c");
  // It would save 4 bytes, but takes those for a bit of room; then 5. As redis-server 7.0, too.
  EXPECT_FALSE(is_compressed("abcdefghijklmnopqrstuabcdefghijkl"));
  EXPECT_TRUE(is_compressed("abcdefghijklmnopqrstuabcdefghijklm"));
}

TEST(RdbEncodingTest, AWriterGathersPieces) {
  struct Sink final : ByteSink {
    std::vector<std::string> pieces;
    void Append(std::string_view bytes) override { pieces.emplace_back(bytes); }
    std::string All() const {
      std::string all;
      for (const std::string& piece : pieces) all += piece;
      return all;
    }
  } sink;
  std::string expected;
  const std::string large(1024, 'l');
  {
    RdbWriter writer(&sink);
    writer.Flush();
    EXPECT_TRUE(sink.pieces.empty()) << "of nothing";
    for (int i = 0; i < 3000; ++i) {
      const std::string text(static_cast<size_t>(i % 61), static_cast<char>('a' + i % 20));
      writer.Raw(text);
      writer.Byte('!');
      expected += text + "!";
      if (i == 1000) {
        writer.Flush();
        EXPECT_EQ(sink.All(), expected);
      }
    }
    EXPECT_LT(sink.pieces.size(), expected.size() / 900);
    writer.Raw(large);
    expected += large;
    EXPECT_EQ(sink.pieces.back(), large) << "not copied";
    EXPECT_EQ(sink.All(), expected) << "and what was before it comes first";
    writer.Byte('.');
    expected += '.';
  }
  EXPECT_EQ(sink.All(), expected) << "the last piece, too";
}

TEST(RdbEncodingTest, StringsThatLieAboutTheirLengthAreRefused) {
  for (const std::string& bytes :
       {std::string(""),
        std::string("\x05"
                    "abcd"),
        std::string("\x81\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\xc4"),
        std::string("\xff"), std::string("\xc2\x01\x02")}) {
    EXPECT_EQ(ReadString(bytes), std::nullopt);
  }
}

TEST(RdbEncodingTest, TypesHaveNamesAlsoThoseThatAreNotRead) {
  EXPECT_EQ(RdbTypeName(0), "a string");
  EXPECT_EQ(RdbTypeName(7), "a value of a module");
  EXPECT_EQ(RdbTypeName(9), "a zipmap, which Redis wrote before 2.6");
  EXPECT_EQ(RdbTypeName(25), "a hash with deadlines of fields");
  EXPECT_EQ(RdbTypeName(27), "a stream");
  EXPECT_EQ(RdbTypeName(28), "an array of Redis 8.8 or later");
  EXPECT_EQ(RdbTypeName(29), "a hash");
  EXPECT_EQ(RdbTypeName(30), "a hash without the names of its fields");
  EXPECT_FALSE(IsRdbTypeRead(30));
  EXPECT_EQ(RdbTypeName(34), "a value of an unknown type");
  EXPECT_EQ(RdbTypeName(214), "a hash with deadlines of fields");
  EXPECT_EQ(RdbTypeName(215), "a value of an unknown type");
  EXPECT_EQ(RdbTypeName(131), "a top-k list");
  EXPECT_EQ(RdbTypeName(200), "a value of an unknown type");
}

TEST(RdbEncodingTest, CountsAreNoLargerThanWhatFollows) {
  ViewSource enough(
      std::string_view("\x03"
                       "abc"));
  EXPECT_EQ(RdbReader(&enough, 10).Count(), 3u);
  ViewSource too_few(
      std::string_view("\x04"
                       "abc"));
  EXPECT_EQ(RdbReader(&too_few, 10).Count(), std::nullopt);
}

TEST(RdbEncodingTest, DoublesHaveTwoForms) {
  for (double number : {0.0, -0.0, 1.5, 1e300, -HUGE_VAL, 5e-324}) {
    std::string bytes;
    StringSink sink(&bytes);
    RdbWriter(&sink).Double(number);
    ViewSource source(bytes);
    EXPECT_EQ(RdbReader(&source, 0).Double(), number);
  }
  const auto text = [](std::string_view bytes) {
    ViewSource source(bytes);
    return RdbReader(&source, 0).TextDouble();
  };
  EXPECT_EQ(text("\x03"
                 "1.5"),
            1.5);
  EXPECT_EQ(text("\xfe"), INFINITY);
  EXPECT_EQ(text("\xff"), -INFINITY);
  EXPECT_TRUE(std::isnan(*text("\xfd")));
  EXPECT_EQ(text("\x03"
                 "1.x"),
            std::nullopt);
  EXPECT_EQ(text("\x04"
                 "1.5"),
            std::nullopt);
  EXPECT_EQ(text(""), std::nullopt);
}

}  // namespace
}  // namespace dfly
