// SPDX-License-Identifier: Apache-2.0
#include "engine/keyspace/shard_context.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class ShardContextTest : public testing::Test {
 protected:
  void Begin() { cx_.Begin(0, now_ms_); }
  void Set(std::string_view key, std::string_view value) { cx_.SetString(key, value); }
  std::string Get(std::string_view key) {
    auto value = cx_.FindReadOnly(key, ValueType::kString);
    return value ? value->ToString() : "(none)";
  }
  // Lets time pass, which only the next command sees.
  void Wait(int64_t ms) {
    now_ms_ += ms;
    Begin();
  }

  int64_t now_ms_ = 1'700'000'000'000;
  Shard shard_{0, 16};
  ShardContext cx_{shard_, 0, now_ms_};
};

TEST_F(ShardContextTest, SetsAndGets) {
  EXPECT_EQ(Get("k"), "(none)");
  Set("k", "v");
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(shard_.stats().hits, 1u);
  EXPECT_EQ(shard_.stats().misses, 1u);
  EXPECT_TRUE(cx_.Peek("k"));
  EXPECT_FALSE(cx_.Peek("none"));
  EXPECT_EQ(shard_.stats().hits + shard_.stats().misses, 2u);
  EXPECT_TRUE(cx_.Delete("k"));
  EXPECT_FALSE(cx_.Delete("k"));
  EXPECT_EQ(Get("k"), "(none)");
  EXPECT_EQ(shard_.stats().changes, 2u);
}

TEST_F(ShardContextTest, ALargeTextThatWasGivenBecomesTheValue) {
  std::vector<LargeText> given;
  for (const char c : {'a', 'b'}) {
    LargeText& text = given.emplace_back(100'000);
    memset(text.end(), c, text.room());
    text.Filled(text.room());
  }
  const std::string_view a = given[0].view();
  const std::string_view b = given[1].view();
  const LargeText::Scope scope(&given);
  Set("k", a);
  EXPECT_EQ(cx_.Peek("k")->View(nullptr).data(), a.data());
  Set("copy", std::string(b));
  EXPECT_NE(cx_.Peek("copy")->View(nullptr).data(), b.data());
  Set("k", b);
  EXPECT_EQ(cx_.Peek("k")->View(nullptr).data(), b.data());
  EXPECT_EQ(Get("k"), std::string(100'000, 'b'));
  EXPECT_EQ(cx_.Peek("k")->StringEncoding(), "raw");
  shard_.CheckInvariants();
  cx_.FindMutable("k")->Append("x");
  cx_.Changed("k", KeyEvent::kAppend);
  EXPECT_EQ(Get("k"), std::string(100'000, 'b') + "x");
  EXPECT_TRUE(cx_.Delete("k"));
  shard_.CheckInvariants();
}

TEST_F(ShardContextTest, ExpectedKeysAreHashedAsAllOthersInWhateverOrderTheyCome) {
  std::mt19937_64 random(17);
  for (size_t step : {1, 2}) {
    for (size_t count : {1, 2, 15, 16, 17, 100}) {
      std::vector<std::string> texts;
      for (size_t i = 0; i < count * step; ++i) texts.push_back("key" + std::to_string(i % 40));
      const std::vector<std::string_view> args(texts.begin(), texts.end());
      Begin();
      cx_.SetKeyHash(args[0], HashKey(args[0]));
      cx_.ExpectKeys(args, step);
      for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < args.size(); i += step) {
          for (int again = 0; again < 2; ++again) {
            EXPECT_EQ(cx_.HashOf(args[i]), HashKey(args[i]));
          }
        }
      }
      for (int i = 0; i < 200; ++i) {
        const std::string_view any = args[random() % args.size()];
        EXPECT_EQ(cx_.HashOf(any), HashKey(any));
        EXPECT_EQ(cx_.HashOf("another"), HashKey("another"));
      }
    }
  }
}

TEST_F(ShardContextTest, GivenHashesAreUsedForTheirKeysUntilTheCommandEnds) {
  const std::vector<std::string_view> args = {"a", "1", "b", "2", "c", "3"};
  const std::vector<uint64_t> hashes = {101, 102, 103};
  cx_.SetKeyHashes(args, 2, hashes);
  cx_.ExpectKeys(args, 2);
  EXPECT_EQ(cx_.HashOf(args[0]), 101u);
  EXPECT_EQ(cx_.HashOf(args[2]), 102u);
  EXPECT_EQ(cx_.HashOf(args[4]), 103u);
  EXPECT_EQ(cx_.HashOf(args[0]), 101u);
  Begin();
  EXPECT_EQ(cx_.HashOf(args[0]), HashKey("a"));
}

TEST_F(ShardContextTest, AHintSavesALookUpAsLongAsNothingMoves) {
  KeyHint hint;
  const auto get = [&](std::string_view key, int db = 0) {
    cx_.Begin(db, now_ms_);
    cx_.SetKeyHash(key, HashKey(key), &hint);
    return Get(key);
  };
  const std::string_view key = "k";
  EXPECT_EQ(get(key), "(none)");
  EXPECT_EQ(hint.layout, 0u);
  Set(key, "v");
  EXPECT_EQ(get(key), "v");
  const KeyHint first = hint;
  EXPECT_NE(first.layout, 0u);
  EXPECT_EQ(get(key), "v");
  EXPECT_EQ(hint.layout, first.layout);
  // Another key, whatever the hint says.
  EXPECT_EQ(Get("other"), "(none)");
  // It moves, goes, comes again, and is another one in another database, or in the same after all
  // were flushed.
  Begin();
  for (int i = 0; i < 1000; ++i) Set("n" + std::to_string(i), "x");
  EXPECT_EQ(get(key), "v");
  EXPECT_NE(hint.layout, first.layout);
  EXPECT_TRUE(cx_.Delete(key));
  EXPECT_EQ(get(key), "(none)");
  Set(key, "again");
  EXPECT_EQ(get(key), "again");
  EXPECT_EQ(get(key, 1), "(none)");
  Set(key, "of 1");
  EXPECT_EQ(get(key, 1), "of 1");
  EXPECT_EQ(get(key, 0), "again");
  shard_.SwapDatabases(0, 1);
  EXPECT_EQ(get(key, 0), "of 1");
  EXPECT_EQ(get(key, 1), "again");
  cx_.Flush(1, FlushMode::kSync);
  EXPECT_EQ(get(key, 1), "(none)");
  Set(key, "new");
  EXPECT_EQ(get(key, 1), "new");
}

TEST_F(ShardContextTest, AHintDoesNotKeepWhatIsDue) {
  KeyHint hint;
  const std::string_view key = "k";
  Set(key, "v");
  const auto get = [&] {
    Begin();
    cx_.SetKeyHash(key, HashKey(key), &hint);
    return Get(key);
  };
  EXPECT_EQ(get(), "v");
  cx_.SetDeadline(key, now_ms_ + 10);
  EXPECT_EQ(get(), "v");
  Wait(11);
  EXPECT_EQ(get(), "(none)");
}

TEST_F(ShardContextTest, DatabasesAreApart) {
  Set("k", "zero");
  cx_.Begin(5, now_ms_);
  EXPECT_EQ(Get("k"), "(none)");
  Set("k", "five");
  cx_.Begin(0, now_ms_);
  EXPECT_EQ(Get("k"), "zero");
}

TEST_F(ShardContextTest, DueKeyIsAbsentForEverything) {
  Set("k", "v");
  ASSERT_EQ(cx_.SetDeadline("k", now_ms_ + 100), ShardContext::DeadlineResult::kSet);
  Wait(100);
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(cx_.GetDeadline("k").at_ms, now_ms_);
  Wait(1);
  EXPECT_FALSE(cx_.Peek("k"));
  EXPECT_FALSE(cx_.FindMutable("k"));
  EXPECT_FALSE(cx_.GetDeadline("k").exists);
  EXPECT_FALSE(cx_.Persist("k"));
  EXPECT_FALSE(cx_.Delete("k"));
  EXPECT_FALSE(cx_.SetSticky("k", true));
  EXPECT_EQ(cx_.SetDeadline("k", now_ms_ + 9), ShardContext::DeadlineResult::kAbsent);
  uint32_t cursor = 0;
  do {
    cursor = cx_.Scan(cursor, [](std::string_view, const CompactValue&) { FAIL(); });
  } while (cursor != 0);
  EXPECT_EQ(shard_.stats().expired_keys, 0u);
  cx_.Finish();
  EXPECT_EQ(shard_.stats().expired_keys, 1u);
  EXPECT_EQ(shard_.db(0).size(), 0u);
}

TEST_F(ShardContextTest, NewKeyInheritsNothingFromADueOne) {
  for (bool by_set : {true, false}) {
    Begin();
    Set("k", "old");
    cx_.SetDeadline("k", now_ms_ + 1);
    cx_.SetSticky("k", true);
    Wait(2);
    if (by_set) {
      cx_.SetString("k", "new", {.keep_deadline = true, .deadline_ms = {}});
    } else {
      auto value = cx_.FindOrCreate("k", ValueType::kString);
      EXPECT_TRUE(value.was_created());
      value->Append("new");
      cx_.Changed("k", KeyEvent::kAppend);
    }
    EXPECT_EQ(Get("k"), "new");
    EXPECT_TRUE(cx_.GetDeadline("k").exists);
    EXPECT_EQ(cx_.GetDeadline("k").at_ms, std::nullopt);
    EXPECT_EQ(cx_.IsSticky("k"), false);
    cx_.Finish();
    shard_.CheckInvariants();
  }
  EXPECT_EQ(shard_.stats().expired_keys, 2u);
}

TEST_F(ShardContextTest, LookingAtADueKeyLeavesOtherHandlesAlive) {
  for (int i = 0; i < 3000; ++i) Set("key:" + std::to_string(i), "value");
  for (int i = 1; i < 3000; ++i) cx_.SetDeadline("key:" + std::to_string(i), now_ms_ + 1);
  Wait(2);
  auto first = cx_.FindMutable("key:0");
  for (int i = 1; i < 3000; ++i) EXPECT_FALSE(cx_.FindReadOnly("key:" + std::to_string(i)));
  first->Append(", longer than any inline string may be");
  cx_.Changed("key:0", KeyEvent::kAppend);
  cx_.Finish();
  EXPECT_EQ(shard_.db(0).size(), 1u);
  shard_.CheckInvariants();
}

TEST_F(ShardContextTest, SetDropsTheDeadlineUnlessToldOtherwise) {
  Set("k", "v");
  cx_.SetDeadline("k", now_ms_ + 100);
  cx_.SetString("k", "w", {.keep_deadline = true, .deadline_ms = {}});
  EXPECT_EQ(cx_.GetDeadline("k").at_ms, now_ms_ + 100);
  Set("k", "x");
  EXPECT_EQ(cx_.GetDeadline("k").at_ms, std::nullopt);
  cx_.SetString("k", "y", {.deadline_ms = now_ms_ + 5});
  EXPECT_EQ(cx_.GetDeadline("k").at_ms, now_ms_ + 5);
  EXPECT_TRUE(cx_.Persist("k"));
  EXPECT_FALSE(cx_.Persist("k"));
  EXPECT_EQ(shard_.db(0).expires(), 0u);
}

TEST_F(ShardContextTest, ReachedDeadlineDeletesAtOnce) {
  Set("k", "v");
  EXPECT_EQ(cx_.SetDeadline("k", now_ms_), ShardContext::DeadlineResult::kDeleted);
  EXPECT_EQ(Get("k"), "(none)");
  EXPECT_EQ(shard_.stats().expired_keys, 0u);
}

TEST_F(ShardContextTest, HashFromDispatchIsUsedForItsKeyOnly) {
  std::string key = "some key";
  std::string same = "some key";
  cx_.SetKeyHash(key, 42);
  EXPECT_EQ(cx_.HashOf(key), 42u);
  EXPECT_EQ(cx_.HashOf(same), HashKey(same));
  EXPECT_EQ(cx_.HashOf(std::string_view(key).substr(1)), HashKey("ome key"));
  cx_.Finish();
  EXPECT_EQ(cx_.HashOf(key), HashKey(key));
}

TEST_F(ShardContextTest, IdleTimeCountsFromTheLastTouch) {
  Set("k", "v");
  Wait(5000);
  EXPECT_EQ(cx_.IdleSeconds("k"), 5u);
  cx_.set_no_touch(true);
  Get("k");
  EXPECT_EQ(cx_.IdleSeconds("k"), 5u);
  Set("k", "w");
  EXPECT_EQ(cx_.IdleSeconds("k"), 5u);
  cx_.set_no_touch(false);
  Get("k");
  EXPECT_EQ(cx_.IdleSeconds("k"), 0u);
  EXPECT_EQ(cx_.IdleSeconds("none"), std::nullopt);
}

TEST_F(ShardContextTest, MemoryUsageCountsHeapPartsAndDeadline) {
  Set("k", "v");
  EXPECT_EQ(cx_.MemoryUsage("k"), 32u);
  cx_.SetDeadline("k", now_ms_ + 100);
  EXPECT_EQ(cx_.MemoryUsage("k"), 44u);
  Set("k", std::string(1000, 'x'));
  EXPECT_GE(cx_.MemoryUsage("k"), 1032u);
  EXPECT_EQ(cx_.MemoryUsage("none"), std::nullopt);
}

TEST_F(ShardContextTest, StickyFlagStaysUntilTheKeyGoes) {
  Set("k", "v");
  EXPECT_EQ(cx_.IsSticky("k"), false);
  EXPECT_TRUE(cx_.SetSticky("k", true));
  Set("k", "w");
  EXPECT_EQ(cx_.IsSticky("k"), true);
  cx_.Delete("k");
  Set("k", "x");
  EXPECT_EQ(cx_.IsSticky("k"), false);
}

// A stand-in for the coming collections: a string in an object of its own.
void RegisterToyHash() {
  RegisterObjectType(
      ValueType::kHash,
      {.destroy = [](void* object, uint8_t) { delete static_cast<std::string*>(object); },
       .bytes = [](const void* object,
                   uint8_t) { return static_cast<const std::string*>(object)->size() + 100; },
       .is_empty = [](const void* object,
                      uint8_t) { return static_cast<const std::string*>(object)->empty(); },
       .clone = [](const void* object, uint8_t) -> void* {
         return new std::string(*static_cast<const std::string*>(object));
       }});
}

TEST_F(ShardContextTest, OtherTypesAreRefusedAndLeftAlone) {
  RegisterToyHash();
  auto hash = cx_.FindOrCreate("h", ValueType::kHash);
  hash->SetObject(ValueType::kHash, new std::string("content"), 0);
  cx_.Changed("h", KeyEvent::kHSet);
  auto as_string = cx_.FindReadOnly("h", ValueType::kString);
  EXPECT_FALSE(as_string);
  EXPECT_TRUE(as_string.is_wrong_type());
  EXPECT_TRUE(cx_.FindMutable("h", ValueType::kString).is_wrong_type());
  EXPECT_TRUE(cx_.FindOrCreate("h", ValueType::kString).is_wrong_type());
  EXPECT_FALSE(cx_.FindReadOnly("none", ValueType::kString).is_wrong_type());
  EXPECT_TRUE(cx_.FindReadOnly("h", ValueType::kHash));
  Set("h", "a string now");
  EXPECT_EQ(Get("h"), "a string now");
  cx_.Finish();
  shard_.CheckInvariants();
}

TEST_F(ShardContextTest, EmptiedCollectionGoesAwayWithItsDeadline) {
  RegisterToyHash();
  auto hash = cx_.FindOrCreate("h", ValueType::kHash);
  hash->SetObject(ValueType::kHash, new std::string("content"), 0);
  cx_.Changed("h", KeyEvent::kHSet);
  cx_.SetDeadline("h", now_ms_ + 1000);
  auto again = cx_.FindMutable("h", ValueType::kHash);
  static_cast<std::string*>(again->object())->clear();
  cx_.Changed("h", KeyEvent::kHDel);
  EXPECT_FALSE(cx_.Peek("h"));
  EXPECT_EQ(shard_.db(0).expires(), 0u);
  shard_.CheckInvariants();
}

TEST_F(ShardContextTest, WhatIsTakenHereAndPutThereKeepsAllItHas) {
  Set("from", std::string(500, 'x'));
  cx_.SetDeadline("from", now_ms_ + 1000);
  cx_.SetSticky("from", true);
  Wait(10);
  auto taken = cx_.Take("from", KeyEvent::kRenameFrom);
  ASSERT_TRUE(taken);
  EXPECT_EQ(Get("from"), "(none)");
  EXPECT_EQ(cx_.GetDeadline("from").exists, false);
  shard_.CheckInvariants();

  Shard other(1, 16);
  {
    ShardContext other_cx(other, 3, now_ms_);
    other_cx.SetString("to", "what was there");
    other_cx.Put("to", std::move(*taken), KeyEvent::kRenameTo);
    EXPECT_EQ(other_cx.Peek("to")->ToString(), std::string(500, 'x'));
    EXPECT_EQ(other_cx.GetDeadline("to").at_ms, now_ms_ - 10 + 1000);
    EXPECT_EQ(other_cx.IsSticky("to"), true);
  }
  other.CheckInvariants();
  EXPECT_GT(other.used_bytes(), 500u);
  EXPECT_LT(shard_.used_bytes(), other.used_bytes());
}

TEST_F(ShardContextTest, WhatIsPutReplacesDeadlineStickinessAndADueKey) {
  Set("a", "1");
  Set("b", "2");
  cx_.SetDeadline("b", now_ms_ + 10);
  cx_.SetSticky("b", true);
  cx_.Put("b", *cx_.Copy("a"), KeyEvent::kCopyTo);
  EXPECT_EQ(Get("b"), "1");
  EXPECT_EQ(cx_.GetDeadline("b").at_ms, std::nullopt);
  EXPECT_EQ(cx_.IsSticky("b"), false);
  cx_.SetDeadline("b", now_ms_ + 10);
  Wait(11);
  EXPECT_FALSE(cx_.Take("b", KeyEvent::kRenameFrom));
  EXPECT_FALSE(cx_.Copy("b"));
  cx_.Put("b", *cx_.Copy("a"), KeyEvent::kCopyTo);
  EXPECT_EQ(Get("b"), "1");
  EXPECT_EQ(cx_.GetDeadline("b").at_ms, std::nullopt);
  cx_.Finish();
  shard_.CheckInvariants();
}

TEST_F(ShardContextTest, AccountsForTwoValuesChangedAtOnce) {
  Set("a", "1");
  Set("b", "2");
  auto a = cx_.FindMutable("a");
  auto b = cx_.FindMutable("b");
  auto a_again = cx_.FindMutable("a");
  a->Append(std::string(100, 'a'));
  b->Append(std::string(200, 'b'));
  a_again->Append(std::string(300, 'a'));
  cx_.Changed("a", KeyEvent::kAppend);
  cx_.Finish();
  shard_.CheckInvariants();
}

TEST_F(ShardContextTest, RandomKeySkipsDueKeysAndEnds) {
  std::mt19937 random(1);
  auto draw = [&random] { return static_cast<uint32_t>(random()); };
  EXPECT_EQ(cx_.RandomKey(draw), std::nullopt);
  for (int i = 0; i < 200; ++i) Set("key:" + std::to_string(i), "v");
  for (int i = 1; i < 200; ++i) cx_.SetDeadline("key:" + std::to_string(i), now_ms_ + 1);
  Wait(2);
  EXPECT_EQ(cx_.RandomKey(draw), "key:0");
  cx_.SetDeadline("key:0", now_ms_ + 1);
  Wait(2);
  EXPECT_EQ(cx_.RandomKey(draw), std::nullopt);
  EXPECT_EQ(shard_.db(0).size(), 0u);
}

TEST_F(ShardContextTest, FlushForgetsTheDatabase) {
  Set("k", "v");
  cx_.Flush(0, FlushMode::kSync);
  EXPECT_EQ(Get("k"), "(none)");
  Set("k", "w");
  EXPECT_EQ(Get("k"), "w");
}

#ifndef NDEBUG
TEST_F(ShardContextTest, DeathOfAHandleIsNoticed) {
  Set("k", "v");
  auto value = cx_.FindMutable("k");
  Set("other", "v");
  EXPECT_DEATH(value->Append("x"), "changed since");
}
#endif

TEST_F(ShardContextTest, AgreesWithAModelAndAccountsExactly) {
#if defined(DFLY_SANITIZED) || !defined(NDEBUG)
  constexpr int kSteps = 40000;
#else
  constexpr int kSteps = 400000;
#endif
  struct Entry {
    std::string value;
    int64_t deadline = 0;  // 0: none
  };
  std::mt19937_64 random(helio::TestSeed());
  std::map<std::string, Entry> model;
  auto due = [&](const Entry& entry) { return entry.deadline != 0 && entry.deadline < now_ms_; };
  for (int step = 0; step < kSteps; ++step) {
    Begin();
    std::string key = "key:" + std::to_string(random() % 3000);
    if (random() % 2 == 0) key += ":with a tail for the heap";
    std::string text(random() % (random() % 100 + 1), static_cast<char>('0' + random() % 40));
    auto known = model.find(key);
    if (known != model.end() && due(known->second)) {
      model.erase(known);
      known = model.end();
    }
    const bool exists = known != model.end();
    switch (random() % 9) {
      case 0:
      case 1: {
        bool keep = random() % 2 == 0;
        int64_t deadline =
            random() % 3 == 0 ? now_ms_ + 1 + static_cast<int64_t>(random() % 3000) : 0;
        ShardContext::SetOptions options;
        options.keep_deadline = keep;
        if (deadline != 0) options.deadline_ms = deadline;
        cx_.SetString(key, text, options);
        int64_t kept = exists && keep ? known->second.deadline : 0;
        model[key] = {text, deadline != 0 ? deadline : kept};
        break;
      }
      case 2:
      case 3: {
        auto value = cx_.FindOrCreate(key, ValueType::kString);
        ASSERT_EQ(value.was_created(), !exists);
        value->Append(text);
        cx_.Changed(key, KeyEvent::kAppend);
        model[key].value += text;
        break;
      }
      case 4: {
        auto value = cx_.FindMutable(key);
        ASSERT_EQ(static_cast<bool>(value), exists);
        if (value) {
          value->SetRange(random() % 100, "");
          value->SetString(text);
          cx_.Changed(key, KeyEvent::kSetRange);
          known->second.value = text;
        }
        break;
      }
      case 5:
        ASSERT_EQ(cx_.Delete(key), exists);
        model.erase(key);
        break;
      case 6: {
        int64_t deadline = now_ms_ + static_cast<int64_t>(random() % 3000);
        auto result = cx_.SetDeadline(key, deadline);
        ASSERT_EQ(result == ShardContext::DeadlineResult::kAbsent, !exists);
        if (result == ShardContext::DeadlineResult::kDeleted) model.erase(key);
        if (result == ShardContext::DeadlineResult::kSet) known->second.deadline = deadline;
        break;
      }
      case 7:
        ASSERT_EQ(cx_.Persist(key), exists && known->second.deadline != 0);
        if (exists) known->second.deadline = 0;
        break;
      default:
        ASSERT_EQ(Get(key), exists ? known->second.value : "(none)");
        ASSERT_EQ(cx_.GetDeadline(key).at_ms.value_or(0), exists ? known->second.deadline : 0);
    }
    if (random() % 50 == 0) {
      cx_.Finish();
      now_ms_ += static_cast<int64_t>(random() % 100);
      shard_.ExpireStep(now_ms_, random() % 100);
    }
    if (step % 10000 == 0) {
      cx_.Finish();
      shard_.CheckInvariants();
      Begin();
      std::set<std::string> seen;
      uint32_t cursor = 0;
      do {
        cursor = cx_.Scan(cursor, [&](std::string_view scanned, const CompactValue& value) {
          EXPECT_TRUE(seen.insert(std::string(scanned)).second);
          EXPECT_EQ(value.ToString(), model[std::string(scanned)].value);
        });
      } while (cursor != 0);
      std::erase_if(model, [&](const auto& entry) { return due(entry.second); });
      ASSERT_EQ(seen.size(), model.size());
    }
  }
  cx_.Finish();
  while (shard_.ExpireStep(now_ms_ + 100000, 1 << 20).is_more_due) {
  }
  std::erase_if(model, [](const auto& entry) { return entry.second.deadline != 0; });
  ASSERT_EQ(shard_.db(0).size(), model.size());
  shard_.CheckInvariants();
}

}  // namespace
}  // namespace dfly
