// SPDX-License-Identifier: Apache-2.0
#include "server/info/info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dfly {
namespace {

using testing::HasSubstr;
using testing::Not;

InfoFacts Example() {
  InfoFacts facts;
  facts.multiplexing_api = "io_uring";
  facts.uptime_s = 200'000;
  facts.used_memory = 3000;
  facts.base_memory = 1000;
  facts.data_memory = 1500;
  facts.counts.memory.clients = 500;
  facts.used_memory_peak = 4000;
  facts.rss = 6000;
  facts.maxmemory = 1 << 20;
  facts.counts.databases = {{.keys = 3, .expires = 1}, {}, {.keys = 1, .expires = 0}};
  facts.commands["get"] = {.calls = 4, .rejected = 1, .failed = 2, .usec = 5};
  facts.commands["config|set"] = {.calls = 1, .rejected = 0, .failed = 0, .usec = 9};
  facts.errors = {{"ERR", 2}, {"WRONGTYPE", 1}};
  return facts;
}

std::string Text(std::vector<std::string_view> sections) { return FormatInfo(Example(), sections); }

TEST(InfoTest, ASectionIsATitleAndItsFields) {
  EXPECT_EQ(Text({"cluster"}), "# Cluster\r\ncluster_enabled:0\r\n");
  EXPECT_EQ(Text({"Keyspace"}),
            "# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0,subexpiry=0\r\n"
            "db2:keys=1,expires=0,avg_ttl=0,subexpiry=0\r\n");
  EXPECT_EQ(Text({"errorstats"}),
            "# Errorstats\r\nerrorstat_ERR:count=2\r\nerrorstat_WRONGTYPE:count=1\r\n");
  EXPECT_EQ(Text({"commandstats"}),
            "# Commandstats\r\n"
            "cmdstat_config|set:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,"
            "failed_calls=0\r\n"
            "cmdstat_get:calls=4,usec=5,usec_per_call=1.25,rejected_calls=1,failed_calls=2\r\n");
  EXPECT_EQ(Text({"modules"}), "# Modules\r\n");
}

TEST(InfoTest, SectionsComeInTheirOwnOrderWithAnEmptyLineBetween) {
  EXPECT_EQ(Text({"errorstats", "MODULES", "nosuch", "modules"}),
            "# Modules\r\n\r\n# Errorstats\r\nerrorstat_ERR:count=2\r\n"
            "errorstat_WRONGTYPE:count=1\r\n");
  EXPECT_EQ(Text({"nosuch"}), "");
}

TEST(InfoTest, TheDefaultLeavesOutWhatIsLong) {
  const std::string by_default = Text({});
  EXPECT_EQ(by_default, Text({"default"}));
  EXPECT_THAT(by_default, HasSubstr("# Server\r\n"));
  EXPECT_THAT(by_default, HasSubstr("# Keyspace\r\n"));
  EXPECT_THAT(by_default, Not(HasSubstr("# Commandstats")));
  EXPECT_THAT(by_default, Not(HasSubstr("# Dispatch")));
  EXPECT_THAT(Text({"all"}), HasSubstr("# Commandstats"));
  EXPECT_EQ(Text({"all"}), Text({"Everything"}));
  EXPECT_THAT(Text({"default", "dispatch"}), HasSubstr("# Dispatch"));
  EXPECT_THAT(Text({"everything"}), Not(HasSubstr("# Keysizes")));
  EXPECT_THAT(Text({"KeySizes"}), HasSubstr("# Keysizes\r\n"));
}

// What clients look for on connect (BullMQ, Sidekiq, ioredis), and what would mislead them.
TEST(InfoTest, SaysWhatClientsCheck) {
  const std::string text = Text({"everything"});
  for (const char* line :
       {"\r\nredis_version:7.4.0\r\n", "\r\nredis_mode:standalone\r\n", "\r\nloading:0\r\n",
        "\r\nmaxmemory_policy:noeviction\r\n", "\r\nuptime_in_days:2\r\n", "\r\nrole:master\r\n",
        "\r\nused_memory_human:2.93K\r\n", "\r\nused_memory_peak_human:3.91K\r\n",
        "\r\nconnected_clients:0\r\n", "\r\nmaxmemory_human:1.00M\r\n",
        "\r\nused_memory_dataset_perc:75.00%\r\n", "\r\nmem_fragmentation_ratio:2.00\r\n",
        "\r\nmultiplexing_api:io_uring\r\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("dragonfly_version")));
  EXPECT_THAT(text, Not(HasSubstr("valkey_version")));
}

TEST(InfoTest, AnEmptyServerDividesNothingByZero) {
  const std::string text = FormatInfo(InfoFacts(), {});
  EXPECT_THAT(text, HasSubstr("used_memory_dataset_perc:0.00%"));
  EXPECT_THAT(text, HasSubstr("mem_fragmentation_ratio:0.00"));
}

}  // namespace
}  // namespace dfly
