// SPDX-License-Identifier: Apache-2.0
#include "server/options/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/options/setting_slots.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Notes what was applied. Refuses 13 as "fragile", and a "lock" that is not the "key".
class NotingHost : public SettingHost {
 public:
  std::vector<std::string> applied;
};

std::vector<std::string>& AppliedOf(SettingHost& host) {
  return static_cast<NotingHost&>(host).applied;
}

std::string NoteMemory(SettingHost& host, const SettingChange& change) {
  AppliedOf(host).push_back(fmt::format("memory={}", change.now.maxmemory));
  return "";
}

std::string NoteClients(SettingHost& host, const SettingChange& change) {
  AppliedOf(host).push_back(fmt::format("fragile={}", change.now.maxclients));
  return change.now.maxclients == 13 ? "bad luck" : "";
}

std::string NoteLock(SettingHost& host, const SettingChange& change) {
  AppliedOf(host).push_back(fmt::format("lock={} key={}", change.now.tls_port, change.now.backlog));
  return change.now.tls_port == change.now.backlog ? "" : "it does not turn";
}

using enum SettingKind;
using enum SettingHow;

constexpr SettingRow kRows[] = {
    {.name = "memory",
     .kind = kMemory,
     .slot = kSlot<&ServerOptions::maxmemory>,
     .live = kStoreLive<&Settings::maxmemory, &ServerOptions::maxmemory>,
     .apply = NoteMemory},
    {.name = "fragile",
     .kind = kInteger,
     .max = 100,
     .slot = kSlot<&ServerOptions::maxclients>,
     .apply = NoteClients},
    {.name = "switch", .kind = kBool, .slot = kSlot<&ServerOptions::tls>},
    {.name = "figure", .slot = kSlot<&ServerOptions::log_file>},
    {.name = "port", .kind = kInteger, .how = kAtStart, .slot = kSlot<&ServerOptions::port>},
    {.name = "dir", .how = kProtected, .slot = kSlot<&ServerOptions::pid_file>},
    {.name = "new-name",
     .old_name = "old-name",
     .kind = kInteger,
     .max = 100,
     .slot = kSlot<&ServerOptions::threads>},
    {.name = "lock",
     .kind = kInteger,
     .max = 100,
     .slot = kSlot<&ServerOptions::tls_port>,
     .apply = NoteLock},
    {.name = "key",
     .kind = kInteger,
     .max = 100,
     .slot = kSlot<&ServerOptions::backlog>,
     .apply = NoteLock},
    {.name = "ignored",
     .kind = kChoice,
     .initial = "no",
     .choices = "no yes maybe",
     .no_effect = "there is none",
     .harmless = "no|maybe"},
    {.name = "secret", .how = kFlagOnly, .slot = kSlot<&ServerOptions::log_level>},
};

ServerOptions Told() {
  ServerOptions options;
  options.maxclients = 1;
  options.port = 6379;
  options.pid_file = "/a";
  options.threads = 1;
  return options;
}

class ConfigTest : public testing::Test {
 protected:
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

  NotingHost host_;
  std::vector<std::string>& applied_ = host_.applied;
  Settings live_;
  Config config_{kRows, Told(), &live_, &host_};
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
  EXPECT_EQ(Set({"lock", "7"}), Failed("lock", "it does not turn"));
  EXPECT_EQ(Get("lock") + Get("key"), "00");
  applied_.clear();
  EXPECT_EQ(Set({"lock", "7", "memory", "5", "key", "7"}), "");
  EXPECT_EQ(Get("lock") + Get("key") + Get("memory"), "775");
  EXPECT_THAT(applied_, ElementsAre("lock=7 key=7", "memory=5"));
  applied_.clear();
  EXPECT_EQ(Set({"key", "7"}), "") << "the same value takes effect again";
  EXPECT_THAT(applied_, ElementsAre("lock=7 key=7"));
}

TEST_F(ConfigTest, WhatTookEffectIsTakenBackWhenSomethingElseCannot) {
  EXPECT_EQ(Set({"lock", "7", "fragile", "13", "key", "7"}), Failed("fragile", "bad luck"));
  EXPECT_THAT(applied_, ElementsAre("lock=7 key=7", "fragile=13", "lock=0 key=0"));
  EXPECT_EQ(Get("lock") + Get("fragile") + Get("key"), "010");
}

TEST_F(ConfigTest, AllThreadsReadALiveValueAtOnce) {
  EXPECT_EQ(Set({"memory", "9gb"}), "");
  EXPECT_EQ(live_.maxmemory, 9ull << 30);
  EXPECT_EQ(Set({"memory", "5", "fragile", "13"}), Failed("fragile", "bad luck"));
  EXPECT_EQ(live_.maxmemory, 9ull << 30);
}

TEST_F(ConfigTest, WhatHasNoEffectIsKeptIfItPromisesNothing) {
  EXPECT_EQ(Get("ignored"), "no");
  EXPECT_EQ(Set({"ignored", "Maybe"}), "");
  EXPECT_EQ(Get("ignored"), "maybe");
  EXPECT_EQ(Set({"ignored", "yes"}),
            Failed("ignored", "'yes' would promise what is not there: there is none"));
  EXPECT_EQ(Set({"ignored", "x"}),
            Failed("ignored", "argument(s) must be one of the following: no, yes, maybe"));
  EXPECT_EQ(Get("ignored"), "maybe");
}

TEST_F(ConfigTest, WhatIsAFlagOnlyIsUnknown) {
  EXPECT_EQ(Get("secret"), "(not one)");
  EXPECT_EQ(Set({"secret", "1"}),
            "ERR Unknown option or number of arguments for CONFIG SET - 'secret'");
}

}  // namespace
}  // namespace dfly
