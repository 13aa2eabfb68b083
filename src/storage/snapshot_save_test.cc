// SPDX-License-Identifier: Apache-2.0
// Whole snapshots, saved and loaded, on disks that fail at each step.
#include "storage/snapshot_save.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rdb/rdb_value_testing.h"
#include "engine/keyspace/shard_context.h"
#include "helio/base/clock.h"
#include "helio/base/random.h"
#include "storage/entry_reader.h"
#include "storage/memory_files.h"
#include "storage/snapshot_load.h"
#include "storage/snapshot_testing.h"

namespace dfly {
namespace {

using testing::HasSubstr;
using Model = testkit::StoreModel;

class Store {
 public:
  explicit Store(uint32_t shards, PlacementRules placement = {})
      : shards_(&pool_, shards, 4, Shard::kStringMax, {}, std::move(placement)) {}
  ~Store() = default;

  ShardSet& shards() { return shards_; }

  void Put(int db, const std::string& key, ShardContext::Detached detached) {
    pool_.at(0)->AwaitFiber("put", [&] {
      const ShardId id = shards_.ShardOfKey(key, HashKey(key));
      shards_.Await(id, [&](Shard& shard) {
        ShardContext cx(shard, db, helio::UnixMillis());
        cx.Put(key, std::move(detached), KeyEvent::kRestore);
      });
    });
  }
  void PutText(int db, const std::string& key, const std::string& text) {
    ShardContext::Detached detached;
    detached.value.SetString(text);
    Put(db, key, std::move(detached));
  }

  StreamPlace place;  // of the next snapshots

  testkit::StoreModel Content() { return testkit::ContentOf(shards_); }

  SaveResult Save(MemoryFiles* files, SnapshotFormat format, FrameCodec codec = FrameCodec::kLz4,
                  SaveOptions options = {}) {
    options.path.name = "dump";
    options.path.format = format;
    options.codec = codec;
    options.redis_version = "7.0.15";
    options.sizes.large = 500;
    SaveProgress progress;
    SaveResult result;
    pool_.at(0)->AwaitFiber("save", [&] {
      result = SaveSnapshot(
          &shards_, files, options,
          [&] {
            return SnapshotExtras{.functions = {"f1", "f2"},
                                  .scripts = {"s"},
                                  .placements = shards_.ExportPlacements(),
                                  .place = place};
          },
          &progress);
    });
    return result;
  }

  // What it has is in Shard::incoming then.
  std::string LoadBeside(MemoryFiles* files, const std::string& rdb, size_t cut_at);
  void EndLoad(bool takes) {
    shards_.AwaitOnAll([takes](Shard& shard) {
      takes ? shard.TakeIncoming() : shard.DropIncoming();
      while (!shard.FreeStep(1000)) {
      }
      EXPECT_EQ(shard.used_bytes(), shard.live_bytes());
    });
  }

  std::string Load(MemoryFiles* files, SnapshotFormat format, SnapshotExtras* extras = nullptr) {
    SnapshotPath path{.directory = "", .name = "dump", .format = format};
    LoadProgress progress;
    std::string error;
    pool_.at(0)->AwaitFiber("load", [&] {
      SnapshotLoader loader(&shards_, files, &progress);
      error = loader.Load(path);
      if (extras != nullptr) *extras = loader.extras();
    });
    return error;
  }

 private:
  struct Started : helio::ProactorPool {
    Started() : ProactorPool({.threads = 2}) { Start(); }
    ~Started() { Stop(); }
  };
  Started pool_;
  ShardSet shards_;
};

class SnapshotSaveTest : public testing::TestWithParam<SnapshotFormat> {
 protected:
  SnapshotSaveTest() { testkit::RegisterRdbTypes(); }

  void Fill(Store* store, size_t keys) {
    for (size_t i = 0; i < keys; ++i) {
      ShardContext::Detached detached;
      do {
        detached.value = values_.MakeAny(&random_);
      } while (detached.value.IsEmptyObject());
      if (random_.OneIn(3)) detached.deadline_ms = helio::UnixMillis() + 100'000'000;
      detached.is_sticky = random_.OneIn(5);
      store->Put(static_cast<int>(random_.Uniform(4)), fmt::format("key {}", random_.Uniform(200)),
                 std::move(detached));
    }
  }

  helio::Random random_{11};
  testkit::RdbValues values_;
  MemoryFiles files_;
};

TEST_P(SnapshotSaveTest, LoadsIntoWhateverShardsThereAre) {
  Store store(3);
  Fill(&store, 300);
  const Model model = store.Content();
  for (FrameCodec codec : {FrameCodec::kNone, FrameCodec::kLz4, FrameCodec::kZstd}) {
    const SaveResult saved = store.Save(&files_, GetParam(), codec);
    ASSERT_EQ(saved.error, "");
    EXPECT_EQ(saved.keys, model.size());
    for (uint32_t shards : {1, 2, 3, 5}) {
      Store other(shards);
      SnapshotExtras extras;
      ASSERT_EQ(other.Load(&files_, GetParam(), &extras), "");
      EXPECT_TRUE(other.Content() == model) << shards;
      EXPECT_THAT(extras.functions, testing::ElementsAre("f1", "f2"));
      EXPECT_THAT(extras.scripts, testing::ElementsAre("s"));
    }
  }
}

TEST_P(SnapshotSaveTest, TagsKeepTheirShards) {
  const PlacementRules rules = {.prefix = "q"};
  Store store(3, rules);
  const std::vector<std::string> order = {"q7", "q3", "q with blanks", "q5", "q1"};
  for (const std::string& tag : order) store.PutText(0, "{" + tag + "}", "v");
  ASSERT_EQ(store.Save(&files_, GetParam()).error, "");
  Store other(3, rules);
  ASSERT_EQ(other.Load(&files_, GetParam()), "");
  EXPECT_EQ(other.shards().ExportPlacements(), store.shards().ExportPlacements());
  EXPECT_EQ(other.Content(), store.Content());
  // Other shards: anew, in that order.
  Store fewer(2, rules);
  ASSERT_EQ(fewer.Load(&files_, GetParam()), "");
  const auto placed = fewer.shards().ExportPlacements();
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(placed[i], (std::pair(order[i], static_cast<uint32_t>(i % 2))));
  }
  EXPECT_EQ(fewer.Content(), store.Content());
}

// Whatever fails, and however much of it: the one before is there, or the new one.
// What follows in the stream may need keys whose time is over.
TEST_P(SnapshotSaveTest, APlaceInAStreamKeepsWhatIsDue) {
  Store store(2);
  ShardContext::Detached detached;
  detached.value.SetString("v");
  detached.deadline_ms = helio::UnixMillis() - 1'000;
  store.Put(1, "due", std::move(detached));
  store.place = {.id = std::string(40, 'b'), .offset = uint64_t{1} << 40, .db_index = 3};
  for (const bool has_place : {true, false}) {
    if (!has_place) store.place = {};
    MemoryFiles files;
    EXPECT_EQ(store.Save(&files, GetParam()).error, "");
    Store other(3);
    SnapshotExtras extras;
    EXPECT_EQ(other.Load(&files, GetParam(), &extras), "");
    EXPECT_EQ(extras.place, store.place);
    EXPECT_EQ(other.Content().size(), has_place ? 1u : 0u);
  }
}

TEST_P(SnapshotSaveTest, ADiskThatFailsAtAnyStepLeavesTheLastGoodOne) {
  Store store(3);
  Fill(&store, 60);
  ASSERT_EQ(store.Save(&files_, GetParam()).error, "");
  Model last_good = store.Content();
  size_t failures = 0;
  for (size_t calls = 0;; ++calls) {
    store.PutText(0, "generation", std::to_string(calls));
    files_.calls_left = calls;
    const SaveResult saved = store.Save(&files_, GetParam());
    const bool all_went_well = files_.calls_left > 0;
    files_.calls_left = SIZE_MAX;
    if (saved.error.empty()) {
      last_good = store.Content();
    } else {
      ++failures;
      EXPECT_THAT(saved.error, HasSubstr("Input/output error"));
    }
    Store other(2);
    ASSERT_EQ(other.Load(&files_, GetParam()), "") << calls;
    ASSERT_TRUE(other.Content() == last_good) << calls;
    if (all_went_well) break;
  }
  EXPECT_GT(failures, 5u);
  // What the failures left behind is gone.
  EXPECT_EQ(files_.files.size(), GetParam() == SnapshotFormat::kRdb ? 1u : 4u);
}

TEST_P(SnapshotSaveTest, AFullDiskLeavesTheLastGoodOneAndNothingElse) {
  Store store(3);
  Fill(&store, 60);
  const SaveResult first = store.Save(&files_, GetParam());
  ASSERT_EQ(first.error, "");
  const Model good = store.Content();
  const auto files = files_.files;
  store.PutText(0, "more", "text");
  for (int i = 0; i < 40; ++i) {
    files_.fails_after = random_.Uniform(first.bytes);
    const SaveResult saved = store.Save(&files_, GetParam());
    files_.fails_after = SIZE_MAX;
    ASSERT_THAT(saved.error, HasSubstr("No space left on device"));
    ASSERT_EQ(files_.files, files);
  }
  // Errors that come only when files are closed.
  files_.sync_error = std::make_error_code(std::errc::io_error);
  EXPECT_THAT(store.Save(&files_, GetParam()).error, HasSubstr("Input/output error"));
  files_.sync_error = {};
  EXPECT_EQ(files_.files, files);
  Store other(2);
  ASSERT_EQ(other.Load(&files_, GetParam()), "");
  EXPECT_TRUE(other.Content() == good);
  EXPECT_EQ(store.Save(&files_, GetParam()).error, "");
}

TEST_P(SnapshotSaveTest, NoChangedByteIsLoaded) {
  Store store(2);
  Fill(&store, 40);
  ASSERT_EQ(store.Save(&files_, GetParam()).error, "");
  const auto good = files_.files;
  for (int i = 0; i < 300; ++i) {
    files_.files = good;
    auto file = files_.files.begin();
    std::advance(file, random_.Uniform(files_.files.size()));
    const std::string name = file->first;
    const size_t at = random_.Uniform(file->second.size());
    switch (random_.Uniform(3)) {
      case 0:
        file->second[at] = static_cast<char>(file->second[at] ^ (1 << random_.Uniform(8)));
        break;
      case 1:
        file->second.resize(at);
        break;
      default:
        files_.files.erase(file);
    }
    Store other(2);
    const std::string error = other.Load(&files_, GetParam());
    ASSERT_THAT(error, HasSubstr(name)) << at;
  }
}

// One format's files are not the other's to remove.
TEST_P(SnapshotSaveTest, TheOtherFormatStays) {
  const auto other_format =
      GetParam() == SnapshotFormat::kRdb ? SnapshotFormat::kOurs : SnapshotFormat::kRdb;
  Store store(2);
  Fill(&store, 10);
  ASSERT_EQ(store.Save(&files_, GetParam()).error, "");
  ASSERT_EQ(store.Save(&files_, other_format).error, "");
  Store other(2);
  EXPECT_EQ(other.Load(&files_, GetParam()), "");
  EXPECT_TRUE(other.Content() == store.Content());
}

// It has what the shards have when they are locked for the cut, and no name yet.
// A file that comes from elsewhere, in pieces; after `cut_at` bytes it breaks off.
class Stream final : public InputFile {
 public:
  Stream(std::string bytes, size_t cut_at) : bytes_(std::move(bytes)), cut_at_(cut_at) {}

  uint64_t size() const override { return is_over_ ? bytes_.size() : kSizeUnknown; }
  bool is_stream() const override { return true; }
  std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) override {
    *read = bytes_.copy(out, size, offset);
    if (offset + *read > cut_at_) return std::make_error_code(std::errc::io_error);
    is_over_ = *read < size;
    return {};
  }

 private:
  const std::string bytes_;
  const size_t cut_at_;
  bool is_over_ = false;
};

std::string Store::LoadBeside(MemoryFiles* files, const std::string& rdb, size_t cut_at) {
  LoadProgress progress;
  std::string error;
  pool_.at(0)->AwaitFiber("load", [&] {
    SnapshotLoader loader(&shards_, files, &progress);
    loader.LoadBeside();
    uint64_t end = 0;
    error = loader.LoadRdb("the copy", std::make_unique<Stream>(rdb, cut_at), &end);
    EXPECT_TRUE(!error.empty() || end == rdb.size());
  });
  return error;
}

TEST(LoadBesideTest, TheDataStaysUntilItIsTaken) {
  MemoryFiles files;
  Store source(2), store(3);
  for (int i = 0; i < 5000; ++i) {
    source.PutText(i % 3, fmt::format("key:{}", i), std::string(300, 'n'));
    if (i % 5 == 0) store.PutText(i % 4, fmt::format("key:{}", i), "old");
  }
  ASSERT_EQ(source.Save(&files, SnapshotFormat::kRdb).error, "");
  const std::string rdb = files.files.begin()->second;
  const Model before = store.Content();
  for (const size_t cut_at : {rdb.size() / 2, rdb.size() - 1, rdb.size()}) {
    const bool is_whole = cut_at == rdb.size();
    EXPECT_EQ(store.LoadBeside(&files, rdb, cut_at) == "", is_whole);
    EXPECT_EQ(store.Content(), before);
    store.EndLoad(is_whole);
  }
  EXPECT_EQ(store.Content(), source.Content());
}

// A length that is a lie costs no more memory than has come.
TEST(LoadBesideTest, AStreamThatPromisesMuchIsCutOff) {
  MemoryFiles files;
  Store store(2);
  std::string rdb = "REDIS0010";
  rdb += '\0';
  rdb += "\1k";
  rdb += std::string("\x80\xff\xff\xff\xff", 5);
  rdb += std::string(3'000'000, 'x');
  const std::string error = store.LoadBeside(&files, rdb, rdb.size());
  EXPECT_THAT(error, HasSubstr("shorter than it should be"));
  store.EndLoad(false);
}

TEST(LogBaseTest, IsCutWhereItsLogBegins) {
  testkit::RegisterRdbTypes();
  MemoryFiles files;
  Store store(3);
  store.PutText(0, "a", "1");
  SaveOptions options;
  options.log_base = "temp-base";
  options.cut_lock = LockMode::kExclusive;
  options.before_cut = [&] {
    for (ShardId id = 0; id < 3; ++id) {
      store.shards().Await(id, [](Shard& shard) { EXPECT_FALSE(shard.runs_freely()); });
    }
    return false;
  };
  EXPECT_EQ(store.Save(&files, SnapshotFormat::kRdb, FrameCodec::kNone, options).error,
            "cancelled");
  EXPECT_TRUE(files.files.empty());

  options.before_cut = [&] {
    // As a key that is evicted then: units that nobody waits for.
    store.shards().Await(store.shards().ShardOfKey("a", HashKey("a")), [](Shard& shard) {
      ShardContext(shard, 0, helio::UnixMillis()).Delete("a");
    });
    return true;
  };
  store.PutText(0, "b", "2");
  ASSERT_EQ(store.Save(&files, SnapshotFormat::kRdb, FrameCodec::kNone, options).error, "");
  ASSERT_EQ(files.files.size(), 1u);
  EXPECT_THAT(files.files["temp-base"], HasSubstr(std::string("\xfa\x08"
                                                              "aof-base\xc0\x01")));
  files.files["dump.rdb"] = files.files["temp-base"];
  Store other(2);
  ASSERT_EQ(other.Load(&files, SnapshotFormat::kRdb), "");
  EXPECT_TRUE(other.Content() == store.Content());
  EXPECT_EQ(other.Content().size(), 1u);
}

// The fuzzer has found that what was taken here could be saved, and not be loaded again.
TEST(EntryReaderTest, DeadlinesOfMembersPastTheLastOneAreRefused) {
  testkit::RegisterRdbTypes();
  const auto deadline_of_f = [](uint64_t at_ms) {
    std::string text;
    StringSink sink(&text);
    RdbWriter writer(&sink);
    writer.String("f");
    writer.Little(at_ms, 8);
    writer.Flush();
    return text;
  };
  const uint64_t last_ms = HashValue::Table::kDeadlineMax;
  CompactValue hash = testkit::RdbValues().MakeHash({{"f", "v"}});
  EXPECT_TRUE(AddBeside(deadline_of_f(last_ms), &hash));
  EXPECT_FALSE(AddBeside(deadline_of_f(last_ms + 1), &hash));
  EXPECT_FALSE(AddBeside(deadline_of_f(UINT64_MAX), &hash));
}

INSTANTIATE_TEST_SUITE_P(Formats, SnapshotSaveTest,
                         testing::Values(SnapshotFormat::kOurs, SnapshotFormat::kRdb));

}  // namespace
}  // namespace dfly
