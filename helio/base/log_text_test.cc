// SPDX-License-Identifier: Apache-2.0
#include "helio/base/log_text.h"

#include <gtest/gtest.h>

namespace helio {
namespace {

TEST(LogTextTest, WhatIsPrintableStays) {
  EXPECT_EQ(LogText(""), "");
  EXPECT_EQ(LogText("a 'b' \"c\" ~"), "a 'b' \"c\" ~");
  EXPECT_EQ(LogText("größe 日本 😀"), "größe 日本 😀");
}

TEST(LogTextTest, ATextIsOneLine) {
  EXPECT_EQ(LogText("a\nE1125 forged\r\n\tb"), "a\\nE1125 forged\\r\\n\\tb");
  EXPECT_EQ(LogText(std::string_view("\0\x1b[2J\x7f", 6)), "\\x00\\x1b[2J\\x7f");
  EXPECT_EQ(LogText("a\\nb"), "a\\\\nb");
}

TEST(LogTextTest, BrokenTextAndControlCharactersOfUtf8AreEscaped) {
  EXPECT_EQ(LogText("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(LogText("\xc2\xa0"), "\xc2\xa0");
  EXPECT_EQ(LogText("\xff\xe6\x97"), "\\xff\\xe6\\x97");
  EXPECT_EQ(LogText("\xc0\x8a"), "\\xc0\\x8a");           // a line end, longer than it need be
  EXPECT_EQ(LogText("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(LogText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace helio
