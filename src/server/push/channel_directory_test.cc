// SPDX-License-Identifier: Apache-2.0
#include "server/push/channel_directory.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

TEST(ChannelDirectoryTest, CountsSubscribersOfEachThread) {
  ChannelDirectory directory;
  directory.Add(ChannelKind::kChannel, "news", 0);
  directory.Add(ChannelKind::kChannel, "news", 2);
  directory.Add(ChannelKind::kChannel, "news", 2);
  const auto* counts = directory.Find(ChannelKind::kChannel, "news");
  ASSERT_NE(counts, nullptr);
  ASSERT_EQ(counts->size(), 2u);
  EXPECT_EQ((*counts)[1].thread, 2u);
  EXPECT_EQ((*counts)[1].subscribers, 2u);
  EXPECT_EQ(directory.Subscribers(ChannelKind::kChannel, "news"), 3u);
}

TEST(ChannelDirectoryTest, KindsOfOneNameAreApart) {
  ChannelDirectory directory;
  directory.Add(ChannelKind::kPattern, "a", 1);
  EXPECT_EQ(directory.Find(ChannelKind::kChannel, "a"), nullptr);
  EXPECT_EQ(directory.Find(ChannelKind::kShard, "a"), nullptr);
  EXPECT_EQ(directory.Subscribers(ChannelKind::kPattern, "a"), 1u);
}

TEST(ChannelDirectoryTest, ForgetsANameWithItsLastSubscriber) {
  ChannelDirectory directory;
  const std::string binary("\0\r\n", 3);
  directory.Add(ChannelKind::kShard, binary, 5);
  directory.Add(ChannelKind::kShard, "", 5);
  EXPECT_EQ(directory.names(ChannelKind::kShard).size(), 2u);
  directory.Remove(ChannelKind::kShard, binary, 5);
  EXPECT_EQ(directory.Find(ChannelKind::kShard, binary), nullptr);
  EXPECT_EQ(directory.names(ChannelKind::kShard).size(), 1u);
}

TEST(ChannelDirectoryTest, ItsMemoryGoesWithTheNames) {
  constexpr int kNames = 20'000;
  ChannelDirectory directory;
  const auto name = [](int i) { return std::string(40, 'x') + std::to_string(i); };
  for (int i = 0; i < kNames; ++i) directory.Add(ChannelKind::kChannel, name(i), 1);
  EXPECT_GT(directory.memory_used(), kNames * size_t{100});
  for (int i = 0; i < kNames; ++i) directory.Remove(ChannelKind::kChannel, name(i), 1);
  EXPECT_LT(directory.memory_used(), 100'000u);
}

TEST(ChannelDirectoryTest, EqualsAMapAfterRandomChanges) {
  helio::Random random(helio::TestSeed());
  ChannelDirectory directory;
  std::map<std::pair<std::string, uint32_t>, uint32_t> model;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = std::to_string(random.Uniform(30));
    const auto thread = static_cast<uint32_t>(random.Uniform(5));
    auto& count = model[{name, thread}];
    if (random.OneIn(2)) {
      directory.Add(ChannelKind::kChannel, name, thread);
      ++count;
    } else if (count > 0) {
      directory.Remove(ChannelKind::kChannel, name, thread);
      --count;
    }
    uint64_t expected = 0;
    size_t threads = 0;
    for (uint32_t each = 0; each < 5; ++each) {
      expected += model[{name, each}];
      threads += model[{name, each}] > 0;
    }
    ASSERT_EQ(directory.Subscribers(ChannelKind::kChannel, name), expected);
    const auto* counts = directory.Find(ChannelKind::kChannel, name);
    ASSERT_EQ(counts == nullptr ? 0 : counts->size(), threads);
  }
}

}  // namespace
}  // namespace dfly
