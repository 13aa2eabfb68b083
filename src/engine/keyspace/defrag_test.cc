// SPDX-License-Identifier: Apache-2.0
// Everything that some shards have moves, in steps, between which it changes in all ways: no step
// changes anything that anybody sees. A seed decides everything.
#include "engine/keyspace/defrag.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "core/rdb/rdb_value_testing.h"
#include "engine/keyspace/random_changes_testing.h"
#include "engine/keyspace/shard_context.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

constexpr int kDatabases = 2;
constexpr int kKeys = 60;

class Scenario {
 public:
  explicit Scenario(uint64_t seed)
      : random_(seed), defragmenter_(random_.OneIn(2) ? 300 : SIZE_MAX) {
    const uint32_t limit = random_.OneIn(2) ? 128 : 3;
    values_.limits_.hash = values_.limits_.zset = {.entries = limit, .element_bytes = 64};
    values_.limits_.set = {.integers = limit, .packed = values_.limits_.hash};
    values_.limits_.list.bytes = random_.OneIn(2) ? 8192 : 128;
    for (Shard& shard : shards_) {
      shard.ReapForThread();
      defragmenter_.AddShard(&shard);
    }
  }

  void Go() {
    for (int i = 0; i < 200; ++i) Change();
    for (int pass = 0; pass < 2; ++pass) {
      defragmenter_.Begin(std::nullopt);
      bool is_done = false;
      // It ends, as changes bring less than a step moves.
      for (int steps = 0; !is_done; ++steps) {
        ASSERT_LT(steps, 100'000);
        Change();
        const auto before = Look();
        is_done = defragmenter_.Step(1 + random_.Uniform(20));
        ASSERT_EQ(Look(), before);
      }
      for (const Shard& shard : shards_) shard.CheckInvariants();
    }
  }

  const Defragmenter& defragmenter() const { return defragmenter_; }

 private:
  using Model = std::map<std::string, testkit::Texts>;

  // All that there is, and how often something changed.
  std::pair<Model, uint64_t> Look() {
    Model model;
    uint64_t changes = 0;
    for (Shard& shard : shards_) {
      changes += shard.stats().changes;
      for (int i = 0; i < kDatabases; ++i) {
        Database* const database = shard.FindDb(i);
        if (database == nullptr) continue;
        uint32_t cursor = 0;
        do {
          cursor = database->Scan(cursor, [&](Database::Table::Slot& slot) {
            const std::string key = slot.key.ToString();
            auto& lines = model[fmt::format("{} {} {}", shard.id(), i, key)];
            lines = testkit::ContentOf(slot.value);
            const auto deadline = database->Deadline(slot, KeyProbe(key, HashKey(key)));
            lines.push_back(std::to_string(deadline.value_or(0)));
            lines.push_back(slot.key.has_flag(CompactKey::kSticky) ? "sticky" : "");
          });
        } while (cursor != 0);
      }
    }
    return {model, changes};
  }

  void Change() {
    now_ms_ += static_cast<int64_t>(random_.Uniform(20));
    Shard& shard = shards_[random_.Uniform(std::size(shards_))];
    if (random_.OneIn(10)) {
      shard.ExpireStep(now_ms_, 1 + random_.Uniform(10));
      if (random_.OneIn(50)) shard.SwapDatabases(0, 1);
      if (random_.OneIn(200)) shard.Flush(0, FlushMode::kAsync);
      shard.FreeStep(3);
      return;
    }
    ShardContext cx(shard, static_cast<int>(random_.Uniform(kDatabases)), now_ms_);
    testkit::ChangeAnyKey(cx, &random_, &values_, [this] {
      const size_t i = random_.Uniform(kKeys);
      return i % 2 == 0 ? fmt::format("{}", i) : fmt::format("key:{:030}", i);
    });
  }

  helio::Random random_;
  testkit::RdbValues values_;
  Shard shards_[2] = {{0, kDatabases}, {1, kDatabases}};
  Defragmenter defragmenter_;
  int64_t now_ms_ = 1'700'000'000'000;
};

TEST(DefragTest, NothingChangesWhileEverythingMoves) {
  testkit::RegisterRdbTypes();
  const helio::SeedRange seeds = helio::TestSeeds(30);
  DefragStats stats;
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(fmt::format("DFLY_SEED={}", seed));
    Scenario scenario(seed);
    scenario.Go();
    if (HasFatalFailure()) return;
    helio::AddCounters(&stats, scenario.defragmenter().stats());
  }
  EXPECT_EQ(stats.passes, 2 * seeds.count);
  EXPECT_GT(stats.hits, 200 * seeds.count);
  EXPECT_GT(stats.key_hits, 10 * seeds.count);
}

class Defrag : public testing::Test {
 protected:
  Defrag() {
    testkit::RegisterRdbTypes();
    defragmenter_.AddShard(&shard_);
  }
  void Set(int db, std::string_view key, std::string_view value) {
    ShardContext(shard_, db, 0).SetString(key, value);
  }

  Shard shard_{0, kDatabases};
  Defragmenter defragmenter_;
};

TEST_F(Defrag, APassWaitsForACut) {
  class Keeper final : public CutKeeper {
    void BeforeChange(Database&, Slot&, Change) override {}
  } keeper;
  Set(1, "key", "value");
  EXPECT_FALSE(defragmenter_.must_wait());
  shard_.db(1).BeginCut(&keeper);
  EXPECT_TRUE(defragmenter_.must_wait());
  shard_.db(1).Scan(0, [&](auto& slot) { shard_.db(1).MarkSaved(slot); });
  shard_.db(1).EndCut();
  EXPECT_FALSE(defragmenter_.must_wait());
}

TEST_F(Defrag, CountsWhatMovesAndForgetsItWhenAsked) {
  const std::string text(100, 'x');
  for (int i = 0; i < 100; ++i) Set(0, fmt::format("a key on the heap, number {}", i), text);
  EXPECT_FALSE(defragmenter_.is_running());
  EXPECT_EQ(defragmenter_.running_since_ns(), 0u);
  const uint64_t before_ns = helio::MonotonicNanos();
  defragmenter_.Begin(std::nullopt);
  EXPECT_TRUE(defragmenter_.is_running());
  EXPECT_GE(defragmenter_.running_since_ns(), before_ns);
  EXPECT_TRUE(defragmenter_.moves_all());
  EXPECT_FALSE(defragmenter_.Step(50));
  EXPECT_GT(defragmenter_.stats().hits, 20u);
  defragmenter_.ResetStats();
  EXPECT_EQ(defragmenter_.stats().hits, 0u);
  EXPECT_TRUE(defragmenter_.Step(SIZE_MAX / 2));
  EXPECT_FALSE(defragmenter_.is_running());
  EXPECT_EQ(defragmenter_.running_since_ns(), 0u);
  EXPECT_LT(defragmenter_.stats().hits, 200u);
  EXPECT_GT(defragmenter_.stats().hits, 100u);
  shard_.CheckInvariants();
}

TEST_F(Defrag, APassMayEndEarly) {
  const std::string text(100, 'x');
  for (int i = 0; i < 100; ++i) Set(0, fmt::format("a key on the heap, number {}", i), text);
  defragmenter_.Begin(std::nullopt);
  EXPECT_FALSE(defragmenter_.Step(50));
  defragmenter_.Stop();
  EXPECT_FALSE(defragmenter_.is_running());
  EXPECT_GT(defragmenter_.stats().hits, 20u);
  shard_.CheckInvariants();
}

}  // namespace
}  // namespace dfly
