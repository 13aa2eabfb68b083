// SPDX-License-Identifier: Apache-2.0
#include "core/memory/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace dfly {
namespace {

TEST(AllocatorTest, UsableSizeMayBeUsed) {
  for (size_t bytes = 1; bytes < 5000; bytes += 7) {
    void* block = Alloc(bytes);
    ASSERT_GE(UsableSize(block), bytes);
    std::memset(block, 0xAB, UsableSize(block));
    Free(block);
  }
  EXPECT_EQ(UsableSize(nullptr), 0u);
  Free(nullptr);
}

TEST(AllocatorTest, ZeroedBlocksAreWhateverWasThereBefore) {
  for (size_t bytes : {1, 100, 4096, 100'000}) {
    void* block = Alloc(bytes);
    std::memset(block, 0xAB, bytes);
    Free(block);
    auto* const zeroed = static_cast<const char*>(AllocZeroed(bytes));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(zeroed[i], 0);
    Free(const_cast<char*>(zeroed));
  }
}

TEST(AllocatorTest, LinesAreAligned) {
  std::vector<void*> blocks;
  for (size_t bytes = 64; bytes <= 4096; bytes += 64) {
    blocks.push_back(AllocLines(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 64, 0u);
    EXPECT_GE(UsableSize(blocks.back()), bytes);
  }
  for (void* block : blocks) Free(block);
}

#ifndef DFLY_SANITIZED
TEST(AllocatorTest, ChunkOfATableCostsWhatItHolds) {
  void* block = AllocLines(2048);
  EXPECT_EQ(UsableSize(block), 2048u);
  Free(block);
}
#endif

}  // namespace
}  // namespace dfly
