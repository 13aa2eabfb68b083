// SPDX-License-Identifier: Apache-2.0
#include "core/memory/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/memory/allocator.h"
#include "helio/base/resident.h"

namespace dfly {
namespace {

// Of the process, in bytes; `name` as in /proc/self/smaps_rollup.
size_t Rollup(const std::string& name) {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word) {
    if (word != name + ":") continue;
    size_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

struct ManyBlocks {
  explicit ManyBlocks(size_t count) {
    for (size_t i = 0; i < count; ++i) all.push_back(static_cast<char*>(Alloc(kBytes)));
  }
  ~ManyBlocks() {
    for (char* block : all) Free(block);
  }
  static constexpr size_t kBytes = 4096;
  std::vector<char*> all;
};

// False: the kernel refuses.
bool Pass(HugePages* pages) {
  HugePages::Result result;
  while ((result = pages->CollapseNext()) == HugePages::Result::kDone) {
  }
  return result == HugePages::Result::kEnd;
}

TEST(HugePagesTest, WhatIsInUseGetsIntoHugePagesAndStaysAsItIs) {
  ManyBlocks blocks(16'000);
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    memset(blocks.all[i], static_cast<int>(i % 251), ManyBlocks::kBytes);
  }
  const size_t before = Rollup("AnonHugePages");
  const size_t resident = Rollup("Rss");
  HugePages pages;
  if (!Pass(&pages)) GTEST_SKIP() << "a sanitizer, a kernel before 6.1, or no huge page is free";
  // 62 MB, of which the parts at the ends of segments, with the allocator's tables, may be missing.
  EXPECT_GE(pages.bytes(), 40u << 20);
  EXPECT_GE(Rollup("AnonHugePages"), before + (40u << 20));
  EXPECT_LT(Rollup("Rss"), resident + (4u << 20));
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    const std::string expected(ManyBlocks::kBytes, static_cast<char>(i % 251));
    ASSERT_TRUE(memcmp(blocks.all[i], expected.data(), ManyBlocks::kBytes) == 0) << i;
  }
}

TEST(HugePagesTest, WhatNobodyHasTouchedIsLeftAlone) {
  ManyBlocks blocks(16'000);
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    if (i % 100 != 0) memset(blocks.all[i], 1, ManyBlocks::kBytes);
  }
  const size_t resident = Rollup("Rss");
  HugePages pages;
  if (!Pass(&pages)) GTEST_SKIP() << "a sanitizer, a kernel before 6.1, or no huge page is free";
  EXPECT_LT(Rollup("Rss"), resident + (4u << 20));
}

TEST(HugePagesTest, ASecondPassHasNothingToDo) {
  ManyBlocks blocks(16'000);
  for (char* block : blocks.all) memset(block, 1, ManyBlocks::kBytes);
  HugePages pages;
  if (!Pass(&pages)) GTEST_SKIP() << "a sanitizer, a kernel before 6.1, or no huge page is free";
  EXPECT_EQ(pages.CollapseNext(), HugePages::Result::kEnd);
}

}  // namespace
}  // namespace dfly
