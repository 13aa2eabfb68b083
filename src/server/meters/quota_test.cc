// SPDX-License-Identifier: Apache-2.0
#include "server/meters/quota.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace dfly {
namespace {

QuotaTableRef TableOf(std::string_view text, const QuotaTableRef& before = nullptr) {
  QuotaSettings settings;
  EXPECT_EQ(settings.Set(text), "");
  return MakeQuotaTable(settings, before);
}

TEST(QuotaTest, ATableHasTheObjectsOfTheOneBefore) {
  const QuotaTableRef before = TableOf("user ann commands 5 db 3 memory 1kb user bob bytes 9");
  ASSERT_EQ(before->size(), 3u);
  const QuotaTableRef after = TableOf("user ann commands 6 action error db 4 memory 2", before);
  ASSERT_EQ(after->size(), 2u);
  const Quota& ann = *after->at({.user = "ann"});
  EXPECT_EQ(&ann, before->at({.user = "ann"}).get());
  EXPECT_EQ(ann.limits(), (QuotaLimits{.commands = 6, .action = QuotaAction::kError}));
  EXPECT_TRUE(ann.commands.is_limited());
  EXPECT_FALSE(ann.bytes.is_limited());
  EXPECT_EQ(after->at({.db_index = 4, .user = ""})->memory_max(), 2u);
}

TEST(QuotaTest, NamesSayWhoseItIs) {
  EXPECT_EQ(Quota({.user = "ann"}).Name(), "user 'ann'");
  EXPECT_EQ(Quota({.db_index = 3, .user = ""}).Name(), "database 3");
}

TEST(QuotaTest, APlaceIsGivenOnceHoweverManyThreadsWantIt) {
  Quota quota({.user = "ann"});
  quota.SetLimits({.connections = 100});
  std::atomic<int> places{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) places += quota.TakePlace() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(places, 100);
  while (quota.TakePlace()) ++places;
  EXPECT_EQ(places, 100);
  quota.GivePlace();
  EXPECT_TRUE(quota.TakePlace());
  quota.TakeAnyPlace();
  EXPECT_EQ(quota.connections, 101);
  EXPECT_FALSE(quota.TakePlace());
  quota.SetLimits({});
  EXPECT_TRUE(quota.TakePlace());
}

TEST(QuotaTest, ItIsFullAtItsLimit) {
  Quota quota({.db_index = 0, .user = ""});
  quota.memory = 1 << 20;
  EXPECT_FALSE(quota.is_full());
  quota.SetLimits({.memory = (1 << 20) + 1});
  EXPECT_FALSE(quota.is_full());
  quota.SetLimits({.memory = 1 << 20});
  EXPECT_TRUE(quota.is_full());
}

}  // namespace
}  // namespace dfly
