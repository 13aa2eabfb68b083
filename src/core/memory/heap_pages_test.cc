// SPDX-License-Identifier: Apache-2.0
#include "core/memory/heap_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/memory/allocator.h"
#include "core/memory/block_mover.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

TEST(SparsePagesTest, HasEachAddressOfWhatWasAdded) {
  SparsePages pages;
  EXPECT_TRUE(pages.empty());
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  pages.Add(at(0x7f00'0002'0100), 0x1'fe00);  // two slices of 64 KB
  EXPECT_FALSE(pages.Has(at(0x7f00'0001'ffff)));
  EXPECT_TRUE(pages.Has(at(0x7f00'0002'0000)));
  EXPECT_TRUE(pages.Has(at(0x7f00'0003'ffff)));
  EXPECT_FALSE(pages.Has(at(0x7f00'0004'0000)));
  EXPECT_FALSE(pages.Has(at(0x7e00'0002'0100)));
  pages.Add(at(0x7f00'01ff'ff00), 0x200);  // over the border of a region
  EXPECT_TRUE(pages.Has(at(0x7f00'01ff'0000)));
  EXPECT_TRUE(pages.Has(at(0x7f00'0200'ffff)));
}

#ifndef DFLY_SANITIZED

size_t ResidentBytes() {
  size_t pages = 0, resident = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                       std::fclose);
  EXPECT_EQ(std::fscanf(file.get(), "%zu %zu", &pages, &resident), 2);
  return resident * static_cast<size_t>(getpagesize());
}

// Blocks of which each knows its number.
class Blocks {
 public:
  Blocks(size_t count, size_t bytes_min, size_t bytes_max) : blocks_(count) {
    for (size_t i = 0; i < count; ++i) {
      const size_t bytes = random_.Between(bytes_min, bytes_max);
      blocks_[i] = static_cast<char*>(Alloc(bytes));
      std::memset(blocks_[i], static_cast<int>(i), bytes);
      std::memcpy(blocks_[i], &i, sizeof(i));
    }
  }
  ~Blocks() {
    for (char* block : blocks_) Free(block);
  }
  void FreeAllBut(double share) {
    for (char*& block : blocks_) {
      if (random_.NextDouble() < share) continue;
      Free(block);
      block = nullptr;
    }
  }
  void Move(BlockMover& mover) {
    for (char*& block : blocks_) block = mover.Move(block);
  }
  void Check() const {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i] == nullptr) continue;
      ASSERT_EQ(std::memcmp(blocks_[i], &i, sizeof(i)), 0);
    }
  }
  size_t bytes() const {
    size_t bytes = 0;
    for (const char* block : blocks_) bytes += UsableSize(block);
    return bytes;
  }

 private:
  helio::Random random_{5};
  std::vector<char*> blocks_;
};

TEST(HeapPagesTest, WhatIsLeftInSparsePagesMovesTogether) {
  Blocks blocks(400'000, 20, 200);
  EXPECT_LT(SurveyHeap(10).gain_bytes, 4u << 20) << "all is full";
  blocks.FreeAllBut(0.1);
  const size_t resident = ResidentBytes();
  HeapSurvey survey = SurveyHeap(10);
  EXPECT_GT(survey.gain_bytes, 30u << 20);
  EXPECT_GT(survey.resident_bytes, 5 * blocks.bytes());
  {
    DenseHeap dense;
    BlockMover mover(&survey.sparse);
    blocks.Move(mover);
    EXPECT_GT(mover.moved(), 35'000u);
  }
  blocks.Check();
  EXPECT_LT(SurveyHeap(10).gain_bytes, 4u << 20);
  EXPECT_LT(SurveyHeap(10).resident_bytes, survey.resident_bytes - survey.gain_bytes * 3 / 4);
  EXPECT_LT(ResidentBytes(), resident - survey.gain_bytes * 3 / 4) << "and at once";
}

TEST(HeapPagesTest, OnlyAsManyPagesAreSparseAsAreTooMuch) {
  Blocks full(200'000, 100, 100);
  Blocks blocks(200'000, 300, 300);
  blocks.FreeAllBut(0.95);
  EXPECT_EQ(SurveyHeap(10).sparse_pages, 0u) << "what is unused is less than that";
  blocks.FreeAllBut(0.5);
  const HeapSurvey some = SurveyHeap(10);
  EXPECT_GT(some.sparse_pages, 0u);
  EXPECT_EQ(SurveyHeap(1000).sparse_pages, 0u);
}

TEST(HeapPagesTest, BlocksThatWouldNeedAsManyPagesStay) {
  ReturnFreeMemory();
  const size_t before = SurveyHeap(1).sparse_pages;
  Blocks one_page(100, 40, 40);
  one_page.FreeAllBut(0.1);
  EXPECT_LE(SurveyHeap(1).sparse_pages, before);
}

TEST(HeapPagesTest, PagesThatAreEmptyAreReturned) {
  ReturnFreeMemory();
  Blocks blocks(100, 1 << 20, 1 << 20);
  blocks.FreeAllBut(0.3);
  const size_t resident = ResidentBytes();
  const size_t used = blocks.bytes();
  ReturnFreeMemory();
  EXPECT_LT(ResidentBytes(), resident - (90u << 20) + used);
  blocks.Check();
}

TEST(HeapPagesTest, WhatWasAllocatedInADenseHeapLivesOn) {
  std::unique_ptr<Blocks> blocks;
  {
    DenseHeap dense;
    blocks = std::make_unique<Blocks>(10'000, 8, 3000);
  }
  blocks->Check();
  const size_t used = SurveyHeap(10).used_bytes;
  EXPECT_GE(used, blocks->bytes()) << "it belongs to the thread's heap";
  const size_t bytes = blocks->bytes();
  blocks.reset();
  EXPECT_LE(SurveyHeap(10).used_bytes, used - bytes);
}

#endif

}  // namespace
}  // namespace dfly
