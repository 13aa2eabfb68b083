// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/watch_table.h"

#include <gtest/gtest.h>

#include <string>

namespace dfly {
namespace {

std::string Name(int i) { return std::string(40, 'x') + std::to_string(i); }

TEST(WatchTableTest, AKeyIsWatchedOnceByEach) {
  WatchTable table;
  EXPECT_TRUE(table.Watch(1, 0, "k"));
  EXPECT_FALSE(table.Watch(1, 0, "k"));
  EXPECT_TRUE(table.Watch(1, 1, "k")) << "another database";
  EXPECT_TRUE(table.Watch(2, 0, "k"));
  EXPECT_EQ(table.keys(), 2u);
  table.Touch(0, "k");
  EXPECT_TRUE(table.is_touched(1));
  EXPECT_TRUE(table.is_touched(2));
  table.Unwatch(1);
  EXPECT_EQ(table.keys(), 1u);
  table.Unwatch(2);
  EXPECT_TRUE(table.empty());
}

TEST(WatchTableTest, ItsMemoryGoesWithTheWatchers) {
  constexpr int kKeys = 20'000;
  WatchTable table;
  for (int i = 0; i < kKeys; ++i) {
    table.Watch(1, 0, Name(i));
    table.Watch(2, 0, Name(i));
  }
  const size_t full = table.memory_used();
  EXPECT_GT(full, kKeys * size_t{300});
  table.Unwatch(1);
  EXPECT_LT(table.memory_used(), full);
  EXPECT_GT(table.memory_used(), kKeys * size_t{150});
  table.Unwatch(2);
  EXPECT_LT(table.memory_used(), 100'000u);
}

}  // namespace
}  // namespace dfly
