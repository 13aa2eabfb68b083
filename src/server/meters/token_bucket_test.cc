// SPDX-License-Identifier: Apache-2.0
#include "server/meters/token_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace dfly {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kBegin = 1000 * kSecond;

int64_t TakeAll(TokenBucket& bucket, uint64_t now_ns, int64_t at_a_time = 1) {
  int64_t taken = 0;
  while (bucket.TryTake(now_ns, at_a_time)) taken += at_a_time;
  return taken;
}

TEST(TokenBucketTest, WithoutARateEverythingGoes) {
  TokenBucket bucket;
  EXPECT_FALSE(bucket.is_limited());
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(bucket.TryTake(kBegin, 1'000'000));
  EXPECT_EQ(bucket.FreeAtNanos(), 0u);
}

TEST(TokenBucketTest, SavesASecondsWorthAndNoMore) {
  TokenBucket bucket;
  bucket.SetRate(100);
  // One more, as who takes the last one may be in debt for it.
  EXPECT_EQ(TakeAll(bucket, kBegin), 101);
  EXPECT_EQ(TakeAll(bucket, kBegin), 0);
  EXPECT_EQ(TakeAll(bucket, kBegin + kSecond / 2), 50);
  EXPECT_EQ(TakeAll(bucket, kBegin + 3600 * kSecond), 101);
}

TEST(TokenBucketTest, GivesTheRateInTheLongRunWhateverIsTakenAtATime) {
  for (const uint64_t rate : {1, 7, 1000, 1'000'000}) {
    for (const int64_t at_a_time : {1, 3, 50}) {
      TokenBucket bucket;
      bucket.SetRate(rate);
      TakeAll(bucket, kBegin, at_a_time);
      int64_t taken = 0;
      constexpr uint64_t kSeconds = 200;
      for (uint64_t ms = 1; ms <= kSeconds * 1000; ms += rate >= 1'000'000 ? 100 : 1) {
        taken += TakeAll(bucket, kBegin + ms * 1'000'000, at_a_time);
      }
      EXPECT_NEAR(static_cast<double>(taken), static_cast<double>(kSeconds * rate),
                  static_cast<double>(at_a_time) + static_cast<double>(rate) * 0.11)
          << rate << " by " << at_a_time;
    }
  }
}

TEST(TokenBucketTest, ADebtIsPaidByTime) {
  TokenBucket bucket;
  bucket.SetRate(1000);
  bucket.Take(kBegin, 6000);  // 1000 were there
  EXPECT_FALSE(bucket.TryTake(kBegin, 1));
  EXPECT_EQ(bucket.FreeAtNanos(), kBegin + 5 * kSecond);
  EXPECT_FALSE(bucket.TryTake(kBegin + 5 * kSecond - 1, 1));
  EXPECT_TRUE(bucket.TryTake(kBegin + 5 * kSecond, 1));
}

TEST(TokenBucketTest, NoDebtIsLongerThanTwoDays) {
  TokenBucket bucket;
  bucket.SetRate(1);
  for (int i = 0; i < 10; ++i) bucket.Take(kBegin, INT64_MAX);
  EXPECT_LE(bucket.FreeAtNanos(), kBegin + 2 * 86'400 * kSecond);
}

TEST(TokenBucketTest, WithAnotherRateItBeginsAnew) {
  TokenBucket bucket;
  bucket.SetRate(10);
  bucket.Take(kBegin, 1'000'000);
  bucket.SetRate(10);
  EXPECT_FALSE(bucket.TryTake(kBegin, 1));
  bucket.SetRate(1000);
  EXPECT_EQ(TakeAll(bucket, kBegin), 1001);
  bucket.SetRate(0);
  EXPECT_TRUE(bucket.TryTake(kBegin, 1));
}

TEST(TokenBucketTest, APortionIsAMillisecondsWorth) {
  TokenBucket bucket;
  for (const auto& [rate, portion] :
       {std::pair{1, 1}, {999, 1}, {10'000, 10}, {50'000'000, 50'000}}) {
    bucket.SetRate(static_cast<uint64_t>(rate));
    EXPECT_EQ(bucket.portion(), portion);
  }
}

// All threads together get what one would: the clock stands still.
TEST(TokenBucketTest, ThreadsShareIt) {
  TokenBucket bucket;
  bucket.SetRate(1'000'000);
  constexpr int kThreads = 4;
  std::vector<int64_t> taken(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { taken[static_cast<size_t>(i)] = TakeAll(bucket, kBegin, bucket.portion()); });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t sum = 0;
  for (const int64_t part : taken) sum += part;
  EXPECT_EQ(sum, 1'000'000 + bucket.portion());
}

}  // namespace
}  // namespace dfly
