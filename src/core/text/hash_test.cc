// SPDX-License-Identifier: Apache-2.0
#include "core/text/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dfly {
namespace {

TEST(HashTest, SpreadsKeysOverShards) {
  std::vector<int> counts(7);
  for (int i = 0; i < 7000; ++i) {
    uint32_t shard = ShardOf(HashKey("key:" + std::to_string(i)), 7);
    ASSERT_LT(shard, 7u);
    ++counts[shard];
  }
  for (int count : counts) {
    EXPECT_GT(count, 800);
    EXPECT_LT(count, 1200);
  }
}

TEST(HashTest, PositionAndFingerprintDoNotDependOnTheShard) {
  // Of the keys of one shard out of four, each quarter of positions and of fingerprints has its
  // share.
  std::vector<int> positions(4);
  std::vector<int> fingerprints(4);
  for (int i = 0; i < 16000; ++i) {
    uint64_t hash = HashKey("key:" + std::to_string(i));
    if (ShardOf(hash, 4) != 2) continue;
    ++positions[hash >> 62];
    ++fingerprints[(hash >> 6) & 3];
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_GT(positions[i], 800);
    EXPECT_GT(fingerprints[i], 800);
  }
}

TEST(HashTest, SeedDecides) {
  const uint64_t first = HashKey("key");
  SetHashSeed(HashSeed() + 1);
  EXPECT_NE(HashKey("key"), first);
  SetHashSeed(HashSeed() - 1);
  EXPECT_EQ(HashKey("key"), first);
}

TEST(HashTest, OneShardTakesAll) { EXPECT_EQ(ShardOf(UINT64_MAX, 1), 0u); }

}  // namespace
}  // namespace dfly
