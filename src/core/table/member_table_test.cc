// SPDX-License-Identifier: Apache-2.0
#include "core/table/member_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using Fields = MemberTable<CompactText>;
using Members = MemberTable<NoValue>;

std::string ValueIn(const Fields& table, const std::string& field) {
  const auto* slot = table.Find(field);
  return slot == nullptr ? "(none)" : slot->value.ToString();
}

TEST(MemberTableTest, HoldsFieldsAndValues) {
  Fields table;
  EXPECT_TRUE(table.Set("field", "value"));
  EXPECT_FALSE(table.Set("field", "12"));
  EXPECT_EQ(ValueIn(table, "field"), "12");
  EXPECT_EQ(ValueIn(table, "Field"), "(none)");
  EXPECT_TRUE(table.Erase("field"));
  EXPECT_FALSE(table.Erase("field"));
  EXPECT_EQ(table.size(), 0u);
}

TEST(MemberTableTest, AMemberWithoutAValueIsAllKey) {
  Members table;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(table.Add("member:" + std::to_string(i)));
  EXPECT_FALSE(table.Add("member:7"));
  std::set<std::string> seen;
  table.ForEach([&](const auto& slot) { seen.insert(slot.key.ToString()); });
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_TRUE(seen.contains("member:999"));
}

TEST(MemberTableTest, ADeadlineGoesWithItsMember) {
  Members table;
  EXPECT_FALSE(table.SetDeadline("a", 5));
  table.Add("a");
  table.Add("b");
  EXPECT_EQ(table.next_deadline(), Members::kNever);
  EXPECT_TRUE(table.SetDeadline("a", 5));
  EXPECT_TRUE(table.SetDeadline("b", 3));
  EXPECT_EQ(table.next_deadline(), 3);
  EXPECT_TRUE(table.SetDeadline("b", 9));
  EXPECT_EQ(table.next_deadline(), 5);
  EXPECT_EQ(table.Deadline(*table.Find("b")), 9);
  EXPECT_TRUE(table.Erase("a"));
  EXPECT_EQ(table.next_deadline(), 9);
  EXPECT_TRUE(table.ClearDeadline("b"));
  EXPECT_FALSE(table.ClearDeadline("b"));
  EXPECT_FALSE(table.has_deadlines());
  table.Add("a");
  EXPECT_EQ(table.Deadline(*table.Find("a")), std::nullopt);
}

TEST(MemberTableTest, RandomChangesAgreeWithAMap) {
  helio::Random random(helio::TestSeed());
  struct Field {
    std::string value;
    int64_t deadline = Fields::kNever;
  };
  for (int round = 0; round < 4; ++round) {
    auto table = std::make_unique<Fields>();
    std::map<std::string, Field> model;
    int64_t now = 0;
    const uint64_t names = 20 + random.Uniform(5000);
    for (int step = 0; step < 20'000; ++step) {
      std::string name = std::to_string(random.Uniform(names));
      if (random.OneIn(3)) name += " with a long tail that is on the heap";
      const std::string value(random.Uniform(40), 'v');
      switch (random.Uniform(6)) {
        case 0:
        case 1:
          ASSERT_EQ(table->Set(name, value), !model.contains(name));
          model[name].value = value;
          break;
        case 2:
          ASSERT_EQ(table->Erase(name), model.erase(name) > 0);
          break;
        case 3: {
          const int64_t at = now + static_cast<int64_t>(random.Uniform(2000));
          ASSERT_EQ(table->SetDeadline(name, at), model.contains(name));
          if (model.contains(name)) model[name].deadline = at;
          break;
        }
        case 4: {
          const auto it = model.find(name);
          const bool had_one = it != model.end() && it->second.deadline != Fields::kNever;
          ASSERT_EQ(table->ClearDeadline(name), had_one);
          if (had_one) it->second.deadline = Fields::kNever;
          break;
        }
        case 5:
          now += static_cast<int64_t>(random.Uniform(4));
          if (step % 10 != 0) break;
          table->EraseDue(now, SIZE_MAX, [&](std::string_view member) {
            const auto it = model.find(std::string(member));
            ASSERT_NE(it, model.end());
            ASSERT_LT(it->second.deadline, now);
            model.erase(it);
          });
          for (const auto& [field, known] : model) ASSERT_GE(known.deadline, now) << field;
      }
      ASSERT_EQ(table->size(), model.size());
      if (step % 2000 != 0) continue;
      table->CheckInvariants();
      size_t seen = 0;
      for (uint32_t cursor = 0;;) {
        cursor = table->Scan(cursor, [&](const Fields::Slot& slot) {
          const auto it = model.find(slot.key.ToString());
          ASSERT_NE(it, model.end());
          ASSERT_EQ(slot.value.ToString(), it->second.value);
          ASSERT_EQ(table->Deadline(slot).value_or(Fields::kNever), it->second.deadline);
          ++seen;
        });
        if (cursor == 0) break;
      }
      ASSERT_EQ(seen, model.size());
    }
    while (!table->FreeSome(100)) {
    }
    EXPECT_EQ(table->size(), 0u);
  }
}

TEST(MemberTableTest, CostsLittle) {
  constexpr size_t kCount = 100'000;
  auto fields = std::make_unique<Fields>();
  auto members = std::make_unique<Members>();
  for (size_t i = 0; i < kCount; ++i) {
    const std::string name = "member:" + std::to_string(i);
    fields->Set(name, "value");
    members->Add(name);
  }
  EXPECT_LT(fields->bytes() / kCount, 46u);
  EXPECT_LT(members->bytes() / kCount, 26u);
}

}  // namespace
}  // namespace dfly
