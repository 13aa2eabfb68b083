// SPDX-License-Identifier: Apache-2.0
#include "server/options/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Three settings that note what was applied; "fragile" refuses the value 13.
class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    config_.Add({.name = "memory",
                 .kind = Setting::Kind::kMemory,
                 .value = "0",
                 .is_mutable = true,
                 .apply = Note("memory")});
    config_.Add({.name = "fragile",
                 .kind = Setting::Kind::kInteger,
                 .value = "1",
                 .is_mutable = true,
                 .min = 0,
                 .max = 100,
                 .apply = [note = Note("fragile")](const std::string& value) {
                   note(value);
                   return value == "13" ? std::string("bad luck") : std::string();
                 }});
    config_.Add(
        {.name = "switch", .kind = Setting::Kind::kBool, .value = "no", .is_mutable = true});
    config_.Add({.name = "figure", .value = "", .is_mutable = true});
    config_.Add({.name = "port", .value = "6379"});
    config_.Add({.name = "dir", .value = "/a", .is_mutable = true, .is_protected = true});
    config_.Add({.name = "new-name",
                 .kind = Setting::Kind::kInteger,
                 .value = "1",
                 .is_mutable = true,
                 .max = 100,
                 .old_name = "old-name"});
  }

  std::function<std::string(const std::string&)> Note(std::string name) {
    return [this, name](const std::string& value) {
      applied_.push_back(name + "=" + value);
      return std::string();
    };
  }
  std::string Set(std::vector<std::string_view> pairs, bool may_set_protected = false) {
    return config_.Set(pairs, may_set_protected);
  }
  std::string Get(std::string_view name) {
    const auto found = config_.Get({&name, 1});
    return found.size() == 1 ? found[0].second : "(not one)";
  }
  static std::string Failed(const std::string& name, const std::string& why) {
    return "ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why;
  }

  Config config_;
  std::vector<std::string> applied_;
};

TEST_F(ConfigTest, GetMatchesPatternsInAnyCaseEachSettingOnce) {
  const std::string_view patterns[] = {"F*", "figure", "nosuch", "mem?ry"};
  EXPECT_THAT(config_.Get(patterns),
              ElementsAre(Pair("fragile", "1"), Pair("figure", ""), Pair("memory", "0")));
}

TEST_F(ConfigTest, GetReturnsANameAsItWasWritten) {
  const std::string_view names[] = {"Memory", "memory", "Memory", "switc[h]"};
  EXPECT_THAT(config_.Get(names), ElementsAre(Pair("Memory", "0"), Pair("switch", "no")));
}

TEST_F(ConfigTest, AnOldNameMeansTheSameSetting) {
  EXPECT_EQ(Set({"old-name", "7"}), "");
  EXPECT_EQ(Get("new-name"), "7");
  EXPECT_EQ(Get("OLD-name"), "7");
  EXPECT_EQ(config_.Get(std::vector<std::string_view>{"*-name"}).size(), 2u);
  EXPECT_EQ(Set({"old-name", "1", "new-name", "2"}), Failed("new-name", "duplicate parameter"));
  EXPECT_EQ(Set({"OLD-name", "101"}),
            Failed("old-name", "argument must be between 0 and 100 inclusive"));
}

TEST_F(ConfigTest, NoDigitsAreNoMemory) {
  EXPECT_EQ(Set({"memory", "1kb"}), "");
  EXPECT_EQ(Set({"memory", ""}), "");
  EXPECT_EQ(Get("memory"), "0");
  EXPECT_EQ(Set({"memory", "-1"}), Failed("memory", "argument must be a memory value"));
}

TEST_F(ConfigTest, SetAppliesAndKeepsTheCanonicalForm) {
  EXPECT_EQ(Set({"MEMORY", "2kb", "switch", "YES", "fragile", "7"}), "");
  EXPECT_EQ(Get("memory"), "2048");
  EXPECT_EQ(Get("switch"), "yes");
  EXPECT_THAT(applied_, ElementsAre("memory=2048", "fragile=7"));
}

TEST_F(ConfigTest, ARefusedPairChangesNothingOfTheOthers) {
  EXPECT_EQ(Set({"memory", "1kb", "fragile", "101"}),
            Failed("fragile", "argument must be between 0 and 100 inclusive"));
  EXPECT_EQ(Set({"memory", "1kb", "fragile", "x"}),
            Failed("fragile", "argument couldn't be parsed into an integer"));
  EXPECT_EQ(Set({"memory", "1kb", "switch", "maybe"}),
            Failed("switch", "argument must be 'yes' or 'no'"));
  EXPECT_EQ(Set({"memory", "1xb"}), Failed("memory", "argument must be a memory value"));
  EXPECT_EQ(Set({"memory", "1kb", "port", "1"}), Failed("port", "can't set immutable config"));
  EXPECT_EQ(Set({"Port", "1"}), Failed("Port", "can't set immutable config"));
  EXPECT_EQ(Set({"Fragile", "x"}),
            Failed("fragile", "argument couldn't be parsed into an integer"));
  EXPECT_EQ(Set({"memory", "1kb", "Memory", "2kb"}), Failed("Memory", "duplicate parameter"));
  EXPECT_EQ(Set({"memory", "1kb", "nosuch", "1"}),
            "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'");
  EXPECT_EQ(Set({std::string_view("no\0such", 7), "1"}),
            "ERR Unknown option or number of arguments for CONFIG SET - 'no'");
  EXPECT_EQ(Get("memory"), "0");
  EXPECT_THAT(applied_, IsEmpty());
}

TEST_F(ConfigTest, AProtectedSettingIsForWhoMaySetIt) {
  EXPECT_EQ(Set({"memory", "1kb", "dir", "/b"}), Failed("dir", "can't set protected config"));
  EXPECT_EQ(Get("memory"), "0");
  EXPECT_EQ(Get("dir"), "/a");
  EXPECT_EQ(Set({"dir", "/b"}, /*may_set_protected=*/true), "");
  EXPECT_EQ(Get("dir"), "/b");
}

TEST_F(ConfigTest, WhatCannotBeAppliedIsUndone) {
  EXPECT_EQ(Set({"memory", "5", "fragile", "13"}), Failed("fragile", "bad luck"));
  EXPECT_EQ(Get("memory"), "0");
  EXPECT_EQ(Get("fragile"), "1");
  EXPECT_THAT(applied_, ElementsAre("memory=5", "fragile=13", "memory=0"));
}

TEST_F(ConfigTest, SettingsThatBelongTogetherTakeEffectTogether) {
  std::string lock = "brass";
  std::string key = "brass";
  int commits = 0;
  const auto commit = std::make_shared<const std::function<std::string()>>([&]() -> std::string {
    if (lock != key) return "it does not turn";
    ++commits;
    return "";
  });
  const auto add = [&](std::string_view name, std::string* part) {
    config_.Add({.name = name,
                 .value = *part,
                 .is_mutable = true,
                 .apply =
                     [part](const std::string& value) {
                       *part = value;
                       return std::string();
                     },
                 .commit = commit});
  };
  add("lock", &lock);
  add("key", &key);
  EXPECT_EQ(Set({"lock", "steel"}), Failed("lock", "it does not turn"));
  EXPECT_EQ(Set({"memory", "5", "key", "steel"}), Failed("key", "it does not turn"));
  EXPECT_EQ(lock + key + Get("lock") + Get("key") + Get("memory"), "brassbrassbrassbrass0");
  EXPECT_EQ(commits, 0);
  EXPECT_EQ(Set({"lock", "steel", "memory", "5", "key", "steel"}), "");
  EXPECT_EQ(Get("lock") + Get("key") + Get("memory"), "steelsteel5");
  EXPECT_EQ(commits, 1);
  EXPECT_EQ(Set({"key", "steel"}), "") << "the same value takes effect again";
  EXPECT_EQ(commits, 2);
}

TEST_F(ConfigTest, WhatTookEffectIsTakenBackWhenSomethingElseCannot) {
  std::string wanted = "shut";
  std::string door = wanted;
  const auto turn = [&]() -> std::string {
    door = wanted;
    return "";
  };
  const auto fail = []() -> std::string { return "no bell"; };
  using Commit = std::function<std::string()>;
  config_.Add({.name = "door",
               .value = wanted,
               .is_mutable = true,
               .apply =
                   [&](const std::string& value) {
                     wanted = value;
                     return std::string();
                   },
               .commit = std::make_shared<const Commit>(turn)});
  config_.Add({.name = "bell",
               .value = "off",
               .is_mutable = true,
               .commit = std::make_shared<const Commit>(fail)});
  EXPECT_EQ(Set({"door", "open", "bell", "on"}), Failed("bell", "no bell"));
  EXPECT_EQ(door + Get("door") + Get("bell"), "shutshutoff");
}

}  // namespace
}  // namespace dfly
