// SPDX-License-Identifier: Apache-2.0
#include "server/replication/absent_replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "helio/base/clock.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kSecond = helio::kNanosPerSecond;

TEST(AbsentReplicasTest, TheFirstOffsetIsOfWhoLacksMost) {
  AbsentReplicas absent;
  EXPECT_EQ(absent.first_offset(), AbsentReplicas::kNoOffset);
  absent.OnLeft("a:1", 500, 0);
  absent.OnLeft("b:1", 300, 0);
  absent.OnLeft("c:1", 700, 0);
  EXPECT_EQ(absent.first_offset(), 300u);
  absent.OnBack("b:1");
  absent.OnBack("nobody:1");
  EXPECT_EQ(absent.first_offset(), 500u);
  absent.OnLeft("a:1", 900, 1);  // it was back in between
  EXPECT_EQ(absent.first_offset(), 700u);
  absent.Clear();
  EXPECT_EQ(absent.first_offset(), AbsentReplicas::kNoOffset);
}

TEST(AbsentReplicasTest, WhoIsAwayForTooLongIsForgotten) {
  AbsentReplicas absent;
  absent.OnLeft("a:1", 100, 10 * kSecond);
  absent.OnLeft("b:1", 200, 20 * kSecond);
  EXPECT_THAT(absent.Expire(70 * kSecond - 1, 60), IsEmpty());
  EXPECT_THAT(absent.Expire(70 * kSecond, 60), ElementsAre("a:1"));
  EXPECT_EQ(absent.first_offset(), 200u);
  EXPECT_THAT(absent.Expire(UINT64_MAX, 0), IsEmpty());
  EXPECT_EQ(absent.first_offset(), 200u);
}

TEST(AbsentReplicasTest, OfTooManyTheFirstAreForgotten) {
  AbsentReplicas absent;
  for (uint64_t i = 0; i <= AbsentReplicas::kMax; ++i) {
    absent.OnLeft("a:" + std::to_string(i), 100 + i, 0);
  }
  EXPECT_EQ(absent.first_offset(), 101u);
}

}  // namespace
}  // namespace dfly
