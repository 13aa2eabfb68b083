// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/tag_placement.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/text/hash.h"
#include "engine/hops/shard_set.h"

namespace dfly {
namespace {

using Tags = std::vector<std::pair<std::string, uint32_t>>;

uint32_t Place(TagPlacement& placement, const std::string& tag, uint32_t thread = 0) {
  return placement.ShardOfTag(tag, HashKey(tag), thread);
}

TEST(TagPlacementTest, TagsGetOneShardAfterAnotherInTheOrderInWhichTheyAreSeen) {
  TagPlacement placement({.prefix = "q"}, 3, 1);
  std::vector<uint32_t> shards;
  for (const char* tag : {"q9", "q1", "q5", "q3", "q9", "q1", "q7"}) {
    shards.push_back(Place(placement, tag));
  }
  EXPECT_EQ(shards, (std::vector<uint32_t>{0, 1, 2, 0, 0, 1, 1}));
  EXPECT_EQ(placement.size(), 5u);
  EXPECT_EQ(placement.Export(), (Tags{{"q9", 0}, {"q1", 1}, {"q5", 2}, {"q3", 0}, {"q7", 1}}));
}

TEST(TagPlacementTest, OnlyTagsWithThePrefixArePlaced) {
  const TagPlacement placement({.prefix = "queue:"}, 3, 1);
  EXPECT_TRUE(placement.Places("queue:1"));
  EXPECT_FALSE(placement.Places("queue"));
  EXPECT_FALSE(placement.Places("another"));
}

TEST(TagPlacementTest, TagsPastTheLimitGoByTheirHashAndTheOthersStay) {
  TagPlacement placement({.prefix = "q", .tags_max = 2}, 5, 2);
  EXPECT_EQ(Place(placement, "q0"), 0u);
  EXPECT_EQ(Place(placement, "q1"), 1u);
  for (int i = 2; i < 100; ++i) {
    const std::string tag = "q" + std::to_string(i);
    EXPECT_EQ(Place(placement, tag, 0), ShardOf(HashKey(tag), 5));
    EXPECT_EQ(Place(placement, tag, 1), ShardOf(HashKey(tag), 5));
  }
  for (uint32_t thread : {0, 1}) {
    EXPECT_EQ(Place(placement, "q0", thread), 0u);
    EXPECT_EQ(Place(placement, "q1", thread), 1u);
  }
  EXPECT_EQ(placement.size(), 2u);
}

TEST(TagPlacementTest, AllThreadsGetTheSamePlacesWhoeverIsTheFirst) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kTags = 3000;
  constexpr uint32_t kMost = 2000;  // some go by their hash
  TagPlacement placement({.prefix = "q", .tags_max = kMost}, 7, kThreads);
  std::vector<std::vector<uint32_t>> seen(kThreads, std::vector<uint32_t>(kTags));
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 2; ++round) {
        for (uint32_t i = 0; i < kTags; ++i) {
          const uint32_t number = thread % 2 == 0 ? i : kTags - 1 - i;
          seen[thread][number] = Place(placement, "q" + std::to_string(number), thread);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t thread = 1; thread < kThreads; ++thread) EXPECT_EQ(seen[thread], seen[0]);
  const Tags placed = placement.Export();
  ASSERT_EQ(placed.size(), kMost);
  for (uint32_t i = 0; i < kMost; ++i) EXPECT_EQ(placed[i].second, i % 7);
}

TEST(TagPlacementTest, PlacesSurviveExportAndImport) {
  TagPlacement before({.prefix = "q"}, 4, 1);
  for (int i = 0; i < 10; ++i) Place(before, "q" + std::to_string(i * 7 % 10));
  TagPlacement after({.prefix = "q"}, 4, 1);
  ASSERT_TRUE(after.Import(before.Export()));
  for (int i = 0; i < 10; ++i) {
    const std::string tag = "q" + std::to_string(i);
    EXPECT_EQ(Place(after, tag), Place(before, tag));
  }
  EXPECT_EQ(Place(after, "q-new"), 2u) << "it goes on behind those that were there";
  EXPECT_EQ(after.Export().size(), 11u);
}

TEST(TagPlacementTest, WhatCannotBeImportedIsRefused) {
  TagPlacement placement({.prefix = "q", .tags_max = 2}, 2, 1);
  EXPECT_EQ(Place(placement, "q"), 0u);
  EXPECT_TRUE(placement.Import({{"q", 0}}));
  EXPECT_FALSE(placement.Import({{"q", 1}})) << "it is elsewhere";
  EXPECT_FALSE(placement.Import({{"q1", 2}})) << "there is no such shard";
  EXPECT_TRUE(placement.Import({{"q1", 0}}));
  EXPECT_FALSE(placement.Import({{"q2", 0}})) << "there are too many";
  EXPECT_EQ(placement.size(), 2u);
}

class PlacedShardsTest : public testing::Test {
 protected:
  void SetUp() override { pool_.Start(); }
  void TearDown() override {
    shards_.reset();
    pool_.Stop();
  }
  // For each key, as thread 1 sees it.
  std::vector<ShardId> Ask(const std::vector<std::string>& keys) {
    return pool_.at(1)->Await([&] {
      std::vector<ShardId> ids;
      for (const std::string& key : keys) ids.push_back(shards_->ShardOfKey(key, HashKey(key)));
      return ids;
    });
  }

  helio::ProactorPool pool_{{.threads = 2}};
  std::unique_ptr<ShardSet> shards_;
};

TEST_F(PlacedShardsTest, KeysOfOneTagShareItsPlaceAndChannelsHaveNone) {
  shards_ = std::make_unique<ShardSet>(&pool_, 3, 16, Shard::kStringMax, TagRules(),
                                       PlacementRules{.prefix = "q"});
  const std::vector<std::string> keys = {"a:{q1}:wait", "q2", "{q3}", "b:{q1}:id", "{q2}x", "q4"};
  EXPECT_EQ(Ask(keys), (std::vector<ShardId>{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(shards_->placed_tags(), 4u);
  for (int i = 0; i < 20; ++i) {
    const std::string other = "other" + std::to_string(i);
    EXPECT_EQ(Ask({other}).front(), ShardOf(HashKey(other), 3));
    const std::string channel = "q" + std::to_string(100 + i);
    EXPECT_EQ(shards_->ShardOfChannel(channel, HashKey(channel)), ShardOf(HashKey(channel), 3));
  }
  EXPECT_EQ(shards_->placed_tags(), 4u);
}

TEST_F(PlacedShardsTest, WithoutAPrefixNothingIsPlaced) {
  shards_ = std::make_unique<ShardSet>(&pool_, 3, 16);
  EXPECT_EQ(Ask({"q1"}).front(), ShardOf(HashKey("q1"), 3));
  EXPECT_EQ(shards_->placed_tags(), 0u);
}

}  // namespace
}  // namespace dfly
