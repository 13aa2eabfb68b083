// SPDX-License-Identifier: Apache-2.0
#include "server/info/key_sizes.h"

#include <gtest/gtest.h>

namespace dfly {
namespace {

TEST(KeySizesTest, ASizeIsCountedAtThePowerOfTwoBelow) {
  KeySizes sizes;
  for (uint64_t size : {0, 1, 2, 3, 4, 7, 8, 1023, 1024, 2047, 1 << 20}) {
    sizes.Add(KeySizes::kHashes, size);
  }
  EXPECT_EQ(KeySizes::Format(sizes.types[KeySizes::kHashes]),
            "0=1,1=1,2=2,4=2,8=1,512=1,1K=2,1M=1");
  EXPECT_EQ(KeySizes::Format(sizes.types[KeySizes::kLists]), "");
}

TEST(KeySizesTest, TheLargestHasABucket) {
  KeySizes sizes;
  sizes.Add(KeySizes::kStrings, UINT64_MAX);
  EXPECT_EQ(KeySizes::Format(sizes.types[KeySizes::kStrings]), "8E=1");
}

TEST(KeySizesTest, TwoOfThemAreAdded) {
  KeySizes sizes;
  KeySizes other;
  sizes.Add(KeySizes::kSets, 5);
  other.Add(KeySizes::kSets, 6);
  other.Add(KeySizes::kSets, 70'000);
  sizes.Merge(other);
  EXPECT_EQ(KeySizes::Format(sizes.types[KeySizes::kSets]), "4=2,64K=1");
}

}  // namespace
}  // namespace dfly
