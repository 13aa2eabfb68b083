// SPDX-License-Identifier: Apache-2.0
#include "commands/table/distinct_keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "helio/base/random.h"

namespace dfly {
namespace {

struct Counted {
  std::vector<std::string_view> visited;
  size_t comparisons = 0;
};

Counted Visit(const std::vector<std::string>& keys) {
  Counted counted;
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  ForEachDistinct(
      views, [&](std::string_view key) { counted.visited.push_back(key); },
      [&](std::string_view a, std::string_view b) {
        ++counted.comparisons;
        return a == b;
      });
  return counted;
}

TEST(DistinctKeysTest, EachKeyIsVisitedWhereItComesFirst) {
  helio::Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::string> keys, wanted;
    std::set<std::string> known;
    const uint64_t names = 1 + random.Uniform(20);
    for (uint64_t n = random.Uniform(20); n > 0; --n) {
      keys.push_back("k" + std::to_string(random.Uniform(names)));
      if (known.insert(keys.back()).second) wanted.push_back(keys.back());
    }
    const Counted counted = Visit(keys);
    EXPECT_EQ(std::vector<std::string>(counted.visited.begin(), counted.visited.end()), wanted);
  }
}

TEST(DistinctKeysTest, ManyKeysAreComparedALinearNumberOfTimes) {
  constexpr size_t kKeys = 10'000;
  std::vector<std::string> keys;
  for (size_t i = 0; i < kKeys; ++i) keys.push_back("key:" + std::to_string(i));
  Counted counted = Visit(keys);
  EXPECT_EQ(counted.visited.size(), kKeys);
  EXPECT_LE(counted.comparisons, 5 * kKeys);

  for (size_t i = 0; i < kKeys; ++i) keys.push_back("key:7");
  counted = Visit(keys);
  EXPECT_EQ(counted.visited.size(), kKeys);
  EXPECT_LE(counted.comparisons, 10 * kKeys);
}

}  // namespace
}  // namespace dfly
