// SPDX-License-Identifier: Apache-2.0
#include "core/types/set_value.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

constexpr SetLimit kLimit = {.integers = 6, .packed = {.entries = 4, .element_bytes = 8}};

class SetValueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { SetValue::RegisterType(); }

  SetValue Make(std::initializer_list<std::string_view> members) {
    SetValue::Create(&value_, *members.begin(), 1, kLimit);
    SetValue set(&value_);
    for (std::string_view member : members) EXPECT_TRUE(set.Add(member, kLimit));
    return set;
  }
  std::string Encoding() { return std::string(value_.ObjectEncodingName()); }
  std::set<std::string> Members(CompactValue* value) {
    std::set<std::string> members;
    SetValue(value).ForEach([&](std::string_view member) { members.emplace(member); });
    return members;
  }

  CompactValue value_;
};

TEST_F(SetValueTest, BecomesWhatItsMembersNeed) {
  SetValue set = Make({"1", "70000", "-5000000000"});
  EXPECT_EQ(Encoding(), "intset");
  EXPECT_EQ(Members(&value_), (std::set<std::string>{"1", "70000", "-5000000000"}));
  Make({"3", "2", "1"});
  EXPECT_TRUE(set.Add("a", kLimit));
  EXPECT_EQ(Encoding(), "listpack");
  EXPECT_FALSE(set.Add("2", kLimit));
  EXPECT_TRUE(set.Add("b", kLimit));
  EXPECT_EQ(Encoding(), "hashtable") << "the fifth member";
  EXPECT_EQ(Members(&value_), (std::set<std::string>{"1", "2", "3", "a", "b"}));

  Make({"1", "2", "3", "4", "5", "6"});
  EXPECT_EQ(Encoding(), "intset");
  EXPECT_TRUE(set.Add("7", kLimit));
  EXPECT_EQ(Encoding(), "hashtable") << "the seventh integer";

  Make({"1", "2", "3", "4"});
  EXPECT_TRUE(set.Add("a", kLimit));
  EXPECT_EQ(Encoding(), "hashtable") << "five members";

  Make({"123456789"});
  EXPECT_TRUE(set.Add("a", kLimit));
  EXPECT_EQ(Encoding(), "hashtable") << "an integer of nine digits";

  Make({"a"});
  EXPECT_EQ(Encoding(), "listpack");
  EXPECT_TRUE(set.Add("ninebytes", kLimit));
  EXPECT_EQ(Encoding(), "hashtable");

  SetValue::Create(&value_, "1", 7, kLimit);
  EXPECT_EQ(Encoding(), "hashtable") << "many are expected";
}

TEST_F(SetValueTest, OnlyTheCanonicalFormIsAnInteger) {
  SetValue set = Make({"1"});
  EXPECT_FALSE(set.Has("01"));
  EXPECT_FALSE(set.Erase("1.0"));
  EXPECT_TRUE(set.Add("01", kLimit));
  EXPECT_EQ(set.size(), 2u);
}

TEST_F(SetValueTest, RandomChangesAgreeWithASet) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const SetLimit limit = {.integers = static_cast<uint32_t>(random.Uniform(60)),
                            .packed = {.entries = static_cast<uint32_t>(random.Uniform(40)),
                                       .element_bytes = static_cast<uint32_t>(random.Uniform(16))}};
    const uint64_t names = 1 + random.Uniform(80);
    const int shift = static_cast<int>(random.Uniform(64));
    const bool has_texts = random.OneIn(2);
    const auto any = [&] {
      if (has_texts && random.OneIn(10)) return "m" + std::to_string(random.Uniform(names));
      // The same few numbers, of all widths.
      helio::Random one_of(random.Uniform(names));
      return std::to_string(static_cast<int64_t>(one_of.Next()) >> shift);
    };
    std::string member = any();
    SetValue::Create(&value_, member, random.Uniform(100), limit);
    SetValue set(&value_);
    std::set<std::string> model;
    for (int step = 0; step < 200; ++step, member = any()) {
      if (random.OneIn(3)) {
        ASSERT_EQ(set.Erase(member), model.erase(member) > 0);
      } else {
        ASSERT_EQ(set.Add(member, limit), model.insert(member).second) << member;
      }
      ASSERT_EQ(set.size(), model.size());
      ASSERT_EQ(value_.IsEmptyObject(), model.empty());
      ASSERT_EQ(set.Has(member), model.contains(member));
      if (model.empty()) continue;
      char scratch[SetValue::kScratchSize];
      const auto drawn = set.Random([&] { return static_cast<uint32_t>(random.Next()); }, scratch);
      ASSERT_TRUE(model.contains(std::string(drawn)));
    }
    CompactValue copy = value_.Clone();
    ASSERT_EQ(Members(&copy), model);
    ASSERT_EQ(Members(&value_), model);
    std::set<std::string> seen;
    uint32_t cursor = 0;
    do {
      cursor = set.Scan(cursor, [&](std::string_view its) { seen.emplace(its); });
    } while (cursor != 0);
    ASSERT_EQ(seen, model);
    set.MakeTable();
    ASSERT_EQ(Members(&value_), model);
  }
}

TEST_F(SetValueTest, ADueMemberIsAbsentUntilSomebodyAddsIt) {
  Make({"1", "2", "3"});
  SetValue now(&value_, 100), later(&value_, 101);
  EXPECT_EQ(now.Deadline("1"), INT64_MAX);
  EXPECT_EQ(now.Deadline("4"), std::nullopt);
  EXPECT_EQ(value_.NextMemberDeadline(), INT64_MAX);
  now.SetDeadline("1", 100);
  now.SetDeadline("2", 200);
  EXPECT_EQ(Encoding(), "hashtable");
  EXPECT_EQ(value_.NextMemberDeadline(), 100);
  EXPECT_EQ(now.Deadline("1"), 100);
  EXPECT_EQ(now.size(), 3u);
  EXPECT_EQ(later.size(), 2u);
  EXPECT_EQ(later.Deadline("1"), std::nullopt);
  EXPECT_FALSE(later.Has("1"));
  EXPECT_FALSE(later.Erase("1"));
  size_t seen = 0;
  later.ForEach([&](std::string_view member) { seen += member != "1"; });
  EXPECT_EQ(seen, 2u);
  CompactValue copy = value_.Clone();
  EXPECT_EQ(copy.EraseDueMembers(101, 5), 1u);
  EXPECT_EQ(copy.NextMemberDeadline(), 200);
  EXPECT_EQ(SetValue(&copy).size(), 2u);

  EXPECT_FALSE(now.Add("1", kLimit));
  EXPECT_EQ(now.Deadline("1"), 100);
  EXPECT_TRUE(later.Add("1", kLimit));
  EXPECT_EQ(later.Deadline("1"), INT64_MAX);
  EXPECT_FALSE(value_.AreAllMembersDue(201));
  EXPECT_TRUE(later.Erase("1"));
  EXPECT_TRUE(later.Erase("3"));
  EXPECT_FALSE(value_.AreAllMembersDue(200));
  EXPECT_TRUE(value_.AreAllMembersDue(201));
  EXPECT_FALSE(value_.IsEmptyObject());
}

// Pearson's chi-squared test; its value is above 2 n once in millions of runs.
TEST_F(SetValueTest, EachMemberIsDrawnAsOftenAsAnother) {
  for (const char* prefix : {"", "m", "a member that is on the heap "}) {
    const size_t members = *prefix == 'a' ? 500 : 100;
    const SetLimit limit = {.integers = 512, .packed = {.entries = 128, .element_bytes = 64}};
    SetValue::Create(&value_, std::string(prefix) + "1", 1, limit);
    SetValue set(&value_);
    for (size_t i = 0; i < members; ++i) set.Add(prefix + std::to_string(i), limit);
    helio::Random random(9);
    std::map<std::string, double> drawn;
    constexpr double kEach = 200;
    const size_t draws = members * static_cast<size_t>(kEach);
    for (size_t i = 0; i < draws; ++i) {
      char scratch[SetValue::kScratchSize];
      ++drawn[std::string(
          set.Random([&] { return static_cast<uint32_t>(random.Next()); }, scratch))];
    }
    double chi_squared = 0;
    for (const auto& [member, count] : drawn) {
      chi_squared += (count - kEach) * (count - kEach) / kEach;
    }
    EXPECT_EQ(drawn.size(), members);
    EXPECT_LT(chi_squared, 2.0 * static_cast<double>(members)) << Encoding();
  }
}

}  // namespace
}  // namespace dfly
