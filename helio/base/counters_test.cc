// SPDX-License-Identifier: Apache-2.0
#include "helio/base/counters.h"

#include <gtest/gtest.h>

#include <string>

namespace helio {
namespace {

struct Load {
  uint64_t calls = 0;
  uint64_t longest = 0;
  uint64_t limit = 0;
  double seconds = 0;

  static constexpr CounterOf<Load> kCounters[] = {
      &Load::calls, {&Load::longest, Merge::kMax}, {&Load::limit, Merge::kSame}, &Load::seconds};
};
static_assert(ListsAll<Load>());

struct Forgotten {
  uint64_t a = 0;
  uint64_t b = 0;
  static constexpr CounterOf<Forgotten> kCounters[] = {&Forgotten::a};
};
struct Twice {
  uint64_t a = 0;
  uint64_t b = 0;
  static constexpr CounterOf<Twice> kCounters[] = {&Twice::a, &Twice::a};
};
struct Named {
  uint64_t a = 0;
  std::string name;
  static constexpr CounterOf<Named> kCounters[] = {&Named::a};
};

TEST(Counters, EachIsPutTogetherInItsWay) {
  Load sum;
  AddCounters(&sum, {.calls = 3, .longest = 9, .limit = 50, .seconds = 0.5});
  AddCounters(&sum, {.calls = 4, .longest = 2, .limit = 50, .seconds = 0.25});
  EXPECT_EQ(sum.calls, 7u);
  EXPECT_EQ(sum.longest, 9u);
  EXPECT_EQ(sum.limit, 50u);
  EXPECT_EQ(sum.seconds, 0.75);
}

TEST(Counters, AListThatForgetsOneOrHasOneTwiceIsFound) {
  EXPECT_FALSE(ListsAll<Forgotten>());
  EXPECT_FALSE(ListsAll<Twice>());
  EXPECT_FALSE(ListsAll<Named>());
  EXPECT_TRUE(ListsAll<Named>(sizeof(std::string)));
}

}  // namespace
}  // namespace helio
