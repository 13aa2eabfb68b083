// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_place.h"

#include <gtest/gtest.h>

#include <string>

namespace dfly {
namespace {

const LogPlace kPlace = {.place = {.id = std::string(40, 'a'), .offset = 1234, .db_index = 7},
                         .file = "append only.aof.3.incr.aof",
                         .size = 567};

TEST(LogPlaceTest, WhatIsWrittenIsRead) {
  const std::string text = FormatLogPlace(kPlace);
  EXPECT_TRUE(text.starts_with("#PLACE:1 " + std::string(40, 'a') +
                               " 1234 7 567 append only.aof.3.incr.aof "));
  EXPECT_EQ(ParseLogPlace(text), kPlace);
}

TEST(LogPlaceTest, AnyOtherByteIsNone) {
  const std::string text = FormatLogPlace(kPlace);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(ParseLogPlace(other)) << other;
    EXPECT_FALSE(ParseLogPlace(text.substr(0, i))) << i;
  }
  EXPECT_FALSE(ParseLogPlace(text + "\n"));
}

}  // namespace
}  // namespace dfly
