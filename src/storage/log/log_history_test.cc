// SPDX-License-Identifier: Apache-2.0
// What a LogDirectory keeps of what rewrites replace. That a crash at any step leaves the log and
// the history right is in log_directory_test.
#include "storage/log/log_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/log/annotations.h"
#include "storage/log/log_directory.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr char kFolder[] = "d/appendonlydir/history";
constexpr char kManifest[] = "d/appendonlydir/appendonly.aof.manifest";

class LogHistoryTest : public testing::Test {
 protected:
  void SetUp() override { Open(true); }

  void Open(bool keeps_history) {
    directory_ = std::make_unique<LogDirectory>(
        &files_, LogDirectory::Names{
                     .dir = "d", .directory_name = "appendonlydir", .file_name = "appendonly.aof"});
    directory_->set_keeps_history(keeps_history);
    ASSERT_EQ(directory_->Open(), "");
  }
  // Makes an incremental with a content, and returns its number.
  uint64_t Add(const std::string& content) {
    std::string name;
    EXPECT_FALSE(directory_->NewIncremental(&name));
    files_.files[directory_->Path(name)] += content;
    return directory_->manifest().incrementals.back().seq;
  }
  void Rewrite(uint64_t first, int64_t now_s) {
    files_.files[directory_->TemporaryBase()] = "base";
    ASSERT_FALSE(directory_->FinishBase(first, now_s));
  }
  std::vector<std::string> Names(const std::string& path = kFolder) {
    std::vector<std::string> names;
    EXPECT_FALSE(files_.List(path, &names));
    return names;
  }
  std::vector<uint64_t> Numbers() {
    std::vector<uint64_t> numbers;
    for (const LogHistoryEntry& entry : directory_->history()) numbers.push_back(entry.number);
    return numbers;
  }

  MemoryFiles files_;
  std::unique_ptr<LogDirectory> directory_;
};

TEST_F(LogHistoryTest, WhatARewriteReplacesGoesToTheHistory) {
  Add("a");
  Add("b");
  Rewrite(Add("c"), 1000);
  EXPECT_EQ(files_.files[kManifest],
            "file appendonly.aof.1.base.rdb seq 1 type b\n"
            "file appendonly.aof.3.incr.aof seq 3 type i\n");
  EXPECT_THAT(Names(),
              UnorderedElementsAre("1.appendonly.aof.manifest", "1.appendonly.aof.1.incr.aof",
                                   "1.appendonly.aof.2.incr.aof"));
  Rewrite(Add("d"), 2000);
  EXPECT_EQ(files_.files[std::string(kFolder) + "/2.appendonly.aof.manifest"],
            "# replaced 2000\n"
            "file appendonly.aof.1.base.rdb seq 1 type b\n"
            "file appendonly.aof.3.incr.aof seq 3 type i\n");
  EXPECT_EQ(files_.files[std::string(kFolder) + "/2.appendonly.aof.1.base.rdb"], "base");
  EXPECT_EQ(files_.files[std::string(kFolder) + "/2.appendonly.aof.3.incr.aof"],
            std::string(kFileMark) + "c");
  EXPECT_THAT(Names("d/appendonlydir"),
              UnorderedElementsAre("appendonly.aof.2.base.rdb", "appendonly.aof.4.incr.aof",
                                   "appendonly.aof.manifest", "history"));
  ASSERT_THAT(Numbers(), ElementsAre(1, 2));
  EXPECT_EQ(directory_->history()[1].bytes, 4 + kFileMark.size() + 1);
  EXPECT_EQ(directory_->history()[1].replaced_s, 2000);
}

TEST_F(LogHistoryTest, ItIsThereAfterAStartAndNumbersAreNew) {
  Rewrite(Add("a"), 1000);  // nothing was replaced: there had been nothing
  Rewrite(Add("b"), 2000);
  Rewrite(Add("c"), 3000);
  const auto before = files_.files;
  Open(true);
  EXPECT_EQ(files_.files, before);
  ASSERT_THAT(Numbers(), ElementsAre(1, 2));
  EXPECT_EQ(directory_->history()[0].replaced_s, 2000);
  EXPECT_EQ(directory_->history()[0].bytes, 4 + kFileMark.size() + 1);
  Rewrite(Add("d"), 4000);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
}

TEST_F(LogHistoryTest, WhatIsTooOldGoes) {
  for (const int64_t now_s : {0, 1000, 2000, 3000}) Rewrite(Add("x"), now_s);
  ASSERT_THAT(Numbers(), ElementsAre(1, 2, 3));
  directory_->ExpireHistory(1000);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
  directory_->ExpireHistory(2000);
  EXPECT_THAT(Numbers(), ElementsAre(2, 3));
  EXPECT_EQ(Names().size(), 6u);
  directory_->ExpireHistory(9000);
  EXPECT_THAT(Numbers(), IsEmpty());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(LogHistoryTest, SwitchedOffItGoesAndAStartWithoutLeavesItAlone) {
  for (const int64_t now_s : {0, 1000, 2000}) Rewrite(Add("x"), now_s);
  const auto kept = Names();
  ASSERT_EQ(kept.size(), 6u);
  Open(false);
  EXPECT_EQ(Names(), kept);
  Rewrite(Add("y"), 3000);
  EXPECT_EQ(Names(), kept);
  directory_->SetKeepsHistory(true);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
  Rewrite(Add("z"), 4000);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3));
  directory_->SetKeepsHistory(false);
  EXPECT_THAT(Names(), IsEmpty());
  Rewrite(Add("z"), 5000);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(LogHistoryTest, OfALogThatIsReplacedTheOlderOneIsKept) {
  Add("a");
  ASSERT_FALSE(directory_->BeginReplacement());
  Add("data that no base has");
  Rewrite(Add("b"), 1000);
  EXPECT_THAT(Names(),
              UnorderedElementsAre("1.appendonly.aof.manifest", "1.appendonly.aof.1.incr.aof"));
  EXPECT_THAT(Names("d/appendonlydir"),
              UnorderedElementsAre("appendonly.aof.1.base.rdb", "appendonly.aof.3.incr.aof",
                                   "appendonly.aof.manifest", "history"));
}

TEST_F(LogHistoryTest, WhatIsNotWholeGoesAndWhatIsOfOthersStays) {
  for (const int64_t now_s : {0, 1000, 2000, 3000}) Rewrite(Add("x"), now_s);
  const std::string folder = std::string(kFolder) + "/";
  files_.files.erase(folder + "1.appendonly.aof.1.incr.aof");
  files_.files[folder + "2.appendonly.aof.manifest"] = "# replaced 20";
  files_.files[folder + "7.appendonly.aof.1.incr.aof"] = "left over";
  files_.files[folder + "mine"] = "";
  files_.files[folder + "7.mine"] = "";
  Open(true);
  EXPECT_THAT(Numbers(), ElementsAre(3));
  EXPECT_THAT(Names(),
              UnorderedElementsAre("3.appendonly.aof.manifest", "3.appendonly.aof.3.base.rdb",
                                   "3.appendonly.aof.3.incr.aof", "mine", "7.mine"));
  Rewrite(Add("y"), 4000);
  EXPECT_THAT(Numbers(), ElementsAre(3, 8));
}

TEST_F(LogHistoryTest, AStartMovesWhatTheLastOneCameToList) {
  for (const int64_t now_s : {0, 1000}) Rewrite(Add("x"), now_s);
  const std::string name = "appendonly.aof.1.incr.aof";
  const std::string moved = std::string(kFolder) + "/1." + name;
  // As if the machine had stopped before the file was moved.
  files_.files[directory_->Path(name)] = files_.files[moved];
  files_.files.erase(moved);
  files_.files[kManifest] += "file appendonly.aof.1.incr.aof seq 1 type h\n";
  Open(true);
  EXPECT_THAT(Numbers(), ElementsAre(1));
  EXPECT_EQ(files_.files[moved], std::string(kFileMark) + "x");
  EXPECT_EQ(files_.files.count(directory_->Path(name)), 0u);
  EXPECT_THAT(directory_->manifest().history, IsEmpty());
}

TEST_F(LogHistoryTest, ADiskThatTakesNoHistoryCostsTheHistoryAlone) {
  Rewrite(Add("a"), 0);
  // Behind the rename of the base: each call of what makes an entry.
  for (size_t calls = 2; calls < 8; ++calls) {
    const uint64_t first = Add("b");
    files_.files[directory_->TemporaryBase()] = "base";
    files_.calls_left = calls;
    files_.calls_failing = 1;
    ASSERT_FALSE(directory_->FinishBase(first, 1000));
    EXPECT_EQ(files_.calls_failing, 0u);
    files_.calls_left = SIZE_MAX;
    EXPECT_THAT(Numbers(), IsEmpty());
    EXPECT_THAT(Names(), IsEmpty()) << calls;
    EXPECT_THAT(directory_->manifest().history, IsEmpty());
  }
  Rewrite(Add("c"), 2000);
  EXPECT_THAT(Numbers(), ElementsAre(7));
}

TEST_F(LogHistoryTest, ARewriteThatFailsLeavesNoEntry) {
  Rewrite(Add("a"), 0);
  uint64_t first = Add("b");
  files_.files[directory_->TemporaryBase()] = "base";
  files_.calls_left = 8;  // what makes the entry is fine; the log's manifest fails
  files_.calls_failing = 1;
  ASSERT_TRUE(directory_->FinishBase(first, 1000));
  EXPECT_EQ(files_.calls_failing, 0u);
  EXPECT_THAT(Names(), IsEmpty());
  files_.calls_left = SIZE_MAX;
  Rewrite(Add("c"), 2000);
  ASSERT_THAT(Numbers(), ElementsAre(2));
  EXPECT_EQ(directory_->history()[0].log.incrementals.size(), 2u);
  EXPECT_THAT(Names(),
              UnorderedElementsAre("2.appendonly.aof.manifest", "2.appendonly.aof.1.base.rdb",
                                   "2.appendonly.aof.1.incr.aof", "2.appendonly.aof.2.incr.aof"));
}

TEST_F(LogHistoryTest, TheHistoryOfAnotherLogStays) {
  Add("a");
  Rewrite(Add("b"), 1000);
  const std::vector<std::string> others = {"7.appendonly.aof.x.manifest", "7.other.manifest",
                                           "7.appendonly.aof.x.1.base.rdb", "7.other.1.incr.aof"};
  for (const std::string& name : others) files_.files[std::string(kFolder) + "/" + name] = "x";
  files_.files[std::string(kFolder) + "/7.appendonly.aof.1.base.rdb"] = "of no entry";
  Open(true);
  EXPECT_THAT(Numbers(), ElementsAre(1));
  EXPECT_THAT(Names(), IsSupersetOf(others));
  EXPECT_THAT(Names(), Not(Contains("7.appendonly.aof.1.base.rdb")));
}

}  // namespace
}  // namespace dfly
