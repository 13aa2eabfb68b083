// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/fiber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "helio/fibers/fiber_pool.h"
#include "helio/fibers/long_work.h"
#include "helio/fibers/sync.h"

namespace helio {
namespace {

TEST(FiberTest, RunsInOrderOfSpawn) {
  Scheduler scheduler;
  std::string order;
  for (char c : {'a', 'b', 'c'}) Fiber("f", [&order, c] { order += c; }).Detach();
  scheduler.RunUntilDone();
  EXPECT_EQ(order, "abc");
}

TEST(FiberTest, YieldLetsTheOthersRun) {
  Scheduler scheduler;
  std::string order;
  for (char c : {'a', 'b'}) {
    Fiber("f", [&order, c] {
      order += c;
      this_fiber::Yield();
      order += static_cast<char>(c - 'a' + 'A');
    }).Detach();
  }
  scheduler.RunUntilDone();
  EXPECT_EQ(order, "abAB");
}

TEST(LongWorkTest, LetsOthersRun) {
  Scheduler scheduler;
  bool others_ran = false;
  uint64_t steps = 0;
  Fiber("long", [&] {
    LongWork work;
    constexpr uint64_t kFarTooMany = 1'000'000'000;
    for (; !others_ran && steps < kFarTooMany; ++steps) work.Step();
  }).Detach();
  Fiber("other", [&] { others_ran = true; }).Detach();
  scheduler.RunUntilDone();
  EXPECT_TRUE(others_ran);
  EXPECT_GE(steps, 64u) << "it looks at the clock too often";
  EXPECT_LT(steps, 1'000'000'000u) << "it had no turn in between";
}

TEST(FiberTest, JoinWaitsForTheFunctionAndItsCaptures) {
  Scheduler scheduler;
  auto alive = std::make_shared<int>(1);
  std::weak_ptr<int> watch = alive;
  bool checked = false;
  Fiber outer("outer", [&, alive = std::move(alive)]() mutable {
    Fiber inner("inner", [kept = std::move(alive)] { this_fiber::Yield(); });
    inner.Join();
    EXPECT_TRUE(watch.expired());
    checked = true;
  });
  scheduler.RunUntilDone();
  outer.Join();
  EXPECT_TRUE(checked);
}

TEST(FiberTest, AFiberOutlivesTheOneThatSpawnedIt) {
  Scheduler scheduler;
  std::string order;
  Fiber("parent", [&order] {
    Fiber("child", [&order] {
      order += 'c';
      this_fiber::Yield();
      order += 'C';
    }).Detach();
    order += 'p';
  }).Detach();
  scheduler.RunUntilDone();
  EXPECT_EQ(order, "pcC");
}

TEST(FiberTest, SleepersWakeInOrderOfTheirDeadlines) {
  Scheduler scheduler;
  std::string order;
  const uint64_t begin_ns = MonotonicNanos();
  for (int ms : {3, 1, 2}) {
    Fiber("f", [&order, begin_ns, ms] {
      this_fiber::SleepUntil(begin_ns + static_cast<uint64_t>(ms) * 5'000'000);
      order += static_cast<char>('0' + ms);
    }).Detach();
  }
  scheduler.RunUntilDone();
  EXPECT_EQ(order, "123");
}

TEST(FiberTest, BackgroundFibersRunWhenNothingElseIsReady) {
  Scheduler scheduler;
  std::string order;
  Fiber({.name = "low", .priority = FiberPriority::kBackground}, [&] { order += 'l'; }).Detach();
  Fiber("high", [&] {
    order += 'h';
    this_fiber::Yield();
    order += 'H';
  }).Detach();
  scheduler.RunUntilDone();
  EXPECT_EQ(order, "hHl");
}

std::string RunWithSeed(uint64_t seed) {
  Scheduler scheduler;
  scheduler.UseRandomOrder(seed);
  std::string order;
  for (char c = 'a'; c < 'i'; ++c) {
    Fiber("f", [&order, c] {
      for (int i = 0; i < 3; ++i) {
        order += c;
        this_fiber::Yield();
      }
    }).Detach();
  }
  scheduler.RunUntilDone();
  return order;
}

TEST(FiberTest, ASeedDecidesTheScheduleAndReplays) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string order = RunWithSeed(seed);
    EXPECT_EQ(order.size(), 24u);
    EXPECT_EQ(order, RunWithSeed(seed)) << "seed " << seed;
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 15u);
}

TEST(FiberTest, DeepStacksDownToTheGuardPageAreUsable) {
  Scheduler scheduler;
  size_t sum = 0;
  Fiber({.name = "deep", .stack_size = 256 * 1024}, [&] {
    volatile char block[128 * 1024];
    for (size_t i = 0; i < sizeof(block); i += 1024) block[i] = 1;
    for (size_t i = 0; i < sizeof(block); i += 1024) sum += static_cast<size_t>(block[i]);
  }).Detach();
  scheduler.RunUntilDone();
  EXPECT_EQ(sum, 128u);
}

TEST(FiberDeathTest, AStackOverflowHitsTheGuardPage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto overflow = [] {
    Scheduler scheduler;
    Fiber({.name = "over", .stack_size = 64 * 1024}, [] {
      volatile char block[96 * 1024];
      for (size_t i = sizeof(block); i > 0; i -= 512) block[i - 1] = 1;
    }).Detach();
    scheduler.RunUntilDone();
  };
  EXPECT_DEATH(overflow(), "");
}

#ifndef NDEBUG
TEST(NoSuspendDeathTest, SuspendingInsideTheScopeAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto suspend = [] {
    Scheduler scheduler;
    Fiber("f", [] {
      NoSuspend guard;
      this_fiber::Yield();
    }).Detach();
    scheduler.RunUntilDone();
  };
  EXPECT_DEATH(suspend(), "NoSuspend");
}
#endif

// Runs `body(thread index)` as a fiber on each of `count` threads. A scheduler outlives the others'
// last wake, so plain threads that take part end in `before_destruction`.
template <typename Body>
void OnThreads(
    int count, Body body, std::function<void()> before_destruction = [] {}) {
  std::vector<std::thread> threads;
  std::barrier all_done(count);
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([i, &body, &all_done, &before_destruction] {
      Scheduler scheduler;
      Fiber("test", [i, &body] { body(i); }).Detach();
      scheduler.RunUntilDone();
      if (i == 0) before_destruction();
      all_done.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SyncTest, MutexExcludesFibersOfSeveralThreads) {
  Mutex mutex;
  int64_t counter = 0;
  OnThreads(4, [&](int) {
    std::vector<Fiber> fibers;
    for (int f = 0; f < 4; ++f) {
      fibers.emplace_back("f", [&] {
        for (int i = 0; i < 500; ++i) {
          std::lock_guard lock(mutex);
          const int64_t seen = counter;
          if (i % 8 == 0) this_fiber::Yield();
          counter = seen + 1;
        }
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
  });
  EXPECT_EQ(counter, 4 * 4 * 500);
}

TEST(SyncTest, CondVarTimesOutAndIsNotifiedUnderARace) {
  Mutex mutex;
  CondVar cond;
  int tokens = 0;
  int taken = 0;
  constexpr int kTokens = 1000;
  OnThreads(3, [&](int thread) {
    if (thread == 0) {
      for (int i = 0; i < kTokens; ++i) {
        std::unique_lock lock(mutex);
        ++tokens;
        cond.NotifyOne();
        lock.unlock();
        if (i % 16 == 0) this_fiber::SleepForNanos(20'000);
      }
      return;
    }
    while (true) {
      std::unique_lock lock(mutex);
      if (tokens > 0) {
        --tokens;
        ++taken;
      }
      if (taken == kTokens) {
        cond.NotifyAll();
        return;
      }
      if (tokens == 0) cond.WaitUntil(lock, MonotonicNanos() + 20'000);
    }
  });
  EXPECT_EQ(taken, kTokens);
}

// A wake that is lost hangs it. The thread sanitizer watches what a waiter whose deadline comes
// reads of the list that NotifyAll has taken.
TEST(SyncTest, CondVarNotifiesAllWhileTheirDeadlinesCome) {
  constexpr int kWaitingThreads = 3;
  constexpr int kWaits = 3000;
  Mutex mutex;
  CondVar cond;
  std::atomic<int> waiting_threads = kWaitingThreads;
  OnThreads(1 + kWaitingThreads, [&](int thread) {
    if (thread == 0) {
      while (waiting_threads > 0) cond.NotifyAll();
      return;
    }
    for (int i = 0; i < kWaits; ++i) {
      std::unique_lock lock(mutex);
      cond.WaitUntil(lock, MonotonicNanos() + 1000);
    }
    --waiting_threads;
  });
}

TEST(SyncTest, EventCountMissesNoNotification) {
  EventCount event;
  std::atomic<int> turn{0};
  constexpr int kTurns = 5000;
  OnThreads(2, [&](int thread) {
    for (int i = thread; i < kTurns; i += 2) {
      event.Await([&] { return turn.load() == i; });
      turn.store(i + 1);
      event.Notify();
    }
  });
  EXPECT_EQ(turn.load(), kTurns);
}

TEST(SyncTest, BlockingCounterMayDieAsSoonAsWaitReturns) {
  std::mutex mutex;
  std::deque<BlockingCounter*> work;  // guarded by mutex
  std::atomic<int> running{2};
  std::thread worker([&] {
    while (running > 0) {
      std::unique_lock lock(mutex);
      const std::deque<BlockingCounter*> taken = std::exchange(work, {});
      lock.unlock();
      for (BlockingCounter* counter : taken) counter->Done();
      if (taken.empty()) std::this_thread::yield();
    }
  });
  auto body = [&](int) {
    for (int i = 0; i < 1000; ++i) {
      BlockingCounter counter(2);
      {
        const std::lock_guard lock(mutex);
        work.insert(work.end(), 2, &counter);
      }
      counter.Wait();
    }
    --running;
  };
  OnThreads(2, body, [&] { worker.join(); });
}

TEST(SyncTest, FutureCarriesAValueFromAPlainThreadToAFiber) {
  Future<std::string> future;
  std::thread resolver([future]() mutable { future.Resolve("value"); });
  std::string got;
  OnThreads(
      1, [&](int) { got = future.Get(); }, [&] { resolver.join(); });
  EXPECT_EQ(got, "value");
}

TEST(TimerQueueTest, FiresInOrderAndForgetsWhatIsDisarmed) {
  TimerQueue queue;
  struct Recorder : Timer {
    using Timer::Timer;
    int id = 0;
    std::vector<int>* out = nullptr;
  };
  std::vector<int> fired;
  std::vector<std::unique_ptr<Recorder>> timers;
  std::vector<int> expected;
  for (int i = 0; i < 200; ++i) {
    timers.push_back(std::make_unique<Recorder>([](Timer* timer) {
      auto* self = static_cast<Recorder*>(timer);
      self->out->push_back(self->id);
    }));
    timers.back()->id = (i * 37) % 200;
    timers.back()->out = &fired;
    queue.Arm(timers.back().get(), static_cast<uint64_t>(timers.back()->id) + 1);
  }
  for (auto& timer : timers) {
    if (timer->id % 3 == 0) queue.Disarm(timer.get());
    if (timer->id % 3 == 1) queue.Arm(timer.get(), static_cast<uint64_t>(timer->id) + 1000);
  }
  queue.FireDue(500);
  for (int id = 0; id < 200; ++id) {
    if (id % 3 == 2) expected.push_back(id);
  }
  EXPECT_EQ(fired, expected);
  queue.FireDue(5000);
  for (int id = 0; id < 200; ++id) {
    if (id % 3 == 1) expected.push_back(id);
  }
  EXPECT_EQ(fired, expected);
  EXPECT_EQ(queue.size(), 0u);
}

// What a FiberPool is asked to do here: note a letter, perhaps wait, note another.
struct PoolWork {
  std::string* order;
  char letter;
  bool yields;

  static void Run(void* arg) {
    auto* const work = static_cast<PoolWork*>(arg);
    *work->order += work->letter;
    if (work->yields) {
      this_fiber::Yield();
      *work->order += static_cast<char>(work->letter - 'a' + 'A');
    }
  }
};

TEST(FiberPoolTest, WhatDoesNotWaitIsOverWhenRunReturns) {
  Scheduler scheduler;
  std::string order;
  {
    FiberPool pool({.name = "pool"}, 2);
    PoolWork work{&order, 'a', false};
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(pool.Run(&PoolWork::Run, &work));
      order += '.';
    }
    EXPECT_EQ(scheduler.live_fibers(), 1u) << "one fiber serves them all";
  }
  EXPECT_EQ(order, "a.a.a.");
  EXPECT_EQ(scheduler.live_fibers(), 0u);
}

TEST(FiberPoolTest, WhatWaitsGoesOnLater) {
  Scheduler scheduler;
  std::string order;
  FiberPool pool({.name = "pool"}, 1);
  PoolWork a{&order, 'a', true}, b{&order, 'b', true}, c{&order, 'c', false};
  EXPECT_FALSE(pool.Run(&PoolWork::Run, &a));
  EXPECT_FALSE(pool.Run(&PoolWork::Run, &b));
  EXPECT_TRUE(pool.Run(&PoolWork::Run, &c));
  EXPECT_EQ(pool.running(), 2u);
  EXPECT_EQ(order, "abc");
  scheduler.RunReady();
  EXPECT_EQ(order, "abcAB");
  EXPECT_EQ(pool.running(), 0u);
  EXPECT_EQ(scheduler.live_fibers(), 1u) << "only one is kept";
}

TEST(FiberPoolTest, IdleFibersEndWhenNobodyNeedsThem) {
  Scheduler scheduler;
  std::string order;
  FiberPool pool({.name = "pool"}, 8);
  PoolWork work{&order, 'a', true};
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(pool.Run(&PoolWork::Run, &work));
  pool.Shrink(0);
  EXPECT_EQ(scheduler.live_fibers(), 5u) << "they are in use";
  scheduler.RunReady();
  EXPECT_EQ(pool.idle(), 5u);
  pool.Shrink(2);
  EXPECT_EQ(pool.idle(), 2u);
  EXPECT_EQ(scheduler.live_fibers(), 2u);
  EXPECT_EQ(scheduler.stacks().kept(), 3u);
  scheduler.stacks().Halve();
  EXPECT_EQ(scheduler.stacks().kept(), 1u);
  scheduler.stacks().Halve();
  EXPECT_EQ(scheduler.stacks().kept(), 0u);
  EXPECT_EQ(scheduler.stacks().mapped(), 2u);
  EXPECT_FALSE(pool.Run(&PoolWork::Run, &work));
  scheduler.RunReady();
  EXPECT_EQ(scheduler.live_fibers(), 2u);
}

TEST(FiberPoolTest, AFiberMayRunAnother) {
  Scheduler scheduler;
  std::string order;
  FiberPool pool({.name = "pool"}, 4);
  PoolWork inner{&order, 'i', true};
  Fiber("outer", [&] {
    order += 'o';
    EXPECT_FALSE(pool.Run(&PoolWork::Run, &inner));
    order += 'p';
    this_fiber::Yield();  // goes back to the loop, not to the inner one
    order += 'q';
  }).Detach();
  while (order.size() < 5) scheduler.RunReady();
  EXPECT_EQ(order, "oipIq");
}

}  // namespace
}  // namespace helio
