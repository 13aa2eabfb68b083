// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_loader.h"

#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "helio/base/clock.h"
#include "storage/log/log_testing.h"
#include "storage/memory_files.h"
#include "storage/snapshot_save.h"
#include "storage/snapshot_testing.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testkit::CommandText;
using testkit::EpochText;

// Notes what it gets: "0 SET k v".
struct Recorder final : LogApplier {
  std::string TakeExtras(const SnapshotExtras& extras) override {
    functions = extras.functions;
    return "";
  }
  std::string Apply(int db_index, std::span<const std::string_view> args) override {
    std::string line = std::to_string(db_index);
    for (const std::string_view arg : args) line.append(" ").append(arg);
    commands.push_back(std::move(line));
    return commands.back().ends_with("refused") ? "it is refused" : "";
  }
  std::string Finish() override {
    is_finished = true;
    return "";
  }

  std::vector<std::string> commands, functions;
  bool is_finished = false;
};

class LogLoaderTest : public testing::Test {
 protected:
  struct Started : helio::ProactorPool {
    Started() : ProactorPool({.threads = 2}) { Start(); }
    ~Started() { Stop(); }
  };

  LogLoaderTest() { testkit::RegisterRdbTypes(); }

  void Put(const std::string& name, const std::string& text) {
    files_.files["appendonlydir/" + name] = text;
  }
  // An error, or nothing.
  std::string Load(bool may_be_torn = true) {
    recorder_ = {};
    end_ = {};
    std::string error;
    pool_.at(0)->AwaitFiber("load", [&] {
      shards_.AwaitOnAll([](Shard& shard) { shard.FlushAll(FlushMode::kSync); });
      LogDirectory directory(
          &files_, {.dir = "", .directory_name = "appendonlydir", .file_name = "appendonly.aof"});
      error = directory.Open();
      if (!error.empty()) return;
      LoadProgress progress;
      LogLoader loader(&shards_, &files_, &directory, &recorder_, &progress);
      error = loader.Load(may_be_torn);
      EXPECT_TRUE(recorder_.is_finished);
      end_ = loader.end();
      if (error.empty()) {
        EXPECT_LE(progress.bytes_read, progress.bytes_total);
      }
    });
    return error;
  }
  // An RDB file with a key, and a function.
  std::string Rdb() {
    MemoryFiles saved;
    SaveOptions options;
    options.path = {.directory = "", .name = "dump", .format = SnapshotFormat::kRdb};
    options.redis_version = "7.0.15";
    pool_.at(0)->AwaitFiber("save", [&] {
      const ShardId id = shards_.ShardOfKey("key", HashKey("key"));
      shards_.Await(id, [](ShardTurn& turn) {
        CompactValue value;
        value.SetString("value");
        (void)turn.shard().db(0).Load(KeyProbe("key", HashKey("key")), std::move(value), {}, false,
                                      1000);
      });
      SaveProgress progress;
      const SaveResult result = SaveSnapshot(
          &shards_, &saved, options,
          [] { return SnapshotExtras{.functions = {"f"}, .scripts = {}, .placements = {}}; },
          &progress);
      EXPECT_EQ(result.error, "");
    });
    return saved.files["dump.rdb"];
  }

  MemoryFiles files_;
  Started pool_;
  ShardSet shards_{&pool_, 3, 4};
  Recorder recorder_;
  LogEnd end_;
};

const std::string kSelect2 = CommandText({"SELECT", "2"});
const std::string kSet = CommandText({"SET", "k", "v"});
const std::string kMulti = CommandText({"MULTI"});
const std::string kExec = CommandText({"EXEC"});

TEST_F(LogLoaderTest, NothingIsALogToo) {
  EXPECT_EQ(Load(), "");
  EXPECT_EQ(end_.file_seq, 0u);
  EXPECT_EQ(end_.stream_offset, 0u);
  EXPECT_EQ(end_.db_index, -1);
  EXPECT_FALSE(end_.continues_file);
}

TEST_F(LogLoaderTest, FilesComeInTheOrderOfTheManifest) {
  Put("appendonly.aof.manifest",
      "file i2 seq 2 type i\nfile b seq 1 type b\nfile i3 seq 3 type i\n");
  Put("b", CommandText({"SET", "in", "base"}) + CommandText({"SELECT", "1"}));
  const std::string one = CommandText({"SET", "a", "b"}) + kSelect2 + kSet;
  const std::string two = kMulti + kSet + CommandText({"SELECT", "3"}) + kSet + kExec;
  Put("i2", std::string(kFileMark) + EpochText(7, 100, one) + EpochText(8, 100 + one.size(), two));
  const uint64_t offset = 100 + one.size() + two.size();
  const std::string last = std::string(kFileMark) + EpochText(9, offset, kSet + kSelect2);
  Put("i3", last + "#.....\r\n");
  EXPECT_EQ(Load(), "");
  // Databases are carried over the ends of files.
  EXPECT_THAT(recorder_.commands, ElementsAre("0 SET in base", "1 SET a b", "2 SET k v",
                                              "2 SET k v", "3 SET k v", "3 SET k v"));
  EXPECT_EQ(end_.last_epoch, 9u);
  EXPECT_EQ(end_.stream_offset, offset + (kSet + kSelect2).size());
  EXPECT_EQ(end_.db_index, 2);
  EXPECT_EQ(end_.file_seq, 3u);
  EXPECT_EQ(end_.file_size, last.size());
  EXPECT_TRUE(end_.continues_file);
  EXPECT_FALSE(end_.is_foreign);
}

TEST_F(LogLoaderTest, ABaseIsASnapshotThatCommandsMayFollow) {
  const std::string rdb = Rdb();
  Put("appendonly.aof.manifest", "file base seq 1 type b\nfile i1 seq 1 type i startoffset 500\n");
  Put("i1", std::string(kFileMark));
  for (const std::string& commands : {std::string(), kSelect2 + kSet}) {
    Put("base", rdb + commands);
    EXPECT_EQ(Load(), "");
    EXPECT_THAT(recorder_.functions, ElementsAre("f"));
    EXPECT_EQ(recorder_.commands.size(), commands.empty() ? 0u : 1u);
    EXPECT_EQ(testkit::ContentOf(shards_).size(), 1u);
    EXPECT_EQ(end_.stream_offset, 500u);
    EXPECT_EQ(end_.last_epoch, 0u);
    EXPECT_TRUE(end_.continues_file);
    EXPECT_EQ(end_.file_size, kFileMark.size());
    EXPECT_EQ(end_.db_index, -1);
  }
  Put("base", rdb.substr(0, rdb.size() - 1));
  EXPECT_THAT(Load(), HasSubstr("appendonlydir/base"));
  Put("base", rdb + "garbage");
  EXPECT_THAT(Load(), HasSubstr("appendonlydir/base: offset"));
}

TEST_F(LogLoaderTest, TheEndOfTheLastFileMayBeTorn) {
  const std::string whole = std::string(kFileMark) + EpochText(1, 0, kSet);
  const std::string torn = EpochText(2, kSet.size(), kSet).substr(0, 40);
  Put("appendonly.aof.manifest", "file i1 seq 1 type i\nfile i2 seq 2 type i\n");
  Put("i1", std::string(kFileMark));
  Put("i2", whole + torn);
  EXPECT_EQ(Load(), "");
  EXPECT_EQ(recorder_.commands.size(), 1u);
  EXPECT_EQ(end_.file_seq, 2u);
  EXPECT_EQ(end_.file_size, whole.size());
  EXPECT_EQ(end_.torn_bytes, torn.size());
  EXPECT_THAT(end_.torn, HasSubstr("appendonlydir/i2: offset"));
  EXPECT_TRUE(end_.continues_file);
  EXPECT_THAT(Load(false), HasSubstr("appendonlydir/i2: offset"));

  // A file that was made behind it, and to which nobody came to write.
  Put("i1", whole + torn);
  for (const std::string& text : {std::string(), std::string(kFileMark)}) {
    Put("i2", text);
    EXPECT_EQ(Load(), "");
    EXPECT_EQ(end_.file_seq, 1u);
    EXPECT_EQ(end_.file_size, whole.size());
    EXPECT_EQ(end_.stream_offset, kSet.size());
  }
  Put("i2", EpochText(2, kSet.size(), kSet));
  EXPECT_THAT(Load(), EndsWith("and it is not the last file"));
}

TEST_F(LogLoaderTest, ATornBaseIsCut) {
  Put("appendonly.aof.manifest", "file b seq 1 type b\n");
  Put("b", kSet + kMulti + kSet);
  EXPECT_EQ(Load(), "");
  EXPECT_THAT(recorder_.commands, ElementsAre("0 SET k v"));
  EXPECT_EQ(files_.files["appendonlydir/b"], kSet);
  EXPECT_EQ(end_.torn_bytes, (kMulti + kSet).size());
}

TEST_F(LogLoaderTest, AMultiWithoutItsExecHasNoEffect) {
  Put("appendonly.aof.manifest", "file i1 seq 1 type i\nfile i2 seq 2 type i\n");
  Put("i1", "");
  Put("i2", kSet + kMulti + kSelect2 + kSet);
  EXPECT_EQ(Load(), "");
  EXPECT_THAT(recorder_.commands, ElementsAre("0 SET k v"));
  EXPECT_EQ(end_.file_size, kSet.size());
  EXPECT_FALSE(end_.continues_file);
  EXPECT_TRUE(end_.is_foreign);
  Put("i1", kMulti + kSet);
  Put("i2", kSet + kExec);
  EXPECT_THAT(Load(), EndsWith("and it is not the last file"));
  EXPECT_THAT(recorder_.commands, IsEmpty());
}

TEST_F(LogLoaderTest, WhatRedisAppendedEndsOurStream) {
  Put("appendonly.aof.manifest", "file i1 seq 1 type i\nfile i2 seq 2 type i\n");
  Put("i1", std::string(kFileMark) + EpochText(1, 0, kSet) + kSet);
  Put("i2", "");
  EXPECT_EQ(Load(), "");
  EXPECT_EQ(recorder_.commands.size(), 2u);
  EXPECT_TRUE(end_.is_foreign);
  EXPECT_TRUE(end_.continues_file);
  EXPECT_EQ(end_.file_seq, 2u);
  EXPECT_EQ(end_.stream_offset, 2 * kSet.size());
}

TEST_F(LogLoaderTest, WhatIsWrongIsSaidWithFileAndOffset) {
  Put("appendonly.aof.manifest", "file i1 seq 1 type i\nfile i2 seq 2 type i\n");
  Put("i1", EpochText(1, 0, kSet));
  Put("i2", EpochText(2, 99, kSet));
  EXPECT_THAT(Load(), HasSubstr("appendonlydir/i2: offset 0: epoch 2 begins at 99"));
  Put("i2", "garbage");
  EXPECT_THAT(Load(), HasSubstr("appendonlydir/i2: offset 0: there is neither"));
  Put("i2", kSet + CommandText({"refused"}));
  EXPECT_EQ(Load(), "appendonlydir/i2: offset 27: it is refused");
  Put("i2", kSet + CommandText({"SELECT", "4"}));
  EXPECT_THAT(Load(), HasSubstr("offset 27: there are only 4 databases"));
}

}  // namespace
}  // namespace dfly
