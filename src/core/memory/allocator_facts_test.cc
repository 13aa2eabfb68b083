// SPDX-License-Identifier: Apache-2.0
#include "core/memory/allocator_facts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/memory/allocator.h"

namespace dfly {
namespace {

TEST(AllocatorFactsTest, StatisticsAreText) {
  const std::string text = AllocatorStatistics();
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text.back(), '\n');
}

#ifndef DFLY_SANITIZED

TEST(AllocatorFactsTest, BlocksOfAllSizesAreSeen) {
  for (size_t size : {size_t{48}, size_t{5000}, size_t{300'000}, size_t{40} << 20}) {
    std::vector<void*> blocks;
    blocks.reserve((8 << 20) / size + 1);
    const HeapFacts before = ReadThreadHeap();
    size_t bytes = 0;
    while (bytes < 8 << 20) {
      blocks.push_back(Alloc(size));
      std::memset(blocks.back(), 1, size);
      bytes += UsableSize(blocks.back());
    }
    const HeapFacts with = ReadThreadHeap();
    EXPECT_GE(with.allocated, before.allocated + bytes) << size;
    // Up to an eighth of a block is for its size class.
    EXPECT_LE(with.allocated, before.allocated + bytes + bytes / 8 + (1 << 16)) << size;
    EXPECT_GE(with.active, with.allocated) << size;
    EXPECT_LE(with.touched, with.allocated) << size;
    EXPECT_GE(with.touched, before.touched + blocks.size() * size) << size;
    EXPECT_GE(with.resident, blocks.size() * size) << size;
    for (void* block : blocks) Free(block);
    const HeapFacts after = ReadThreadHeap();
    EXPECT_LE(after.allocated, before.allocated + (1 << 16)) << size;
  }
}

TEST(AllocatorFactsTest, WhatIsNotTouchedIsNotResident) {
  constexpr size_t kBytes = 24 << 20;
  const HeapFacts before = ReadThreadHeap();
  void* block = Alloc(kBytes);
  std::memset(block, 1, kBytes / 4);
  const HeapFacts with = ReadThreadHeap();
  EXPECT_GE(with.allocated - before.allocated, kBytes);
  // The kernel may give pages of 2 MB.
  EXPECT_GE(with.touched - before.touched, kBytes / 4);
  EXPECT_LE(with.touched - before.touched, kBytes / 4 + (4 << 20));
  Free(block);
}

#endif

}  // namespace
}  // namespace dfly
