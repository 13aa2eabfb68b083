// SPDX-License-Identifier: Apache-2.0
#include "core/memory/lent_block.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "core/memory/large_text.h"
#include "helio/base/mapped_blocks.h"

namespace dfly {
namespace {

using helio::MappedBlocks;

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 100 * kPage;

char* NewBlock() {
  size_t bytes = kBytes;
  char* const block = MappedBlocks::New(&bytes);
  std::memset(block, 1, bytes);
  return block;
}

TEST(BlockReaperTest, FreesAsMuchAtOnceAsItIsAsked) {
  BlockReaper reaper;
  reaper.ServeThisThread();
  int calls = 0;
  reaper.set_on_work([&calls] { ++calls; });
  BlockReaper::Free(NewBlock(), kBytes);
  BlockReaper::Free(NewBlock(), kBytes);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(reaper.size(), 2u);
  EXPECT_EQ(reaper.bytes(), 2 * kBytes);
  for (size_t left = 200; left > 0; left -= 20) {
    EXPECT_EQ(reaper.bytes(), left * kPage);
    EXPECT_EQ(MappedBlocks::Read().resident, left * kPage);
    reaper.FreeSome(20);
  }
  EXPECT_TRUE(reaper.empty());
  EXPECT_EQ(MappedBlocks::Read().bytes, 0u);
  BlockReaper::Free(NewBlock(), kBytes);
  EXPECT_EQ(calls, 2);
  reaper.FreeSome(99);
  EXPECT_EQ(reaper.bytes(), kPage);
  reaper.FreeSome(SIZE_MAX);
  EXPECT_TRUE(reaper.empty());
  reaper.FreeSome(1);
}

TEST(BlockReaperTest, WithoutOneABlockIsFreedAtOnce) {
  BlockReaper::Free(NewBlock(), kBytes);
  EXPECT_EQ(MappedBlocks::Read().bytes, 0u);
  {
    BlockReaper reaper;
    reaper.ServeThisThread();
    std::thread([] { BlockReaper::Free(NewBlock(), kBytes); }).join();
    EXPECT_TRUE(reaper.empty());
    BlockReaper::Free(NewBlock(), kBytes);
  }
  EXPECT_EQ(MappedBlocks::Read().bytes, 0u) << "what it had went with it";
  BlockReaper::Free(NewBlock(), kBytes);
  EXPECT_EQ(MappedBlocks::Read().bytes, 0u);
}

TEST(BlockReaperTest, ALargeTextGrowsInItsPages) {
  constexpr size_t kLarge = LentBlock::kMappedMin;
  const int64_t unwritten = LentBlock::unwritten_bytes();
  {
    LargeText text(kLarge);
    std::memset(text.end(), 'x', 5000);
    text.Filled(5000);
    text.Grow(3 * kLarge);
    EXPECT_EQ(text.size(), 5000u);
    EXPECT_EQ(text.capacity(), 3 * kLarge);
    EXPECT_EQ(text.view(), std::string(5000, 'x'));
    EXPECT_EQ(LentBlock::unwritten_bytes() - unwritten, static_cast<int64_t>(3 * kLarge - 5000));
    EXPECT_LE(MappedBlocks::Read().resident, 4 * kPage);
  }
  EXPECT_EQ(LentBlock::unwritten_bytes(), unwritten);
  EXPECT_EQ(MappedBlocks::Read().bytes, 0u);
}

}  // namespace
}  // namespace dfly
