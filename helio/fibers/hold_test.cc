// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/hold.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>

#include "helio/fibers/fiber.h"
#include "helio/fibers/sync.h"

namespace helio {
namespace {

constexpr WaitReason kReason = {"thing {}", "the test says so"};
constexpr WaitReason kOther = {"another thing", "the test says so"};
constexpr WaitReason kTurn = {"a mutex", "who has it may not wait for anything else"};

void RunInFiber(const std::function<void()>& function) {
  Scheduler scheduler;
  Fiber("holder", function).Detach();
  scheduler.RunUntilDone();
}

TEST(HoldTest, WhoHoldsWaitsWhereTheWaitSaysWhyItEnds) {
  RunInFiber([] {
    Hold hold;
    hold.Begin();
    EXPECT_TRUE(Hold::IsAny());
    EXPECT_EQ(hold.DescribeWait(), "");
    {
      const BoundedWait wait(kReason, 7);
      EXPECT_TRUE(hold.DescribeWait().starts_with("thing 7 since 0.")) << hold.DescribeWait();
      const BoundedWait inner(kOther);
      EXPECT_TRUE(hold.DescribeWait().starts_with("thing 7 since 0.")) << "the outer one says it";
      this_fiber::Yield();
    }
    EXPECT_EQ(hold.DescribeWait(), "");
    hold.End();
    EXPECT_FALSE(Hold::IsAny());
    this_fiber::Yield();
  });
}

TEST(HoldTest, AllThatAFiberHasWaits) {
  RunInFiber([] {
    Hold first;
    Hold second;
    first.Begin();
    second.Begin();
    {
      const BoundedWait wait(kOther);
      EXPECT_NE(first.DescribeWait(), "");
      EXPECT_NE(second.DescribeWait(), "");
    }
    first.End();  // in any order
    {
      const BoundedWait wait(kOther);
      EXPECT_EQ(first.DescribeWait(), "");
      EXPECT_NE(second.DescribeWait(), "");
      this_fiber::Yield();
    }
    second.End();
    EXPECT_FALSE(Hold::IsAny());
  });
}

TEST(HoldTest, IsToldOfOnceEachTime) {
  RunInFiber([] {
    Hold hold;
    for (int i = 0; i < 2; ++i) {
      hold.Begin();
      EXPECT_TRUE(hold.TellOnce());
      EXPECT_FALSE(hold.TellOnce());
      hold.End();
    }
  });
}

TEST(HoldTest, APlainThreadIsNotChecked) {
  Hold hold;
  hold.Begin();
  EXPECT_FALSE(hold.is_begun());
  EXPECT_FALSE(Hold::IsAny());
  BlockingCounter(0).Wait();
  hold.End();
}

TEST(HoldTest, AMutexForThoseWhoHold) {
  Scheduler scheduler;
  HoldableMutex mutex(kTurn);
  std::string order;
  Hold lock;
  Fiber("first", [&] {
    const std::lock_guard guard(mutex);
    EXPECT_TRUE(Hold::IsAny());
    const BoundedWait wait(kOther);
    this_fiber::Yield();
    order += 'a';
  }).Detach();
  Fiber("second", [&] {
    lock.Begin();
    {
      const std::lock_guard guard(mutex);
      order += 'b';
    }
    lock.End();
    EXPECT_FALSE(Hold::IsAny());
  }).Detach();
  scheduler.RunUntilDone();
  EXPECT_EQ(order, "ab");
}

#ifndef NDEBUG
// Each of these would be over at once: that it may be waited for is what is checked.
TEST(HoldDeathTest, AnyOtherWaitEndsTheProcess) {
  Mutex mutex;
  std::unique_lock lock(mutex);
  CondVar changed;
  EventCount event;
  const std::function<void()> waits[] = {
      [] { this_fiber::Yield(); },
      [] { this_fiber::SleepForMillis(1); },
      [] { BlockingCounter(0).Wait(); },
      [] {
        Mutex free;
        free.lock();
      },
      [&] { event.Await([] { return true; }); },
      [] { Fiber("other", [] {}).Join(); },
      [&] { changed.Wait(lock); },
  };
  for (const auto& wait : waits) {
    EXPECT_DEATH(RunInFiber([&] {
                   Hold hold;
                   hold.Begin();
                   wait();
                 }),
                 "holds what others wait for");
  }
}

TEST(HoldDeathTest, WhoHasSuchAMutexHolds) {
  EXPECT_DEATH(RunInFiber([] {
                 HoldableMutex mutex(kTurn);
                 const std::lock_guard guard(mutex);
                 this_fiber::Yield();
               }),
               "holds what others wait for");
}

TEST(HoldDeathTest, WhoWorksForOneThatHoldsMayNotWaitEither) {
  EXPECT_DEATH(RunInFiber([] {
                 const InheritedHold inherited(true);
                 this_fiber::Yield();
               }),
               "holds what others wait for");
  RunInFiber([] {
    const InheritedHold inherited(false);
    this_fiber::Yield();
  });
}

TEST(HoldDeathTest, AFiberDoesNotEndWithAHold) {
  Hold hold;
  EXPECT_DEATH(RunInFiber([&] { hold.Begin(); }), "ends with a Hold");
}
#endif

}  // namespace
}  // namespace helio
