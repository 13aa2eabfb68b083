// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "storage/log/annotations.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const std::string kManifest = "d/appendonlydir/appendonly.aof.manifest";

LogDirectory MakeDirectory(MemoryFiles* files) {
  return LogDirectory(
      files, {.dir = "d", .directory_name = "appendonlydir", .file_name = "appendonly.aof"});
}

class LogDirectoryTest : public testing::Test {
 protected:
  std::string Open() {
    directory_ = std::make_unique<LogDirectory>(MakeDirectory(&files_));
    return directory_->Open();
  }
  std::string File(const std::string& name) { return "d/appendonlydir/" + name; }
  void Put(const std::string& name, const std::string& content) {
    files_.files[File(name)] = content;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    EXPECT_FALSE(files_.List("d/appendonlydir", &names));
    return names;
  }

  MemoryFiles files_;
  std::unique_ptr<LogDirectory> directory_;
};

TEST_F(LogDirectoryTest, ANewOneHasNothingAndGrows) {
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(directory_->is_new());
  std::string name;
  ASSERT_FALSE(directory_->NewIncremental(&name));
  EXPECT_EQ(name, "appendonly.aof.1.incr.aof");
  ASSERT_FALSE(directory_->NewIncremental(&name, kFileMark, 77));
  EXPECT_EQ(files_.files[kManifest],
            "file appendonly.aof.1.incr.aof seq 1 type i\n"
            "file appendonly.aof.2.incr.aof seq 2 type i startoffset 77\n");
  EXPECT_EQ(files_.files[File(name)], kFileMark);

  files_.files[directory_->TemporaryBase()] = "base";
  ASSERT_FALSE(directory_->FinishBase(2));
  EXPECT_EQ(files_.files[kManifest],
            "file appendonly.aof.1.base.rdb seq 1 type b\n"
            "file appendonly.aof.2.incr.aof seq 2 type i startoffset 77\n");
  EXPECT_EQ(files_.files[File("appendonly.aof.1.base.rdb")], "base");
  EXPECT_THAT(Names(),
              UnorderedElementsAre("appendonly.aof.1.base.rdb", "appendonly.aof.2.incr.aof",
                                   "appendonly.aof.manifest"));
  const Manifest before = directory_->manifest();
  ASSERT_EQ(Open(), "");
  EXPECT_EQ(directory_->manifest(), before);
  EXPECT_FALSE(directory_->is_new());
  ASSERT_FALSE(directory_->NewIncremental(&name));
  EXPECT_EQ(name, "appendonly.aof.3.incr.aof");
}

TEST_F(LogDirectoryTest, AnotherServerIsRefusedBeforeAnythingIsTouched) {
  Put("temp-appendonly.aof.base.rdb", "of the other one");
  files_.lock_error = std::make_error_code(std::errc::device_or_resource_busy);
  EXPECT_EQ(Open(), kManifest + ": another server writes its append-only log there");
  EXPECT_EQ(Names().size(), 1u);
  // A file system without locks.
  files_.lock_error = std::make_error_code(std::errc::not_supported);
  EXPECT_EQ(Open(), "");
  EXPECT_TRUE(Names().empty());
}

TEST_F(LogDirectoryTest, WhoOnlyReadsChangesNothing) {
  const auto open = [this] {
    directory_ = std::make_unique<LogDirectory>(MakeDirectory(&files_));
    return directory_->OpenToRead();
  };
  files_.files["d/appendonly.aof"] = "of a Redis before 7";
  auto before = files_.files;
  EXPECT_EQ(open(), "");
  EXPECT_TRUE(directory_->is_new());
  EXPECT_EQ(files_.files, before);

  Put("appendonly.aof.manifest", "file b seq 1 type b\nfile h seq 1 type h\n");
  Put("h", "of the history");
  Put("temp-appendonly.aof.base.rdb", "left over");
  before = files_.files;
  EXPECT_THAT(open(), HasSubstr("the manifest lists it as the base"));
  Put("b", "the base");
  before = files_.files;
  EXPECT_EQ(open(), "");
  EXPECT_EQ(directory_->manifest().base->name, "b");
  files_.lock_error = std::make_error_code(std::errc::device_or_resource_busy);
  EXPECT_EQ(open(), kManifest + ": another server writes its append-only log there");
  EXPECT_EQ(files_.files, before);
}

TEST_F(LogDirectoryTest, LeftoversAreRemovedByTheirNamesOnly) {
  Put("appendonly.aof.manifest",
      "file b seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\nfile h seq 1 type h\n"
      "file b seq 1 type h\nfile gone seq 2 type h\n");
  for (const char* name :
       {"b", "h", "appendonly.aof.1.incr.aof", "appendonly.aof.2.incr.aof",
        "appendonly.aof.2.base.rdb", "appendonly.aof.2.base.aof", "temp-appendonly.aof.manifest",
        "temp-appendonly.aof.incr", "temp-appendonly.aof.base.rdb", "mine", "appendonly.aof",
        "appendonly.aof.x.incr.aof", "appendonly.aof.1", "appendonly.aof.1.incr.aof.bak",
        "temp-mine", "appendonly.aof.backup"}) {
    Put(name, "x");
  }
  ASSERT_EQ(Open(), "");
  EXPECT_THAT(Names(), UnorderedElementsAre("b", "appendonly.aof.1.incr.aof", "mine",
                                            "appendonly.aof", "appendonly.aof.x.incr.aof",
                                            "appendonly.aof.1", "appendonly.aof.1.incr.aof.bak",
                                            "temp-mine", "temp-appendonly.aof.incr",
                                            "appendonly.aof.backup", "appendonly.aof.manifest"));
  EXPECT_EQ(files_.files[kManifest],
            "file b seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n");
}

TEST_F(LogDirectoryTest, APlaceCountsUntilTheLogChanges) {
  const StreamPlace place = {.id = std::string(40, 'a'), .offset = 100, .db_index = 2};
  ASSERT_EQ(Open(), "");
  EXPECT_EQ(directory_->ReadPlace(), std::nullopt);
  std::string name;
  ASSERT_FALSE(directory_->NewIncremental(&name));
  ASSERT_FALSE(directory_->SavePlace(place));
  Put("temp-appendonly.aof.place", "");
  ASSERT_EQ(Open(), "");
  EXPECT_FALSE(files_.files.contains(File("temp-appendonly.aof.place")));
  EXPECT_EQ(directory_->ReadPlace(), place);
  files_.files[File(name)] += "x";
  EXPECT_EQ(directory_->ReadPlace(), std::nullopt);
  files_.files[File(name)].pop_back();
  EXPECT_EQ(directory_->ReadPlace(), place);
  ASSERT_FALSE(directory_->NewIncremental(&name));
  EXPECT_EQ(directory_->ReadPlace(), std::nullopt);
  ASSERT_FALSE(directory_->SavePlace(place));
  EXPECT_EQ(directory_->ReadPlace(), place);
  directory_->RemovePlace();
  EXPECT_EQ(directory_->ReadPlace(), std::nullopt);
  EXPECT_FALSE(files_.files.contains(File("appendonly.aof.place")));
}

// What an absent replica needs. Each file has 11 bytes, and the stream goes on by 100.
class HeldTest : public LogDirectoryTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Open(), "");
    Add(0);
  }
  void Add(int64_t start_offset) {
    std::string name;
    ASSERT_FALSE(directory_->NewIncremental(&name, "some bytes\n", start_offset));
  }
  // Adds one, and replaces all before it.
  void Rewrite(int64_t start_offset) {
    Add(start_offset);
    files_.files[directory_->TemporaryBase()] = "base";
    ASSERT_FALSE(directory_->FinishBase(directory_->manifest().incrementals.back().seq));
  }
  std::vector<std::string> Incrementals() {
    std::vector<std::string> names = Names();
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".incr.aof"); });
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(HeldTest, FilesWithTheStreamBehindItStay) {
  directory_->SetHold({.from = 250, .bytes_max = 1000});
  Rewrite(100);
  Rewrite(200);
  EXPECT_THAT(Incrementals(), ElementsAre("appendonly.aof.3.incr.aof"));
  EXPECT_THAT(directory_->held().names, IsEmpty());
  Rewrite(300);
  Rewrite(400);
  EXPECT_THAT(directory_->held().names,
              ElementsAre("appendonly.aof.3.incr.aof", "appendonly.aof.4.incr.aof"));
  EXPECT_EQ(directory_->held().bytes, 22u);
  EXPECT_EQ(files_.files[kManifest],
            "file appendonly.aof.4.base.rdb seq 4 type b\n"
            "file appendonly.aof.3.incr.aof seq 3 type h startoffset 200 endoffset 300\n"
            "file appendonly.aof.4.incr.aof seq 4 type h startoffset 300 endoffset 400\n"
            "file appendonly.aof.5.incr.aof seq 5 type i startoffset 400\n");

  directory_->SetHold({.from = 300, .bytes_max = 1000});
  EXPECT_THAT(directory_->held().names, ElementsAre("appendonly.aof.4.incr.aof"));
  EXPECT_THAT(Incrementals(),
              ElementsAre("appendonly.aof.4.incr.aof", "appendonly.aof.5.incr.aof"));
  directory_->SetHold({});
  EXPECT_THAT(Incrementals(), ElementsAre("appendonly.aof.5.incr.aof"));
  EXPECT_EQ(directory_->held().bytes, 0u);
}

TEST_F(HeldTest, TheOldestGoFirstIfTheyAreTooMany) {
  directory_->SetHold({.from = 0, .bytes_max = 32});
  Rewrite(100);
  Rewrite(200);
  EXPECT_EQ(directory_->held().bytes, 22u);
  Rewrite(300);
  EXPECT_THAT(Incrementals(), ElementsAre("appendonly.aof.2.incr.aof", "appendonly.aof.3.incr.aof",
                                          "appendonly.aof.4.incr.aof"));
  directory_->SetHold({.from = 0, .bytes_max = 0});
  EXPECT_THAT(Incrementals(), ElementsAre("appendonly.aof.4.incr.aof"));
}

TEST_F(HeldTest, AStartRemovesThem) {
  directory_->SetHold({.from = 0, .bytes_max = 1000});
  Rewrite(100);
  EXPECT_EQ(Incrementals().size(), 2u);
  ASSERT_EQ(Open(), "");
  EXPECT_THAT(Incrementals(), ElementsAre("appendonly.aof.2.incr.aof"));
  EXPECT_THAT(directory_->manifest().history, IsEmpty());
}

TEST_F(HeldTest, AHistoryTakesWhatItNeeds) {
  directory_->SetKeepsHistory(true);
  directory_->SetHold({.from = 0, .bytes_max = 1000});
  Rewrite(100);  // without a base there is nothing to go back to
  Rewrite(200);
  EXPECT_THAT(directory_->held().names, ElementsAre("appendonly.aof.1.incr.aof"));
  EXPECT_THAT(Incrementals(),
              ElementsAre("appendonly.aof.1.incr.aof", "appendonly.aof.3.incr.aof"));
  ASSERT_EQ(directory_->history().size(), 1u);
  EXPECT_EQ(directory_->history()[0].log.incrementals.size(), 1u);
}

TEST_F(LogDirectoryTest, FilesOfAnotherLogStay) {
  // One server has begun a log whose name begins as this one's; and this one is begun.
  Put("appendonly.aof.other.manifest", "file appendonly.aof.other.1.incr.aof seq 1 type i\n");
  for (const char* name :
       {"appendonly.aof.other.1.incr.aof", "appendonly.aof.other.1.base.rdb",
        "temp-appendonly.aof.other.manifest", "temp-appendonly.aof.other.base.rdb",
        ".appendonly.aof.other.lock", ".appendonly.aof.lock", "appendonly.aof.1.1.incr.aof"}) {
    Put(name, "x");
  }
  const auto before = files_.files;
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(directory_->is_new());
  EXPECT_EQ(files_.files, before);
}

TEST_F(LogDirectoryTest, AFileOfRedisBefore7BecomesTheBase) {
  files_.files["d/appendonly.aof"] = "old";
  ASSERT_EQ(Open(), "");
  EXPECT_EQ(files_.files[kManifest], "file appendonly.aof seq 1 type b\n");
  EXPECT_EQ(files_.files[File("appendonly.aof")], "old");
  EXPECT_EQ(files_.files.count("d/appendonly.aof"), 0u);
  // Not again: there is a manifest.
  files_.files["d/appendonly.aof"] = "another";
  std::string name;
  ASSERT_FALSE(directory_->NewIncremental(&name));
  ASSERT_EQ(Open(), "");
  EXPECT_EQ(files_.files[File("appendonly.aof")], "old");
  EXPECT_EQ(files_.files["d/appendonly.aof"], "another");
}

TEST_F(LogDirectoryTest, WhatIsMissingIsSaidAndNothingIsTouched) {
  const auto check = [&](const std::string& error) {
    const auto before = files_.files;
    EXPECT_THAT(Open(), HasSubstr(error));
    EXPECT_EQ(files_.files, before);
  };
  Put("appendonly.aof.9.incr.aof", std::string(kFileMark) + "x");
  check("appendonly.aof.manifest: it is missing, and there is appendonly.aof.9.incr.aof");
  Put("appendonly.aof.manifest", "file a seq 1 type b\nfile i seq 1 type i\n");
  check("d/appendonlydir/a: No such file or directory; the manifest lists it as the base");
  Put("a", "");
  check("d/appendonlydir/i: No such file or directory; the manifest lists it as an incremental");
  Put("i", "");
  Put("appendonly.aof.manifest", "file a seq 1 type b\nfile i seq 0 type i\n");
  check("d/appendonlydir/appendonly.aof.manifest: line 2: seq is not a positive number");
}

TEST_F(LogDirectoryTest, AnEmptyFileWithoutAManifestIsALeftover) {
  Put("appendonly.aof.1.incr.aof", "");
  Put("appendonly.aof.2.incr.aof", std::string(kFileMark));
  ASSERT_EQ(Open(), "");
  EXPECT_TRUE(directory_->is_new());
  EXPECT_THAT(Names(), IsEmpty());
}

// ------------------------------------------------------------------------ failures and crashes

enum class Kept : uint8_t { kHistory, kStream };

// A log whose data are letters: those of the base, then those of the incrementals. What rewrites
// replace is kept as a history, or for a replica that lacks what comes behind the first letters.
class Writer {
 public:
  explicit Writer(MemoryFiles* files, Kept kept = Kept::kHistory)
      : files_(*files), directory_(MakeDirectory(files)) {
    directory_.set_keeps_history(kept == Kept::kHistory);
    if (kept == Kept::kStream) directory_.set_hold({.from = 3, .bytes_max = 1000});
  }

  bool Open() { return directory_.Open().empty(); }
  void HoldLess() { directory_.SetHold({.from = 9, .bytes_max = 1000}); }
  std::string Data() {
    std::string data;
    if (directory_.manifest().base) data += files_.files[Path(*directory_.manifest().base)];
    for (const ManifestFile& file : directory_.manifest().incrementals) {
      const std::string& text = files_.files[Path(file)];
      EXPECT_TRUE(text.starts_with(kFileMark));
      data += text.substr(kFileMark.size());
    }
    return data;
  }
  // Writes to the last incremental, as if it was synced.
  void Append(char letter) {
    if (directory_.manifest().incrementals.empty()) return;
    const std::string path = Path(directory_.manifest().incrementals.back());
    std::unique_ptr<AppendFile> file;
    const std::string_view bytes(&letter, 1);
    if (files_.OpenAppend(path, files_.files[path].size(), 0, &file)) return;
    if (!file->Append({&bytes, 1}, true)) acknowledged_ += letter;
  }
  // All that is there becomes the base, but for what comes meanwhile.
  void Rewrite(char meanwhile) {
    const std::string data = Data();
    if (!NewIncremental()) return;
    const uint64_t first = directory_.manifest().incrementals.back().seq;
    Append(meanwhile);
    std::unique_ptr<OutputFile> file;
    if (files_.Create(directory_.TemporaryBase(), &file)) return;
    if (!data.empty() && file->Write(data)) return;
    if (file->SyncAndClose()) return;
    (void)directory_.FinishBase(first);
  }
  bool NewIncremental() {
    std::string name;
    const auto offset = static_cast<int64_t>(acknowledged_.size());
    return !directory_.NewIncremental(&name, kFileMark, offset);
  }
  size_t held() const { return directory_.held().names.size(); }

  // What each entry of the history has.
  std::vector<std::string> History() {
    std::vector<std::string> entries;
    for (const LogHistoryEntry& entry : directory_.history()) {
      std::string& data = entries.emplace_back();
      const auto add = [&](const ManifestFile& file) {
        const std::string path = HistoryPath(directory_.path(), entry.number, file.name);
        EXPECT_EQ(files_.files.count(path), 1u) << path;
        const std::string& text = files_.files[path];
        data += text.starts_with(kFileMark) ? text.substr(kFileMark.size()) : text;
      };
      if (entry.log.base) add(*entry.log.base);
      for (const ManifestFile& file : entry.log.incrementals) add(file);
    }
    return entries;
  }
  // Files that neither the log nor its history has.
  std::vector<std::string> Strangers() {
    std::set<std::string> known = {directory_.Path("appendonly.aof.manifest")};
    const Manifest& manifest = directory_.manifest();
    if (manifest.base) known.insert(Path(*manifest.base));
    for (const ManifestFile& file : manifest.incrementals) known.insert(Path(file));
    for (const std::string& name : directory_.held().names) known.insert(directory_.Path(name));
    for (const LogHistoryEntry& entry : directory_.history()) {
      const auto add = [&](std::string_view name) {
        known.insert(HistoryPath(directory_.path(), entry.number, name));
      };
      add("appendonly.aof.manifest");
      for (const ManifestFile& file : entry.files()) add(file.name);
    }
    std::vector<std::string> strangers;
    for (const auto& [path, content] : files_.files) {
      if (!known.contains(path)) strangers.push_back(path);
    }
    return strangers;
  }

  const std::string& acknowledged() const { return acknowledged_; }
  void set_acknowledged(const std::string& letters) { acknowledged_ = letters; }

 private:
  std::string Path(const ManifestFile& file) { return directory_.Path(file.name); }

  MemoryFiles& files_;
  LogDirectory directory_;
  std::string acknowledged_;
};

// `must`, in this order; letters that were not acknowledged may be there all the same.
void ExpectData(std::string data, const std::string& must) {
  std::erase(data, '\0');  // an append that was torn: the reader cuts it
  size_t at = 0;
  for (const char letter : data) {
    if (at < must.size() && letter == must[at]) ++at;
  }
  EXPECT_EQ(at, must.size()) << data << " has not all of " << must;
  for (size_t i = 1; i < data.size(); ++i) {
    EXPECT_LT(data[i - 1], data[i]) << data << " has a letter twice";
  }
}

// After a start: each entry of the history has what was there up to its last letter, and there is
// nothing else.
void ExpectHistory(Writer* writer, const std::string& acknowledged) {
  for (std::string data : writer->History()) {
    std::erase(data, '\0');
    if (data.empty()) continue;
    std::string must = acknowledged;
    std::erase_if(must, [&data](char letter) { return letter > data.back(); });
    ExpectData(data, must);
  }
  EXPECT_THAT(writer->Strangers(), IsEmpty());
}

// A life of a log. Letters rise.
void Live(Writer* writer) {
  writer->NewIncremental();
  for (char letter = 'a'; letter < 'y'; letter = static_cast<char>(letter + 4)) {
    writer->Append(letter);
    writer->Append(static_cast<char>(letter + 1));
    if (letter == 'i') {
      writer->NewIncremental();
    } else {
      writer->Rewrite(static_cast<char>(letter + 2));
    }
    writer->Append(static_cast<char>(letter + 3));
    if (letter == 'q') writer->HoldLess();
  }
}

// Tries all k until a life has no k-th call.
void ForEachStep(size_t calls_failing, Kept kept,
                 const std::function<void(MemoryFiles&, Writer&)>& check) {
  bool has_failed = true;
  for (size_t k = 0; has_failed; ++k) {
    SCOPED_TRACE(k);
    MemoryFiles files;
    Writer writer(&files, kept);
    ASSERT_TRUE(writer.Open());
    files.calls_left = k;
    files.calls_failing = calls_failing;
    Live(&writer);
    has_failed = files.calls_left == 0;
    files.calls_left = SIZE_MAX;
    check(files, writer);
    ASSERT_LT(k, 10'000u);
  }
}

class LogDirectoryFaultsTest : public testing::TestWithParam<Kept> {};

INSTANTIATE_TEST_SUITE_P(Kept, LogDirectoryFaultsTest,
                         testing::Values(Kept::kHistory, Kept::kStream), [](const auto& info) {
                           return info.param == Kept::kHistory ? "History" : "Stream";
                         });

TEST_P(LogDirectoryFaultsTest, AfterAnErrorAtAnyCallEverythingGoesOn) {
  ForEachStep(1, GetParam(), [](MemoryFiles& files, Writer& writer) {
    writer.Append('y');
    writer.Rewrite('z');
    ExpectData(writer.Data(), writer.acknowledged());
    Writer again(&files, GetParam());
    ASSERT_TRUE(again.Open());
    EXPECT_EQ(again.Data(), writer.Data());
    ExpectHistory(&again, writer.acknowledged());
  });
}

TEST_P(LogDirectoryFaultsTest, AfterAnEndAtAnyCallAStartHasTheSameData) {
  ForEachStep(SIZE_MAX, GetParam(), [](MemoryFiles& files, Writer& writer) {
    Writer again(&files, GetParam());
    ASSERT_TRUE(again.Open());
    ExpectData(again.Data(), writer.acknowledged());
    ExpectHistory(&again, writer.acknowledged());
    again.NewIncremental();
    again.Append('y');
    again.Rewrite('z');
    ExpectData(again.Data(), writer.acknowledged() + "yz");
  });
}

TEST(LogDirectoryLifeTest, WithoutAnErrorEachRewriteHasAnEntry) {
  MemoryFiles files;
  Writer writer(&files);
  ASSERT_TRUE(writer.Open());
  Live(&writer);
  EXPECT_THAT(writer.History(), ElementsAre("ab", "abcdef", "abcdefghijlmn", "abcdefghijlmnopqr",
                                            "abcdefghijlmnopqrstuv"));
  ExpectHistory(&writer, writer.acknowledged());
}

TEST(LogDirectoryLifeTest, WithoutAnErrorTheStreamIsHeld) {
  MemoryFiles files;
  Writer writer(&files, Kept::kStream);
  ASSERT_TRUE(writer.Open());
  Live(&writer);
  EXPECT_EQ(writer.held(), 4u);  // those before had to go
  ExpectHistory(&writer, writer.acknowledged());
}

// Also when the start itself ends at any call.
TEST_P(LogDirectoryFaultsTest, AfterACrashAtAnyCallAStartHasTheSameData) {
  helio::Random random(helio::TestSeed());
  for (const size_t calls_failing : {size_t{1}, SIZE_MAX}) {
    ForEachStep(calls_failing, GetParam(), [&](MemoryFiles& files, Writer& writer) {
      for (int i = 0; i < 20; ++i) {
        MemoryFiles after;
        after.files = files.AfterCrash(&random);
        after.calls_left = random.Uniform(30);
        {
          Writer halfway(&after, GetParam());
          (void)halfway.Open();
          halfway.Rewrite('y');
          halfway.Append('z');
        }
        MemoryFiles later;
        later.files = after.AfterCrash(&random);
        Writer again(&later, GetParam());
        ASSERT_TRUE(again.Open());
        ExpectData(again.Data(), writer.acknowledged());
        ExpectHistory(&again, writer.acknowledged());
      }
    });
  }
}

TEST(LogDirectoryLifeTest, AFileOfRedisBefore7SurvivesACrashAtAnyCall) {
  helio::Random random(helio::TestSeed());
  bool has_failed = true;
  for (size_t k = 0; has_failed; ++k) {
    SCOPED_TRACE(k);
    MemoryFiles files;
    files.files["d/appendonly.aof"] = "abc";
    files.calls_left = k;
    Writer first(&files);
    has_failed = !first.Open();
    for (int i = 0; i < 20; ++i) {
      MemoryFiles after;
      after.files = files.AfterCrash(&random);
      Writer again(&after);
      ASSERT_TRUE(again.Open());
      EXPECT_EQ(again.Data(), "abc");
    }
  }
}

}  // namespace
}  // namespace dfly
