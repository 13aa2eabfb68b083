// SPDX-License-Identifier: Apache-2.0
#include "helio/base/time_slice.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <cstdio>
#include <thread>

namespace helio {
namespace {

// Such a kernel takes the call, and does nothing: there is no effect to look at.
constexpr char kIgnored[] =
    "this kernel is older than Linux 6.12 and ignores the slice of a thread";

bool KernelHasSlices() {
  utsname name;
  int major = 0, minor = 0;
  if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 12);
}

// On a thread of its own, as a slice stays.
template <typename Function>
void OnThread(Function function) {
  std::thread thread(function);
  thread.join();
}

TEST(TimeSliceTest, IsWhatWasSet) {
  OnThread([] {
    ASSERT_TRUE(SetTimeSlice(300));
    if (!KernelHasSlices()) GTEST_SKIP() << kIgnored;
    EXPECT_EQ(TimeSlice(), 300u);
    ASSERT_TRUE(SetTimeSlice(100));
    EXPECT_EQ(TimeSlice(), 100u);
  });
}

TEST(TimeSliceTest, TheKernelTakesTheNearest) {
  OnThread([] {
    ASSERT_TRUE(SetTimeSlice(1));
    if (!KernelHasSlices()) GTEST_SKIP() << kIgnored;
    EXPECT_EQ(TimeSlice(), 100u);
    ASSERT_TRUE(SetTimeSlice(1'000'000));
    EXPECT_EQ(TimeSlice(), 100'000u);
  });
}

TEST(TimeSliceTest, ThreadsOfAnotherPolicyStayAsTheyAre) {
  OnThread([] {
    const sched_param none{.sched_priority = 0};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    EXPECT_TRUE(SetTimeSlice(300));
    EXPECT_EQ(sched_getscheduler(0), SCHED_IDLE);
    EXPECT_NE(TimeSlice(), 300u);
  });
}

}  // namespace
}  // namespace helio
