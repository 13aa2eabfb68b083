// SPDX-License-Identifier: Apache-2.0
#include "server/base/error_names.h"

#include <gtest/gtest.h>

#include <map>

namespace dfly {
namespace {

using namespace std::string_view_literals;

TEST(ErrorNamesTest, ANameHasNothingThatALineOfInfoUsesItself) {
  EXPECT_EQ(ErrorNameOf("WRONGTYPE"), "WRONGTYPE");
  EXPECT_EQ(ErrorNameOf("A:B=C,D"), "A_B=C,D");
  EXPECT_EQ(ErrorNameOf("#a\r\nb"), "_a__b");
  EXPECT_EQ(ErrorNameOf("a\0b\xff\x7f"sv), "a_b__");
  EXPECT_EQ(ErrorNameOf(""), "");
}

TEST(ErrorNamesTest, NamesThatComeTooLateAreCountedTogether) {
  std::map<std::string, uint64_t> errors;
  for (const char* name : {"a", "b", "c", "a", "d", "b"}) AddErrors(name, 2, 2, &errors);
  const std::map<std::string, uint64_t> expected{{"ERRORSTATS_OVERFLOW", 4}, {"a", 4}, {"b", 4}};
  EXPECT_EQ(errors, expected);
  AddErrors("e", 0, 3, &errors);  // the name for others takes no place
  EXPECT_TRUE(errors.contains("e"));
}

}  // namespace
}  // namespace dfly
