// SPDX-License-Identifier: Apache-2.0
#include "commands/table/lookup.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "facade/replies/error_texts.h"

namespace dfly {
namespace {

void Nothing(CommandClient&, Args, ReplySink&) {}

class LookupTest : public testing::Test {
 protected:
  using End = Lookup::End;

  LookupTest() {
    table_.Add({.name = "get", .session = Nothing, .arity = 2});
    table_.Add({.name = "ping", .session = Nothing, .arity = -1});
    Command parent = {.name = "config", .session = Nothing, .arity = -2};
    parent.subcommands.push_back({.name = "get", .session = Nothing, .arity = -3});
    table_.Add(std::move(parent));
  }

  // "full name", or "end: error".
  std::string Ask(std::vector<std::string_view> words) {
    const Args args(words);
    const Lookup found = Find(table_, args);
    return found.is_found() ? found.row->full_name : found.Error(args);
  }

  CommandTable table_;
};

TEST_F(LookupTest, FindsRowsAndSubcommandsInAnyCase) {
  EXPECT_EQ(Ask({"GET", "k"}), "get");
  EXPECT_EQ(Ask({"ping"}), "ping");
  EXPECT_EQ(Ask({"Config", "gEt", "*"}), "config|get");
}

TEST_F(LookupTest, SaysWhyThereIsNone) {
  EXPECT_EQ(Ask({"nope", "a"}), UnknownCommandError("nope", std::vector<std::string_view>{"a"}));
  EXPECT_EQ(Ask({"get"}), WrongArityError("get"));
  EXPECT_EQ(Ask({"config"}), WrongArityError("config"));
  EXPECT_EQ(Ask({"config", "nope"}), UnknownSubcommandError("config", "nope"));
  EXPECT_EQ(Ask({"config", "get"}), WrongArityError("config|get"));
}

TEST_F(LookupTest, TellsWhichRowItMeans) {
  const std::vector<std::string_view> words = {"config", "nope"};
  const Lookup found = Find(table_, Args(words));
  EXPECT_EQ(found.end, End::kUnknownSubcommand);
  EXPECT_EQ(found.row, table_.Find("config"));
  EXPECT_EQ(Find(table_, Args(std::vector<std::string_view>{"nope"})).row, nullptr);
}

}  // namespace
}  // namespace dfly
