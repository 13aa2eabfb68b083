// SPDX-License-Identifier: Apache-2.0
// Random values of all types, which change in all ways while they are written: what is read back
// has to be what there was at the cut. A seed decides everything.
#include "storage/shard_snapshot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "core/rdb/rdb_value.h"
#include "core/rdb/rdb_value_testing.h"
#include "engine/keyspace/defrag.h"
#include "engine/keyspace/random_changes_testing.h"
#include "engine/keyspace/shard_context.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"
#include "helio/proactor/proactor_pool.h"
#include "storage/entry_reader.h"

namespace dfly {
namespace {

constexpr int kDatabases = 3;
constexpr int kKeys = 40;
constexpr int64_t kStartMs = 1'700'000'000'000;

struct Key {
  int db;
  std::string name;
  auto operator<=>(const Key&) const = default;
};
// Its value as lines, and behind them its deadline, its mark, and what memcached's clients keep.
using Model = std::map<Key, testkit::Texts>;

testkit::Texts LinesOf(CompactValue& value, const EntryFacts& facts) {
  testkit::Texts lines = testkit::ContentOf(value);
  lines.push_back(facts.deadline_ms ? std::to_string(*facts.deadline_ms) : "no deadline");
  lines.push_back(facts.is_sticky ? "sticky" : "not sticky");
  const MemcachedItem& item = facts.memcached;
  lines.push_back(fmt::format("{} {} {}", item.client_flags, item.cas, item.marks()));
  return lines;
}

Model ModelOf(Shard* shard) {
  Model model;
  for (int i = 0; i < kDatabases; ++i) {
    Database* database = shard->FindDb(i);
    if (database == nullptr) continue;
    uint32_t cursor = 0;
    do {
      cursor = database->Scan(cursor, [&](Database::Table::Slot& slot) {
        const std::string name = slot.key.ToString();
        const EntryFacts facts = {
            .deadline_ms = database->Deadline(slot, KeyProbe(name, HashKey(name))),
            .is_sticky = slot.key.has_flag(CompactKey::kSticky),
            .memcached = i == 0 ? shard->memcached().Find(name) : MemcachedItem()};
        model[{i, name}] = LinesOf(slot.value, facts);
      });
    } while (cursor != 0);
  }
  return model;
}

// Keeps what it gets, and takes its time. Fails, if it should, after so many bytes.
class MemoryOutput final : public SnapshotOutput {
 public:
  MemoryOutput(helio::Random* random, size_t fails_after, const Shard* shard)
      : random_(*random), fails_after_(fails_after), shard_(*shard) {}

  void WriteEntries(std::string_view bytes) override {
    EXPECT_FALSE(is_large_) << "entries within a large one";
    // Others may have written to the file since the last ones.
    EXPECT_EQ(static_cast<uint8_t>(bytes[0]), static_cast<uint8_t>(RdbOpcode::kSelectDb));
    EXPECT_GE(shard_.snapshot_bytes(), bytes.size()) << "what is being written counts";
    Write(bytes);
  }
  void BeginLarge() override {
    EXPECT_FALSE(is_large_);
    is_large_ = true;
    Pause();
  }
  void WritePart(std::string_view bytes) override {
    EXPECT_TRUE(is_large_);
    ++parts_;
    Write(bytes);
  }
  void EndLarge() override { is_large_ = false; }
  bool has_failed() const override { return bytes_.size() > fails_after_; }

  const std::string& bytes() const { return bytes_; }
  uint64_t parts() const { return parts_; }

 private:
  void Write(std::string_view bytes) {
    bytes_ += bytes;
    Pause();
  }
  void Pause() {
    for (uint64_t turns = random_.Uniform(4); turns > 0; --turns) helio::this_fiber::Yield();
  }

  helio::Random& random_;
  const size_t fails_after_;
  const Shard& shard_;
  std::string bytes_;
  uint64_t parts_ = 0;
  bool is_large_ = false;
};

class Scenario {
 public:
  explicit Scenario(uint64_t seed) : random_(seed), shard_(0, kDatabases) {
    shard_.ReapForThread();
    defragmenter_.AddShard(&shard_);
    values_.limits_ = {.string_max = shard_.string_max(),
                       .list = shard_.list_limit(),
                       .set = shard_.set_limit(),
                       .zset = shard_.zset_limit(),
                       .hash = shard_.hash_limit()};
  }

  void Go() {
    for (int i = 0; i < 60; ++i) Change();
    for (int round = 0; round < 3; ++round) {
      const bool fails = random_.OneIn(6);
      MemoryOutput output(&random_, fails ? random_.Uniform(3000) : SIZE_MAX, &shard_);
      SnapshotForm form;
      if (random_.OneIn(2)) form.dialect = SnapshotDialect::kRedis;
      if (random_.OneIn(2)) form.compression = RdbWriter::Compression::kLzf;
      std::atomic<uint64_t> keys_written{0};
      ShardSnapshot::Sizes sizes{.large = random_.OneIn(4) ? SIZE_MAX : 600};
      sizes.flush = 1 + random_.Uniform(1000);
      sizes.slice = 1 + random_.Uniform(300);
      sizes.queued = 1 + random_.Uniform(3000);
      sizes.behind = random_.Uniform(10'000);
      bool is_behind = false;
      ShardSnapshot snapshot(form, &output, &keys_written, sizes, [&](bool now) {
        EXPECT_NE(now, is_behind);
        is_behind = now;
        times_behind_ += now;
      });
      snapshot_ = &snapshot;
      const Model model = ModelOf(&shard_);
      snapshot.Cut(&shard_);
      bool is_over = false;
      helio::Fiber writer("writer", [&] {
        snapshot.Write();
        is_over = true;
      });
      for (int i = 0; i < 200 && !is_over; ++i) {
        Change();
        EXPECT_EQ(shard_.snapshot_bytes(), snapshot.bytes());
        if (random_.OneIn(2)) helio::this_fiber::Yield();
      }
      writer.Join();
      snapshot_ = nullptr;
      EXPECT_EQ(snapshot.bytes(), 0u) << "values that it took were not freed";
      EXPECT_FALSE(is_behind);
      EXPECT_TRUE(shard_.runs_freely()) << "somebody waits still";
      EXPECT_EQ(shard_.snapshot_bytes(), 0u);
      if (!output.has_failed()) {
        Compare(model, output.bytes());
        EXPECT_EQ(keys_written, model.size());
      }
      if (testing::Test::HasFailure()) return;
      shard_.CheckInvariants();
      parts_ += output.parts();
      helio::AddCounters(&stats_, snapshot.stats());
      for (int i = 0; i < 5; ++i) Change();
    }
  }

  const ShardSnapshotStats& stats() const { return stats_; }
  uint64_t parts() const { return parts_; }
  uint64_t times_behind() const { return times_behind_; }

 private:
  // Who has to wait until a large value is saved, before he changes it.
  struct Waiter : TxEntry {
    Scenario* scenario;
    TagLock tag;
    int db;
    std::string key;
  };
  std::string AnyKey() { return fmt::format("key:{:030}", random_.Uniform(kKeys)); }

  // Everything moves, as long as no snapshot holds it up.
  void Move() {
    if (defragmenter_.must_wait()) return;
    if (!defragmenter_.is_running()) defragmenter_.Begin(std::nullopt);
    defragmenter_.Step(1 + random_.Uniform(30));
  }

  void Change() {
    Move();
    now_ms_ += static_cast<int64_t>(random_.Uniform(20));
    ShardContext cx(shard_, static_cast<int>(random_.Uniform(kDatabases)), now_ms_);
    switch (random_.Uniform(16)) {
      case 0:
        cx.Finish();
        shard_.ExpireStep(now_ms_, 1 + random_.Uniform(10));
        break;
      case 1:
        if (!shard_.transactions().empty()) break;  // it would wait for these
        if (random_.OneIn(8)) {
          cx.Finish();
          shard_.Flush(static_cast<int>(random_.Uniform(kDatabases)),
                       random_.OneIn(2) ? FlushMode::kAsync : FlushMode::kSync);
        } else if (random_.OneIn(2)) {
          cx.Finish();
          shard_.SwapDatabases(static_cast<int>(random_.Uniform(kDatabases)),
                               static_cast<int>(random_.Uniform(kDatabases)));
        }
        shard_.FreeStep(3);
        break;
      case 2:
      case 3:
      case 4:
      case 5:
        ChangeInPlace(cx, AnyKey());
        break;
      default:
        testkit::ChangeAnyKey(cx, &random_, &values_, [this] { return AnyKey(); });
    }
  }

  // As a command does that can wait, or as one that cannot.
  void ChangeInPlace(ShardContext& cx, const std::string& key) {
    if (!random_.OneIn(2)) return ChangeInPlaceNow(cx, key);
    const uint64_t hash = HashKey(key);
    const TagLock lock{TagFingerprint(hash, cx.db_index()), LockMode::kExclusive};
    CutGuard* const guard = shard_.cut_guard();
    if (!shard_.transactions().Conflicts(lock) &&
        (guard == nullptr || !guard->MustWait(cx.db_index(), key, hash, lock.fingerprint))) {
      return ChangeInPlaceNow(cx, key);
    }
    auto* const waiter = new Waiter;
    waiter->scenario = this;
    waiter->tag = lock;
    waiter->db = cx.db_index();
    waiter->key = key;
    waiter->tags = std::span(&waiter->tag, 1);
    waiter->run = [](TxEntry* entry) {
      auto& self = *static_cast<Waiter*>(entry);
      Scenario& scenario = *self.scenario;
      const auto copied = [&scenario] {
        return scenario.snapshot_ == nullptr ? 0 : scenario.snapshot_->stats().values_copied;
      };
      const uint64_t before = copied();
      {
        ShardContext its_cx(scenario.shard_, self.db, scenario.now_ms_);
        scenario.ChangeInPlaceNow(its_cx, self.key);
      }
      EXPECT_EQ(copied(), before) << self.key << " was not saved while somebody waited for it";
      return true;
    };
    waiter->done = [](TxEntry* entry) { delete static_cast<Waiter*>(entry); };
    shard_.transactions().ScheduleLast(waiter);
    shard_.Arm(waiter);
  }

  void ChangeInPlaceNow(ShardContext& cx, const std::string& key) {
    auto value = cx.FindMutable(key);
    if (!value) return;
    const std::string text = testkit::RdbValues::RandomText(&random_);
    switch (value->type()) {
      case ValueType::kString:
        value->Append(text);
        break;
      case ValueType::kList: {
        auto& list = *static_cast<QuickList*>(value->object());
        if (random_.OneIn(2) && list.size() > 0) {
          list.Pop(QuickList::End::kFront, values_.limits_.list);
        } else {
          list.Push(QuickList::End::kFront, text, values_.limits_.list);
        }
        break;
      }
      case ValueType::kSet:
        SetValue(&*value).Add(text, values_.limits_.set);
        break;
      case ValueType::kZset:
        ZsetValue(&*value).Set(text, 1, values_.limits_.zset);
        break;
      case ValueType::kHash:
        HashValue(&*value).Set(text, text, values_.limits_.hash);
        break;
      case ValueType::kBloomFilter:
        static_cast<BloomFilter*>(value->object())->Add(HashItem(text), SIZE_MAX);
        break;
      case ValueType::kCountMinSketch:
        static_cast<CountMinSketch*>(value->object())->Add(HashItem(text), 1);
        break;
      case ValueType::kTopK:
        static_cast<TopK*>(value->object())->Add(text, 3);
        break;
      case ValueType::kStream:
        static_cast<StreamValue*>(value->object())->Erase({1000, 9});
        break;
      case ValueType::kJson: {
        auto* const doc = static_cast<JsonDoc*>(value->object());
        doc->Set(doc->mutable_root(), doc->MakeText(std::string(text.size(), 'x')));
        break;
      }
    }
    cx.Changed(key, KeyEvent::kNone);
    if (cx.db_index() == 0 && random_.OneIn(2)) cx.SetMemcachedItem(key, RandomItem());
  }

  MemcachedItem RandomItem() {
    MemcachedItem item{.cas = random_.Uniform(1000),
                       .client_flags = static_cast<uint32_t>(random_.Next())};
    item.set_marks(static_cast<uint32_t>(random_.Uniform(4)));
    return item;
  }

  void Compare(const Model& model, std::string_view bytes) {
    Model found;
    ViewSource source(bytes);
    EntryReader reader(&source, 1 << 20, false);
    while (true) {
      const EntryReader::Item item = reader.Next();
      if (item == EntryReader::Item::kEnd) break;
      ASSERT_EQ(item, EntryReader::Item::kEntry) << reader.error();
      CompactValue value;
      const RdbRead read =
          ReadRdbValue(reader.type(), values_.limits_, &reader.value_source(), &value);
      ASSERT_EQ(read, RdbRead::kValue);
      ASSERT_TRUE(AddBeside(reader.beside(), &value));
      const bool is_new =
          found.emplace(Key{reader.db_index(), reader.key()}, LinesOf(value, reader.facts()))
              .second;
      ASSERT_TRUE(is_new) << reader.key() << " is there twice";
    }
    for (const auto& [key, lines] : model) {
      const auto it = found.find(key);
      ASSERT_NE(it, found.end()) << key.db << " " << key.name << " is missing";
      ASSERT_EQ(it->second, lines) << key.db << " " << key.name;
    }
    ASSERT_EQ(found.size(), model.size());
  }

  helio::Random random_;
  testkit::RdbValues values_;
  Shard shard_;
  int64_t now_ms_ = kStartMs;
  ShardSnapshot* snapshot_ = nullptr;  // that is made now
  Defragmenter defragmenter_{300};
  ShardSnapshotStats stats_;
  uint64_t parts_ = 0;
  uint64_t times_behind_ = 0;
};

TEST(ShardSnapshotTest, HasWhatThereWasAtTheCut) {
  testkit::RegisterRdbTypes();
  const helio::SeedRange seeds = helio::TestSeeds(400);
  ShardSnapshotStats stats;
  uint64_t parts = 0;
  uint64_t times_behind = 0;
  helio::ProactorPool pool({.threads = 1});
  pool.Start();
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    SCOPED_TRACE(fmt::format("DFLY_SEED={}", seed));
    pool.at(0)->AwaitFiber("run", [&] {
      Scenario run(seed);
      run.Go();
      helio::AddCounters(&stats, run.stats());
      parts += run.parts();
      times_behind += run.times_behind();
    });
    if (HasFailure()) break;
  }
  pool.Stop();
  if (helio::IsReplay() || HasFailure()) return;
  // All ways were taken.
  EXPECT_GT(stats.keys_by_changes, seeds.count);
  EXPECT_GT(stats.values_taken, seeds.count / 2);
  EXPECT_GT(stats.values_hurried, seeds.count / 2);
  EXPECT_GT(stats.values_copied, seeds.count / 4);
  EXPECT_GT(times_behind, seeds.count);
  EXPECT_GT(parts, seeds.count);
}

}  // namespace
}  // namespace dfly
