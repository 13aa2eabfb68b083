// SPDX-License-Identifier: Apache-2.0
#include "server/settings/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/doc_examples.h"
#include "server/options/config.h"
#include "server/options/setting_slots.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(RowsTest, NoNameMeansTwoSettings) {
  std::set<std::string> names;
  for (const SettingRow& row : AllSettings()) {
    std::set<std::string> its = {FlagName(row.name)};
    if (!row.old_name.empty()) its.insert(FlagName(row.old_name));
    if (row.has_flag()) its.insert(FlagOf(row));
    for (const std::string& name : its) EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GT(names.size(), 200u);
}

TEST(RowsTest, EachRowSaysWhatItsKindNeeds) {
  for (const SettingRow& row : AllSettings()) {
    EXPECT_EQ(row.kind == SettingKind::kChoice, !row.choices.empty()) << row.name;
    EXPECT_TRUE(row.kind != SettingKind::kInteger || row.max > row.min) << row.name;
    EXPECT_EQ(row.has_flag(), row.help.size() > 10) << row.name;
    EXPECT_TRUE(row.slot.store != nullptr || row.slot.show != nullptr || !row.no_effect.empty() ||
                row.how == SettingHow::kFlagOnly)
        << row.name;
    EXPECT_TRUE(row.slot.show != nullptr || row.how == SettingHow::kFlagOnly ||
                !row.no_effect.empty())
        << row.name;
    EXPECT_TRUE(row.apply == nullptr || row.is_live()) << row.name;
  }
}

// Where a value has one form for each kind, the initial one is in it, so that nothing looks changed
// that is as it was.
TEST(RowsTest, InitialValuesAreValues) {
  const ServerOptions options = DefaultOptions();
  for (const SettingRow& row : AllSettings()) {
    const std::string value = InitialValue(row);
    if (!row.no_effect.empty()) {
      EXPECT_EQ(value, row.initial) << row.name;
    }
    const bool is_open = value.empty() && row.kind != SettingKind::kText;
    if (row.slot.store == nullptr || row.slot.show == nullptr || is_open) continue;
    ServerOptions other = options;
    EXPECT_EQ(row.slot.store(row.slot.show(options), &other), "") << row.name;
    EXPECT_EQ(row.slot.show(other), row.slot.show(options)) << row.name;
  }
}

// Other folders have values of their own, for their tests.
TEST(RowsTest, WhatOtherFoldersBeginWithIsTheSame) {
  const ServerOptions options = DefaultOptions();
  EXPECT_EQ(options.eviction.rules.samples, EvictionRules().samples);
  EXPECT_EQ(options.eviction.rules.lfu_log_factor, EvictionRules().lfu_log_factor);
  EXPECT_EQ(options.eviction.rules.lfu_decay_minutes, EvictionRules().lfu_decay_minutes);
  const ShardLimits sizes = options.value_sizes.Limits();
  const ShardLimits shards;
  EXPECT_EQ(sizes.list.bytes, shards.list.bytes);
  EXPECT_EQ(sizes.list.entries, shards.list.entries);
  EXPECT_EQ(sizes.hash.entries, shards.hash.entries);
  EXPECT_EQ(sizes.hash.element_bytes, shards.hash.element_bytes);
  EXPECT_EQ(sizes.set.integers, shards.set.integers);
  EXPECT_EQ(sizes.set.packed.entries, shards.set.packed.entries);
  EXPECT_EQ(sizes.set.packed.element_bytes, shards.set.packed.element_bytes);
  EXPECT_EQ(sizes.zset.entries, shards.zset.entries);
  EXPECT_EQ(sizes.zset.element_bytes, shards.zset.element_bytes);
  EXPECT_EQ(sizes.stream.node_bytes, shards.stream.node_bytes);
  EXPECT_EQ(sizes.stream.node_entries, shards.stream.node_entries);
  EXPECT_EQ(sizes.hll_sparse_bytes, shards.hll_sparse_bytes);
  EXPECT_EQ(sizes.json_depth, shards.json_depth);
  EXPECT_EQ(sizes.json_path_visits, shards.json_path_visits);
  EXPECT_EQ(options.placement_rules.tags_max, PlacementRules().tags_max);
  const helio::TlsOptions tls;
  EXPECT_EQ(options.tls_options.caches_sessions, tls.caches_sessions);
  EXPECT_EQ(options.tls_options.sessions_max, tls.sessions_max);
  EXPECT_EQ(options.tls_options.session_timeout_s, tls.session_timeout_s);
  const ConnectionLimits limits;
  EXPECT_EQ(options.limits.slots_max, limits.slots_max);
  EXPECT_EQ(options.limits.reply_bytes_max, limits.reply_bytes_max);
  EXPECT_EQ(options.limits.recv_bytes_max, limits.recv_bytes_max);
  EXPECT_EQ(options.limits.parser.max_bulk_len, limits.parser.max_bulk_len);
  EXPECT_EQ(options.limits.parser.max_multi_bulk_len, limits.parser.max_multi_bulk_len);
  EXPECT_EQ(options.limits.parser.max_inline_len, limits.parser.max_inline_len);
  EXPECT_EQ(options.limits.memcached.value_bytes_max, limits.memcached.value_bytes_max);
  EXPECT_EQ(options.limits.memcached.line_bytes_max, limits.memcached.line_bytes_max);
  EXPECT_EQ(options.limits.http.head_max, limits.http.head_max);
}

// --- The toy of docs/contributing.md ---

struct Kennel : SettingHost {
  uint32_t nap_s = 0;
};

// doc-example: begin apply
std::string ApplyNap(SettingHost& host, const SettingChange& change) {
  if (change.now.tcp_keepalive_s == 13) return "The dog is superstitious.";
  static_cast<Kennel&>(host).nap_s = change.now.tcp_keepalive_s;
  return "";
}
// doc-example: end

constexpr SettingRow kToys[] = {
    // doc-example: begin row
    {.name = "nap-seconds",
     .topic = SettingTopic::kThreads,
     .kind = SettingKind::kInteger,
     .initial = "5",
     .min = 1,
     .max = 60,
     .slot = kSlot<&ServerOptions::tcp_keepalive_s>,
     .live = kStoreLive<&Settings::tcp_keepalive_s, &ServerOptions::tcp_keepalive_s>,
     .apply = ApplyNap,
     .help = "Seconds that the dog sleeps between two meals. Longer naps save food."},
    // doc-example: end
};

// doc-example: begin test
TEST(ToySettingTest, NapsAreAsLongAsSomebodySays) {
  Kennel kennel;
  Settings live;
  Config config(kToys, InitialOptions(kToys), &live, &kennel);
  const std::string_view name = "nap-seconds";
  EXPECT_THAT(config.Get({&name, 1}), ElementsAre(Pair("nap-seconds", "5")));
  EXPECT_EQ(live.tcp_keepalive_s, 5u);
  // doc-example: end
  EXPECT_EQ(config.Set(std::vector<std::string_view>{name, "7"}, false), "");
  EXPECT_EQ(live.tcp_keepalive_s, 7u);
  EXPECT_EQ(kennel.nap_s, 7u);
  const std::string failed =
      "ERR CONFIG SET failed (possibly related to argument 'nap-seconds') - ";
  EXPECT_EQ(config.Set(std::vector<std::string_view>{name, "61"}, false),
            failed + "argument must be between 1 and 60 inclusive");
  EXPECT_EQ(config.Set(std::vector<std::string_view>{name, "13"}, false),
            failed + "The dog is superstitious.");
  EXPECT_EQ(live.tcp_keepalive_s, 7u);
}

TEST(ToySettingTest, ThePageHasIt) {
  for (const char* name : {"row", "apply", "test"}) {
    ExpectInDocs("docs/contributing.md", "src/server/settings/rows_test.cc", name);
  }
}

}  // namespace
}  // namespace dfly
