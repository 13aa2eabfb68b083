// SPDX-License-Identifier: Apache-2.0
#include "server/slow_scripts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace dfly {
namespace {

TEST(SlowScriptsTest, OnlyThoseThatWereAddedAreSlow) {
  SlowScripts slow;
  int a = 0;
  int b = 0;
  EXPECT_TRUE(slow.empty());
  EXPECT_FALSE(slow.Has(&a));
  slow.Add(&a);
  EXPECT_FALSE(slow.empty());
  EXPECT_TRUE(slow.Has(&a));
  EXPECT_FALSE(slow.Has(&b));
  EXPECT_FALSE(slow.Has(nullptr));
  slow.Add(&b);
  slow.Remove(&a);
  EXPECT_FALSE(slow.empty());
  EXPECT_FALSE(slow.Has(&a));
  EXPECT_TRUE(slow.Has(&b));
  slow.Remove(&b);
  EXPECT_TRUE(slow.empty());
  EXPECT_FALSE(slow.Has(&b));
}

TEST(SlowScriptsTest, SeveralThreadsMayUseItAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  SlowScripts slow;
  std::vector<int> scripts(kThreads);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        slow.Add(&scripts[i]);
        wrong += slow.empty() || !slow.Has(&scripts[i]);
        (void)slow.Has(&scripts[(i + 1) % kThreads]);
        slow.Remove(&scripts[i]);
        wrong += slow.Has(&scripts[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(slow.empty());
}

}  // namespace
}  // namespace dfly
