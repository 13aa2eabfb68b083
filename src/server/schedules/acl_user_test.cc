// SPDX-License-Identifier: Apache-2.0
#include "server/acl/acl_user.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "server/commands/families.h"

namespace dfly {
namespace {

using testing::HasSubstr;

class AclUserTest : public testing::Test {
 protected:
  AclUserTest() {
    RegisterStringCommands(&table_);
    RegisterKeyCommands(&table_);
    RegisterConnectionCommands(&table_);
    RegisterConfigCommands(&table_);
    RegisterPubSubCommands(&table_);
  }

  AclUser User(std::vector<std::string> rules) {
    AclUser user("u", &table_, /*all_channels=*/false);
    EXPECT_EQ(Apply(&user, std::move(rules)), "");
    return user;
  }
  static std::string Apply(AclUser* user, std::vector<std::string> rules) {
    std::string at;
    return user->Apply(rules, &at);
  }
  AclDenial Check(const AclUser& user, std::vector<std::string_view> words) {
    const Command* command = table_.Find(words[0]);
    if (!command->subcommands.empty()) command = table_.FindSubcommand(*command, words[1]);
    return user.Check(*command, Args(words)).denial;
  }

  CommandTable table_;
};

TEST_F(AclUserTest, ANewOneMayDoNothing) {
  const AclUser user("u", &table_, false);
  EXPECT_FALSE(user.is_on());
  EXPECT_FALSE(user.AcceptsHash(AclHash("")));
  EXPECT_EQ(Check(user, {"get", "k"}), AclDenial::kCommand);
  EXPECT_EQ(Check(user, {"auth", "x"}), AclDenial::kNone);  // how else could it become another one
  EXPECT_EQ(user.Describe(), "user u off sanitize-payload resetchannels -@all");
}

TEST_F(AclUserTest, LaterRulesOverruleEarlierOnes) {
  EXPECT_EQ(Check(User({"~*", "+@all", "-get"}), {"get", "k"}), AclDenial::kCommand);
  EXPECT_EQ(Check(User({"~*", "+@all", "-get", "+get"}), {"get", "k"}), AclDenial::kNone);
  EXPECT_EQ(Check(User({"~*", "-get", "+@all"}), {"get", "k"}), AclDenial::kNone);
  EXPECT_EQ(Check(User({"~*", "+@string", "-@read"}), {"get", "k"}), AclDenial::kCommand);
  EXPECT_EQ(Check(User({"~*", "+@string", "-@read"}), {"set", "k", "v"}), AclDenial::kNone);
}

TEST_F(AclUserTest, TheTextOfRulesLeavesOutWhatIsOverruled) {
  EXPECT_EQ(User({"+get", "+get", "-get"}).selectors()[0].commands(), "-@all");
  EXPECT_EQ(User({"+@all", "-get", "+get"}).selectors()[0].commands(), "+@all");
  EXPECT_EQ(User({"+config|get", "+config|set", "+config"}).selectors()[0].commands(),
            "-@all +config");
  EXPECT_EQ(User({"+config", "-config|set"}).selectors()[0].commands(),
            "-@all +config -config|set");
  EXPECT_EQ(User({"+@string", "-get", "-@string"}).selectors()[0].commands(), "-@all");
}

// What a rule's text says must be what it means: applied again it makes the same user.
TEST_F(AclUserTest, TextsCanBeAppliedAgain) {
  const std::vector<std::vector<std::string>> users = {
      {"on", ">x", "~k*", "%R~r*", "%W~w*", "&c", "+@all", "-@write", "+set", "-config|set"},
      {"nopass", "allkeys", "allchannels", "-@all", "+@read", "-get", "+select|1", "+select|2"},
      {"+@string", "-get", "-@string"},
      {"+@all", "-config", "+config|get"},
      {"+get", "(+set ~k* &c)", "(%R~r +@all -@dangerous)"},
  };
  for (const auto& rules : users) {
    const AclUser user = User(rules);
    std::vector<std::string_view> words;
    const std::string text = user.Describe();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      words.push_back(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
    std::vector<std::string> merged;
    ASSERT_EQ(MergeSelectors(std::span(words).subspan(2), &merged), "");
    const AclUser again = User(merged);
    EXPECT_EQ(again.Describe(), text);
    for (const Command& command : table_.all()) {
      const std::vector<std::string_view> call(5, "1");
      EXPECT_EQ(again.Check(command, Args(call)).denial, user.Check(command, Args(call)).denial)
          << text << ": " << command.name;
    }
  }
}

TEST_F(AclUserTest, CommandsThatAreAllAllowedMakeNoFreeUser) {
  EXPECT_TRUE(User({"+@all", "~*", "&*"}).may_do_everything());
  EXPECT_FALSE(User({"+@all", "~*", "&*", "-get"}).may_do_everything());
  EXPECT_TRUE(User({"+@all", "~*", "&*", "-get", "+get"}).may_do_everything());
  EXPECT_FALSE(User({"+@all", "~*"}).may_do_everything());
  EXPECT_FALSE(User({"+@all", "&*", "~k*"}).may_do_everything());
  EXPECT_FALSE(User({"+@all", "(~* &*)"}).may_do_everything());
  EXPECT_TRUE(User({"(+@all ~* &*)"}).may_do_everything());
}

TEST_F(AclUserTest, KeysAreReadOrWritten) {
  const AclUser user = User({"+@all", "%R~r*", "%W~w*", "%RW~b*"});
  EXPECT_EQ(Check(user, {"get", "r"}), AclDenial::kNone);
  EXPECT_EQ(Check(user, {"get", "w"}), AclDenial::kKey);
  EXPECT_EQ(Check(user, {"set", "r", "v"}), AclDenial::kKey);
  EXPECT_EQ(Check(user, {"set", "w", "v"}), AclDenial::kNone);
  EXPECT_EQ(Check(user, {"set", "w", "v", "GET"}), AclDenial::kKey);
  EXPECT_EQ(Check(user, {"set", "b", "v", "GET"}), AclDenial::kNone);
  EXPECT_EQ(Check(user, {"exists", "w"}), AclDenial::kNone);
  EXPECT_EQ(Check(user, {"exists", "z"}), AclDenial::kKey);
  // Reading and writing by different patterns is both for the same one only.
  EXPECT_EQ(User({"%R~k", "%W~k"}).selectors()[0].keys(), "~k");
  EXPECT_EQ(Check(User({"+@all", "%R~k*", "%W~*1"}), {"incr", "k1"}), AclDenial::kKey);
}

TEST_F(AclUserTest, OneSelectorHasToAllowAll) {
  const AclUser user = User({"+get", "~a*", "(+set ~b*)"});
  EXPECT_EQ(Check(user, {"get", "a"}), AclDenial::kNone);
  EXPECT_EQ(Check(user, {"set", "b", "v"}), AclDenial::kNone);
  EXPECT_EQ(Check(user, {"get", "b"}), AclDenial::kKey);
  EXPECT_EQ(Check(user, {"set", "a", "v"}), AclDenial::kKey);
  EXPECT_EQ(Check(user, {"append", "a", "v"}), AclDenial::kCommand);
}

TEST_F(AclUserTest, PatternsOfChannelsAreAllowedLiterally) {
  const AclUser user = User({"+@all", "&a*"});
  EXPECT_TRUE(user.AllowsChannel("abc", AclSubscription::kName));
  EXPECT_FALSE(user.AllowsChannel("bc", AclSubscription::kName));
  EXPECT_TRUE(user.AllowsChannel("a*", AclSubscription::kPattern));
  EXPECT_FALSE(user.AllowsChannel("ab*", AclSubscription::kPattern));
  EXPECT_EQ(Check(user, {"publish", "b", "m"}), AclDenial::kChannel);
  EXPECT_EQ(Check(user, {"subscribe", "a", "b"}), AclDenial::kChannel);
  EXPECT_EQ(Check(user, {"unsubscribe", "b"}), AclDenial::kNone);
}

TEST_F(AclUserTest, Passwords) {
  AclUser user = User({">one", ">two", ">one"});
  EXPECT_EQ(user.password_hashes().size(), 2u);
  EXPECT_TRUE(user.AcceptsHash(AclHash("one")));
  EXPECT_TRUE(user.AcceptsHash(AclHash("two")));
  EXPECT_FALSE(user.AcceptsHash(AclHash("three")));
  EXPECT_EQ(Apply(&user, {"<one"}), "");
  EXPECT_FALSE(user.AcceptsHash(AclHash("one")));
  EXPECT_THAT(Apply(&user, {"<one"}), HasSubstr("does not exist"));
  EXPECT_THAT(Apply(&user, {"#" + AclHash("x").substr(1)}), HasSubstr("64 characters"));
  EXPECT_EQ(Apply(&user, {"nopass"}), "");
  EXPECT_TRUE(user.AcceptsHash(AclHash("anything")));
  // Of FIPS 180-2's examples.
  EXPECT_EQ(AclHash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(AclUserTest, WrongRules) {
  for (const char* rule : {"",
                           "foo",
                           "+",
                           "-",
                           "+@",
                           "+nosuch",
                           "-@nosuch",
                           "+config|",
                           "+config|nosuch",
                           "+config|get|x",
                           "-select|1",
                           "+select|",
                           "+get|a|b",
                           "%~k",
                           "%X~k",
                           "%",
                           "(",
                           "()(",
                           "(+nosuch)",
                           "(on)",
                           "(+get",
                           "~a b",
                           "&a b",
                           "#",
                           "!",
                           "<none"}) {
    AclUser user("u", &table_, false);
    EXPECT_NE(Apply(&user, {rule}), "") << rule;
  }
}

TEST_F(AclUserTest, SelectorsComeInPieces) {
  const std::vector<std::string_view> words = {"on", "(+get", "~k", ")", "(+set)", "~a"};
  std::vector<std::string> rules;
  EXPECT_EQ(MergeSelectors(words, &rules), "");
  EXPECT_THAT(rules, testing::ElementsAre("on", "(+get ~k )", "(+set)", "~a"));
  rules.clear();
  EXPECT_THAT(MergeSelectors(std::span(words).first(3), &rules), HasSubstr("'(+get'"));
}

// --- Databases ---

TEST_F(AclUserTest, ARuleOfDatabasesReplacesTheOneBefore) {
  EXPECT_EQ(User({"~*", "+@all"}).Describe(), User({"~*", "+@all", "db=1", "alldbs"}).Describe());
  const auto ends = [this](std::vector<std::string> rules, std::string_view end) {
    rules.insert(rules.begin(), {"~*", "+@all"});
    const std::string text = User(rules).Describe();
    EXPECT_TRUE(text.ends_with(end)) << text;
  };
  ends({"db=3,1,3,2"}, "~* resetchannels db=1,2,3 +@all");
  ends({"DB= 1,+2,03"}, "db=1,2,3 +@all");
  ends({"db=1", "db=2"}, "resetchannels db=2 +@all");
  ends({"db=1", "resetdbs"}, "resetchannels resetdbs +@all");
  ends({"db=1", "reset"}, "resetchannels -@all");
  ends({"db=2147483647"}, "db=2147483647 +@all");
}

TEST_F(AclUserTest, DatabasesThatAreNone) {
  AclUser user("u", &table_, false);
  const auto error = [&user](const std::string& rule) { return Apply(&user, {rule}); };
  for (const char* rule : {"db=", "db=a", "db=0,,1", "db=0,", "db=,0", "db=0x1", "db=1 ", "db=-",
                           "db=+", "db=1,a", "db= "}) {
    EXPECT_EQ(error(rule), "Syntax error") << rule;
  }
  for (const char* rule : {"db=-1", "db=2147483648", "db=99999999999999999999", "db=0,-1"}) {
    EXPECT_EQ(error(rule), "The provided database ID is out of range") << rule;
  }
  EXPECT_EQ(user.Describe(), AclUser("u", &table_, false).Describe());
}

TEST_F(AclUserTest, WhichCommandsNeedWhichDatabase) {
  const AclUser user = User({"~*", "+@all", "&*", "db=1,3"});
  EXPECT_FALSE(user.may_do_everything());
  const auto denied = [&](std::vector<std::string_view> words, int db) -> int {
    const Command* command = table_.Find(words[0]);
    const AclVerdict verdict = user.Check(*command, Args(words), {db, 16});
    if (!verdict.is_denied()) return -1;
    EXPECT_EQ(verdict.denial, AclDenial::kDatabase);
    return static_cast<int>(verdict.argument);
  };
  EXPECT_EQ(denied({"get", "k"}, 1), -1);
  EXPECT_EQ(denied({"get", "k"}, 0), 0);
  EXPECT_EQ(denied({"keys", "*"}, 0), 0);
  EXPECT_EQ(denied({"flushdb"}, 0), 0);
  EXPECT_EQ(denied({"flushdb"}, 1), -1);
  EXPECT_EQ(denied({"flushall"}, 1), 0);
  EXPECT_EQ(denied({"ping"}, 0), -1);
  EXPECT_EQ(denied({"publish", "c", "m"}, 0), -1);
  EXPECT_EQ(denied({"select", "3"}, 0), -1);
  EXPECT_EQ(denied({"select", "2"}, 1), 1);
  EXPECT_EQ(denied({"select", "16"}, 1), -1);  // there is no such
  EXPECT_EQ(denied({"select", "x"}, 1), -1);
  EXPECT_EQ(denied({"swapdb", "1", "3"}, 0), -1);
  EXPECT_EQ(denied({"swapdb", "1", "2"}, 1), 2);
  EXPECT_EQ(denied({"swapdb", "2", "1"}, 1), 1);
  EXPECT_EQ(denied({"swapdb", "x", "2"}, 1), -1);
  EXPECT_EQ(denied({"move", "k", "3"}, 1), -1);
  EXPECT_EQ(denied({"move", "k", "2"}, 1), 2);
  EXPECT_EQ(denied({"move", "k", "3"}, 2), 0);
  EXPECT_EQ(denied({"copy", "a", "b"}, 1), -1);
  EXPECT_EQ(denied({"copy", "a", "b", "DB", "3"}, 1), -1);
  EXPECT_EQ(denied({"copy", "a", "b", "replace", "db", "2"}, 1), 5);
  EXPECT_EQ(denied({"copy", "a", "b", "db"}, 1), -1);
}

}  // namespace
}  // namespace dfly
