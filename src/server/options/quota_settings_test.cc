// SPDX-License-Identifier: Apache-2.0
#include "server/options/quota_settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace dfly {
namespace {

TEST(QuotaSettingsTest, HasUsersAndDatabases) {
  QuotaSettings quotas;
  EXPECT_EQ(quotas.Set("db 3 memory 2gb commands 1000 USER alice Commands 10000 bytes 50mb "
                       "connections 100 memory 1gb action error  user db bytes 7"),
            "");
  EXPECT_EQ(quotas.all.at({.user = "alice"}), (QuotaLimits{.commands = 10'000,
                                                           .bytes = 50 << 20,
                                                           .connections = 100,
                                                           .memory = 1 << 30,
                                                           .action = QuotaAction::kError}));
  EXPECT_EQ(quotas.ToString(),
            "user alice commands 10000 bytes 52428800 connections 100 memory 1073741824 action "
            "error user db bytes 7 db 3 commands 1000 memory 2147483648");
  QuotaSettings again;
  EXPECT_EQ(again.Set(quotas.ToString()), "");
  EXPECT_EQ(again.all, quotas.all);
}

TEST(QuotaSettingsTest, ChangesWhatItNames) {
  QuotaSettings quotas;
  ASSERT_EQ(quotas.Set("user ann commands 5 memory 7 user bob commands 6 db 0 bytes 1"), "");
  EXPECT_EQ(quotas.Set("user ann commands 8"), "");
  EXPECT_EQ(quotas.ToString(), "user ann commands 8 user bob commands 6 db 0 bytes 1");
  EXPECT_EQ(quotas.Set("user ann user bob commands 0 action error db 1 connections 2"), "");
  EXPECT_EQ(quotas.ToString(), "db 0 bytes 1 db 1 connections 2");
  EXPECT_EQ(quotas.Set(" "), "");
  EXPECT_EQ(quotas.ToString(), "");
}

TEST(QuotaSettingsTest, AnErrorChangesNothing) {
  QuotaSettings quotas;
  ASSERT_EQ(quotas.Set("user ann commands 5"), "");
  const std::pair<const char*, const char*> wrong[] = {
      {"ann commands 5", "an entry begins with user or db, not with 'ann'"},
      {"user", "'user' needs a name"},
      {"user bob commands", "'commands' needs a value"},
      {"user bob commands x", "commands is a number from 0 to 1000000000, not 'x'"},
      {"user bob commands -1", "commands is a number from 0 to 1000000000, not '-1'"},
      {"user bob commands 1000000001",
       "commands is a number from 0 to 1000000000, not '1000000001'"},
      {"db 1 bytes 2048tb", "bytes is a number from 0 to 1125899906842624, not '2048tb'"},
      {"db 1 memory 1kbb", "memory is a number from 0 to 1125899906842624, not '1kbb'"},
      {"db x commands 1", "'x' is no number of a database"},
      {"db -1 commands 1", "'-1' is no number of a database"},
      {"user bob keys 1",
       "'keys' is none of user, db, commands, bytes, connections, memory and action"},
      {"user bob action drop", "action is delay or error, not 'drop'"},
      {"user \"bob commands 1",
       "names of users are of printable ASCII without quotes and '#', '\\', ':', ',', '='"},
      {"user a:b commands 1",
       "names of users are of printable ASCII without quotes and '#', '\\', ':', ',', '='"},
      {"user \xc3\xa9 commands 1",
       "names of users are of printable ASCII without quotes and '#', '\\', ':', ',', '='"},
      {"user bob commands 1 db 1 bytes 1 user bob bytes 1", "user bob is there twice"},
      {"user bob commands 6 bytes 1 commands 7", "'commands' is there twice for user bob"},
      {"user ann commands 6 user bob commands", "'commands' needs a value"},
  };
  for (const auto& [text, error] : wrong) {
    EXPECT_EQ(quotas.Set(text), error);
    EXPECT_EQ(quotas.ToString(), "user ann commands 5") << text;
  }
}

TEST(QuotaSettingsTest, ThereAreOnlySoMany) {
  QuotaSettings quotas;
  std::string text;
  for (size_t i = 0; i < QuotaSettings::kEntriesMax; ++i) {
    text += fmt::format("user u{} commands 1 ", i);
  }
  EXPECT_EQ(quotas.Set(text), "");
  EXPECT_EQ(quotas.Set("db 1 commands 1"), "there may be 1024 entries at most");
  EXPECT_EQ(quotas.all.size(), QuotaSettings::kEntriesMax);
  EXPECT_EQ(quotas.Set("user u0 db 1 commands 1"), "");
}

TEST(QuotaSettingsTest, DatabasesHaveToBeThere) {
  QuotaSettings quotas;
  ASSERT_EQ(quotas.Set("user a commands 1 db 15 commands 1"), "");
  EXPECT_EQ(quotas.Check(16), "");
  EXPECT_EQ(quotas.Check(15), "there is no database 15, there are 15");
}

}  // namespace
}  // namespace dfly
