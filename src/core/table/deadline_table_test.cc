// SPDX-License-Identifier: Apache-2.0
#include "core/table/deadline_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/text/colliding_keys_testing.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

KeyProbe Probe(std::string_view key) { return KeyProbe(key, HashKey(key)); }

uint64_t KnownBits(std::string_view key) { return HashKey(key) & 0xFFFFFFFF000000FF; }

std::string KeyOf(uint64_t number) { return "a key that is on the heap " + std::to_string(number); }

TEST(DeadlineTableTest, AnEntryCostsHalfOfWhatOneWithItsKeyDoes) {
  DeadlineTable table;
  constexpr size_t kCount = 100'000;
  for (size_t i = 0; i < kCount; ++i) table.Add(Probe(KeyOf(i)), static_cast<int64_t>(i));
  EXPECT_EQ(table.size(), kCount);
  EXPECT_LT(table.bytes(), kCount * 17);
  table.CheckInvariants();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(table.Get(Probe(KeyOf(i))), static_cast<int64_t>(i));
    table.Erase(Probe(KeyOf(i)));
  }
  EXPECT_EQ(table.size(), 0u);
}

TEST(DeadlineTableTest, AnyTimeIsKept) {
  DeadlineTable table;
  for (const int64_t at_ms : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
    table.Add(Probe("k"), at_ms);
    EXPECT_EQ(table.Get(Probe("k")), at_ms);
    table.Erase(Probe("k"));
  }
}

// Any of the two may come first, change, and go.
TEST(DeadlineTableTest, KeysThatCollideHaveTheirOwn) {
  const auto pairs = testkit::CollidingKeys();
  ASSERT_GE(pairs.size(), 2u);
  DeadlineTable table;
  std::map<std::string, int64_t> model;
  helio::Random random(5);
  for (int i = 0; i < 200; ++i) {
    table.Add(Probe(KeyOf(i)), i);
    model[KeyOf(i)] = i;
  }
  size_t were_apart = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto& pair = pairs[random.Uniform(pairs.size())];
    const std::string& key = random.Uniform(2) == 0 ? pair.first : pair.second;
    const auto at_ms = static_cast<int64_t>(random.Uniform(1'000'000));
    const bool is_there = model.contains(key);
    if (!is_there) {
      table.Add(Probe(key), at_ms);
    } else if (random.Uniform(2) == 0) {
      table.Set(Probe(key), at_ms);
    } else {
      table.Erase(Probe(key));
      model.erase(key);
      continue;
    }
    model[key] = at_ms;
    were_apart += table.IsApart(Probe(key));
    if (step % 50 != 0) continue;
    ASSERT_EQ(table.size(), model.size());
    for (const auto& [one, at] : model) ASSERT_EQ(table.Get(Probe(one)), at);
    // Each is seen once, by its own name or as the only one of its hash that is not apart.
    std::map<std::string, int64_t> seen;
    uint32_t cursor = 0;
    do {
      cursor = table.Scan(cursor, [&](const DeadlineTable::Entry& entry) {
        if (entry.key != nullptr) {
          EXPECT_TRUE(seen.emplace(entry.key->ToString(), entry.at_ms).second);
          return;
        }
        size_t fitting = 0;
        for (const auto& [one, at] : model) {
          if (KnownBits(one) != entry.hash || table.IsApart(Probe(one))) continue;
          ++fitting;
          EXPECT_TRUE(seen.emplace(one, entry.at_ms).second);
        }
        EXPECT_EQ(fitting, 1u);
      });
    } while (cursor != 0);
    ASSERT_EQ(seen, model);
    table.CheckInvariants();
    const auto drawn = table.Random([&] { return static_cast<uint32_t>(random.Next()); });
    ASSERT_TRUE(drawn);
  }
  EXPECT_GT(were_apart, 1000u);
  BlockMover mover(nullptr);
  uint32_t cursor = 0;
  do {
    cursor = table.Move(cursor, mover);
  } while (cursor != 0);
  table.CheckInvariants();
  for (const auto& [one, at] : model) ASSERT_EQ(table.Get(Probe(one)), at);
  while (!table.FreeSome(10)) {
  }
  EXPECT_EQ(table.bytes(), 0u);
}

}  // namespace
}  // namespace dfly
