// SPDX-License-Identifier: Apache-2.0
#include "tools/dfly_bench/command_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly::bench {
namespace {

class CommandTemplateTest : public testing::Test {
 protected:
  std::string Write(std::string_view command, int times = 1) {
    CommandTemplate command_template("k:", &values_);
    std::vector<std::string> arguments;
    EXPECT_EQ(SplitArguments(command, &arguments), "");
    command_template.Compile(arguments);
    helio::IoBuf out;
    for (int i = 0; i < times; ++i) command_template.Write(&keys_, &random_, &out);
    return std::string(out.view());
  }

  std::string ParseError(std::string_view command) {
    std::vector<std::string> arguments;
    return SplitArguments(command, &arguments);
  }

  ValuePool values_{5, 1};
  KeySource keys_{{.distribution = KeyDistribution::kSequential, .minimum = 98, .maximum = 1000},
                  1};
  helio::Random random_{1};
};

TEST_F(CommandTemplateTest, ACommandWithoutGapsIsItself) {
  EXPECT_EQ(Write("ping"), "*1\r\n$4\r\nping\r\n");
  EXPECT_EQ(Write("  echo\t'a b' \"\" x\"y z\" "),
            "*4\r\n$4\r\necho\r\n$3\r\na b\r\n$0\r\n\r\n$4\r\nxy z\r\n");
}

TEST_F(CommandTemplateTest, KeysAreDrawnAnewForEachGap) {
  EXPECT_EQ(Write("get __key__", 3),
            "*2\r\n$3\r\nget\r\n$4\r\nk:98\r\n*2\r\n$3\r\nget\r\n$4\r\nk:99\r\n"
            "*2\r\n$3\r\nget\r\n$5\r\nk:100\r\n");
  EXPECT_EQ(Write("del a__key__b __key__"), "*3\r\n$3\r\ndel\r\n$7\r\nak:101b\r\n$5\r\nk:102\r\n");
}

TEST_F(CommandTemplateTest, DataHasItsSizeAndScoresAreNumbers) {
  EXPECT_THAT(Write("set x __data__"),
              testing::MatchesRegex("\\*3\r\n\\$3\r\nset\r\n\\$1\r\nx\r\n"
                                    "\\$5\r\n[a-z][a-z][a-z][a-z][a-z]\r\n"));
  EXPECT_THAT(Write("zadd z __score__ m:__data__"),
              testing::MatchesRegex("\\*4\r\n\\$4\r\nzadd\r\n\\$1\r\nz\r\n\\$[1-6]\r\n[0-9]+\r\n"
                                    "\\$7\r\nm:[a-z][a-z][a-z][a-z][a-z]\r\n"));
}

TEST_F(CommandTemplateTest, WhatIsNoCommandIsRefused) {
  EXPECT_NE(ParseError(""), "");
  EXPECT_NE(ParseError("  "), "");
  EXPECT_NE(ParseError("get 'abc"), "");
}

}  // namespace
}  // namespace dfly::bench
