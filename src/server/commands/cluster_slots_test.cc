// SPDX-License-Identifier: Apache-2.0
#include "server/commands/cluster_slots.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

// The specification's example: the CRC16 of "123456789" is 0x31C3.
TEST(ClusterSlotsTest, TheExampleOfTheSpecification) {
  EXPECT_EQ(ClusterSlotOf("123456789"), 0x31c3 % kClusterSlots);
}

// What redis-server's CLUSTER KEYSLOT says.
TEST(ClusterSlotsTest, Hashtags) {
  EXPECT_EQ(ClusterSlotOf("a"), 15495);
  EXPECT_EQ(ClusterSlotOf("{a}b"), 15495);
  EXPECT_EQ(ClusterSlotOf("x{a}{b}"), 15495);
  EXPECT_EQ(ClusterSlotOf("a{}b"), 13694);  // nothing between them: the whole key
  EXPECT_EQ(ClusterSlotOf("{a"), ClusterSlotOf(std::string_view("{a")));
  EXPECT_NE(ClusterSlotOf("{a"), 15495);
  EXPECT_EQ(ClusterSlotOf(""), 0);
}

TEST(ClusterSlotsTest, TagsOfSlots) {
  EXPECT_EQ(ClusterTagOf(0), "06S");  // as on valkey.io
  for (int slot = 0; slot < kClusterSlots; slot += 97) {
    EXPECT_EQ(ClusterSlotOf(ClusterTagOf(static_cast<uint16_t>(slot))), slot);
  }
  EXPECT_EQ(ClusterSlotOf(ClusterTagOf(kClusterSlots - 1)), kClusterSlots - 1);
}

}  // namespace
}  // namespace dfly
