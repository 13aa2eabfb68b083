// SPDX-License-Identifier: Apache-2.0
#include "server/acl/command_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/commands/families.h"
#include "server/info/info.h"

namespace dfly {
namespace {

using testing::ElementsAre;

class CommandFactsTest : public testing::Test {
 protected:
  CommandFactsTest() {
    RegisterStringCommands(&table_);
    RegisterKeyCommands(&table_);
    RegisterConnectionCommands(&table_);
    RegisterClientCommands(&table_);
    RegisterConfigCommands(&table_);
    RegisterInfoCommands(&table_);
    RegisterCommandCommands(&table_);
    RegisterAdminCommands(&table_);
    RegisterSaveCommands(&table_);
  }
  const Command& Row(std::string_view name, std::string_view subcommand = "") {
    const Command* row = table_.Find(name);
    if (row != nullptr && !subcommand.empty()) {
      row = CommandTable::FindSubcommand(*row, subcommand);
    }
    CHECK(row != nullptr) << name;
    return *row;
  }

  CommandTable table_;
};

// The expected lists are those of redis-server's COMMAND INFO.
TEST_F(CommandFactsTest, FlagsComeInRedisOrder) {
  EXPECT_THAT(FlagsOf(Row("get")), ElementsAre("readonly", "fast"));
  EXPECT_THAT(FlagsOf(Row("set")), ElementsAre("write", "denyoom"));
  EXPECT_THAT(FlagsOf(Row("auth")),
              ElementsAre("noscript", "loading", "stale", "fast", "no_auth", "allow_busy"));
  EXPECT_THAT(FlagsOf(Row("shutdown")),
              ElementsAre("admin", "noscript", "loading", "stale", "no_multi", "allow_busy"));
  EXPECT_THAT(FlagsOf(Row("client")), ElementsAre());
  EXPECT_THAT(FlagsOf(Row("client", "kill")), ElementsAre("admin", "noscript", "loading", "stale"));
}

TEST_F(CommandFactsTest, CategoriesFollowFromFlags) {
  EXPECT_THAT(AclCategoriesOf(Row("get")), ElementsAre("@read", "@string", "@fast"));
  EXPECT_THAT(AclCategoriesOf(Row("set")), ElementsAre("@write", "@string", "@slow"));
  EXPECT_THAT(AclCategoriesOf(Row("ping")), ElementsAre("@fast", "@connection"));
  EXPECT_THAT(AclCategoriesOf(Row("client")), ElementsAre("@slow"));
  EXPECT_THAT(AclCategoriesOf(Row("client", "kill")),
              ElementsAre("@admin", "@slow", "@dangerous", "@connection"));
  EXPECT_THAT(AclCategoriesOf(Row("config", "get")), ElementsAre("@admin", "@slow", "@dangerous"));
  EXPECT_THAT(AclCategoriesOf(Row("memory", "usage")), ElementsAre("@read", "@slow"));
  EXPECT_THAT(AclCategoriesOf(Row("time")), ElementsAre("@fast"));
}

TEST_F(CommandFactsTest, KeysAreReadOrWritten) {
  EXPECT_THAT(KeyFlagsOf(Row("get")), ElementsAre("RO", "access"));
  EXPECT_THAT(KeyFlagsOf(Row("expire")), ElementsAre("RW", "update"));
  EXPECT_THAT(KeyFlagsOf(Row("type")), ElementsAre("RO"));
  EXPECT_THAT(KeyFlagsOf(Row("del")), ElementsAre("RM", "delete"));
  EXPECT_THAT(KeyFlagsOf(Row("set")), ElementsAre("RW", "access", "update", "variable_flags"));
}

TEST_F(CommandFactsTest, SetReadsItsKeyOnlyToReturnIt) {
  const std::vector<std::string_view> plain = {"set", "get", "get", "nx"};
  EXPECT_THAT(KeyFlagsOf(Row("set"), plain), ElementsAre("OW", "update"));
  const std::vector<std::string_view> reading = {"set", "k", "v", "nx", "Get"};
  EXPECT_THAT(KeyFlagsOf(Row("set"), reading), ElementsAre("RW", "access", "update"));
  EXPECT_THAT(KeyFlagsOf(Row("incr"), plain), ElementsAre("RW", "access", "update"));
}

TEST_F(CommandFactsTest, WhoComparesAStringReadsIt) {
  for (std::string_view option : {"IFEQ", "ifne", "IfDeq", "IFDNE"}) {
    const std::vector<std::string_view> set = {"set", "k", "v", option, "w"};
    EXPECT_THAT(KeyFlagsOf(Row("set"), set), ElementsAre("RW", "access", "update"));
  }
  const std::vector<std::string_view> conditional = {"delex", "k", "IFEQ", "v"};
  EXPECT_THAT(KeyFlagsOf(Row("delex"), conditional), ElementsAre("RW", "access", "delete"));
  const std::vector<std::string_view> plain = {"delex", "k"};
  EXPECT_THAT(KeyFlagsOf(Row("delex"), plain), ElementsAre("RM", "delete"));
}

TEST_F(CommandFactsTest, EveryCommandHasAGroupAndAnIdOfItsOwn) {
  std::vector<bool> seen(table_.id_count());
  const auto check = [&seen](const Command& command) {
    ASSERT_LT(command.id, seen.size()) << command.full_name;
    EXPECT_FALSE(seen[command.id]) << command.full_name;
    seen[command.id] = true;
    EXPECT_FALSE(GroupOf(command).empty()) << command.full_name;
  };
  for (const Command& command : table_.all()) {
    check(command);
    for (const Command& subcommand : command.subcommands) check(subcommand);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
}

}  // namespace
}  // namespace dfly
