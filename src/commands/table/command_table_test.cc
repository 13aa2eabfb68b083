// SPDX-License-Identifier: Apache-2.0
#include "commands/table/command_table.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace dfly {
namespace {

void Nothing(ShardContext&, Args, ReplySink&) {}
void NothingAcross(CoordinatorContext&, Args, ReplySink&) {}

TEST(CommandTableTest, NamesAreFoundWhateverTheCaseOfTheirLetters) {
  CommandTable table;
  const std::string names[] = {"a",
                               "ab",
                               "abc",
                               "abcd",
                               "abcdefg",
                               "abcdefgh",
                               "abcdefghi",
                               "abcdefghijklmnop",
                               "abcdefghijklmnopqrstuvwxyz-_0123"};
  for (const std::string& name : names) table.Add({.name = name, .run = Nothing, .arity = 1});
  for (const std::string& name : names) {
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(toupper(c));
    ASSERT_NE(table.Find(upper), nullptr) << name;
    EXPECT_EQ(table.Find(upper)->name, name);
    EXPECT_EQ(table.Find(name), table.Find(upper));
    EXPECT_EQ(table.Find(name + "!"), nullptr);
    for (size_t i = 0; i < name.size(); ++i) {
      std::string other = name;
      other[i] = static_cast<char>(other[i] ^ 0x80);
      EXPECT_EQ(table.Find(other), nullptr);
    }
  }
  EXPECT_EQ(table.Find(""), nullptr);
  EXPECT_EQ(table.Find("ABCDEFGHIJKLMNOPQRSTUVWXYZ-_01234"), nullptr);
  EXPECT_EQ(table.Find("ABCDEFGHIJKLMNOPQRSTUVWXYZ-?0123"), nullptr);
}

TEST(CommandTableTest, ARenamedCommandIsFoundByItsNewName) {
  CommandTable table;
  for (const char* name : {"get", "set", "keys", "randomkey"}) {
    table.Add({.name = name, .run = Nothing, .arity = 1});
  }
  EXPECT_EQ(table.Rename("GET", "Fetch_It_Now"), "");
  EXPECT_EQ(table.Find("get"), nullptr);
  ASSERT_NE(table.Find("FETCH_IT_NOW"), nullptr);
  EXPECT_EQ(table.Find("fetch_it_now")->full_name, "get");
  EXPECT_EQ(table.FindByName("get"), table.Find("fetch_it_now"));
  EXPECT_EQ(table.Rename("keys", ""), "");
  EXPECT_EQ(table.Find("keys"), nullptr);
  EXPECT_EQ(table.Find(""), nullptr);
  EXPECT_NE(table.FindByName("keys"), nullptr);
  EXPECT_EQ(table.Rename("set", "get"), "");  // it is free
  EXPECT_EQ(table.Rename("keys", "k"), "No such command in rename-command");
  EXPECT_EQ(table.Rename("get", "randomkey"), "Target command name already exists");
  EXPECT_EQ(table.Rename("get", std::string(33, 'x')), "Target command name is too long");
  EXPECT_EQ(table.Find("randomkey")->name, "randomkey");
}

// Dispatch goes by them, and a subcommand (OBJECT ENCODING) has a row like any other.
TEST(CommandTableTest, RowsAndSubcommandsKnowWhetherTheyAreAnythingSpecial) {
  CommandTable table;
  const Command with_key = {.name = "of-a-key", .run = Nothing, .arity = 3, .keys = KeyAt(2)};
  Command with_keys = {
      .name = "of-keys", .run = Nothing, .across = NothingAcross, .arity = -3, .keys = KeysFrom(2)};
  const Command waiting = {.name = "waiting", .coordinate = NothingAcross, .arity = 2};
  Command container = {.name = "object", .arity = -2};
  container.subcommands = {with_key, with_keys, waiting};
  table.Add(with_key);
  table.Add(with_keys);
  table.Add(waiting);
  table.Add(container);
  const Command& parent = *table.Find("object");
  for (const Command* row :
       {table.Find("of-a-key"), CommandTable::FindSubcommand(parent, "OF-A-KEY")}) {
    EXPECT_TRUE(row->is_plain && row->has_one_key && row->is_scriptable) << row->full_name;
    EXPECT_EQ(row->only_key, static_cast<uint32_t>(row->keys.first)) << row->full_name;
  }
  for (const Command* row :
       {table.Find("of-keys"), CommandTable::FindSubcommand(parent, "of-KEYS")}) {
    EXPECT_TRUE(row->is_plain && !row->has_one_key && row->is_scriptable) << row->full_name;
    EXPECT_EQ(row->only_key, 0u) << row->full_name;
  }
  for (const Command* row : {&parent, CommandTable::FindSubcommand(parent, "waiting")}) {
    EXPECT_FALSE(row->is_plain || row->has_one_key || row->is_scriptable) << row->full_name;
  }
  Command other = with_key;
  other.name = "not-for-scripts";
  other.flags = kNoScript;
  other.other_db = [](Args) { return 1; };
  table.Add(other);
  EXPECT_FALSE(table.Find(other.name)->is_scriptable);
  EXPECT_TRUE(table.Find(other.name)->has_one_key);
  EXPECT_EQ(table.Find(other.name)->only_key, 0u);
}

TEST(CommandTableTest, KeysAreFoundWhereverTheyStand) {
  using Indexes = std::vector<size_t>;
  const auto keys_of = [](KeySpec keys, const std::vector<std::string_view>& args) {
    const Command command = {.name = "c", .run = Nothing, .arity = -2, .keys = keys};
    Indexes dispatched, found;
    for (size_t i : command.KeysOf(args)) dispatched.push_back(i);
    if (const auto indexes = command.FindKeys(args)) {
      for (size_t i : *indexes) found.push_back(i);
      EXPECT_EQ(found, dispatched);
    } else {
      EXPECT_EQ(dispatched, Indexes{static_cast<size_t>(keys.first)});
      dispatched.clear();
    }
    return dispatched;
  };
  EXPECT_EQ(keys_of(KeyAt(1), {"c", "k", "v"}), Indexes({1}));
  EXPECT_EQ(keys_of(KeysFrom(1), {"c", "a", "b", "c"}), Indexes({1, 2, 3}));
  EXPECT_EQ(keys_of(KeysFrom(1, 2), {"c", "a", "1", "b", "2"}), Indexes({1, 3}));
  EXPECT_EQ(keys_of({1, -2, 1}, {"c", "a", "b", "0"}), Indexes({1, 2}));
  EXPECT_EQ(keys_of(KeysCountedAt(1), {"c", "2", "a", "b", "MIN"}), Indexes({2, 3}));
  EXPECT_EQ(keys_of(KeysCountedAt(1), {"c", "3", "a", "b"}), Indexes());
  EXPECT_EQ(keys_of(KeysCountedAt(1), {"c", "x", "a"}), Indexes());
  const KeySpec store = TargetAndKeysCounted("", "");
  EXPECT_EQ(keys_of(store, {"c", "t", "2", "a", "b", "WEIGHTS"}), Indexes({1, 3, 4}));
  EXPECT_EQ(keys_of(store, {"c", "t", "1", "a"}), Indexes({1, 3}));
  EXPECT_EQ(keys_of(store, {"c", "t", "2", "a"}), Indexes());
  EXPECT_EQ(keys_of(store, {"c", "t", "0", "a"}), Indexes());
  const KeySpec option = KeyAndOption("", "STORE STOREDIST", 3, "");
  EXPECT_EQ(keys_of(option, {"c", "k", "1", "asc"}), Indexes({1}));
  EXPECT_EQ(keys_of(option, {"c", "k", "store", "asc", "storeDist", "t"}), Indexes({1, 5}));
  EXPECT_EQ(keys_of(option, {"c", "k", "1", "store", "a", "store", "b"}), Indexes({1, 6}));
  EXPECT_EQ(keys_of(option, {"c", "k", "1", "store", "store", "x"}), Indexes({1, 4}));
  EXPECT_EQ(keys_of(option, {"c", "k", "1", "stored", "x", "store"}), Indexes({1}));
  // What stands behind BY is no STORE.
  const KeySpec sort = KeyAndOption("", "STORE", 2, "", [](std::string_view argument) {
    return argument == "BY" ? size_t{1} : size_t{0};
  });
  EXPECT_EQ(keys_of(sort, {"c", "k", "BY", "STORE", "STORE", "t"}), Indexes({1, 5}));
  EXPECT_EQ(keys_of(sort, {"c", "k", "STORE", "t", "BY", "STORE", "ASC"}), Indexes({1, 3}));
  EXPECT_EQ(keys_of(sort, {"c", "k", "STORE", "BY", "STORE", "t"}), Indexes({1, 5}));
}

TEST(CommandTableTest, RestrictedRowsAreForTheAdminPortAndNotForScripts) {
  CommandTable table;
  Command container = {.name = "config", .arity = -2};
  container.subcommands = {{.name = "get", .run = Nothing, .arity = 3},
                           {.name = "set", .run = Nothing, .arity = 4}};
  table.Add(container);
  table.Add({.name = "flushall", .run = Nothing, .arity = 1});
  const auto is_restricted = [](const Command* row) {
    EXPECT_EQ(row->is_scriptable, (row->flags & kAdminPort) == 0);
    return (row->flags & kAdminPort) != 0 && (row->flags & kNoScript) != 0;
  };
  const Command& config = *table.Find("config");
  const auto sub = [&](std::string_view name) { return table.FindSubcommand(config, name); };

  EXPECT_TRUE(table.Restrict("FlushAll"));
  EXPECT_TRUE(is_restricted(table.Find("flushall")));
  EXPECT_TRUE(table.Restrict("config|SET"));
  EXPECT_TRUE(is_restricted(sub("set")));
  EXPECT_FALSE(is_restricted(sub("get")));
  EXPECT_TRUE(table.Restrict("config"));
  EXPECT_TRUE(is_restricted(sub("get")));
  for (const char* wrong : {"nosuch", "config|nosuch", "config|", "|", "", "flushall|x"}) {
    EXPECT_FALSE(table.Restrict(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace dfly
