// SPDX-License-Identifier: Apache-2.0
#include "helio/base/resident.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace helio {
namespace {

TEST(ResidentTest, OnlyTouchedPagesCount) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kPages = 3000;  // more than are asked for at a time
  void* block =
      mmap(nullptr, kPages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  madvise(block, kPages * page, MADV_NOHUGEPAGE);
  EXPECT_EQ(ResidentBytes(block, kPages * page), 0u);
  auto* bytes = static_cast<volatile char*>(block);
  for (size_t touched : {size_t{0}, size_t{7}, kPages - 1}) bytes[touched * page + 5] = 1;
  EXPECT_EQ(ResidentBytes(block, kPages * page), 3 * page);
  EXPECT_EQ(ResidentBytes(block, page), page);
  munmap(block, kPages * page);
  EXPECT_EQ(ResidentBytes(block, page), 0u);
}

}  // namespace
}  // namespace helio
