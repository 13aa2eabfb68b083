// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/key_tag.h"

#include <gtest/gtest.h>

#include "core/text/hash.h"
#include "engine/hops/shard_set.h"

namespace dfly {
namespace {

TagRules Delimited(std::string prefix, uint32_t skip) {
  return {.prefix = std::move(prefix), .delimiter = ':', .skip_end_delimiters = skip};
}

TEST(KeyTagTest, IsWhatStandsInTheFirstBraces) {
  const TagRules rules;
  EXPECT_EQ(rules.TagOf("a{tag}b"), "tag");
  EXPECT_EQ(rules.TagOf("{tag}{other}"), "tag");
  EXPECT_EQ(rules.TagOf("{{tag}}"), "{tag");
}

TEST(KeyTagTest, IsTheWholeKeyWithoutBracesThatHoldSomething) {
  const TagRules rules;
  for (const char* key : {"", "key", "{", "}{", "a{b", "a}b{", "{}", "a{}{b}", "bull:mail:1"}) {
    EXPECT_EQ(rules.TagOf(key), key);
  }
}

TEST(KeyTagTest, OfTheSecondShapeStandsBetweenDelimitersBehindThePrefix) {
  const TagRules rules = Delimited("bull", 0);
  EXPECT_EQ(rules.TagOf("bull:mail:1"), "mail");
  EXPECT_EQ(rules.TagOf("bull:mail:"), "mail");
  EXPECT_EQ(rules.TagOf("bull:mail:1:lock"), "mail");
  EXPECT_EQ(rules.TagOf("bullet:mail:1"), "mail");
}

TEST(KeyTagTest, OfTheSecondShapeNeedsThePrefixAndBothDelimitersAndSomethingBetween) {
  const TagRules rules = Delimited("bull", 0);
  for (const char* key : {"", "bul:mail:1", "xbull:mail:1", "bull", "bull:", "bull:mail",
                          "bull::", "bull::1", "a:b:c"}) {
    EXPECT_EQ(rules.TagOf(key), key);
  }
}

TEST(KeyTagTest, OfTheSecondShapeMayHaveDelimitersWithinIt) {
  EXPECT_EQ(Delimited("bull", 1).TagOf("bull:a:b:c"), "a:b");
  EXPECT_EQ(Delimited("bull", 1).TagOf("bull:a:b"), "bull:a:b");
  EXPECT_EQ(Delimited("bull", 2).TagOf("bull:a:b:c:d:e"), "a:b:c");
  EXPECT_EQ(Delimited("bull", 2).TagOf("bull:a:b:c"), "bull:a:b:c");
}

TEST(KeyTagTest, OfTheSecondShapeBeginsAtThePrefixsOwnLastDelimiter) {
  EXPECT_EQ(Delimited("bull:", 0).TagOf("bull:mail:1:lock"), "mail");
  EXPECT_EQ(Delimited("bull:", 0).TagOf("bull::mail"), "bull::mail");
  EXPECT_EQ(Delimited(":", 0).TagOf(":mail:1"), "mail");
  EXPECT_EQ(Delimited("app:bull", 0).TagOf("app:bull:mail:1"), "mail");
}

TEST(KeyTagTest, BracesGoFirst) {
  EXPECT_EQ(Delimited("bull", 0).TagOf("bull:{mail}:1"), "mail");
  EXPECT_EQ(Delimited("bull", 0).TagOf("bull:mail:{1}"), "1");
  EXPECT_EQ(Delimited("bull", 0).TagOf("bull:mail:{}"), "mail");
}

class TaggedShardsTest : public testing::TestWithParam<TagRules> {
 protected:
  TaggedShardsTest() {
    pool_.Start();
    shards_ = std::make_unique<ShardSet>(&pool_, 7, 16, Shard::kStringMax, GetParam());
  }
  ~TaggedShardsTest() override {
    shards_.reset();
    pool_.Stop();
  }
  ShardId ShardOfText(std::string_view key) { return shards_->ShardOfKey(key, HashKey(key)); }
  uint64_t Lock(std::string_view key, int db = 0) {
    return shards_->LockOfKey(key, HashKey(key), db);
  }

  helio::ProactorPool pool_{{.threads = 1, .force_epoll = true}};
  std::unique_ptr<ShardSet> shards_;
};

INSTANTIATE_TEST_SUITE_P(
    Rules, TaggedShardsTest,
    testing::Values(TagRules{}, TagRules{.locks_tags = true}, Delimited("bull", 0),
                    TagRules{.prefix = "bull", .delimiter = ':', .locks_tags = true}),
    [](const auto& info) {
      return std::string(info.param.prefix.empty() ? "braces" : "braces_and_delimiters") +
             (info.param.locks_tags ? "_lock_tags" : "_lock_keys");
    });

TEST_P(TaggedShardsTest, KeysOfOneHashTagAreInOneShard) {
  for (int i = 0; i < 100; ++i) {
    const std::string tag = std::to_string(i);
    const ShardId shard = ShardOfText(tag);
    EXPECT_EQ(ShardOfText("{" + tag + "}"), shard);
    EXPECT_EQ(ShardOfText("bull:{" + tag + "}:1"), shard);
    EXPECT_EQ(ShardOfText("x{" + tag + "}y"), shard);
  }
}

TEST_P(TaggedShardsTest, KeysOfOneDelimitedTagAreInOneShardIfThereAreSuch) {
  size_t together = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string queue = "bull:q" + std::to_string(i) + ":";
    together += ShardOfText(queue + "1") == ShardOfText(queue + "wait");
  }
  if (GetParam().prefix.empty()) {
    EXPECT_LT(together, 60u);
  } else {
    EXPECT_EQ(together, 100u);
  }
}

TEST_P(TaggedShardsTest, LocksAreOfTagsOnlyIfAskedFor) {
  EXPECT_EQ(Lock("{t}1") == Lock("{t}2"), GetParam().locks_tags);
  EXPECT_EQ(Lock("{t}1") == Lock("t"), GetParam().locks_tags);
  EXPECT_EQ(Lock("bull:q:1") == Lock("bull:q:2"),
            GetParam().locks_tags && !GetParam().prefix.empty());
  EXPECT_NE(Lock("a"), Lock("b"));
  EXPECT_NE(Lock("{t}1", 0), Lock("{t}1", 1));
  EXPECT_EQ(Lock("{t}1", 3), Lock("{t}1", 3));
}

}  // namespace
}  // namespace dfly
