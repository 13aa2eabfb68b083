// SPDX-License-Identifier: Apache-2.0
#include "core/text/string_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace dfly {
namespace {

TEST(StringCache, FindsWhatWasPutForTheStringThatIsThere) {
  StringCache<int, 4, 8> cache;
  std::string text = "abc";
  EXPECT_EQ(cache.Find(text), nullptr);
  EXPECT_EQ(cache.Find(""), nullptr);
  cache.Put(text, 1);
  ASSERT_NE(cache.Find(text), nullptr);
  EXPECT_EQ(*cache.Find(text), 1);

  // The bytes count, not only where they are.
  text[2] = 'd';
  EXPECT_EQ(cache.Find(text), nullptr);
  EXPECT_EQ(cache.Find(std::string_view(text).substr(0, 2)), nullptr);
  text[2] = 'c';
  EXPECT_NE(cache.Find(text), nullptr);
  cache.Put(text, 2);
  EXPECT_EQ(*cache.Find(text), 2);

  cache.Clear();
  EXPECT_EQ(cache.Find(text), nullptr);
}

TEST(StringCache, LongStringsAreNotKeptAndEmptyOnesAre) {
  StringCache<int, 4, 8> cache;
  const std::string longest(8, 'x'), longer(9, 'x');
  cache.Put(longest, 1);
  EXPECT_NE(cache.Find(longest), nullptr);
  cache.Clear();
  cache.Put(longer, 2);
  EXPECT_EQ(cache.Find(longer), nullptr);
  cache.Put(std::string_view(longest).substr(0, 0), 3);
  EXPECT_NE(cache.Find(std::string_view(longest).substr(0, 0)), nullptr);
}

// Whatever falls into the same place, nobody gets the value of another string.
TEST(StringCache, ManyStringsInFewPlaces) {
  StringCache<size_t, 4, 16> cache;
  std::string texts[64];
  for (size_t i = 0; i < 64; ++i) texts[i] = "text " + std::to_string(i);
  size_t found = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 64; ++i) {
      if (const size_t* value = cache.Find(texts[i])) {
        EXPECT_EQ(*value, i);
        ++found;
      }
      cache.Put(texts[i], i);
      ASSERT_NE(cache.Find(texts[i]), nullptr);
    }
  }
  EXPECT_LT(found, 64u);
}

}  // namespace
}  // namespace dfly
