// SPDX-License-Identifier: Apache-2.0
#include "server/clients/affinity.h"

#include <gtest/gtest.h>

#include "helio/base/random.h"

namespace dfly {
namespace {

// How many of `count` commands until it wants to move; `count` if it does not.
template <typename ThreadOf>
uint32_t UntilMove(Affinity& affinity, uint32_t count, ThreadOf thread_of) {
  for (uint32_t i = 0; i < count; ++i) {
    if (affinity.Note(thread_of(i), 0)) return i + 1;
  }
  return count;
}

TEST(AffinityTest, CommandsForOneOtherThreadMoveTheConnection) {
  Affinity affinity;
  EXPECT_EQ(UntilMove(affinity, 1000, [](uint32_t) { return 3; }), Affinity::kFirstMove);
  EXPECT_EQ(affinity.thread(), 3u);
}

TEST(AffinityTest, OneOfTenForAnotherThreadDelaysIt) {
  for (uint32_t other : {0, 2}) {
    Affinity affinity;
    const uint32_t moved =
        UntilMove(affinity, 10'000, [&](uint32_t i) { return i % 10 == 9 ? other : 1; });
    EXPECT_GT(moved, Affinity::kFirstMove);
    EXPECT_LT(moved, 1000u);
    EXPECT_EQ(affinity.thread(), 1u);
  }
}

TEST(AffinityTest, ASixthForAnotherThreadIsTooMuch) {
  Affinity affinity;
  EXPECT_EQ(UntilMove(affinity, 100'000, [](uint32_t i) { return i % 6 == 5 ? 0 : 1; }), 100'000u);
}

TEST(AffinityTest, CommandsForItsOwnThreadNeverMoveIt) {
  Affinity affinity;
  EXPECT_EQ(UntilMove(affinity, 10'000, [](uint32_t) { return 0; }), 10'000u);
}

TEST(AffinityTest, AUniformLoadMovesNothing) {
  for (uint32_t threads : {2, 3, 4, 8}) {
    helio::Random random(threads);
    Affinity affinity;
    const auto any = [&](uint32_t) { return static_cast<uint32_t>(random.Uniform(threads)); };
    EXPECT_EQ(UntilMove(affinity, 1'000'000, any), 1'000'000u) << threads << " threads";
  }
}

TEST(AffinityTest, ANewFavouriteTakesThePlaceOfTheOldOne) {
  Affinity affinity;
  UntilMove(affinity, 60, [](uint32_t) { return 1; });
  EXPECT_LT(UntilMove(affinity, 1000, [](uint32_t) { return 2; }), 100u);
  EXPECT_EQ(affinity.thread(), 2u);
}

TEST(AffinityTest, WhoChangesItsMindMovesLessAndLessOften) {
  Affinity affinity;
  uint32_t moves = 0;
  for (uint32_t i = 0; i < 100'000; ++i) {
    if (!affinity.Note(1 + moves % 2, 0)) continue;
    ++moves;
    affinity.OnTried();
  }
  EXPECT_GE(moves, 5u);
  EXPECT_LE(moves, 11u);
}

}  // namespace
}  // namespace dfly
