// SPDX-License-Identifier: Apache-2.0
#include "server/commands/cluster_slots.h"

#include <gtest/gtest.h>

#include <cctype>
#include <vector>

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

TEST(ClusterSlotsTest, EachSlotHasATag) {
  EXPECT_EQ(ClusterTagOf(0), "06S");  // as on valkey.io
  std::vector<int> tags(kClusterSlots);
  const auto is_digit = [](int c) { return c < 128 && isalnum(c) != 0; };
  for (int first = '0'; first <= 'z'; ++first) {
    for (int second = '0'; second <= 'z'; ++second) {
      for (int third = '0'; third <= 'z'; ++third) {
        if (!is_digit(first) || !is_digit(second) || !is_digit(third)) continue;
        const char tag[] = {static_cast<char>(first), static_cast<char>(second),
                            static_cast<char>(third)};
        ++tags[ClusterSlotOf({tag, sizeof(tag)})];
      }
    }
  }
  for (int slot = 0; slot < kClusterSlots; ++slot) EXPECT_GT(tags[static_cast<size_t>(slot)], 0);
  for (int slot = 0; slot < kClusterSlots; slot += 997) {
    EXPECT_EQ(ClusterSlotOf(ClusterTagOf(static_cast<uint16_t>(slot))), slot);
  }
}

}  // namespace
}  // namespace dfly
