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
  explicit ManyBlocks(size_t count, size_t bytes = kBytes) {
    for (size_t i = 0; i < count; ++i) all.push_back(static_cast<char*>(Alloc(bytes)));
  }
  ~ManyBlocks() {
    for (char* block : all) Free(block);
  }
  static constexpr size_t kBytes = 4096;
  std::vector<char*> all;
};

// Until all is looked at. Else why it is not.
std::string Pass(HugePages* pages) {
  HugePages::Result result;
  while ((result = pages->CollapseNext()) == HugePages::Result::kDone) {
  }
  if (result == HugePages::Result::kEnd) return "";
  return result == HugePages::Result::kNoMemory
             ? "the machine has no 2 MB in a row left, which the kernel needs"
             : "sanitizers have an allocator of their own, and kernels before 6.1 no MADV_COLLAPSE";
}

TEST(HugePagesTest, WhatIsInUseGetsIntoHugePagesAndStaysAsItIs) {
  ManyBlocks blocks(16'000);
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    memset(blocks.all[i], static_cast<int>(i % 251), ManyBlocks::kBytes);
  }
  const size_t before = Rollup("AnonHugePages");
  const size_t resident = Rollup("Rss");
  HugePages pages;
  if (const std::string why = Pass(&pages); !why.empty()) GTEST_SKIP() << why;
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
  // Large ones: the allocator itself writes into small ones.
  constexpr size_t kLarge = 1 << 20;
  ManyBlocks blocks(256, kLarge);  // more than other tests have left behind
  for (char* block : blocks.all) memset(block, 1, kLarge / 8);
  const size_t resident = Rollup("Rss");
  HugePages pages;
  if (const std::string why = Pass(&pages); !why.empty()) GTEST_SKIP() << why;
  EXPECT_LT(Rollup("Rss"), resident + (4u << 20));
}

TEST(HugePagesTest, ASecondPassHasNothingToDo) {
  ManyBlocks blocks(16'000);
  for (char* block : blocks.all) memset(block, 1, ManyBlocks::kBytes);
  HugePages pages;
  if (const std::string why = Pass(&pages); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(pages.CollapseNext(), HugePages::Result::kEnd);
}

}  // namespace
}  // namespace dfly
