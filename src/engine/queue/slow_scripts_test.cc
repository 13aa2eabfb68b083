// SPDX-License-Identifier: Apache-2.0
#include "engine/queue/slow_scripts.h"

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
  EXPECT_EQ(slow.WhatIs(&a), Slow::kNone);
  slow.Add(&a, Slow::kScript);
  EXPECT_FALSE(slow.empty());
  EXPECT_EQ(slow.WhatIs(&a), Slow::kScript);
  EXPECT_EQ(slow.WhatIs(&b), Slow::kNone);
  EXPECT_EQ(slow.WhatIs(nullptr), Slow::kNone);
  slow.Add(&b, Slow::kFunction);
  slow.Remove(&a);
  EXPECT_FALSE(slow.empty());
  EXPECT_EQ(slow.WhatIs(&a), Slow::kNone);
  EXPECT_EQ(slow.WhatIs(&b), Slow::kFunction);
  slow.Remove(&b);
  EXPECT_TRUE(slow.empty());
  EXPECT_EQ(slow.WhatIs(&b), Slow::kNone);
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
        slow.Add(&scripts[i], Slow::kScript);
        wrong += slow.empty() || slow.WhatIs(&scripts[i]) != Slow::kScript;
        (void)slow.WhatIs(&scripts[(i + 1) % kThreads]);
        slow.Remove(&scripts[i]);
        wrong += slow.WhatIs(&scripts[i]) != Slow::kNone;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(slow.empty());
}

}  // namespace
}  // namespace dfly
