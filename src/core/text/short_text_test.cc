// SPDX-License-Identifier: Apache-2.0
#include "core/text/short_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace dfly {
namespace {

TEST(ShortText, WordsAreWhatMemoryHas) {
  const std::string text = "\x81gfedcb\xFF, and more";
  for (size_t size = 0; size <= 8; ++size) {
    const std::string exact = text.substr(0, size);  // for the address sanitizer
    uint64_t expected = 0;
    std::copy_n(exact.data(), size, reinterpret_cast<char*>(&expected));
    EXPECT_EQ(LoadShort(exact.data(), size), expected) << size;
  }
  EXPECT_EQ(LoadShort(nullptr, 0), 0u);
}

TEST(ShortText, EachByteCounts) {
  for (size_t size = 0; size <= 40; ++size) {
    const std::string a(size, 'a');
    std::string b = a;
    EXPECT_TRUE(AreSame(a.data(), b.data(), size)) << size;
    for (size_t i = 0; i < size; ++i) {
      b[i] = 'b';
      EXPECT_FALSE(AreSame(a.data(), b.data(), size)) << size << " at " << i;
      b[i] = 'a';
    }
  }
}

}  // namespace
}  // namespace dfly
