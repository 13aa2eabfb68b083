// SPDX-License-Identifier: Apache-2.0
// Values of all types are the same, and cost the same, after all their memory has moved. With the
// address sanitizer nothing may refer to where it was.
#include "core/memory/block_mover.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/memory/heap_pages.h"
#include "core/rdb/rdb_value_testing.h"

namespace dfly {
namespace {

class BlockMoverTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { testkit::RegisterRdbTypes(); }

  // Longer than what fits in a slot.
  static std::string Member(size_t i) {
    return "a member on the heap, number " + std::to_string(i);
  }
  static int64_t At(size_t i) { return static_cast<int64_t>(1'700'000'000'000 + i % 100); }

  // Moves all of it, and calls between() after each step. Returns how many steps it took.
  template <typename F>
  static size_t MoveAll(CompactValue& value, BlockMover& mover, F&& between) {
    uint64_t cursor = 0;
    size_t steps = 0;
    do {
      value.Move(mover, &cursor);
      between();
      ++steps;
    } while (cursor != 0);
    return steps;
  }
  static size_t MoveAll(CompactValue& value, BlockMover& mover) {
    return MoveAll(value, mover, [] {});
  }

  testkit::RdbValues values_;
};

TEST_F(BlockMoverTest, AnyValueIsTheSameAfterAllOfItHasMoved) {
  helio::Random random(1);
  size_t moved[kValueTypes] = {};
  for (int i = 0; i < 8000; ++i) {
    const uint32_t limit = random.OneIn(2) ? 128 : 4;
    values_.limits_.hash = values_.limits_.zset = {.entries = limit, .element_bytes = 64};
    values_.limits_.set = {.integers = limit, .packed = values_.limits_.hash};
    values_.limits_.list.bytes = random.OneIn(2) ? 8192 : 128;
    CompactValue value = values_.MakeAny(&random);
    value.set_access_clock(static_cast<uint16_t>(i));
    const testkit::Texts content = testkit::ContentOf(value);
    const size_t bytes = value.HeapBytes();
    const uint8_t encoding = value.is_string() ? 0 : value.object_encoding();
    const void* const address = value.HeapAddress();
    BlockMover mover(nullptr);
    MoveAll(value, mover);
    ASSERT_EQ(testkit::ContentOf(value), content);
    ASSERT_EQ(value.access_clock(), static_cast<uint16_t>(i));
    if (!value.is_string()) {
      ASSERT_EQ(value.object_encoding(), encoding);
    }
    const bool is_copied = value.type() >= ValueType::kStream;  // what is not used goes
    if (!is_copied) {
      ASSERT_EQ(value.HeapBytes(), bytes);
      ASSERT_EQ(mover.stayed(), 0u) << TypeName(value.type());
    }
    ASSERT_EQ(mover.moved() == 0, address == nullptr);
    moved[static_cast<size_t>(value.type())] += mover.moved();
  }
  for (size_t type = 0; type < kValueTypes; ++type) EXPECT_GT(moved[type], 10u) << type;
}

TEST_F(BlockMoverTest, WhatLiesInOtherPagesStays) {
  helio::Random random(2);
  const SparsePages none;
  for (int i = 0; i < 300; ++i) {
    CompactValue value = values_.MakeAny(&random);
    const void* const address = value.HeapAddress();
    BlockMover mover(&none);
    MoveAll(value, mover);
    ASSERT_EQ(value.HeapAddress(), address);
    ASSERT_EQ(mover.moved(), 0u);
  }
}

TEST_F(BlockMoverTest, ASortedSetMovesInStepsWhileItChanges) {
  std::vector<std::pair<std::string, double>> pairs;
  for (size_t i = 0; i < 5000; ++i) pairs.emplace_back(Member(i), static_cast<double>(i % 7));
  CompactValue value = values_.MakeZset(pairs);
  BlockMover mover(nullptr);
  size_t next = 0;
  const size_t steps = MoveAll(value, mover, [&] {
    ZsetValue zset(&value);
    if (next % 3 == 0) {
      zset.Set(Member(next + 10'000), 3, values_.limits_.zset);
    } else {
      zset.Erase(Member(next));
    }
    ++next;
    auto* const table = static_cast<SortedTable*>(value.object());
    table->order.CheckInvariants();
  });
  EXPECT_GT(steps, 100u);
  EXPECT_GT(mover.moved(), 4000u) << "members and nodes";
  size_t seen = 0;
  ZsetValue(&value).ForEach([&](std::string_view member, double score) {
    ++seen;
    EXPECT_EQ(ZsetValue(&value).Score(member), score);
  });
  EXPECT_EQ(seen, ZsetValue(&value).size());
  static_cast<SortedTable*>(value.object())->scores.CheckInvariants();
}

TEST_F(BlockMoverTest, MembersWithDeadlinesMoveInStepsWhileTheyChange) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i < 3000; ++i) pairs.emplace_back(Member(i), "value of " + Member(i));
  CompactValue value = values_.MakeHashWithDeadlines(pairs, At(0));
  BlockMover mover(nullptr);
  size_t next = 0;
  const size_t steps = MoveAll(value, mover, [&] {
    HashValue hash(&value);
    if (next % 2 == 0) {
      hash.Set(Member(next + 10'000), "new", values_.limits_.hash);
      hash.SetDeadline(Member(next + 10'000), At(next));
    } else {
      hash.Erase(Member(next));
    }
    ++next;
    hash.table().CheckInvariants();
  });
  EXPECT_GT(steps, 100u);
  EXPECT_GT(mover.moved(), 6000u) << "members, texts, keys of the deadlines, nodes";
  const size_t size = HashValue(&value).size();
  EXPECT_EQ(value.EraseDueMembers(INT64_MAX, SIZE_MAX) + HashValue(&value).size(), size);
  EXPECT_LT(HashValue(&value).size(), size);
}

TEST_F(BlockMoverTest, AListMovesInStepsWhileItChanges) {
  values_.limits_.list = {.bytes = 512};
  testkit::Texts texts;
  for (size_t i = 0; i < 20'000; ++i) texts.push_back(Member(i));
  CompactValue value = values_.MakeList(texts);
  BlockMover mover(nullptr);
  size_t popped = 0;
  const size_t steps = MoveAll(value, mover, [&] {
    auto& list = *static_cast<QuickList*>(value.object());
    for (int i = 0; i < 100; ++i, ++popped) list.Pop(QuickList::End::kFront, values_.limits_.list);
    list.CheckInvariants();
  });
  EXPECT_GT(steps, 5u);
  texts.erase(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(popped));
  EXPECT_EQ(testkit::ContentOf(value), texts);
}

TEST_F(BlockMoverTest, ALargeStreamMovesItsNodes) {
  testkit::Texts texts;
  for (size_t i = 0; i < 4000; ++i) texts.push_back(Member(i));
  CompactValue value = testkit::RdbValues::MakeStream(texts);
  const void* const object = value.object();
  const testkit::Texts content = testkit::ContentOf(value);
  const size_t bytes = value.HeapBytes();
  ASSERT_GT(bytes, BlockMover::kCopyMax);
  BlockMover mover(nullptr);
  EXPECT_GT(MoveAll(value, mover), 5u);
  EXPECT_GT(mover.moved(), 500u);
  EXPECT_EQ(value.object(), object) << "its groups refer to it";
  EXPECT_EQ(value.HeapBytes(), bytes);
  EXPECT_EQ(testkit::ContentOf(value), content);
}

TEST_F(BlockMoverTest, AnyCursorLeadsToAnEndOfAnyValue) {
  helio::Random random(3);
  values_.limits_.hash = values_.limits_.zset = {.entries = 4, .element_bytes = 64};
  for (int i = 0; i < 1000; ++i) {
    CompactValue value = values_.MakeAny(&random);
    const testkit::Texts content = testkit::ContentOf(value);
    uint64_t cursor = random.Next() >> random.Uniform(64);
    BlockMover mover(nullptr);
    int steps = 0;
    do {
      value.Move(mover, &cursor);
      ASSERT_LT(++steps, 10'000);
    } while (cursor != 0);
    ASSERT_EQ(testkit::ContentOf(value), content);
  }
}

TEST_F(BlockMoverTest, ATableIsTheSameAfterAllOfItHasMoved) {
  for (const size_t size : {0, 1, 50, 20'000}) {
    DashTable<int64_t> table;
    for (size_t i = 0; i < size; ++i) {
      const std::string key = Member(i);
      table.Insert(KeyProbe(key, HashKey(key)))->value = static_cast<int64_t>(i);
    }
    const size_t bytes = table.bytes();
    BlockMover mover(nullptr);
    uint32_t cursor = 0;
    do {
      cursor = table.Move(cursor, mover, [&](auto& slot) { slot.key.Move(mover); });
    } while (cursor != 0);
    EXPECT_EQ(table.bytes(), bytes);
    EXPECT_EQ(mover.stayed(), 0u);
    EXPECT_GE(mover.moved(), size);
    table.CheckInvariants();
    for (size_t i = 0; i < size; ++i) {
      const std::string key = Member(i);
      ASSERT_EQ(table.Find(KeyProbe(key, HashKey(key)))->value, static_cast<int64_t>(i));
    }
  }
}

}  // namespace
}  // namespace dfly
