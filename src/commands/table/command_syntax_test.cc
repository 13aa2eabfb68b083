// SPDX-License-Identifier: Apache-2.0
#include "commands/table/command_syntax.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace dfly {
namespace {

// One line for an argument and each of its parts.
std::string Told(const std::vector<CommandArgument>& arguments, const std::string& indent = "") {
  std::string text;
  for (const CommandArgument& argument : arguments) {
    text += fmt::format("{}{} {}", indent, argument.name, argument.type);
    if (argument.key_spec >= 0) text += fmt::format(" key {}", argument.key_spec);
    if (!argument.token.empty()) text += fmt::format(" '{}'", argument.token);
    if (!argument.since.empty()) text += fmt::format(" since {}", argument.since);
    if (!argument.deprecated_since.empty())
      text += fmt::format(" not {}", argument.deprecated_since);
    if (argument.is_optional) text += " optional";
    if (argument.is_multiple) text += " multiple";
    if (argument.repeats_token) text += " again";
    text += "\n" + Told(argument.parts, indent + "  ");
  }
  return text;
}

TEST(CommandSyntaxTest, NamesHaveTypes) {
  EXPECT_EQ(Told(ParseSyntax("key:k0 a b:i c:d d:p e:t other:k1 by:p2 ip:port")),
            "key key key 0\n"
            "a string\n"
            "b integer\n"
            "c double\n"
            "d pattern\n"
            "e unix-time\n"
            "other key key 1\n"
            "by pattern key 2\n"
            "ip:port string\n");
  EXPECT_TRUE(ParseSyntax("").empty());
}

TEST(CommandSyntaxTest, AWordBelongsToTheNameBehindIt) {
  EXPECT_EQ(Told(ParseSyntax("EX seconds:i [LIMIT (pair: a b)] [NX] GET [x] change=CH y [auto=*]")),
            "seconds integer 'EX'\n"
            "pair block 'LIMIT' optional\n"
            "  a string\n"
            "  b string\n"
            "nx pure-token 'NX' optional\n"
            "get pure-token 'GET'\n"
            "x string optional\n"
            "change pure-token 'CH'\n"
            "y string\n"
            "auto pure-token '*' optional\n");
}

TEST(CommandSyntaxTest, OneOfManyTogetherAndAgain) {
  EXPECT_EQ(
      Told(ParseSyntax("[<how: A@1.2.3 | B n:i@@4.5.6 | (both: A b)>@7.0.0...] [GET p:p....]")),
      "how oneof since 7.0.0 optional multiple\n"
      "  a pure-token 'A' since 1.2.3\n"
      "  n integer 'B' not 4.5.6\n"
      "  both block\n"
      "    b string 'A'\n"
      "p pattern 'GET' optional multiple again\n");
}

TEST(CommandSyntaxTest, CommandsAreFoundByTheirFullNames) {
  EXPECT_EQ(SyntaxOf("get"), "key:k0");
  EXPECT_EQ(SyntaxOf("acl|cat"), "[categoryname]");  // the first row
  EXPECT_FALSE(SyntaxOf("zunionstore").empty());     // the last
  EXPECT_EQ(SyntaxOf("ping "), "");
  EXPECT_EQ(SyntaxOf(""), "");
  EXPECT_EQ(SyntaxOf("zzz"), "");
}

}  // namespace
}  // namespace dfly
