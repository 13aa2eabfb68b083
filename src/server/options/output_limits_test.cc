// SPDX-License-Identifier: Apache-2.0
#include "server/options/output_limits.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

TEST(OutputLimitsTest, SetsTheClassesThatAreNamed) {
  OutputLimits limits;
  EXPECT_EQ(limits.Set("NORMAL 1mb 2kb 3"), "");
  EXPECT_EQ(limits.of(ClientClass::kNormal).hard_bytes, 1u << 20);
  EXPECT_EQ(limits.of(ClientClass::kNormal).soft_bytes, 2u << 10);
  EXPECT_EQ(limits.of(ClientClass::kNormal).soft_s, 3u);
  EXPECT_EQ(limits.Set("pubsub 1 2 3  replica 4 5 6 pubsub 7 8 9"), "");
  EXPECT_EQ(limits.ToString(), "normal 1048576 2048 3 slave 4 5 6 pubsub 7 8 9");
  EXPECT_EQ(limits.Set(""), "");
}

TEST(OutputLimitsTest, AnErrorChangesNothing) {
  OutputLimits limits;
  const std::string before = limits.ToString();
  for (const char* text : {"normal", "normal 1 2", "a b c d e", "pubsub 1 2 3 normal"}) {
    EXPECT_EQ(limits.Set(text), "Wrong number of arguments in buffer limit configuration.") << text;
  }
  for (const char* text : {"nobody 1 2 3", "master 1 2 3", "normal 1 2 3 nobody 1 2 3"}) {
    EXPECT_EQ(limits.Set(text), "Invalid client class specified in buffer limit configuration.")
        << text;
  }
  for (const char* text : {"normal 1x 2 3", "normal 1 -2 3", "normal 1 2 3s", "normal 1 2 -3",
                           "normal 1 2 99999999999", "pubsub 1 2 3 normal 1 2 x"}) {
    EXPECT_EQ(limits.Set(text),
              "Error in hard, soft or soft_seconds setting in buffer limit configuration.")
        << text;
  }
  EXPECT_EQ(limits.ToString(), before);
}

TEST(OutputLimitsTest, TellsFromWhenOnThereIsALimit) {
  EXPECT_EQ(OutputLimit{}.least_bytes(), SIZE_MAX);
  EXPECT_EQ((OutputLimit{.hard_bytes = 50'000}).least_bytes(), 50'000u);
  EXPECT_EQ((OutputLimit{.soft_bytes = 70'000}).least_bytes(), 70'000u);
  EXPECT_EQ((OutputLimit{.hard_bytes = 90'000, .soft_bytes = 80'000}).least_bytes(), 80'000u);
  EXPECT_EQ((OutputLimit{.hard_bytes = 1}).least_bytes(), OutputLimit::kSmallReply);
}

TEST(OutputLimitsTest, ASmallReplyIsNeverTooMuch) {
  const OutputLimit limit{.hard_bytes = 1, .soft_bytes = 1, .soft_s = 1};
  EXPECT_FALSE(limit.is_above_hard(OutputLimit::kSmallReply));
  EXPECT_FALSE(limit.is_above_soft(OutputLimit::kSmallReply));
  EXPECT_TRUE(limit.is_above_hard(OutputLimit::kSmallReply + 1));
  EXPECT_FALSE(OutputLimit{}.is_above_hard(UINT64_MAX));
}

}  // namespace
}  // namespace dfly
