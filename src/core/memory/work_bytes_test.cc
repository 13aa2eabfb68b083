// SPDX-License-Identifier: Apache-2.0
#include "core/memory/work_bytes.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace dfly {
namespace {

TEST(WorkBytesTest, CountWhileTheyLive) {
  ASSERT_EQ(WorkBytes::OfThread(), 0u);
  {
    WorkBytes first;
    first.Add(100);
    first.Add(20);
    first.AddBlock(WorkBytes::kMin - 1);
    EXPECT_EQ(WorkBytes::OfThread(), 120u);
    first.AddBlock(WorkBytes::kMin);
    first.Set(7);
    EXPECT_EQ(first.bytes(), 7u);
    WorkBytes second(std::move(first));
    second.Add(3);
    EXPECT_EQ(WorkBytes::OfThread(), 10u);
    WorkBytes third;
    third.Set(1000);
    third = std::move(second);
    EXPECT_EQ(third.bytes(), 10u);
  }
  EXPECT_EQ(WorkBytes::OfThread(), 0u);
}

TEST(WorkBytesTest, CountForTheThreadThatHasMadeThem) {
  WorkBytes bytes;
  std::thread([&bytes] {
    bytes.Set(5);
    WorkBytes moved = std::move(bytes);
    EXPECT_EQ(WorkBytes::OfThread(), 0u);
    bytes = std::move(moved);
  }).join();
  EXPECT_EQ(WorkBytes::OfThread(), 5u);
}

}  // namespace
}  // namespace dfly
