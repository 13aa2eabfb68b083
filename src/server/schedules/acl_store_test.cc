// SPDX-License-Identifier: Apache-2.0
#include "server/acl/acl_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/commands/families.h"

namespace dfly {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string_view>;

class AclStoreTest : public testing::Test {
 protected:
  AclStoreTest() : path_(testing::TempDir() + "/acl_store_test.acl") {
    RegisterStringCommands(&table_);
    RegisterConnectionCommands(&table_);
  }
  ~AclStoreTest() override { std::filesystem::remove(path_); }

  AclStore Store(AclOptions options = {}) { return AclStore(&table_, options); }
  void Write(std::string_view text) { std::ofstream(path_) << text; }
  AclOptions WithFile() {
    AclOptions options;
    options.file = path_;
    return options;
  }

  const std::string path_;
  CommandTable table_;
};

TEST_F(AclStoreTest, AtFirstThereIsTheDefaultUser) {
  AclStore store = Store();
  EXPECT_EQ(store.LoadOptions(), "");
  EXPECT_TRUE(store.default_user()->may_do_everything());
  EXPECT_TRUE(store.default_user()->lets_in());
  EXPECT_EQ(store.Find("nobody"), nullptr);
}

TEST_F(AclStoreTest, WhatSomebodyHasDoesNotChange) {
  AclStore store = Store();
  EXPECT_EQ(store.SetUser("u", Words{"on", "nopass"}), "");
  const AclUserRef before = store.LogIn("u", "x");
  EXPECT_EQ(store.SetUser("u", Words{"off"}), "");
  EXPECT_TRUE(before->is_on());
  EXPECT_EQ(store.LogIn("u", "x"), nullptr);
  EXPECT_FALSE(store.Find("u")->is_on());
}

TEST_F(AclStoreTest, AWrongRuleChangesNothing) {
  AclStore store = Store();
  EXPECT_THAT(store.SetUser("u", Words{"on", "+nosuch"}), HasSubstr("'+nosuch'"));
  EXPECT_EQ(store.Find("u"), nullptr);
  EXPECT_THAT(store.SetUser("a b", Words{"on"}), HasSubstr("spaces"));
  EXPECT_THAT(store.SetUser("u", Words{"(on"}), HasSubstr("Unmatched"));
}

TEST_F(AclStoreTest, WhatIsResetHasTheChannelsOfNow) {
  AclStore store = Store();
  EXPECT_EQ(store.SetUser("default", Words{"reset"}), "");
  EXPECT_FALSE(store.default_user()->AllowsChannel("c", AclSubscription::kName));
  store.SetPubSubDefault(true);
  EXPECT_EQ(store.SetUser("default", Words{"reset"}), "");
  EXPECT_TRUE(store.default_user()->AllowsChannel("c", AclSubscription::kName));
}

TEST_F(AclStoreTest, FilesComeBack) {
  Write("# comment\n\nuser alice on >x ~a*  +get\nuser bob off (~b* +set)\n");
  AclStore store = Store(WithFile());
  ASSERT_EQ(store.LoadOptions(), "");
  EXPECT_NE(store.LogIn("alice", "x"), nullptr);
  EXPECT_EQ(store.LogIn("bob", "x"), nullptr);
  EXPECT_EQ(store.SaveFile(), "");
  AclStore again = Store(WithFile());
  ASSERT_EQ(again.LoadOptions(), "");
  ASSERT_EQ(again.All().size(), 3u);
  for (const AclUserRef& user : store.All()) {
    EXPECT_EQ(again.Find(user->name())->Describe(), user->Describe());
  }
}

TEST_F(AclStoreTest, AFileWithoutItMakesTheDefaultUserFree) {
  Write("user alice on\n");
  AclStore store = Store(WithFile());
  ASSERT_EQ(store.LoadOptions(), "");
  EXPECT_EQ(store.SetUser("default", Words{"off"}), "");
  EXPECT_EQ(store.LoadFile(), "");
  EXPECT_TRUE(store.default_user()->lets_in());
}

TEST_F(AclStoreTest, WrongFilesChangeNothing) {
  AclStore store = Store(WithFile());
  EXPECT_THAT(store.LoadOptions(), HasSubstr("No such file"));
  EXPECT_EQ(store.SetUser("u", Words{"on"}), "");
  for (const char* text :
       {"foo", "user", "user a on\nuser a on", "user default on\nuser default on", "user a foo",
        "user a (on", "user \"a b\" on"}) {
    Write(text);
    EXPECT_THAT(store.LoadFile(), HasSubstr("no change")) << text;
    EXPECT_NE(store.Find("u"), nullptr);
  }
}

TEST_F(AclStoreTest, TheLogKeepsNoLongTexts) {
  AclLog log(3);
  const std::string text(1 << 20, 'x');
  AclLog::Entry entry;
  entry.reason = "key";
  entry.object = entry.user = entry.client = text;
  for (int i = 0; i < 2; ++i) log.Add(entry, 1000);
  ASSERT_EQ(log.Newest(10).size(), 1u) << "the second is the same";
  const AclLog::Entry logged = log.Newest(1).front();
  for (const std::string& each : {logged.object, logged.user, logged.client}) {
    EXPECT_EQ(each, text.substr(0, AclLog::kTextMax));
  }
}

TEST_F(AclStoreTest, TheLogCountsWhatIsTheSame) {
  AclLog log(3);
  const auto add = [&log](std::string object, int64_t now_ms) {
    AclLog::Entry entry;
    entry.reason = "key";
    entry.object = std::move(object);
    log.Add(std::move(entry), now_ms);
  };
  add("a", 1000);
  add("b", 2000);
  add("a", 3000);
  ASSERT_EQ(log.Newest(10).size(), 2u);
  EXPECT_EQ(log.Newest(10)[0].object, "a");
  EXPECT_EQ(log.Newest(10)[0].count, 2u);
  EXPECT_EQ(log.Newest(10)[0].created_ms, 1000);
  EXPECT_EQ(log.Newest(10)[0].updated_ms, 3000);
  add("a", 3000 + AclLog::kGroupingMs + 1);
  EXPECT_EQ(log.Newest(10).size(), 3u);
  add("c", 200'000);
  EXPECT_EQ(log.Newest(10).size(), 3u);
  EXPECT_EQ(log.Newest(1).size(), 1u);
  log.SetMax(1);
  EXPECT_EQ(log.Newest(10).size(), 1u);
  log.Reset();
  EXPECT_TRUE(log.Newest(10).empty());
}

}  // namespace
}  // namespace dfly
