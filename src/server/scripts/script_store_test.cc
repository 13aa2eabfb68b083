// SPDX-License-Identifier: Apache-2.0
#include "server/scripts/script_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "scripting/source/script_header.h"

namespace dfly {
namespace {

using helio::Random;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kMost = ScriptStore::kEvaluatedMax;

std::string SourceOf(size_t number) { return "return " + std::to_string(number); }

class ScriptStoreTest : public testing::Test {
 protected:
  ScriptRef Load(std::string_view source) { return store_.Add(source, false, &error_); }
  ScriptRef Evaluate(std::string_view source) { return store_.Add(source, true, &error_); }
  bool Has(std::string_view source) { return store_.Find(Sha1Hex(source)) != nullptr; }
  // As many as there may be, the first used first.
  std::vector<ScriptRef> EvaluateMost() {
    std::vector<ScriptRef> scripts;
    for (size_t i = 0; i < kMost; ++i) {
      scripts.push_back(Evaluate(SourceOf(i)));
      scripts.back()->used_at_s = static_cast<int64_t>(1000 + i);
    }
    return scripts;
  }
  // All texts, and not much besides: a table's slots, and the digests in it; also of those that
  // flags were set for, which are so many at most.
  void CheckBytes(size_t flags_max = 0) {
    size_t texts = 0;
    const std::vector<ScriptRef> scripts = store_.List();
    for (const ScriptRef& script : scripts) texts += script->memory_used();
    EXPECT_GT(store_.memory_used(), texts);
    EXPECT_LE(store_.memory_used(), texts + 1000 + 200 * (scripts.size() + flags_max));
  }

  ScriptStore store_{kAllowStale, false};
  ScriptCache cache_{&store_};
  std::string error_;
};

TEST_F(ScriptStoreTest, AScriptIsFoundByItsDigest) {
  const std::string sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";  // of redis-server 7.0
  EXPECT_EQ(store_.Find(sha), nullptr);
  const ScriptRef script = Load("return 1");
  ASSERT_NE(script, nullptr);
  EXPECT_EQ(script->sha, sha);
  EXPECT_EQ(script->source, "return 1");
  EXPECT_EQ(script->code, "return 1");
  EXPECT_FALSE(script->has_shebang);
  EXPECT_FALSE(script->is_evaluated);
  EXPECT_FALSE(script->is_function());
  EXPECT_GT(script->used_at_s, 0);
  EXPECT_EQ(store_.Find(sha), script);
  EXPECT_EQ(store_.Find("E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"), script);
  EXPECT_EQ(store_.Find(""), nullptr);
  EXPECT_EQ(store_.Find(sha.substr(1)), nullptr);
}

TEST_F(ScriptStoreTest, ATextIsOneScriptHoweverOftenItIsAdded) {
  const uint64_t version = store_.version();
  const ScriptRef script = Load("return 1");
  EXPECT_EQ(Load("return 1"), script);
  EXPECT_EQ(Evaluate("return 1"), script);
  EXPECT_FALSE(script->is_evaluated) << "it stays loaded";
  EXPECT_NE(Load("return  1"), script);
  EXPECT_EQ(store_.List().size(), 2u);
  CheckBytes();
  EXPECT_EQ(store_.version(), version) << "nothing was removed";
}

TEST_F(ScriptStoreTest, AListIsInTheOrderOfTheDigests) {
  for (size_t i = 0; i < 20; ++i) Load(SourceOf(i));
  const std::vector<ScriptRef> list = store_.List();
  ASSERT_EQ(list.size(), 20u);
  for (size_t i = 1; i < list.size(); ++i) EXPECT_LT(list[i - 1]->sha, list[i]->sha);
}

TEST_F(ScriptStoreTest, AScriptWhoseFirstLineMakesNoSenseIsNotAdded) {
  const char* const source = "#!lua flags=none\nreturn 1";
  for (bool is_evaluated : {false, true}) {
    error_.clear();
    EXPECT_EQ(store_.Add(source, is_evaluated, &error_), nullptr);
    EXPECT_EQ(error_, "ERR Unexpected flag in script shebang: none");
  }
  error_.clear();
  EXPECT_EQ(cache_.Evaluated(source, &error_), nullptr);
  EXPECT_EQ(error_, "ERR Unexpected flag in script shebang: none");
  EXPECT_FALSE(Has(source));
  EXPECT_THAT(store_.List(), IsEmpty());
  EXPECT_EQ(store_.memory_used(), 0u);
}

TEST_F(ScriptStoreTest, TheFirstLineIsNoCodeAndItsFlagsComeToTheDefault) {
  EXPECT_EQ(Load("return 1")->flags, kAllowStale);
  const ScriptRef script = Load("#!lua flags=no-writes,allow-oom\nreturn 2");
  EXPECT_TRUE(script->has_shebang);
  EXPECT_EQ(script->code, "\nreturn 2");
  EXPECT_EQ(script->flags, kNoWrites | kAllowOom | kAllowStale);
}

TEST_F(ScriptStoreTest, CallsAreDeferredIfTheServerSaysSo) {
  const char* const source = "redis.call('set', KEYS[1], 1) return 1";
  EXPECT_EQ(Load(source)->code, source);
  ScriptStore deferring(0, true);
  const ScriptRef script = deferring.Add(source, false, &error_);
  EXPECT_EQ(script->source, source);
  EXPECT_THAT(script->code, HasSubstr("redis.acall('set'"));
  EXPECT_EQ(script->sha, Sha1Hex(source)) << "what the client knows it by";
}

TEST_F(ScriptStoreTest, FlagsCanBeSetBeforeAndAfterwards) {
  const std::string source = "#!lua flags=no-writes\nreturn 1";
  const std::string sha = Sha1Hex(source);
  std::string upper = sha;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  store_.SetFlags(upper, kAllowUndeclaredKeys);
  EXPECT_EQ(store_.Find(sha), nullptr);
  const ScriptRef script = Evaluate(source);
  EXPECT_EQ(script->flags, kAllowUndeclaredKeys) << "instead of what it says";
  EXPECT_EQ(Load("return 1")->flags, kAllowStale) << "of the other one only";
  store_.SetFlags(sha, kDisableAtomicity);
  EXPECT_EQ(script->flags, kDisableAtomicity);
  const ScriptRef loaded = Load(source);
  EXPECT_EQ(loaded->flags, kDisableAtomicity);
  store_.SetFlags(upper, 0);
  EXPECT_EQ(loaded->flags, 0u);
  store_.Flush();
  EXPECT_EQ(Load(source)->flags, 0u) << "they outlive the script";
}

TEST_F(ScriptStoreTest, FlagsCountByTheirDigests) {
  constexpr size_t kDigests = 1000;
  for (size_t i = 0; i < kDigests; ++i) store_.SetFlags(Sha1Hex(SourceOf(i)), kAllowOom);
  const size_t bytes = store_.memory_used();
  EXPECT_GT(bytes, 80 * kDigests);
  EXPECT_LE(bytes, 200 * kDigests);
  for (size_t i = 0; i < kDigests; ++i) store_.SetFlags(Sha1Hex(SourceOf(i)), 0);
  EXPECT_EQ(store_.memory_used(), bytes) << "others of the same digests";
  store_.Flush();
  EXPECT_EQ(store_.memory_used(), bytes) << "they outlive the scripts";
}

TEST_F(ScriptStoreTest, FlushForgetsAllAndChangesTheVersion) {
  Load("return 1");
  for (size_t i = 10; i < 20; ++i) Evaluate(SourceOf(i));
  const uint64_t version = store_.version();
  store_.Flush();
  EXPECT_NE(store_.version(), version);
  EXPECT_THAT(store_.List(), IsEmpty());
  EXPECT_FALSE(Has("return 1"));
  EXPECT_EQ(store_.memory_used(), 0u);
  // None of those is counted any more.
  EvaluateMost();
  EXPECT_EQ(store_.List().size(), kMost);
}

TEST_F(ScriptStoreTest, OfEvaluatedScriptsTheLeastRecentlyUsedIsForgotten) {
  const ScriptRef loaded = Load("return 'loaded'");
  loaded->used_at_s = 0;
  const std::vector<ScriptRef> scripts = EvaluateMost();
  const uint64_t version = store_.version();
  EXPECT_EQ(store_.List().size(), kMost + 1);
  EXPECT_EQ(Evaluate(SourceOf(0)), scripts[0]) << "that is no new one";
  EXPECT_EQ(store_.version(), version);

  scripts[0]->used_at_s = 5000;
  const ScriptRef next = Evaluate("return 'next'");
  EXPECT_NE(store_.version(), version);
  EXPECT_FALSE(Has(SourceOf(1)));
  EXPECT_TRUE(Has(SourceOf(0))) << "it was used again";
  EXPECT_TRUE(Has("return 'loaded'"));
  EXPECT_TRUE(Has("return 'next'"));
  EXPECT_EQ(store_.List().size(), kMost + 1);
  CheckBytes();
  EXPECT_EQ(scripts[1]->source, SourceOf(1)) << "who has it may still use it";

  Load("return 'loaded, too'");
  EXPECT_TRUE(Has(SourceOf(2))) << "loaded ones take nobody's place";
  Evaluate("return 'third'");
  EXPECT_FALSE(Has(SourceOf(2)));
  EXPECT_TRUE(Has(SourceOf(3)));
}

TEST_F(ScriptStoreTest, TheNewestIsNotForgottenThoughOthersWereUsedAtTheSameTime) {
  for (const ScriptRef& script : EvaluateMost()) script->used_at_s = INT64_MAX;
  for (size_t i = 0; i < 100; ++i) {
    const ScriptRef script = Evaluate(SourceOf(kMost + i));
    EXPECT_EQ(store_.Find(script->sha), script) << i;
    script->used_at_s = INT64_MAX;
  }
  EXPECT_EQ(store_.List().size(), kMost);
  CheckBytes();
}

TEST_F(ScriptStoreTest, AnEvaluatedScriptThatIsLoadedStaysWithWhatWasLearned) {
  const ScriptRef evaluated = Evaluate("return 'a'");
  EXPECT_TRUE(evaluated->is_evaluated);
  evaluated->Saw(Reach::kFar);
  evaluated->Saw(Reach::kTags);
  evaluated->watched_runs = 2;
  evaluated->runs = 7;
  const ScriptRef loaded = Load("return 'a'");
  EXPECT_FALSE(loaded->is_evaluated);
  EXPECT_EQ(loaded->runs, 7u);
  EXPECT_EQ(loaded->reach, Reach::kFar);
  EXPECT_EQ(loaded->watched_runs, 2u);
  EXPECT_EQ(store_.Find(loaded->sha), loaded);
  CheckBytes();
  loaded->used_at_s = 0;
  EvaluateMost();
  EXPECT_TRUE(Has(SourceOf(0))) << "it is not counted any more";
  Evaluate("return 'b'");
  EXPECT_TRUE(Has("return 'a'"));
}

TEST_F(ScriptStoreTest, ACacheHasWhatTheStoreHas) {
  EXPECT_EQ(cache_.Find(Sha1Hex("return 1")), nullptr);
  const ScriptRef loaded = Load("return 1");
  EXPECT_EQ(cache_.Find(loaded->sha), loaded.get()) << "it was not missing for ever";
  EXPECT_EQ(cache_.Find(loaded->sha), loaded.get());
  EXPECT_EQ(cache_.Evaluated("return 1", &error_), loaded.get());
  Script* const evaluated = cache_.Evaluated("return 2", &error_);
  EXPECT_TRUE(evaluated->is_evaluated);
  EXPECT_EQ(cache_.Evaluated("return 2", &error_), evaluated);
  EXPECT_EQ(store_.Find(evaluated->sha).get(), evaluated);
  ScriptCache other(&store_);
  EXPECT_EQ(other.Find(evaluated->sha), evaluated);
  EXPECT_EQ(other.Find("DA0BF4095EF4B6F337F03BA9DCD326DBC5FC8ACE"), nullptr);
  std::string upper = evaluated->sha;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(other.Find(upper), evaluated);
}

TEST_F(ScriptStoreTest, WhatACacheHasReturnedLivesUntilItSettles) {
  Script* const script = cache_.Evaluated("return 1", &error_);
  const std::weak_ptr<Script> watched = script->weak_from_this();
  cache_.Settle();
  EXPECT_EQ(cache_.Evaluated("return 1", &error_), script) << "nothing was removed";
  store_.Flush();
  EXPECT_EQ(cache_.Find(script->sha), nullptr);
  EXPECT_FALSE(watched.expired());
  EXPECT_NE(cache_.Evaluated("return 1", &error_), script);
  EXPECT_FALSE(watched.expired());
  cache_.Settle();
  EXPECT_TRUE(watched.expired());
}

TEST_F(ScriptStoreTest, ACacheHearsOfWhatIsForgottenOrReplaced) {
  Script* const evaluated = cache_.Evaluated("return 'a'", &error_);
  const ScriptRef loaded = Load("return 'a'");
  EXPECT_EQ(cache_.Evaluated("return 'a'", &error_), loaded.get());
  EXPECT_EQ(cache_.Find(evaluated->sha), loaded.get());
  cache_.Settle();
  const std::vector<ScriptRef> scripts = EvaluateMost();
  EXPECT_EQ(cache_.Find(scripts[0]->sha), scripts[0].get());
  EXPECT_NE(cache_.Evaluated("return 'b'", &error_), nullptr);
  EXPECT_EQ(cache_.Find(scripts[0]->sha), nullptr);
  EXPECT_EQ(cache_.Find(scripts[1]->sha), scripts[1].get());
}

TEST_F(ScriptStoreTest, SeveralThreadsMayUseItAtOnce) {
  constexpr size_t kSources = kMost + 100;
  constexpr int kRounds = 4000;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      Random random(seed);
      ScriptCache cache(&store_);
      std::string error;
      for (int round = 0; round < kRounds; ++round) {
        const std::string source = SourceOf(random.Uniform(kSources));
        switch (random.Uniform(8)) {
          case 0:
            if (const Script* script = cache.Find(Sha1Hex(source))) {
              wrong += script->source != source;
            }
            break;
          case 1:
            if (random.OneIn(10)) wrong += store_.Add(source, false, &error)->source != source;
            break;
          case 2:
            store_.SetFlags(Sha1Hex(source), static_cast<uint32_t>(seed));
            break;
          case 3:
            if (random.OneIn(500)) store_.Flush();
            break;
          case 4:
            for (const ScriptRef& script : store_.List()) wrong += script->source.empty();
            round += 20;
            break;
          default:
            if (Script* const script = cache.Evaluated(source, &error)) {
              wrong += script->source != source || script->code != source;
              script->Saw(Reach::kTags);
              script->used_at_s.store(round, std::memory_order_relaxed);
            } else {
              ++wrong;
            }
        }
        if (random.OneIn(4)) cache.Settle();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  CheckBytes(kSources);
  size_t evaluated = 0;
  for (const ScriptRef& script : store_.List()) evaluated += script->is_evaluated;
  EXPECT_LE(evaluated, kMost);
}

}  // namespace
}  // namespace dfly
