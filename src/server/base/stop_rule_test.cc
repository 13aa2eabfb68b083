// SPDX-License-Identifier: Apache-2.0
#include "server/base/stop_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Canonical(std::string_view text) {
  StopRule rule;
  const std::string error = ParseStopRule(text, &rule);
  return error.empty() ? ToText(rule) : error;
}

TEST(StopRuleTest, WordsHaveOneOrder) {
  EXPECT_EQ(Canonical("default"), "default");
  EXPECT_EQ(Canonical("force NoSave now"), "nosave now force");
  EXPECT_EQ(Canonical("default now"), "now");
  EXPECT_EQ(Canonical(" save  save "), "save");
}

TEST(StopRuleTest, WhatIsNone) {
  for (const char* text : {"", " ", "bogus", "save bogus", "bogus save", "nosaves"}) {
    EXPECT_THAT(Canonical(text), StartsWith("argument(s) must be one of")) << text;
  }
  EXPECT_THAT(Canonical("save nosave"), HasSubstr("simultaneously"));
}

TEST(StopRuleTest, WhetherItSaves) {
  EXPECT_EQ(StopRule().saves(), std::nullopt);
  EXPECT_EQ(StopRule{.save = true}.saves(), true);
  EXPECT_EQ(StopRule{.no_save = true}.saves(), false);
}

}  // namespace
}  // namespace dfly
