// SPDX-License-Identifier: Apache-2.0
#include "server/clients/sentinels.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

constexpr uint64_t kPatience = 100;

TEST(SentinelHelloTest, LastsWhileSomethingIsSaid) {
  SentinelHello hello;
  hello.heard_ns = 1000;
  EXPECT_TRUE(hello.HasLasted(1000, 1020, kPatience));
  EXPECT_TRUE(hello.HasLasted(1090, 1095, kPatience));
  EXPECT_TRUE(hello.HasLasted(1180, 1270, kPatience));
}

TEST(SentinelHelloTest, EndsWithSilenceThatGoesOn) {
  SentinelHello hello;
  hello.heard_ns = 1000;
  EXPECT_TRUE(hello.HasLasted(1000, 1099, kPatience));
  EXPECT_FALSE(hello.HasLasted(1000, 1100, kPatience));
}

TEST(SentinelHelloTest, EndsWithSilenceThatIsOverWhenItIsLookedAt) {
  SentinelHello hello;
  hello.heard_ns = 1000;
  EXPECT_TRUE(hello.HasLasted(1010, 1090, kPatience));
  EXPECT_FALSE(hello.HasLasted(1110, 1115, kPatience));
}

TEST(SentinelHelloTest, EndsWithSilenceSinceItWasSaid) {
  SentinelHello hello;
  hello.heard_ns = 1000;
  EXPECT_FALSE(hello.HasLasted(1150, 1160, kPatience));
}

}  // namespace
}  // namespace dfly
