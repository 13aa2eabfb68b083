// SPDX-License-Identifier: Apache-2.0
#include "helio/base/mpsc_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace helio {
namespace {

struct Message : MpscNode {
  Message(int from, int number) : producer(from), sequence(number) {}
  const int producer;
  const int sequence;
};

TEST(MpscQueueTest, PopsInTheOrderOfPushes) {
  MpscQueue queue;
  EXPECT_TRUE(queue.Empty());
  EXPECT_EQ(queue.Pop(), nullptr);
  Message a(0, 1), b(0, 2), c(0, 3);
  EXPECT_TRUE(queue.Push(&a));
  EXPECT_FALSE(queue.Push(&b));
  EXPECT_FALSE(queue.Empty());
  EXPECT_EQ(queue.Pop(), &a);
  EXPECT_FALSE(queue.Push(&c));
  EXPECT_EQ(queue.Pop(), &b);
  EXPECT_EQ(queue.Pop(), &c);
  EXPECT_EQ(queue.Pop(), nullptr);
  EXPECT_TRUE(queue.Empty());
}

TEST(MpscQueueTest, FirstPushAfterEmptySaysSo) {
  MpscQueue queue;
  Message a(0, 1), b(0, 2);
  for (int i = 0; i < 100; i++) {
    ASSERT_TRUE(queue.Empty());
    ASSERT_TRUE(queue.Push(&a));
    if (i % 3 == 0) {
      ASSERT_FALSE(queue.Push(&b));
    }
    ASSERT_EQ(queue.Pop(), &a);
    if (i % 3 == 0) {
      ASSERT_EQ(queue.Pop(), &b);
    }
  }
}

// Nodes are freed as soon as they are popped, so a late write of a producer shows under sanitizers.
TEST(MpscQueueTest, ManyProducersLoseNothingAndKeepTheirOrder) {
  constexpr int kProducers = 4;
  constexpr int kMessages = 20'000;
  MpscQueue queue;
  std::atomic<int> wakeups{0};
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; p++) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kMessages; i++) {
        if (queue.Push(new Message(p, i))) wakeups.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::vector<int> next(kProducers, 0);
  for (int received = 0; received < kProducers * kMessages;) {
    const std::unique_ptr<Message> message(static_cast<Message*>(queue.Pop()));
    if (message == nullptr) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(message->sequence, next[static_cast<size_t>(message->producer)]++);
    received++;
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(queue.Pop(), nullptr);
  EXPECT_TRUE(queue.Empty());
  EXPECT_GE(wakeups.load(), 1);
}

// A consumer that sleeps only while the queue is empty, and is woken only by pushes that return
// true, must never sleep through a message.
TEST(MpscQueueTest, WakingOnlyOnMaybeEmptyLosesNoMessage) {
  constexpr int kProducers = 3;
  constexpr int kMessages = 3'000;
  MpscQueue queue;
  std::atomic<uint32_t> wakeups{0};
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; p++) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kMessages; i++) {
        if (queue.Push(new Message(p, i))) {
          wakeups.fetch_add(1);
          wakeups.notify_one();
        }
      }
    });
  }
  for (int received = 0; received < kProducers * kMessages;) {
    const uint32_t seen = wakeups.load();
    if (queue.Empty()) {
      wakeups.wait(seen);  // returns at once if a wake-up came after `seen`
      continue;
    }
    while (MpscNode* node = queue.Pop()) {
      delete static_cast<Message*>(node);
      received++;
    }
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(queue.Empty());
}

}  // namespace
}  // namespace helio
