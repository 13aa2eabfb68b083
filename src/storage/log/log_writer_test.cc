// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/logging.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/proactor/proactor_pool.h"
#include "storage/log/annotations.h"
#include "storage/log/log_reader.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using Policy = LogWriter::Policy;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Command(const std::vector<std::string>& words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string& word : words) text += fmt::format("${}\r\n{}\r\n", word.size(), word);
  return text;
}
std::string Select(int db) { return Command({"SELECT", std::to_string(db)}); }

// An epoch and what it has, as text.
struct Made {
  uint64_t number = 0;
  int first_db = 0, last_db = 0;
  std::string bytes = {};
  std::vector<std::string> commands = {};  // "<database> <word>"

  void Add(int db, const std::string& word) {
    if (commands.empty()) {
      first_db = db;
    } else if (last_db != db) {
      bytes += Select(db);
    }
    last_db = db;
    bytes += Command({word});
    commands.push_back(fmt::format("{} {}", db, word));
  }
};

// Small ones, and some of several blocks.
Made Draw(uint64_t number, helio::Random* random) {
  Made made{.number = number};
  const uint64_t count = 1 + random->Uniform(4);
  for (uint64_t i = 0; i < count; ++i) {
    const size_t size = random->OneIn(20) ? random->Uniform(20'000) : random->Uniform(300);
    made.Add(static_cast<int>(random->Uniform(3)),
             fmt::format("{}.{}.", number, i) + std::string(size, 'x'));
  }
  return made;
}

bool Write(LogWriter* writer, const Made& made, helio::Random* random = nullptr) {
  std::vector<std::string_view> pieces;
  std::string_view left = made.bytes;
  while (!left.empty()) {
    const size_t count = random == nullptr ? left.size() : 1 + random->Uniform(left.size());
    pieces.push_back(left.substr(0, count));
    left.remove_prefix(count);
  }
  return writer->Write({.number = made.number,
                        .first_db = made.first_db,
                        .last_db = made.last_db,
                        .pieces = pieces,
                        .bytes = made.bytes.size()});
}

// What a start finds.
struct Found {
  std::string error = {};  // why there is no start
  uint64_t base = 0;       // so many epochs are in the base
  std::vector<uint64_t> epochs = {};
  std::vector<std::vector<std::string>> commands = {};  // of each epoch
  std::vector<int64_t> timestamps = {};
  LogWriter::Start start = {};

  uint64_t size() const { return base + epochs.size(); }
  // how it goes on
};

// Reads a file up to its end, or to what was torn. Returns whether it is whole.
bool ReadFile(MemoryFiles* files, const std::string& path, uint64_t seq, Found* found) {
  std::unique_ptr<InputFile> input;
  EXPECT_FALSE(files->Open(path, &input));
  LogReader reader(std::move(input));
  reader.set_stream_begin(found->start.stream_offset);
  std::string db = "0";
  found->start.last_db = -1;
  auto item = reader.Next();
  for (; item < LogReader::Item::kEnd; item = reader.Next()) {
    if (item == LogReader::Item::kTimestamp) {
      found->timestamps.push_back(reader.timestamp_s());
    } else if (item == LogReader::Item::kEpoch) {
      if (reader.epoch().stream_offset != found->start.stream_offset) found->error = "a gap";
      found->start.stream_offset = reader.epoch().stream_end();
      found->epochs.push_back(reader.epoch().number);
      found->commands.emplace_back();
    } else if (reader.args().front() == "SELECT") {
      db = reader.args().back();
      found->start.last_db = std::stoi(db);
    } else {
      found->commands.back().push_back(fmt::format("{} {}", db, reader.args().front()));
    }
  }
  if (item == LogReader::Item::kDamaged) found->error = path + ": " + reader.error();
  found->start.file_seq = seq;
  found->start.file_size = reader.whole_size();
  return item == LogReader::Item::kEnd;
}

LogDirectory DirectoryOf(MemoryFiles* files) {
  return LogDirectory(files, {.dir = "d", .directory_name = "log", .file_name = "a"});
}

// `directory` is open.
Found ReadLog(MemoryFiles* files, const LogDirectory& directory) {
  Found found;
  const std::vector<ManifestFile>& listed = directory.manifest().incrementals;
  bool is_whole = true;
  if (const auto& base = directory.manifest().base) {
    found.base = std::stoull(files->files[directory.Path(base->name)]);
  }
  if (!listed.empty()) {
    found.start.stream_offset = static_cast<uint64_t>(listed.front().start_offset.value_or(0));
  }
  for (const ManifestFile& file : listed) {
    const std::string path = directory.Path(file.name);
    if (is_whole) {
      is_whole = ReadFile(files, path, file.seq, &found);
    } else if (files->files[path].size() > kFileMark.size()) {
      found.error = path + " is behind one that is torn";
    }
  }
  found.start.continues_file = !listed.empty();
  return found;
}

Found ReadLog(MemoryFiles* files) {
  LogDirectory directory = DirectoryOf(files);
  const std::string error = directory.Open();
  if (!error.empty()) return {.error = error};
  return ReadLog(files, directory);
}

class LogWriterTest : public testing::Test {
 protected:
  LogWriterTest() : pool_({.threads = 2}), directory_(DirectoryOf(&files_)) {
    FLAGS_minloglevel = google::GLOG_FATAL;  // much shall fail
    pool_.Start();
  }
  ~LogWriterTest() override { FLAGS_minloglevel = google::GLOG_INFO; }

  void InFiber(const std::function<void()>& function, uint32_t thread = 0) {
    pool_.at(thread)->AwaitFiber("test", [&] { function(); });
  }
  static LogWriter::Options Fast(Policy policy) {
    return {.policy = policy,
            .reserve_bytes = 16'384,
            .retry_period_ns = 1000,
            .sync_period_ns = uint64_t{1} << 60,
            .unix_seconds = {}};
  }
  void Open(const LogWriter::Options& options) {
    if (writer_ == nullptr) {
      ASSERT_EQ(directory_.Open(), "");
    }
    writer_ = std::make_unique<LogWriter>(&files_, &directory_, options);
    LogWriter::Start start = ReadLog(&files_, directory_).start;
    start.last_epoch = number_;
    ASSERT_FALSE(writer_->Open(start));
  }
  Made Next(int db, const std::string& word) {
    Made made{.number = ++number_};
    made.Add(db, word);
    return made;
  }
  std::string File(const std::string& name) { return files_.files["d/log/" + name]; }

  helio::ProactorPool pool_;
  MemoryFiles files_;
  LogDirectory directory_;
  std::unique_ptr<LogWriter> writer_;
  uint64_t number_ = 0;
};

TEST_F(LogWriterTest, WritesAnnotationsSelectAndCommands) {
  InFiber([&] {
    Open(Fast(Policy::kAlways));
    Made made = Next(0, "one");
    made.Add(2, "two");
    EXPECT_TRUE(Write(writer_.get(), made));
    EXPECT_TRUE(Write(writer_.get(), Next(2, "three")));
    EXPECT_TRUE(Write(writer_.get(), Next(1, "four")));
    EXPECT_FALSE(writer_->Close());
    EXPECT_THAT(File("a.1.incr.aof"), HasSubstr(Select(0) + Command({"one"}) + Select(2)));
    EXPECT_THAT(File("a.1.incr.aof"), HasSubstr("\r\n" + Command({"three"}) + "#EPOCH:3 "));
    const Found found = ReadLog(&files_);
    EXPECT_EQ(found.error, "");
    EXPECT_THAT(found.commands, ElementsAre(ElementsAre("0 one", "2 two"), ElementsAre("2 three"),
                                            ElementsAre("1 four")));
    EXPECT_EQ(writer_->status().appends, 3u);
    EXPECT_EQ(writer_->status().appended_bytes + kFileMark.size(), File("a.1.incr.aof").size());
    EXPECT_EQ(writer_->status().syncs, 3u);
    EXPECT_TRUE(writer_->status().is_ok());
  });
}

TEST_F(LogWriterTest, ATimestampStandsInFrontOfTheFirstEpochOfASecond) {
  InFiber([&] {
    int64_t now = 100;
    LogWriter::Options options = Fast(Policy::kNo);
    options.has_timestamps = true;
    options.unix_seconds = [&now] { return now; };
    Open(options);
    for (const int64_t second : {100, 100, 101, 105, 105}) {
      now = second;
      EXPECT_TRUE(Write(writer_.get(), Next(0, "x")));
    }
    EXPECT_FALSE(writer_->Close());
    EXPECT_TRUE(File("a.1.incr.aof").starts_with("#DRAGONFLY:1\r\n#TS:100\r\n#EPOCH:1 0 "));
    EXPECT_THAT(ReadLog(&files_).timestamps, ElementsAre(100, 101, 105));
  });
}

TEST_F(LogWriterTest, GoesOnInAFileAndSelectsOnlyWhatIsNotSelected) {
  InFiber([&] {
    Open(Fast(Policy::kAlways));
    EXPECT_TRUE(Write(writer_.get(), Next(1, "one")));
    EXPECT_FALSE(writer_->Close());
    const size_t size = File("a.1.incr.aof").size();
    Open(Fast(Policy::kEverySec));
    EXPECT_TRUE(Write(writer_.get(), Next(1, "two")));
    EXPECT_FALSE(writer_->Close());
    EXPECT_THAT(File("a.1.incr.aof").substr(size), testing::Not(HasSubstr("SELECT")));
    EXPECT_THAT(ReadLog(&files_).commands, ElementsAre(ElementsAre("1 one"), ElementsAre("1 two")));
    EXPECT_EQ(ReadLog(&files_).error, "");
  });
}

TEST_F(LogWriterTest, AFullDiskIsWaitedForAndNothingIsLost) {
  InFiber([&] {
    for (const Policy policy : {Policy::kAlways, Policy::kEverySec, Policy::kNo}) {
      Open(Fast(policy));
      EXPECT_TRUE(Write(writer_.get(), Next(0, "before")));
      files_.fails_after = 20;
      int calls = 0;
      files_.pause = [&] {
        if (++calls == 50) files_.fails_after = SIZE_MAX;
      };
      EXPECT_TRUE(Write(writer_.get(), Next(0, "after")));
      EXPECT_GE(calls, 50);
      files_.pause = [] {};
      EXPECT_GT(writer_->status().errors, 0u);
      EXPECT_EQ(writer_->status().last_errno, ENOSPC);
      EXPECT_TRUE(writer_->status().is_ok());
      EXPECT_FALSE(writer_->Close());
    }
    EXPECT_EQ(ReadLog(&files_).epochs.size(), 6u);
    EXPECT_EQ(ReadLog(&files_).error, "");
  });
}

TEST_F(LogWriterTest, StopEndsAWriteThatWaitsForTheDisk) {
  InFiber([&] {
    LogWriter::Options options = Fast(Policy::kAlways);
    options.retry_period_ns = uint64_t{1} << 60;
    Open(options);
    files_.fails_after = 0;
    helio::Fiber stopping("stop", [&] {
      while (writer_->status().is_ok()) helio::this_fiber::Yield();
      writer_->Stop();
    });
    EXPECT_FALSE(Write(writer_.get(), Next(0, "x")));
    stopping.Join();
    EXPECT_FALSE(Write(writer_.get(), Next(0, "y")));
    files_.fails_after = SIZE_MAX;
    EXPECT_FALSE(writer_->Close());
    EXPECT_TRUE(ReadLog(&files_).epochs.empty());
  });
}

TEST_F(LogWriterTest, ASyncThatFailedMovesWhatWasNotSyncedToANewFile) {
  InFiber([&] {
    Open(Fast(Policy::kEverySec));
    EXPECT_TRUE(Write(writer_.get(), Next(0, "one")));
    EXPECT_FALSE(writer_->Sync());
    EXPECT_EQ(writer_->status().kept_bytes, 0u);
    const std::string synced = File("a.1.incr.aof");
    EXPECT_TRUE(Write(writer_.get(), Next(1, "two")));
    EXPECT_TRUE(Write(writer_.get(), Next(1, "three")));
    EXPECT_GT(writer_->status().kept_bytes, 0u);
    files_.calls_left = 0;
    files_.calls_failing = 1;
    EXPECT_FALSE(writer_->Sync());
    EXPECT_EQ(writer_->status().kept_bytes, 0u);
    EXPECT_EQ(writer_->status().files_given_up, 1u);
    EXPECT_EQ(File("a.1.incr.aof"), synced);
    EXPECT_TRUE(Write(writer_.get(), Next(0, "four")));
    EXPECT_FALSE(writer_->Close());
    EXPECT_TRUE(File("a.2.incr.aof").starts_with("#DRAGONFLY:1\r\n#EPOCH:2 "));
    EXPECT_THAT(ReadLog(&files_).epochs, ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(ReadLog(&files_).error, "");
  });
}

TEST_F(LogWriterTest, AlwaysWritesTheEpochAgainWhoseSyncFailed) {
  InFiber([&] {
    Open(Fast(Policy::kAlways));
    EXPECT_TRUE(Write(writer_.get(), Next(0, "one")));
    files_.calls_left = 1;  // the write
    files_.calls_failing = 1;
    EXPECT_TRUE(Write(writer_.get(), Next(0, "two")));
    EXPECT_EQ(writer_->status().files_given_up, 1u);
    EXPECT_FALSE(writer_->Close());
    EXPECT_THAT(File("a.1.incr.aof"), testing::Not(HasSubstr("two")));
    EXPECT_THAT(ReadLog(&files_).epochs, ElementsAre(1, 2));
    EXPECT_EQ(ReadLog(&files_).error, "");
  });
}

TEST_F(LogWriterTest, AFiberSyncsEachPeriodWhatWasWritten) {
  InFiber([&] {
    LogWriter::Options options = Fast(Policy::kEverySec);
    options.sync_period_ns = 100'000;
    Open(options);
    for (uint64_t syncs = 1; syncs < 5; ++syncs) {
      EXPECT_TRUE(Write(writer_.get(), Next(0, "x")));
      while (writer_->status().kept_bytes > 0) helio::this_fiber::SleepForNanos(10'000);
      EXPECT_EQ(writer_->status().syncs, syncs) << "none that nobody needs";
    }
    // The file is given up, and what is in memory goes to another one, without a further Write.
    EXPECT_TRUE(Write(writer_.get(), Next(0, "y")));
    files_.calls_left = 0;
    files_.calls_failing = 1;
    while (writer_->status().kept_bytes > 0) helio::this_fiber::SleepForNanos(10'000);
    EXPECT_EQ(writer_->status().files_given_up, 1u);
    EXPECT_FALSE(writer_->Close());
    EXPECT_THAT(ReadLog(&files_).epochs, ElementsAre(1, 2, 3, 4, 5));
  });
}

TEST_F(LogWriterTest, TellsWhichEpochsAreOnTheDevice) {
  InFiber([&] {
    for (const Policy policy : {Policy::kAlways, Policy::kEverySec, Policy::kNo}) {
      const bool is_always = policy == Policy::kAlways;
      int calls = 0;
      LogWriter::Options options = Fast(policy);
      options.on_synced = [&calls] { ++calls; };
      ASSERT_NO_FATAL_FAILURE(Open(options));
      const std::atomic<uint64_t>& synced = writer_->status().synced_epoch;
      const uint64_t before = number_;
      EXPECT_EQ(synced, before) << "of a start, what it found";
      EXPECT_TRUE(Write(writer_.get(), Next(0, "one")));
      EXPECT_TRUE(Write(writer_.get(), Next(0, "two")));
      EXPECT_EQ(synced, is_always ? before + 2 : before);
      EXPECT_FALSE(writer_->Sync());
      EXPECT_EQ(synced, before + 2);
      EXPECT_EQ(calls, is_always ? 2 : 1);
      // A sync that fails, of a file that is given up then: told when it is in the next one.
      EXPECT_TRUE(Write(writer_.get(), Next(0, "three")));
      files_.calls_left = is_always ? SIZE_MAX : 0;
      files_.calls_failing = 1;
      EXPECT_FALSE(writer_->Sync());
      EXPECT_EQ(synced, before + 3);
      // The end of a file syncs it.
      files_.calls_left = SIZE_MAX;
      EXPECT_TRUE(Write(writer_.get(), Next(0, "four")));
      writer_->BeginNewFile(number_ + 1);
      uint64_t seq = 0;
      EXPECT_FALSE(writer_->FinishNewFile(&seq));
      EXPECT_EQ(synced, before + 4);
      EXPECT_FALSE(writer_->Close());
    }
  });
}

TEST_F(LogWriterTest, TellsWhatItHasWaitedFor) {
  InFiber([&] {
    std::vector<LogWait> waits;
    LogWriter::Options options = Fast(Policy::kAlways);
    options.on_wait = [&waits](LogWait kind, uint64_t) { waits.push_back(kind); };
    Open(options);
    EXPECT_TRUE(Write(writer_.get(), Next(0, "one")));
    EXPECT_THAT(waits, ElementsAre(LogWait::kWriteAndSync));
    EXPECT_FALSE(writer_->Close());
    waits.clear();

    // A sync does not end before a write that has come meanwhile.
    options.policy = Policy::kEverySec;
    options.sync_period_ns = 100'000;
    Open(options);
    bool is_in_sync = false, is_written = false;
    files_.pause = [&] {
      if (is_in_sync || waits.empty()) return;
      is_in_sync = true;
      while (!is_written) helio::this_fiber::SleepForNanos(10'000);
    };
    EXPECT_TRUE(Write(writer_.get(), Next(0, "two")));
    while (!is_in_sync) helio::this_fiber::SleepForNanos(10'000);
    EXPECT_TRUE(Write(writer_.get(), Next(0, "three")));
    is_written = true;
    EXPECT_THAT(waits, ElementsAre(LogWait::kWrite, LogWait::kWritePendingSync));
    EXPECT_FALSE(writer_->Close());
    files_.pause = [] {};
  });
}

TEST_F(LogWriterTest, ANewFileBeginsWithTheEpochThatWasSaid) {
  InFiber([&] {
    for (const Policy policy : {Policy::kAlways, Policy::kEverySec, Policy::kNo}) {
      Open(Fast(policy));
      writer_->BeginNewFile(number_ + 2);
      EXPECT_TRUE(Write(writer_.get(), Next(1, "old")));
      const uint64_t files = writer_->status().new_files;
      EXPECT_TRUE(Write(writer_.get(), Next(1, "new")));
      EXPECT_EQ(writer_->status().new_files, files + 1);
      uint64_t seq = 0;
      EXPECT_FALSE(writer_->FinishNewFile(&seq));
      EXPECT_EQ(writer_->status().new_files, files + 1);
      const std::string name = fmt::format("a.{}.incr.aof", seq);
      EXPECT_TRUE(File(name).starts_with(fmt::format("{}#EPOCH:{} ", kFileMark, number_))) << name;
      EXPECT_THAT(File(name), HasSubstr(Select(1) + Command({"new"})));
      // And without an epoch that would have begun it.
      writer_->BeginNewFile(number_ + 1);
      EXPECT_FALSE(writer_->FinishNewFile(&seq));
      EXPECT_EQ(File(fmt::format("a.{}.incr.aof", seq)), kFileMark);
      EXPECT_FALSE(writer_->Close());
    }
    EXPECT_EQ(ReadLog(&files_).epochs.size(), 6u);
    EXPECT_EQ(ReadLog(&files_).error, "");
  });
}

TEST_F(LogWriterTest, ANewFileIsTheSameAfterOneMoreWasGivenUp) {
  InFiber([&] {
    Open(Fast(Policy::kAlways));
    EXPECT_TRUE(Write(writer_.get(), Next(0, "old")));
    writer_->BeginNewFile(number_ + 1);
    EXPECT_TRUE(Write(writer_.get(), Next(0, "new")));
    files_.calls_left = 1;  // the write
    files_.calls_failing = 1;
    EXPECT_TRUE(Write(writer_.get(), Next(0, "newer")));
    EXPECT_EQ(writer_->status().files_given_up, 1u);
    uint64_t seq = 0;
    EXPECT_FALSE(writer_->FinishNewFile(&seq));
    EXPECT_EQ(seq, 2u);
    EXPECT_THAT(File("a.2.incr.aof"), HasSubstr("new"));
    EXPECT_THAT(File("a.3.incr.aof"), HasSubstr("newer"));
    // A base of what "old" has made replaces the first file, and no other.
    std::unique_ptr<OutputFile> base;
    EXPECT_FALSE(files_.Create(directory_.TemporaryBase(), &base));
    EXPECT_FALSE(base->Write("1"));
    EXPECT_FALSE(base->SyncAndClose());
    EXPECT_FALSE(writer_->FinishBase(seq));
    EXPECT_FALSE(writer_->Close());
    EXPECT_THAT(ReadLog(&files_).epochs, ElementsAre(2, 3));
  });
}

TEST_F(LogWriterTest, WithoutANewFileTheOldOneGoesOn) {
  InFiber([&] {
    Open(Fast(Policy::kEverySec));
    EXPECT_TRUE(Write(writer_.get(), Next(0, "old")));
    writer_->BeginNewFile(number_ + 1);
    files_.calls_left = 2;  // the cut and its sync
    files_.calls_failing = 1;
    EXPECT_TRUE(Write(writer_.get(), Next(0, "new")));
    uint64_t seq = 0;
    EXPECT_EQ(writer_->FinishNewFile(&seq), std::errc::io_error);
    EXPECT_FALSE(writer_->Close());
    EXPECT_THAT(File("a.1.incr.aof"), HasSubstr("new"));
    EXPECT_THAT(ReadLog(&files_).epochs, ElementsAre(1, 2));
  });
}

TEST_F(LogWriterTest, EpochsComeFromAnyThreadWhileOneSyncs) {
  InFiber([&] {
    LogWriter::Options options = Fast(Policy::kEverySec);
    options.sync_period_ns = 20'000;
    Open(options);
  });
  helio::Random random(helio::TestSeed());
  constexpr uint64_t kEpochs = 500;
  for (uint32_t i = 0; i < kEpochs; ++i) {
    InFiber(
        [&] {
          if (i % 50 == 10) writer_->BeginNewFile(number_ + 1 + random.Uniform(3));
          if (i % 50 == 30) {
            files_.calls_left = random.Uniform(3);
            files_.calls_failing = 1;
          }
          EXPECT_TRUE(Write(writer_.get(), Next(static_cast<int>(i % 3), "x"), &random));
        },
        i % 2);
  }
  InFiber([&] { EXPECT_FALSE(writer_->Close()); }, 1);
  InFiber([&] {
    const Found found = ReadLog(&files_);
    EXPECT_EQ(found.error, "");
    ASSERT_EQ(found.epochs.size(), kEpochs);
    for (uint64_t i = 0; i < kEpochs; ++i) EXPECT_EQ(found.epochs[i], i + 1);
  });
}

// A life of the log: epochs, syncs, new files, errors, until the machine stops. Then another one.
class Life {
 public:
  Life(uint64_t seed, MemoryFiles* files) : random_(seed), files_(*files) {}

  // Returns the files that are left, or what was wrong.
  std::string Run(std::map<std::string, std::string>* after, std::vector<Made>* written) {
    LogDirectory directory = DirectoryOf(&files_);
    directory_ = &directory;
    if (std::string error = directory.Open(); !error.empty()) return error;
    Found found = ReadLog(&files_, directory);
    if (std::string error = Compare(found, *written); !error.empty()) return error;
    written->resize(found.size());
    durable_ = written_ = written->size();

    policy_ = kPolicies[random_.Uniform(3)];
    LogWriter writer(&files_, &directory,
                     {.policy = policy_,
                      .reserve_bytes = random_.OneIn(2) ? 16'384u : 0u,
                      .has_timestamps = random_.OneIn(2),
                      .retry_period_ns = 1,
                      .sync_period_ns = uint64_t{1} << 60,
                      .unix_seconds = [this] { return static_cast<int64_t>(second_); }});
    if (random_.OneIn(3)) found.start.continues_file = false;
    if (writer.Open(found.start)) return "it cannot be opened";

    // The machine stops at one of the calls, or at the end.
    uint64_t calls_left = random_.Uniform(120);
    bool is_over = false;
    files_.pause = [&] {
      if (is_over || calls_left-- > 0) return;
      is_over = true;
      // A process that is killed loses nothing that was written, whatever the policy.
      if (!has_failed_ && random_.OneIn(4)) {
        *after = files_.files;
        acknowledged_ = written_;
        return;
      }
      *after = files_.AfterCrash(&random_);
      acknowledged_ = durable_;
    };
    const uint64_t steps = 1 + random_.Uniform(30);
    for (uint64_t i = 0; i < steps && !is_over; ++i) Step(&writer, written, &is_over);
    files_.pause = [] {};
    Heal();
    if (!is_over) {
      if (random_.OneIn(2)) {
        if (writer.Sync()) return "it cannot be synced";
        durable_ = written->size();
      }
      *after = files_.AfterCrash(&random_);
      acknowledged_ = durable_;
    }
    files_given_up_ += writer.status().files_given_up;
    new_files_ += writer.status().new_files;
    if (writer.Close()) return "it cannot be closed";
    return "";
  }

  uint64_t acknowledged() const { return acknowledged_; }
  // Of all lives: the test is one of what it says.
  static inline uint64_t files_given_up_ = 0, new_files_ = 0, bases_ = 0, policies_ = 0;

 private:
  static constexpr Policy kPolicies[] = {Policy::kAlways, Policy::kEverySec, Policy::kNo};

  // `written` are those of which the log must have a beginning.
  std::string Compare(const Found& found, const std::vector<Made>& written) {
    if (!found.error.empty()) return found.error;
    if (found.size() > written.size()) return "more than was written";
    for (size_t i = 0; i < found.epochs.size(); ++i) {
      const Made& made = written[found.base + i];
      if (found.epochs[i] != made.number || found.commands[i] != made.commands) {
        return fmt::format("epoch {} is not what was written", made.number);
      }
    }
    return "";
  }

  // A base of the first `count` epochs, which is their number.
  void FinishBase(LogWriter* writer, uint64_t count, uint64_t first_seq) {
    if (random_.OneIn(3) && policy_ != Policy::kNo) {
      files_.calls_left = random_.Uniform(10);
      files_.calls_failing = 1 + random_.Uniform(4);
      has_failed_ = true;
    }
    std::unique_ptr<OutputFile> base;
    if (files_.Create(directory_->TemporaryBase(), &base)) return;
    if (base->Write(std::to_string(count)) || base->SyncAndClose()) return;
    if (!writer->FinishBase(first_seq)) ++bases_;
  }

  // With kNo there are no errors.
  void ChangePolicy(LogWriter* writer) {
    if (policy_ == Policy::kNo) Heal();
    const Policy policy = kPolicies[random_.Uniform(3)];
    if (writer->SetPolicy(policy)) return;
    policy_ = policy;
    if (policy_ == Policy::kNo) Heal();
    ++policies_;
  }

  void Heal() { files_.calls_left = files_.calls_failing = files_.fails_after = SIZE_MAX; }

  void Step(LogWriter* writer, std::vector<Made>* written, bool* is_over) {
    second_ += random_.Uniform(2);
    // Nothing is kept that would mend a file of kNo.
    if (random_.OneIn(6) && policy_ != Policy::kNo) {
      files_.calls_left = random_.Uniform(10);
      files_.calls_failing = 1 + random_.Uniform(4);
      has_failed_ = true;
    }
    if (random_.OneIn(15)) ChangePolicy(writer);
    switch (random_.Uniform(12)) {
      case 0:
      case 1:
        if (!writer->Sync() && !*is_over) durable_ = written->size();
        break;
      case 2:
        writer->BeginNewFile(written->size() + 1 + random_.Uniform(3));
        break;
      case 3: {
        // Behind the last epoch there may be a file for others to come.
        Heal();
        writer->BeginNewFile(written->size() + 1);
        uint64_t seq = 0;
        if (writer->FinishNewFile(&seq) || *is_over) break;
        durable_ = written->size();
        if (random_.OneIn(2)) FinishBase(writer, written->size(), seq);
        break;
      }
      default: {
        Made made = Draw(written->size() + 1, &random_);
        written->push_back(made);
        const bool is_written = Write(writer, made, &random_);
        EXPECT_TRUE(is_written);
        if (*is_over) break;
        written_ = written->size();
        if (policy_ == Policy::kAlways) durable_ = written_;
      }
    }
  }

  helio::Random random_;
  MemoryFiles& files_;
  LogDirectory* directory_ = nullptr;  // of the Run under way
  Policy policy_ = Policy::kNo;
  uint64_t second_ = 1000;
  bool has_failed_ = false;    // calls are made to
  uint64_t written_ = 0;       // epochs that are
  uint64_t durable_ = 0;       // epochs that the writer has promised
  uint64_t acknowledged_ = 0;  // when the machine stopped
};

std::string LivesOf(uint64_t seed) {
  std::map<std::string, std::string> left;
  std::vector<Made> written;
  for (uint64_t life = 0; life < 3; ++life) {
    MemoryFiles files;
    files.files = left;
    Life next(seed * 10 + life, &files);
    left.clear();
    if (std::string error = next.Run(&left, &written); !error.empty()) return error;
    MemoryFiles reopened;
    reopened.files = left;
    const Found found = ReadLog(&reopened);
    if (!found.error.empty()) return found.error;
    if (found.size() < next.acknowledged()) {
      return fmt::format("{} epochs are left of {} acknowledged", found.size(),
                         next.acknowledged());
    }
  }
  return "";
}

TEST_F(LogWriterTest, AfterACrashThereIsABeginningWithAllThatWasPromised) {
#ifdef DFLY_SANITIZED
  const helio::SeedRange seeds = helio::TestSeeds(300);
#else
  const helio::SeedRange seeds = helio::TestSeeds(2000);
#endif
  InFiber([&] {
    for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
      ASSERT_EQ(LivesOf(seed), "") << "DFLY_SEED=" << seed;
      ASSERT_FALSE(testing::Test::HasFailure()) << "DFLY_SEED=" << seed;
    }
  });
  if (seeds.count < 1000) return;
  EXPECT_GT(Life::files_given_up_, seeds.count / 20);
  EXPECT_GT(Life::new_files_, seeds.count / 4);
  EXPECT_GT(Life::bases_, seeds.count / 20);
  EXPECT_GT(Life::policies_, seeds.count / 4);
}

}  // namespace
}  // namespace dfly
