// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_recovery.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/crc64.h"
#include "storage/log/annotations.h"
#include "storage/log/log_directory.h"
#include "storage/log/log_history.h"
#include "storage/log/log_testing.h"
#include "storage/log/log_times.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testkit::CommandText;
using testkit::EpochText;

// The zone is read at each start of a test.
class ZoneTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const zone = getenv("TZ");
    before_ = zone == nullptr ? std::nullopt : std::optional<std::string>(zone);
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
  }
  void TearDown() override {
    if (before_) {
      setenv("TZ", before_->c_str(), 1);
    } else {
      unsetenv("TZ");
    }
    tzset();
  }

 private:
  std::optional<std::string> before_;
};

// ---------------------------------------------------------------------------------------- times

TEST(LogTimesTest, DurationsHaveALetter) {
  EXPECT_EQ(ParseDuration("0"), 0);
  EXPECT_EQ(ParseDuration("90"), 90);
  EXPECT_EQ(ParseDuration("30s"), 30);
  EXPECT_EQ(ParseDuration("90m"), 90 * 60);
  EXPECT_EQ(ParseDuration("24h"), 24 * 3600);
  EXPECT_EQ(ParseDuration("2d"), 48 * 3600);
  for (const char* text : {"", "h", "-1h", "1w", "1hh", "1 h", "1.5h", "99999999999999999d"}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
  EXPECT_EQ(FormatDuration(0), "0");
  EXPECT_EQ(FormatDuration(48 * 3600), "48h");
  EXPECT_EQ(FormatDuration(90 * 60), "90m");
  EXPECT_EQ(FormatDuration(61), "61");
}

class LogTimesInAZoneTest : public ZoneTest {};

TEST_F(LogTimesInAZoneTest, EachFormOfAPoint) {
  constexpr int64_t kNow = 1'764'061'380;  // 2025-11-25 09:03:00 UTC
  const auto time = [](int64_t seconds) { return LogPoint{.time_s = seconds, .epoch = {}}; };
  EXPECT_EQ(ParseLogPoint("2025-11-25 10:03:00", kNow), time(kNow));
  EXPECT_EQ(ParseLogPoint("2025-11-25T10:03:01", kNow), time(kNow + 1));
  EXPECT_EQ(ParseLogPoint("2025-11-25 09:03:00Z", kNow), time(kNow));
  EXPECT_EQ(ParseLogPoint("2025-07-25 10:03:00", kNow),
            ParseLogPoint("2025-07-25T08:03:00Z", kNow));
  EXPECT_EQ(ParseLogPoint("-30s", kNow), time(kNow - 30));
  EXPECT_EQ(ParseLogPoint("-5m", kNow), time(kNow - 300));
  EXPECT_EQ(ParseLogPoint("-2h", kNow), time(kNow - 7200));
  EXPECT_EQ(ParseLogPoint("-1d", kNow), time(kNow - 86400));
  EXPECT_EQ(ParseLogPoint("1764061380", kNow), time(kNow));
  EXPECT_EQ(ParseLogPoint("epoch:17", kNow), (LogPoint{.time_s = {}, .epoch = 17}));
  for (const char* text :
       {"", "-", "-5", "5m", "-5w", "epoch:", "epoch:-1", "epoch:x", "2025-11-25", "10:03:00",
        "2025-11-25 10:03", "2025-13-25 10:03:00", "2025-02-30 10:03:00", "2025-11-25 24:00:00",
        "2025-11-25 10:60:00", "2025-11-25  10:03:00", "2025-11-25 10:03:00+01", "now", "Z",
        // The hour that summer time leaves out.
        "2025-03-30 02:30:00"}) {
    EXPECT_EQ(ParseLogPoint(text, kNow), std::nullopt) << text;
  }
}

TEST_F(LogTimesInAZoneTest, ATimeIsShownInTheZoneAndAsUnixTime) {
  EXPECT_EQ(FormatLogTime(1'764'061'380), "2025-11-25 10:03:00 +0100 (1764061380)");
}

// ------------------------------------------------------------------------------------- recovery

std::string Aux(std::string_view name, std::string_view value) {
  return fmt::format("\xFA{}{}{}{}", static_cast<char>(name.size()), name,
                     static_cast<char>(value.size()), value);
}

// An RDB file without keys.
std::string Base(int64_t time_s) {
  std::string text = "REDIS0010" + Aux("ctime", fmt::format("{}", time_s)) + Aux("aof-base", "1");
  text += '\xFF';
  const uint64_t sum = Crc64(0, text);
  for (int i = 0; i < 8; ++i) text += static_cast<char>(sum >> (8 * i));
  return text;
}

std::string Timestamp(int64_t seconds) {
  char buffer[kTimestampMax];
  return std::string(WriteTimestamp(seconds, buffer));
}

// A log of ours. The commands of each epoch are SET <letter> <letter>.
class LogRecoveryTest : public ZoneTest {
 protected:
  static constexpr int64_t kNow = 10'000;
  const LogDirectory::Names kNames = {
      .dir = "d", .directory_name = "appendonlydir", .file_name = "appendonly.aof"};

  void SetUp() override {
    ZoneTest::SetUp();
    directory_ = std::make_unique<LogDirectory>(&files_, kNames);
    directory_->set_keeps_history(true);
    ASSERT_EQ(directory_->Open(), "");
  }

  void NewFile() {
    std::string name;
    ASSERT_FALSE(directory_->NewIncremental(&name));
    path_ = directory_->Path(name);
    second_ = -1;
  }
  void Put(std::string_view text) { files_.files[path_] += text; }
  void Epoch(int64_t second, std::string_view letters) {
    std::string content;
    for (const char letter : letters) {
      content += CommandText({"SET", std::string(1, letter), std::string(1, letter)});
    }
    if (second >= 0 && second != second_) Put(Timestamp(second));
    second_ = second;
    Put(EpochText(++epoch_, stream_offset_, content));
    stream_offset_ += content.size();
  }
  // A base of all that was written so far.
  void Rewrite(int64_t now_s) {
    NewFile();
    files_.files[directory_->TemporaryBase()] = Base(now_s);
    ASSERT_FALSE(directory_->FinishBase(directory_->manifest().incrementals.back().seq, now_s));
  }

  std::string Recover(const LogPoint& point) {
    const auto before = files_.files;
    report_.clear();
    std::string error = LogRecovery(&files_, kNames).Recover(point, kNow, "e", &report_);
    for (const auto& [path, content] : before) EXPECT_EQ(files_.files[path], content) << path;
    return error;
  }
  std::string RecoverTo(int64_t second) { return Recover({.time_s = second, .epoch = {}}); }
  std::string RecoverToEpoch(uint64_t epoch) { return Recover({.time_s = {}, .epoch = epoch}); }

  // What the recovered log has: "base of <time>", and the letters. Forgets it.
  std::string Recovered() {
    LogDirectory made(
        &files_,
        {.dir = "e", .directory_name = kNames.directory_name, .file_name = kNames.file_name});
    EXPECT_EQ(made.Open(), "");
    std::string found = "-";
    if (made.manifest().base) {
      const std::string& base = files_.files[made.Path(made.manifest().base->name)];
      for (int64_t second = 0; second < kNow; ++second) {
        if (base == Base(second)) found = fmt::format("{}", second);
      }
      if (base.starts_with('*') || base.starts_with('#')) found = Letters(base);
    }
    for (const ManifestFile& file : made.manifest().incrementals) {
      found += " " + Letters(files_.files[made.Path(file.name)]);
    }
    std::erase_if(files_.files, [](const auto& file) { return file.first.starts_with("e/"); });
    return found;
  }
  std::string Letters(const std::string& text) {
    MemoryFiles files;
    files.files["f"] = text;
    std::unique_ptr<InputFile> file;
    EXPECT_FALSE(files.Open("f", &file));
    LogReader reader(std::move(file));
    std::string letters;
    while (true) {
      switch (reader.Next()) {
        case LogReader::Item::kCommand:
          if (reader.args().size() == 3) letters += reader.args()[1];
          break;
        case LogReader::Item::kEnd:
          EXPECT_EQ(reader.whole_size(), text.size());
          return letters;
        case LogReader::Item::kTorn:
        case LogReader::Item::kDamaged:
          ADD_FAILURE() << reader.error();
          return letters;
        default:
          break;
      }
    }
  }
  bool HasLeftNothing() {
    return std::ranges::none_of(files_.files,
                                [](const auto& file) { return file.first.starts_with("e"); });
  }

  MemoryFiles files_;
  std::unique_ptr<LogDirectory> directory_;
  std::string path_;
  int64_t second_ = -1;
  uint64_t epoch_ = 0;
  uint64_t stream_offset_ = 0;
  std::string report_;
};

TEST_F(LogRecoveryTest, ItEndsBehindTheLastEpochOfTheSecond) {
  Rewrite(100);
  Epoch(110, "a");
  Epoch(110, "bc");
  Epoch(120, "d");
  Epoch(121, "e");
  const std::map<int64_t, std::string> kExpected = {
      {100, "100 "},     {109, "100 "},      {110, "100 abc"},   {119, "100 abc"},
      {120, "100 abcd"}, {121, "100 abcde"}, {9999, "100 abcde"}};
  for (const auto& [second, expected] : kExpected) {
    EXPECT_EQ(RecoverTo(second), "");
    EXPECT_EQ(Recovered(), expected) << second;
  }
  ASSERT_EQ(RecoverTo(115), "");
  EXPECT_EQ(
      report_,
      "e has the log as it was at 1970-01-01 01:01:55 +0100 (115).\n"
      "  taken: the base of 1970-01-01 01:01:40 +0100 (100), and 3 commands in 2 epochs (1 to "
      "2), from 1970-01-01 01:01:50 +0100 (110) to 1970-01-01 01:01:50 +0100 (110)\n"
      "  2 commands in 2 epochs (3 to 4), from 1970-01-01 01:02:00 +0100 (120) to 1970-01-01 "
      "01:02:01 +0100 (121) were left out; the first is SET\n"
      "Start a server with it:\n"
      "  dragonfly --appendonly --dir=e\n");
}

TEST_F(LogRecoveryTest, AnEpochIsFinerThanASecond) {
  Rewrite(100);
  Epoch(110, "a");
  Epoch(110, "b");
  Epoch(110, "c");
  Rewrite(120);
  Epoch(130, "d");
  const std::vector<std::string> kExpected = {"100 ", "100 a", "100 ab", "100 abc"};
  for (uint64_t epoch = 0; epoch < kExpected.size(); ++epoch) {
    // Between two bases the newer one has it, too.
    EXPECT_EQ(RecoverToEpoch(epoch), "");
    EXPECT_EQ(Recovered(), epoch == 3 ? "120 " : kExpected[epoch]) << epoch;
  }
  EXPECT_EQ(RecoverToEpoch(4), "");
  EXPECT_EQ(Recovered(), "120 d");
  EXPECT_EQ(RecoverToEpoch(5), "there is no epoch 5; there are 4 to 4, 1 to 3");
  EXPECT_TRUE(HasLeftNothing());
}

TEST_F(LogRecoveryTest, ItGoesBackOverBasesAndFiles) {
  Rewrite(100);
  Epoch(110, "a");
  NewFile();
  Epoch(110, "b");
  Epoch(120, "c");
  NewFile();
  NewFile();
  Epoch(130, "d");
  Rewrite(140);
  Epoch(150, "e");
  Rewrite(160);
  Epoch(170, "f");
  const std::map<int64_t, std::string> kExpected = {
      {105, "100 "},        {110, "100 a b"},     {120, "100 a bc  "},
      {130, "100 a bc  d"}, {139, "100 a bc  d"}, {140, "140 "},
      {155, "140 e"},       {165, "160 "},        {170, "160 f"}};
  for (const auto& [second, expected] : kExpected) {
    EXPECT_EQ(RecoverTo(second), "");
    EXPECT_EQ(Recovered(), expected) << second;
  }
  ASSERT_EQ(RecoverTo(125), "");
  EXPECT_THAT(report_, HasSubstr("  3 commands in 3 epochs (4 to 6), from"));
}

TEST_F(LogRecoveryTest, ABaseMayHaveALaterTimeThanChangesBehindIt) {
  Rewrite(100);
  Epoch(110, "a");
  Rewrite(121);  // its moment was in second 120
  Epoch(120, "b");
  Epoch(121, "c");
  EXPECT_EQ(RecoverTo(120), "");
  EXPECT_EQ(Recovered(), "121 b");
  EXPECT_EQ(RecoverTo(119), "");
  EXPECT_EQ(Recovered(), "100 a");
}

TEST_F(LogRecoveryTest, WhatIsBeforeTheOldestTimeIsAnErrorThatNamesIt) {
  Rewrite(100);
  Epoch(110, "a");
  Rewrite(120);
  EXPECT_EQ(RecoverTo(99),
            "1970-01-01 01:01:39 +0100 (99) is before the oldest time that can be had, 1970-01-01 "
            "01:01:40 +0100 (100)");
  EXPECT_TRUE(HasLeftNothing());
}

TEST_F(LogRecoveryTest, ChangesWithoutATimeAreInNoTimeBeforeTheNextOne) {
  Rewrite(100);
  Epoch(-1, "a");
  Epoch(120, "b");
  EXPECT_THAT(RecoverTo(110),
              HasSubstr("before the oldest time that can be had, 1970-01-01 01:02"));
  EXPECT_EQ(RecoverTo(120), "");
  EXPECT_EQ(Recovered(), "100 ab");
  // As a server does without aof_history.
  files_.files[path_].clear();
  Put(kFileMark);
  epoch_ = stream_offset_ = 0;
  Epoch(-1, "a");
  Epoch(-1, "b");
  EXPECT_EQ(RecoverTo(130), "the log has no times: see --aof_history and --aof_timestamp_enabled");
  EXPECT_EQ(RecoverToEpoch(1), "");
  EXPECT_EQ(Recovered(), "100 a");
}

TEST_F(LogRecoveryTest, ATimeToComeTakesAllAndSaysSo) {
  Rewrite(100);
  Epoch(110, "a");
  Epoch(kNow + 50, "b");  // the clock was wrong
  EXPECT_EQ(RecoverTo(kNow + 1), "");
  EXPECT_THAT(report_, AllOf(HasSubstr("(10001) is not over yet; all is taken.\n"),
                             HasSubstr("  nothing was left out\n")));
  EXPECT_EQ(Recovered(), "100 ab");
}

TEST_F(LogRecoveryTest, ALogThatBeginsWithoutABaseHasNone) {
  NewFile();
  Epoch(110, "a");
  Epoch(120, "b");
  EXPECT_EQ(RecoverTo(110), "");
  EXPECT_EQ(Recovered(), "- a");
  EXPECT_THAT(RecoverTo(109), HasSubstr("before the oldest time"));
}

TEST_F(LogRecoveryTest, ATornEndIsLeftOutAndWhatFollowsAlso) {
  Rewrite(100);
  Epoch(110, "a");
  const size_t whole = files_.files[path_].size();
  Epoch(120, "b");
  files_.files[path_].resize(whole + 30);
  NewFile();
  EXPECT_EQ(RecoverTo(130), "");
  EXPECT_EQ(Recovered(), "100 a ");
  Epoch(140, "c");
  EXPECT_THAT(RecoverTo(150), HasSubstr(", and it is not the last file"));
}

TEST_F(LogRecoveryTest, DamageIsAnErrorUnlessItIsLeftOut) {
  Rewrite(100);
  Epoch(110, "a");
  const size_t second = files_.files[path_].size();
  Epoch(120, "b");
  Epoch(130, "c");
  files_.files[path_][second + 60] ^= 1;
  const std::string where = fmt::format("{}: offset {}: ", path_, second + 9);
  EXPECT_THAT(RecoverTo(125), HasSubstr(where));
  EXPECT_TRUE(HasLeftNothing());
  EXPECT_EQ(RecoverTo(115), "");
  EXPECT_EQ(Recovered(), "100 a");
  EXPECT_THAT(report_, HasSubstr("  and what cannot be read: " + where));
}

TEST_F(LogRecoveryTest, ABaseWithAWrongChecksumIsAnError) {
  Rewrite(100);
  Epoch(110, "a");
  std::string& base = files_.files["d/appendonlydir/appendonly.aof.1.base.rdb"];
  base[base.find("100") + 2] ^= 1;
  EXPECT_THAT(RecoverTo(115), HasSubstr("appendonly.aof.1.base.rdb, at byte"));
  EXPECT_TRUE(HasLeftNothing());
}

TEST_F(LogRecoveryTest, TheTargetMustBeEmptyAndTheSourceALog) {
  EXPECT_EQ(RecoverTo(115),
            "there is no append-only log: d/appendonlydir/appendonly.aof.manifest is missing");
  Rewrite(100);
  files_.files["e/mine"] = "x";
  EXPECT_EQ(RecoverTo(115), "e: it is not empty");
  EXPECT_EQ(files_.files["e/mine"], "x");
}

TEST_F(LogRecoveryTest, WhateverFailsLeavesNothing) {
  Rewrite(100);
  Epoch(110, "a");
  NewFile();
  Epoch(120, "b");
  std::string error;
  size_t calls = 0;
  do {
    files_.calls_left = calls++;
    files_.calls_failing = 1;
    error = RecoverTo(125);
    const bool has_failed = files_.calls_left == 0 && files_.calls_failing == 0;
    files_.calls_left = files_.calls_failing = SIZE_MAX;
    EXPECT_EQ(error.empty(), !has_failed) << calls;
    EXPECT_TRUE(error.empty() || HasLeftNothing()) << error;
  } while (!error.empty());
  EXPECT_EQ(Recovered(), "100 a b");
  EXPECT_GT(calls, 12u);
  files_.fails_after = 40;
  EXPECT_THAT(RecoverTo(125),
              HasSubstr("e/appendonlydir/appendonly.aof.1.base.rdb: No space left"));
  EXPECT_TRUE(HasLeftNothing());
}

TEST_F(LogRecoveryTest, AServerMayRewriteMeanwhile) {
  Rewrite(100);
  Epoch(110, "a");
  Epoch(120, "b");
  const auto before = files_.files;
  bool is_over = false;
  for (int k = 0; !is_over; ++k) {
    files_.files.clear();
    MemoryFiles files;
    files.files = before;
    LogDirectory directory(&files, kNames);
    directory.set_keeps_history(true);
    ASSERT_EQ(directory.Open(), "");
    int calls = 0;
    files.pause = [&] {
      if (calls++ != k) return;
      std::string name;
      ASSERT_FALSE(directory.NewIncremental(&name));
      files.files[directory.TemporaryBase()] = Base(130);
      ASSERT_FALSE(directory.FinishBase(directory.manifest().incrementals.back().seq, 130));
    };
    ASSERT_EQ(
        LogRecovery(&files, kNames).Recover({.time_s = 115, .epoch = {}}, kNow, "e", &report_), "")
        << k;
    is_over = calls <= k;
    files.pause = [] {};
    files_.files = files.files;
    EXPECT_EQ(Recovered(), "100 a") << k;
    EXPECT_THAT(report_, HasSubstr("  1 command in 1 epoch (2 to 2), from")) << k;
  }
}

TEST_F(LogRecoveryTest, AServerMayBeInTheMiddleOfARewrite) {
  Rewrite(100);
  Epoch(110, "a");
  Epoch(120, "b");
  NewFile();
  files_.files[directory_->TemporaryBase()] = Base(130);
  int calls = 0;
  bool is_reading = false;
  files_.pause = [&] {
    if (std::exchange(is_reading, true)) return;
    EXPECT_EQ(RecoverTo(115), "") << calls;
    EXPECT_EQ(Recovered(), "100 a") << calls;
    ++calls;
    is_reading = false;
  };
  ASSERT_FALSE(directory_->FinishBase(directory_->manifest().incrementals.back().seq, 130));
  files_.pause = [] {};
  EXPECT_GT(calls, 20);
  EXPECT_THAT(directory_->history(), SizeIs(1));
}

TEST_F(LogRecoveryTest, OfRedisItTakesCommandsUpToATimestamp) {
  const std::string kA = CommandText({"SET", "a", "a"});
  const std::string kB = CommandText({"SET", "b", "b"});
  const std::string kC = CommandText({"SET", "c", "c"});
  const std::string kMulti = CommandText({"MULTI"});
  const std::string kExec = CommandText({"EXEC"});
  const std::string kSelect = CommandText({"SELECT", "0"});
  const std::string folder = "d/appendonlydir/";
  files_.files[folder + "appendonly.aof.manifest"] =
      "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
  files_.files[folder + "appendonly.aof.1.base.rdb"] = Base(100);
  // A second that begins in a MULTI: what is of it is left out as a whole.
  files_.files[folder + "appendonly.aof.1.incr.aof"] = Timestamp(110) + kSelect + kA +
                                                       Timestamp(120) + kMulti + kB +
                                                       Timestamp(121) + kC + kExec + kA;
  const std::map<int64_t, std::string> kExpected = {
      {105, "100 "}, {110, "100 a"}, {120, "100 a"}, {121, "100 abca"}};
  for (const auto& [second, expected] : kExpected) {
    EXPECT_EQ(RecoverTo(second), "");
    EXPECT_EQ(Recovered(), expected) << second;
  }
  ASSERT_EQ(RecoverTo(110), "");
  EXPECT_THAT(report_, AllOf(HasSubstr("and 1 command, from"), HasSubstr("  3 commands, from"),
                             Not(HasSubstr("epoch"))));
}

TEST_F(LogRecoveryTest, ABaseOfCommandsCanBeCutAsWell) {
  const std::string folder = "d/appendonlydir/";
  files_.files[folder + "appendonly.aof.manifest"] =
      "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
  files_.files[folder + "appendonly.aof.1.base.aof"] =
      Timestamp(100) + CommandText({"SET", "a", "a"}) + Timestamp(110) +
      CommandText({"SET", "b", "b"});
  files_.files[folder + "appendonly.aof.1.incr.aof"] =
      Timestamp(120) + CommandText({"SET", "c", "c"});
  const std::map<int64_t, std::string> kExpected = {{105, "a"}, {115, "ab "}, {120, "ab c"}};
  for (const auto& [second, expected] : kExpected) {
    EXPECT_EQ(RecoverTo(second), "");
    EXPECT_EQ(Recovered(), expected) << second;
  }
}

TEST_F(LogRecoveryTest, TheListHasALineForEachBase) {
  Rewrite(100);
  Epoch(110, "a");
  std::string text;
  ASSERT_EQ(LogRecovery(&files_, kNames).List(&text), "");
  const std::string kBegin = "1970-01-01 01:01:40 +0100 (100) to 1970-01-01 01:01:50 +0100 (110): ";
  EXPECT_EQ(text, kBegin +
                      "1 command in 1 epoch (1 to 1); d/appendonlydir/appendonly.aof.manifest, the "
                      "log itself\nThere is no history: see --aof_history.\n");
  Rewrite(120);
  Epoch(-1, "b");
  text.clear();
  ASSERT_EQ(LogRecovery(&files_, kNames).List(&text), "");
  EXPECT_EQ(text, kBegin +
                      "1 command in 1 epoch (1 to 1); "
                      "d/appendonlydir/history/1.appendonly.aof.manifest\n"
                      "at times that nobody knows: 1 command in 1 epoch (2 to 2); "
                      "d/appendonlydir/appendonly.aof.manifest, the log itself\n");
}

}  // namespace
}  // namespace dfly
