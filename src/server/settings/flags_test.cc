// SPDX-License-Identifier: Apache-2.0
#include "server/options/flags.h"

#include <gflags/gflags.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "helio/base/logging.h"
#include "server/options/directives.h"
#include "server/settings/flag_help.h"
#include "server/settings/rows.h"

namespace dfly {
namespace {

using testing::HasSubstr;

class FlagsTest : public testing::Test {
 protected:
  FlagsTest() {
    if (RegisteredSettings().empty()) RegisterSettings(AllSettings());
    saver_.emplace();  // of all of them
  }
  // Sets a flag for this test and returns what OptionsFromFlags says.
  std::string With(const char* name, const std::string& value) {
    CHECK(!gflags::SetCommandLineOption(name, value.c_str()).empty()) << name;
    return OptionsFromFlags(&options_);
  }

  ServerOptions options_;

 private:
  std::optional<gflags::FlagSaver> saver_;
};

TEST_F(FlagsTest, TheHelpNamesOursBeforeTheLibraries) {
  const std::string text = HelpText();
  ASSERT_NE(text.find("-logtostderr"), std::string::npos);
  EXPECT_LT(text.find("-port "), text.find("-logtostderr"));
  EXPECT_LT(text.find("-requirepass "), text.find("-logtostderr"));
}

TEST_F(FlagsTest, DefaultsStartAServerOfThisMachine) {
  EXPECT_EQ(With("port", "6379"), "");
  EXPECT_GE(options_.threads, 1u);
  EXPECT_EQ(options_.port, 6379);
  EXPECT_THAT(options_.binds, testing::ElementsAre("127.0.0.1", "-::1"));
  EXPECT_EQ(options_.maxmemory, options_.system_memory_bytes / 5 * 4);
  EXPECT_EQ(options_.eviction.rules.policy, EvictionPolicy::kNone);
  EXPECT_EQ(options_.limits.parser.max_bulk_len, 512u << 20);
  EXPECT_LE(options_.maxclients, 10'000u);
  EXPECT_EQ(options_.limits.reply_bytes_max,
            std::min<uint64_t>(128 << 20, options_.system_memory_bytes / 32));
  EXPECT_GT(options_.system_memory_bytes, 0u);
}

TEST_F(FlagsTest, SizesHaveUnits) {
  EXPECT_EQ(With("maxmemory", "20mb"), "");
  EXPECT_EQ(options_.maxmemory, 20u << 20);
  EXPECT_THAT(With("maxmemory", "much"), HasSubstr("--maxmemory: 'much' is no size"));
  EXPECT_EQ(With("maxmemory", "0"), "");
  EXPECT_EQ(options_.maxmemory, 0u) << "no limit";
}

TEST_F(FlagsTest, APolicyHasItsNameAndCacheModeItsOwn) {
  EXPECT_EQ(With("maxmemory_policy", "volatile-ttl"), "");
  EXPECT_EQ(options_.eviction.rules.policy, EvictionPolicy::kVolatileTtl);
  EXPECT_THAT(With("cache_mode", "true"), HasSubstr("--maxmemory_policy"));
  EXPECT_THAT(With("maxmemory_policy", "lru"), HasSubstr("--maxmemory_policy: 'lru'"));
  EXPECT_EQ(With("maxmemory_policy", "allkeys-lfu"), "");
  EXPECT_EQ(options_.eviction.rules.policy, EvictionPolicy::kCache);
  EXPECT_THAT(With("maxmemory_samples", "0"), HasSubstr("--maxmemory_samples"));
}

TEST_F(FlagsTest, DefragmentingTakesAPartOfAThreadAtMost) {
  EXPECT_EQ(With("active_defrag_ignore_bytes", "3mb"), "");
  EXPECT_TRUE(options_.active_defrag);
  EXPECT_EQ(options_.defrag_ignore_bytes, 3u << 20);
  EXPECT_EQ(With("active_defrag_cycle_max", "99"), "");
  EXPECT_EQ(options_.defrag_cycle_percent, 99u);
  EXPECT_THAT(With("active_defrag_cycle_max", "100"), HasSubstr("--active_defrag_cycle_max"));
  EXPECT_EQ(With("active_defrag_cycle_max", "25"), "");
  EXPECT_THAT(With("active_defrag_threshold_lower", "1001"),
              HasSubstr("--active_defrag_threshold_lower"));
  EXPECT_EQ(With("active_defrag_threshold_lower", "10"), "");
  EXPECT_EQ(With("activedefrag", "false"), "");
  EXPECT_FALSE(options_.active_defrag);
}

TEST_F(FlagsTest, ClassesOfClientsThatAreNotNamedKeepTheirLimits) {
  EXPECT_EQ(With("client_output_buffer_limit", "pubsub 1mb 1mb 10"), "");
  EXPECT_EQ(options_.output_limits.ToString(),
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 1048576 10");
}

TEST_F(FlagsTest, AValueFitsInThirtyTwoBits) {
  EXPECT_EQ(With("max_bulk_len", "4294967295"), "");
  EXPECT_EQ(options_.limits.parser.max_bulk_len, UINT32_MAX);
  EXPECT_THAT(With("max_bulk_len", "4gb"), HasSubstr("--max_bulk_len"));
}

TEST_F(FlagsTest, WhatCannotBeIsNamed) {
  EXPECT_THAT(With("port", "65536"), HasSubstr("--port: must be between 0 and 65535"));
  EXPECT_THAT(With("port", "0"), HasSubstr("--unixsocket"));
}

TEST_F(FlagsTest, TagsInBracesAndThoseOfBullMqAreTheOnlyOnesUnlessAskedFor) {
  EXPECT_EQ(With("lock_on_hashtags", "true"), "");
  EXPECT_TRUE(options_.tag_rules.locks_tags);
  EXPECT_EQ(options_.tag_rules.TagOf("bull:mail:1"), "mail");
  EXPECT_EQ(options_.tag_rules.TagOf("bull:mail"), "bull:mail");
  EXPECT_EQ(options_.tag_rules.TagOf("bulletin:mail:1"), "bulletin:mail:1");
  EXPECT_EQ(options_.tag_rules.TagOf("user:mail:1"), "user:mail:1");
}

TEST_F(FlagsTest, AnotherShapeOfTagsNeedsAPrefixAndOneCharacter) {
  EXPECT_EQ(With("locktag_prefix", "jobs"), "");
  EXPECT_EQ(options_.tag_rules.TagOf("jobs:mail:1"), "mail");
  EXPECT_EQ(options_.tag_rules.TagOf("bull:mail:1"), "bull:mail:1");
  EXPECT_EQ(With("locktag_skip_n_end_delimiters", "1"), "");
  EXPECT_EQ(options_.tag_rules.TagOf("jobs:mail:1:lock"), "mail:1");
  EXPECT_FALSE(options_.tag_rules.locks_tags);
  EXPECT_EQ(With("locktag_delimiter", "/"), "");
  EXPECT_EQ(options_.tag_rules.TagOf("jobs/mail/1/lock"), "mail/1");
  for (const char* wrong : {"", "::", "{"}) {
    EXPECT_THAT(With("locktag_delimiter", wrong), HasSubstr("--locktag_delimiter: must be one"));
  }
}

TEST_F(FlagsTest, WhatBelongsToAPrefixIsRefusedWithoutOne) {
  EXPECT_EQ(With("locktag_prefix", ""), "");
  EXPECT_EQ(options_.tag_rules.TagOf("bull:mail:1"), "bull:mail:1");
  EXPECT_THAT(With("locktag_skip_n_end_delimiters", "1"),
              HasSubstr("--locktag_skip_n_end_delimiters: needs --locktag_prefix"));
  EXPECT_EQ(With("locktag_prefix", "bull"), "");
  EXPECT_THAT(With("locktag_skip_n_end_delimiters", "1001"), HasSubstr("between 0 and 1000"));
}

TEST_F(FlagsTest, PermissionsAreOctal) {
  EXPECT_EQ(With("unixsocketperm", "700"), "");
  EXPECT_EQ(options_.unix_socket_mode, 0700u);
  EXPECT_THAT(With("unixsocketperm", "rwx"), HasSubstr("--unixsocketperm"));
  EXPECT_THAT(With("unixsocketperm", "7777"), HasSubstr("--unixsocketperm"));
}

TEST_F(FlagsTest, ClientsNeedCertificatesIfItIsToldWhoMaySignThem) {
  using PeerCheck = helio::TlsOptions::PeerCheck;
  EXPECT_EQ(With("tls_port", "6380"), "");
  EXPECT_TRUE(options_.has_tls());
  EXPECT_EQ(options_.tls_options.peer_check, PeerCheck::kNone);
  EXPECT_EQ(With("tls_ca_cert_dir", "/etc/ssl/certs"), "");
  EXPECT_EQ(options_.tls_options.peer_check, PeerCheck::kRequired);
  EXPECT_EQ(With("tls_auth_clients", "optional"), "");
  EXPECT_EQ(options_.tls_options.peer_check, PeerCheck::kOptional);
  EXPECT_EQ(With("tls_auth_clients", "no"), "");
  EXPECT_EQ(options_.tls_options.peer_check, PeerCheck::kNone);
  EXPECT_THAT(With("tls_auth_clients", "maybe"), HasSubstr("--tls_auth_clients: must be yes"));
  EXPECT_EQ(With("tls_auth_clients", ""), "");
  EXPECT_THAT(With("tls_session_cache_size", "2147483648"), HasSubstr("--tls_session_cache_size"));
  EXPECT_THAT(With("admin_port", "65536"), HasSubstr("--admin_port"));
}

TEST_F(FlagsTest, TheLinkOfAReplicaMayHaveTls) {
  EXPECT_EQ(With("replicaof", "host 1"), "");
  EXPECT_FALSE(options_.tls_replication);
  EXPECT_EQ(With("tls_replication", "true"), "");
  EXPECT_TRUE(options_.tls_replication);
  EXPECT_EQ(With("tls_client_cert_file", "client.crt"), "");
  EXPECT_EQ(options_.tls_client.cert_file, "client.crt");
  EXPECT_FALSE(options_.has_tls());  // that is about ports
}

TEST_F(FlagsTest, DatabasesAreBounded) {
  EXPECT_THAT(With("dbnum", "0"), HasSubstr("--dbnum"));
  EXPECT_EQ(With("dbnum", "3"), "");
  EXPECT_EQ(options_.db_count, 3);
}

}  // namespace
}  // namespace dfly
