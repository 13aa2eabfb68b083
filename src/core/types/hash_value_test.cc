// SPDX-License-Identifier: Apache-2.0
#include "core/types/hash_value.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class HashValueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { HashValue::RegisterType(); }
  HashValueTest() { HashValue::Create(&value_); }

  std::string Get(std::string_view field) {
    char scratch[HashValue::kScratchSize];
    const auto text = HashValue(&value_).Get(field, scratch);
    return text ? std::string(*text) : "(none)";
  }

  static constexpr PackedLimit kLimit = {.entries = 8, .element_bytes = 16};
  CompactValue value_;
};

TEST_F(HashValueTest, IsAListpackUpToEachLimitAndAHashtableBehindIt) {
  HashValue hash(&value_);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(hash.Set(std::to_string(i), "x", kLimit));
  EXPECT_FALSE(hash.Set("7", std::string(16, 'y'), kLimit));
  EXPECT_EQ(value_.ObjectEncodingName(), "listpack");
  EXPECT_EQ(hash.size(), 8u);
  EXPECT_TRUE(hash.Set("8", "x", kLimit));
  EXPECT_EQ(value_.ObjectEncodingName(), "hashtable");
  EXPECT_EQ(hash.size(), 9u);
  EXPECT_EQ(Get("7"), std::string(16, 'y'));
  EXPECT_EQ(Get("9"), "(none)");
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(hash.Erase(std::to_string(i)));
  EXPECT_TRUE(value_.IsEmptyObject());

  for (const auto& [field, text] : {std::pair(std::string(17, 'f'), std::string("x")),
                                    std::pair(std::string("f"), std::string(17, 'x'))}) {
    HashValue::Create(&value_);
    EXPECT_TRUE(hash.Set("a", "b", kLimit));
    EXPECT_TRUE(hash.Set(field, text, kLimit));
    EXPECT_EQ(value_.ObjectEncodingName(), "hashtable");
    EXPECT_EQ(Get("a"), "b");
    EXPECT_EQ(Get(field), text);
  }
}

TEST_F(HashValueTest, AValueThatLooksLikeAFieldIsNone) {
  HashValue hash(&value_);
  hash.Set("a", "b", kLimit);
  EXPECT_EQ(Get("b"), "(none)");
  EXPECT_FALSE(hash.Erase("b"));
  EXPECT_TRUE(hash.Set("b", "a", kLimit));
  EXPECT_EQ(Get("b"), "a");
}

TEST_F(HashValueTest, SetTakesADeadlineAway) {
  HashValue hash(&value_);
  hash.Set("a", "1", kLimit);
  EXPECT_TRUE(hash.MakeTable().SetDeadline("a", 100));
  hash.Set("b", "1", kLimit);
  EXPECT_EQ(hash.table().next_deadline(), 100);
  const CompactValue copy = value_.Clone();
  EXPECT_FALSE(hash.Set("a", "2", kLimit));
  EXPECT_FALSE(hash.table().has_deadlines());
  EXPECT_EQ(static_cast<HashValue::Table*>(copy.object())->next_deadline(), 100);
}

TEST_F(HashValueTest, RandomChangesAgreeWithAMap) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 60; ++round) {
    HashValue::Create(&value_);
    HashValue hash(&value_);
    std::map<std::string, std::string> model;
    const PackedLimit limit = {.entries = static_cast<uint32_t>(1 + random.Uniform(40)),
                               .element_bytes = static_cast<uint32_t>(random.Uniform(30))};
    const uint64_t names = 1 + random.Uniform(60);
    for (int step = 0; step < 400; ++step) {
      const std::string field = std::to_string(random.Uniform(names));
      if (random.OneIn(3)) {
        ASSERT_EQ(hash.Erase(field), model.erase(field) > 0);
      } else {
        const std::string text =
            random.OneIn(2) ? std::to_string(random.Next()) : std::string(random.Uniform(24), 't');
        ASSERT_EQ(hash.Set(field, text, limit), !model.contains(field));
        model[field] = text;
      }
      ASSERT_EQ(hash.size(), model.size());
      ASSERT_EQ(hash.Has(field), model.contains(field));
      if (model.empty()) continue;
      hash.Random([&] { return static_cast<uint32_t>(random.Next()); },
                  [&](std::string_view its_field, std::string_view text) {
                    ASSERT_EQ(model.at(std::string(its_field)), text);
                  });
    }
    for (const CompactValue* value : {&value_}) {
      CompactValue copy = value->Clone();
      std::map<std::string, std::string> seen;
      HashValue(&copy).ForEach([&](std::string_view field, std::string_view text) {
        EXPECT_TRUE(seen.emplace(field, text).second);
      });
      ASSERT_EQ(seen, model);
      seen.clear();
      uint32_t cursor = 0;
      do {
        cursor = hash.Scan(cursor, [&](std::string_view field, std::string_view text) {
          EXPECT_TRUE(seen.emplace(field, text).second);
        });
      } while (cursor != 0);
      ASSERT_EQ(seen, model);
    }
  }
}

TEST_F(HashValueTest, LeavesDueFieldsOutOfAllThatItTells) {
  constexpr int64_t kNow = 1'000'000;
  constexpr int kFields = 300;
  HashValue(&value_).MakeTable();
  for (int i = 0; i < kFields; ++i) HashValue(&value_).Set(std::to_string(i), "v", kLimit);
  EXPECT_EQ(value_.NextMemberDeadline(), INT64_MAX);
  for (int i = 0; i < kFields - 1; ++i) {
    HashValue(&value_).SetDeadline(std::to_string(i), kNow - 1 + i % 2);
  }
  HashValue hash(&value_, kNow);
  EXPECT_EQ(value_.NextMemberDeadline(), kNow - 1);
  EXPECT_EQ(hash.size(), kFields / 2u);  // at kNow it is not yet due
  EXPECT_FALSE(hash.Has("0"));
  EXPECT_TRUE(hash.Has("1"));
  EXPECT_FALSE(hash.Erase("0"));
  EXPECT_EQ(hash.Deadline("0"), std::nullopt);
  EXPECT_EQ(hash.Deadline("1"), kNow);
  EXPECT_EQ(hash.Deadline("299"), INT64_MAX);
  size_t seen = 0;
  hash.ForEach([&](std::string_view, std::string_view) { ++seen; });
  EXPECT_EQ(seen, hash.size());
  EXPECT_FALSE(value_.AreAllMembersDue(kNow));

  // One of 300 is left: chance alone would rarely meet it.
  HashValue later(&value_, kNow + 1);
  EXPECT_EQ(later.size(), 1u);
  helio::Random random(1);
  for (int i = 0; i < 20; ++i) {
    later.Random([&] { return static_cast<uint32_t>(random.Next() >> 32); },
                 [](std::string_view field, std::string_view) { EXPECT_EQ(field, "299"); });
  }
  EXPECT_TRUE(later.Erase("299"));
  EXPECT_EQ(later.size(), 0u);
  EXPECT_TRUE(value_.AreAllMembersDue(kNow + 1));
  EXPECT_TRUE(later.Set("0", "again", kLimit));
  EXPECT_EQ(later.Deadline("0"), INT64_MAX);
  EXPECT_EQ(value_.EraseDueMembers(kNow + 1, 100), 100u);
  EXPECT_EQ(value_.EraseDueMembers(kNow + 1, 1000), kFields - 102u);
  EXPECT_EQ(later.size(), 1u);
  EXPECT_EQ(value_.NextMemberDeadline(), INT64_MAX);
}

TEST_F(HashValueTest, ANewTextKeepsOrDropsTheDeadline) {
  HashValue hash(&value_, 0);
  hash.Set("a", "1", kLimit);
  hash.SetDeadline("a", 5);
  EXPECT_FALSE(hash.Set("a", "2", kLimit, HashValue::OldDeadline::kKeep));
  EXPECT_EQ(hash.Deadline("a"), 5);
  EXPECT_FALSE(hash.Set("a", "3", kLimit));
  EXPECT_EQ(hash.Deadline("a"), INT64_MAX);
  EXPECT_EQ(Get("a"), "3");
}

}  // namespace
}  // namespace dfly
