// SPDX-License-Identifier: Apache-2.0
#include "core/table/dash_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/table/compact_value.h"
#include "core/text/hash.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

#if defined(DFLY_SANITIZED) || !defined(NDEBUG)
constexpr int kEffort = 1;
#else
constexpr int kEffort = 10;
#endif

using Table = DashTable<CompactValue>;

KeyProbe Probe(std::string_view key) { return KeyProbe(key, HashKey(key)); }

// Some keys inline and some on the heap.
std::string KeyOf(uint64_t number) {
  std::string key = "key:" + std::to_string(number);
  if (number % 3 == 0) key += ":with a tail that needs the heap";
  return key;
}

void Put(Table& table, const std::string& key, std::string_view value) {
  table.FindOrInsert(Probe(key)).first->value.SetString(value);
}

std::string Get(const Table& table, const std::string& key) {
  auto it = table.Find(Probe(key));
  return it ? it->value.ToString() : "(none)";
}

std::multiset<std::string> ScanAll(const Table& table) {
  std::multiset<std::string> seen;
  uint32_t cursor = 0;
  do {
    cursor = table.Scan(cursor, [&](auto& slot) { seen.insert(slot.key.ToString()); });
  } while (cursor != 0);
  return seen;
}

TEST(DashTableTest, EmptyTableCostsNothing) {
  Table table;
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_FALSE(table.Find(Probe("a")));
  EXPECT_EQ(table.Scan(0, [](auto&) { FAIL(); }), 0u);
  EXPECT_FALSE(table.Random([] { return 1u; }));
  for (FetchStage stage : kFetchStages) table.Prefetch(stage, 1);
  EXPECT_EQ(table.Guess(1), nullptr);
  table.CheckInvariants();
}

TEST(DashTableTest, SmallTableIsSmall) {
  Table table;
  Put(table, "a", "1");
  EXPECT_EQ(Get(table, "a"), "1");
  EXPECT_LT(table.bytes(), 3000u);
  table.Erase(table.Find(Probe("a")));
  EXPECT_EQ(Get(table, "a"), "(none)");
  EXPECT_LT(table.bytes(), 3000u);
  table.CheckInvariants();
}

TEST(DashTableTest, KeepsWhatIsInserted) {
  Table table;
  const int count = 20000 * kEffort;
  for (int i = 0; i < count; ++i) Put(table, KeyOf(i), std::to_string(i));
  EXPECT_EQ(table.size(), static_cast<size_t>(count));
  int guessed = 0;
  for (int i = 0; i < count; ++i) {
    std::string key = KeyOf(i);
    for (FetchStage stage : kFetchStages) table.Prefetch(stage, HashKey(key));
    const auto* const guess = table.Guess(HashKey(key));
    guessed += guess == &*table.Find(Probe(key));
    ASSERT_EQ(Get(table, key), std::to_string(i));
    ASSERT_EQ(Get(table, "x" + key), "(none)");
  }
  EXPECT_GT(guessed, count * 9 / 10);
  table.CheckInvariants();
}

TEST(DashTableTest, LoadStaysHighAtAnySize) {
  DashTable<CompactValue> table;
  for (int i = 0; i < 30000 * kEffort; ++i) {
    table.Insert(Probe("k" + std::to_string(i)));
    if (i > 20000 && i % 1000 == 0) {
      double bytes = static_cast<double>(table.bytes()) / static_cast<double>(table.size());
      ASSERT_LT(bytes, 46) << "at " << table.size() << " entries";
    }
  }
}

TEST(DashTableTest, GivesMemoryBackWhenEmptied) {
  Table table;
  for (int i = 0; i < 20000; ++i) Put(table, KeyOf(i), "v");
  const size_t full = table.bytes();
  for (int i = 0; i < 20000; ++i) {
    table.Erase(table.Find(Probe(KeyOf(i))));
    if (i == 10000) {
      EXPECT_LT(table.bytes(), full * 2 / 3);
    }
    if (i % 4000 == 0) table.CheckInvariants();
  }
  EXPECT_EQ(table.size(), 0u);
  EXPECT_LT(table.bytes(), 3000u);
  table.CheckInvariants();
}

TEST(DashTableTest, DeletingInScanOrderIsCheapAndGivesMemoryBack) {
  Table table;
  for (int i = 0; i < 20000; ++i) Put(table, KeyOf(i), "v");
  const uint64_t rebuilds_before = table.rebuilds();
  uint32_t cursor = 0;
  do {
    std::vector<std::string> keys;
    cursor = table.Scan(cursor, [&](auto& slot) { keys.push_back(slot.key.ToString()); });
    for (const std::string& key : keys) table.Erase(table.Find(Probe(key)));
  } while (cursor != 0);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_LT(table.bytes(), 5000u);
  EXPECT_LT(table.rebuilds() - rebuilds_before, 1500u);
  table.CheckInvariants();
}

TEST(DashTableTest, ClearFreesAll) {
  Table table;
  for (int i = 0; i < 5000; ++i) Put(table, KeyOf(i), "some value that is on the heap");
  table.Clear();
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_EQ(table.size(), 0u);
  Put(table, "again", "1");
  EXPECT_EQ(Get(table, "again"), "1");
}

TEST(DashTableTest, FreesItselfInSteps) {
  Table table;
  for (int i = 0; i < 20000; ++i) Put(table, KeyOf(i), "v");
  int steps = 1;
  while (!table.FreeSome(500)) ++steps;
  EXPECT_GT(steps, 10);
  EXPECT_EQ(table.bytes(), 0u);
  Put(table, "again", "1");
  table.CheckInvariants();
}

TEST(DashTableTest, AgreesWithAModelUnderRandomOperations) {
  std::mt19937_64 random(helio::TestSeed());
  Table table;
  std::unordered_map<std::string, std::string> model;
  for (int phase = 0; phase < 12; ++phase) {
    // Phases grow and shrink the table in turn, over different ranges of keys.
    const uint64_t range = uint64_t{1} << (6 + random() % 11);
    const unsigned inserts = phase % 2 == 0 ? 75 : 25;
    for (int i = 0; i < 20000 * kEffort; ++i) {
      std::string key = KeyOf(random() % range);
      auto known = model.find(key);
      ASSERT_EQ(Get(table, key), known == model.end() ? "(none)" : known->second);
      if (random() % 100 < inserts) {
        std::string value = std::to_string(random() % 1000) + "/" + key;
        Put(table, key, value);
        model[key] = value;
      } else if (known != model.end()) {
        table.Erase(table.Find(Probe(key)));
        model.erase(known);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    table.CheckInvariants();
    if (phase % 3 == 2) {
      // Empties a range of positions, so that later insertions meet lopsided segments.
      auto cursor = static_cast<uint32_t>(random());
      const size_t keep = model.size() - model.size() / 3;
      for (int spans = 0; model.size() > keep && spans < 100000; ++spans) {
        std::vector<std::string> keys;
        cursor = table.Scan(cursor, [&](auto& slot) { keys.push_back(slot.key.ToString()); });
        for (const std::string& key : keys) {
          table.Erase(table.Find(Probe(key)));
          model.erase(key);
        }
      }
      table.CheckInvariants();
    }
    std::multiset<std::string> seen = ScanAll(table);
    ASSERT_EQ(seen.size(), model.size());
    for (const auto& [key, value] : model) ASSERT_EQ(seen.count(key), 1u);
  }
}

TEST(DashTableTest, ScanSeesEachLastingEntryOnceWhileTheTableChanges) {
  std::mt19937_64 random(helio::TestSeed());
  for (int round = 0; round < 6 * kEffort; ++round) {
    Table table;
    const uint64_t lasting = random() % 3000;
    for (uint64_t i = 0; i < lasting; ++i) Put(table, "last:" + KeyOf(i), "");
    const uint64_t others = round % 2 == 0 ? 0 : 30000;
    for (uint64_t i = 0; i < others; ++i) Put(table, KeyOf(i), "");
    std::map<std::string, int> seen;
    uint32_t cursor = 0;
    uint64_t at = 0;
    do {
      cursor = table.Scan(cursor, [&](auto& slot) { ++seen[slot.key.ToString()]; });
      // Rounds with others shrink the table while it is scanned, those without grow it.
      for (int i = 0; i < 60; ++i, ++at) {
        if (others == 0) {
          if (at < 30000) Put(table, KeyOf(at), "");
        } else if (auto it = table.Find(Probe(KeyOf(at)))) {
          table.Erase(it);
        }
      }
    } while (cursor != 0);
    for (uint64_t i = 0; i < lasting; ++i) ASSERT_EQ(seen["last:" + KeyOf(i)], 1);
    table.CheckInvariants();
  }
}

TEST(DashTableTest, RandomIsFair) {
  std::mt19937 random(5);
  for (int count : {1, 10, 40, 60, 1000}) {
    Table table;
    for (int i = 0; i < count; ++i) Put(table, KeyOf(i), "");
    std::map<std::string, int> drawn;
    const int draws = count * 100;
    for (int i = 0; i < draws; ++i) {
      auto it = table.Random([&] { return random(); });
      ASSERT_TRUE(it);
      ++drawn[it->key.ToString()];
    }
    EXPECT_EQ(drawn.size(), static_cast<size_t>(count));
    for (const auto& [key, times] : drawn) {
      EXPECT_GT(times, 40) << key;
      EXPECT_LT(times, 190) << key;
    }
  }
}

// All keys share a position, or all bits: the table gets slow and stays right.
struct EqualHash : KeyHasher {
  static uint64_t Hash(const CompactKey&) { return 0x1234567812345678; }
};
struct FewPositions : KeyHasher {
  static uint64_t Of(std::string_view key) { return HashKey(key) & 0x00000003000000FF; }
  static uint64_t Hash(const CompactKey& key) { return key.Hash() & 0x00000003000000FF; }
};

TEST(DashTableTest, IteratorsLiveAsLongAsTheLayoutStays) {
  std::mt19937_64 random(helio::TestSeed());
  Table table;
  std::map<std::string, std::pair<uint64_t, Table::Iterator>> known;  // with the layout then
  size_t alive = 0;
  for (int step = 0; step < 20'000 * kEffort; ++step) {
    const std::string key = KeyOf(random() % 2000);
    const uint64_t layout = table.layout();
    const Table::Iterator it = table.Find(Probe(key));
    EXPECT_EQ(table.layout(), layout);
    if (const auto at = known.find(key); at != known.end() && at->second.first == layout) {
      ASSERT_TRUE(it == at->second.second);
      ++alive;
    }
    if (random() % 8 != 0) {
      if (it) known[key] = {layout, it};
      continue;
    }
    if (it) {
      EXPECT_EQ(it.fingerprint(), static_cast<uint8_t>(HashKey(key)));
      table.Erase(it);
    } else {
      table.Insert(Probe(key));
    }
    EXPECT_NE(table.layout(), layout);
  }
  EXPECT_GT(alive, 0u);
  table.CheckInvariants();
  const uint64_t layout = table.layout();
  table.Clear();
  EXPECT_NE(table.layout(), layout);
}

TEST(DashTableTest, SurvivesCollidingHashes) {
  DashTable<int64_t, EqualHash> equal;
  DashTable<int64_t, FewPositions> few;
  const int count = 3000;
  for (int i = 0; i < count; ++i) {
    std::string key = KeyOf(i);
    equal.Insert(KeyProbe(key, 0x1234567812345678))->value = i;
    few.Insert(KeyProbe(key, FewPositions::Of(key)))->value = i;
  }
  equal.CheckInvariants();
  few.CheckInvariants();
  EXPECT_LT(few.bytes(), 1000000u);
  std::mt19937 random(6);
  EXPECT_TRUE(equal.Random([&] { return random(); }));
  EXPECT_TRUE(few.Random([&] { return random(); }));
  size_t scanned = 0;
  uint32_t cursor = 0;
  do {
    cursor = few.Scan(cursor, [&](auto&) { ++scanned; });
  } while (cursor != 0);
  EXPECT_EQ(scanned, static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    std::string key = KeyOf(i);
    auto it = few.Find(KeyProbe(key, FewPositions::Of(key)));
    ASSERT_TRUE(it);
    ASSERT_EQ(it->value, i);
    few.Erase(it);
    equal.Erase(equal.Find(KeyProbe(key, 0x1234567812345678)));
  }
  EXPECT_EQ(few.size() + equal.size(), 0u);
  few.CheckInvariants();
  equal.CheckInvariants();
}

// As a snapshot's keys come: each after all with smaller positions.
TEST(DashTableTest, WhatComesInOrderHasRoomThatWasReserved) {
  for (int count : {1, 10, 500, 1000, 20'000, 300'000}) {
    Table table;
    for (int i = 0; i < count; ++i) Put(table, KeyOf(i), "v");
    std::vector<std::string> in_order;
    uint32_t cursor = 0;
    do {
      cursor = table.Scan(cursor, [&](auto& slot) { in_order.push_back(slot.key.ToString()); });
    } while (cursor != 0);
    Table other;
    other.Reserve(in_order.size());
    other.CheckInvariants();
    const size_t reserved_bytes = other.bytes();
    for (const std::string& key : in_order) Put(other, key, "v");
    EXPECT_LE(other.rebuilds(), static_cast<uint64_t>(count) / 20'000) << count;
    EXPECT_LE(reserved_bytes, table.bytes() + 4096) << count;
    other.CheckInvariants();
    EXPECT_EQ(other.size(), table.size());
    // And it is a table as all others.
    for (int i = 0; i < count; ++i) other.Erase(other.Find(Probe(KeyOf(i))));
    EXPECT_EQ(other.size(), 0u);
    EXPECT_LT(other.bytes(), 5000u);
    other.CheckInvariants();
  }
  // It does nothing to one that is in use.
  Table used;
  Put(used, "a", "");
  const size_t bytes = used.bytes();
  used.Reserve(100'000);
  EXPECT_EQ(used.bytes(), bytes);
}

}  // namespace
}  // namespace dfly
