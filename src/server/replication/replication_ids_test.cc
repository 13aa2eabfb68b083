// SPDX-License-Identifier: Apache-2.0
#include "server/replication/replication_ids.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

const std::string kNone(ReplicationIds::kSize, '0');

TEST(ReplicationIdsTest, APromotionKeepsTheOldIdUpToItsOffset) {
  ReplicationIds ids{.id = "old"};
  ids.is_told = true;
  ids.Shift(100, "new");
  EXPECT_EQ(ids.id, "new");
  EXPECT_EQ(ids.id2, "old");
  EXPECT_EQ(ids.second_offset, 101);
  EXPECT_FALSE(ids.is_told);
  ids.Replace("other");
  EXPECT_EQ(ids.id, "other");
  EXPECT_EQ(ids.id2, kNone);
  EXPECT_EQ(ids.second_offset, -1);
}

TEST(ReplicationIdsTest, WhoHasDoneNothingSinceGoesBackToTheOldId) {
  ReplicationIds ids{.id = "old"};
  ids.Shift(100, "new");
  ids.Unshift(100);
  EXPECT_EQ(ids.id, "old");
  EXPECT_EQ(ids.id2, kNone);
  EXPECT_EQ(ids.second_offset, -1);
  ids.Unshift(100);
  EXPECT_EQ(ids.id, "old");
}

TEST(ReplicationIdsTest, WhatWasDoneOrToldStays) {
  ReplicationIds ids{.id = "old"};
  ids.Shift(100, "new");
  ids.Unshift(101);
  EXPECT_EQ(ids.id, "new");
  ids.is_told = true;
  ids.Unshift(100);
  EXPECT_EQ(ids.id, "new");
  EXPECT_EQ(ids.id2, "old");
}

TEST(ReplicationIdsTest, WithoutAnOldIdThereIsNoWayBack) {
  ReplicationIds ids{.id = "first"};
  ids.Unshift(-2);
  EXPECT_EQ(ids.id, "first");
}

}  // namespace
}  // namespace dfly
