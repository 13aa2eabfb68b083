// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "storage/append_file.h"
#include "storage/log/log_testing.h"
#include "storage/memory_files.h"

namespace dfly {
namespace {

using Item = LogReader::Item;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testkit::CommandText;
using testkit::EpochText;
using testkit::RandomUnit;
using testkit::Words;

// What a file gives.
struct Outcome {
  std::vector<Words> commands;
  std::vector<uint64_t> epochs;  // numbers
  Item last = Item::kEnd;
  uint64_t whole_size = 0;
  bool has_epochs = false, is_mixed = false;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

Outcome ReadFrom(std::unique_ptr<InputFile> file, size_t window) {
  LogReader reader(std::move(file), 0, window);
  Outcome outcome;
  while (true) {
    outcome.last = reader.Next();
    if (outcome.last == Item::kCommand) {
      outcome.commands.emplace_back(reader.args().begin(), reader.args().end());
    } else if (outcome.last == Item::kEpoch) {
      outcome.epochs.push_back(reader.epoch().number);
    } else if (outcome.last != Item::kTimestamp) {
      break;
    }
  }
  outcome.whole_size = reader.whole_size();
  outcome.has_epochs = reader.has_epochs();
  outcome.is_mixed = reader.is_mixed();
  outcome.error = reader.error();
  return outcome;
}

Outcome Read(const std::string& text) {
  MemoryFiles files;
  files.files["f"] = text;
  std::unique_ptr<InputFile> file;
  EXPECT_FALSE(files.Open("f", &file));
  Outcome outcome = ReadFrom(std::move(file), LogReader::kWindow);
  EXPECT_FALSE(files.Open("f", &file));
  EXPECT_EQ(ReadFrom(std::move(file), kAnnotationMax), outcome) << "with a small window";
  return outcome;
}

const std::string kPing = CommandText({"PING"});
const std::string kSet = CommandText({"SET", "key", "value"});
const std::string kSelect = CommandText({"SELECT", "0"});
const std::string kMulti = CommandText({"MULTI"});
const std::string kExec = CommandText({"EXEC"});

std::string Filler(size_t size) {
  std::string text(size, ' ');
  WriteFiller(text.data(), size);
  return text;
}

// Commands by epochs, and where each ends in the text.
struct Ours {
  std::string text;
  std::vector<std::vector<Words>> epochs;
  std::vector<size_t> ends;
  uint64_t stream = 0;
  std::optional<uint64_t> synced;  // bytes of the stream; none: all

  void Add(const std::vector<Words>& commands, uint64_t synced_end) {
    synced = synced_end;
    Add(commands);
  }
  void Add(const std::vector<Words>& commands) {
    std::string content;
    for (const Words& command : commands) content += CommandText(command);
    text += EpochText(epochs.size() + 1, stream, content, stream - synced.value_or(stream));
    stream += content.size();
    epochs.push_back(commands);
    ends.push_back(text.size());
  }
  // All commands of the first `count` epochs.
  std::vector<Words> Commands(size_t count) const {
    std::vector<Words> all;
    for (size_t i = 0; i < count; ++i) all.insert(all.end(), epochs[i].begin(), epochs[i].end());
    return all;
  }
};

Ours RandomOurs(helio::Random* random, size_t epochs) {
  Ours ours;
  for (size_t i = 0; i < epochs; ++i) {
    if (random->OneIn(3)) ours.text += "#TS:1700000000\r\n";
    if (random->OneIn(4)) ours.text += Filler(3 + random->Uniform(100));
    std::vector<Words> commands;
    for (uint64_t units = 1 + random->Uniform(3); units > 0; --units) {
      for (Words& command : RandomUnit(random)) commands.push_back(std::move(command));
    }
    ours.Add(commands);
  }
  return ours;
}

// ------------------------------------------------------------------------------- files of others

TEST(LogReaderTest, CommandsOfOthersComeOneByOne) {
  const Outcome outcome = Read(kPing + "#TS:5\r\n# anything\n" + kSet + "*1\n$4\nPINGxx");
  EXPECT_THAT(outcome.commands,
              ElementsAre(Words{"PING"}, Words{"SET", "key", "value"}, Words{"PING"}));
  EXPECT_EQ(outcome.last, Item::kEnd);
  EXPECT_FALSE(outcome.has_epochs);
  EXPECT_EQ(Read("").last, Item::kEnd);
}

TEST(LogReaderTest, ItSaysWhatIsOfAMulti) {
  MemoryFiles files;
  files.files["f"] = kPing + kMulti + kSet + "#TS:5\r\n" + kExec + kExec + kSet;
  std::unique_ptr<InputFile> file;
  ASSERT_FALSE(files.Open("f", &file));
  LogReader reader(std::move(file));
  std::string marks;
  uint64_t end = 0;
  for (Item item = reader.Next(); item != Item::kEnd; item = reader.Next()) {
    EXPECT_EQ(reader.position(), end);
    end = reader.bytes_read();
    marks += item == Item::kTimestamp ? 't' : reader.is_in_multi() ? 'm' : 's';
  }
  EXPECT_EQ(marks, "smmtmss");
  EXPECT_EQ(reader.timestamp_s(), 5);
  EXPECT_EQ(end, reader.size());
}

TEST(LogReaderTest, AFileOfOthersThatIsCutEndsBehindTheLastWholeUnit) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 20; ++round) {
    std::string text;
    std::vector<std::pair<size_t, std::vector<Words>>> units = {{0, {}}};  // by their ends
    std::vector<size_t> line_ends;
    for (uint64_t i = random.Uniform(6); i > 0; --i) {
      std::vector<Words> all = units.back().second;
      for (const Words& command : RandomUnit(&random)) {
        text += CommandText(command);
        all.push_back(command);
      }
      units.emplace_back(text.size(), std::move(all));
    }
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      const auto last = std::find_if(units.rbegin(), units.rend(),
                                     [cut](const auto& unit) { return unit.first <= cut; });
      const Outcome outcome = Read(text.substr(0, cut));
      EXPECT_EQ(outcome.last, last->first == cut ? Item::kEnd : Item::kTorn) << cut;
      EXPECT_EQ(outcome.whole_size, last->first) << cut;
      ASSERT_GE(outcome.commands.size(), last->second.size());
      EXPECT_TRUE(std::equal(last->second.begin(), last->second.end(), outcome.commands.begin()));
    }
  }
}

TEST(LogReaderTest, WhatIsNoCommandIsDamageInFilesOfOthers) {
  const std::string line = "#" + std::string(2000, 'x') + "\r\n";
  for (const std::string& bad :
       {std::string("\r\n"), std::string("PING\r\n"), std::string(10, '\0'), std::string("*0\r\n"),
        std::string("*-1\r\n"), std::string("*x\r\n"), std::string("*1\r\n4\r\nPING\r\n"),
        std::string("*1\r\n$-1\r\n"), std::string("*1\r\n$x\r\n"), std::string("*1\rx"),
        std::string("*12345678901234567890\r\n"), std::string("*\r\n"), line}) {
    const Outcome outcome = Read(kPing + bad + kPing);
    EXPECT_EQ(outcome.last, Item::kDamaged) << bad;
    EXPECT_THAT(outcome.error, HasSubstr("offset 14: ")) << bad;
    EXPECT_EQ(outcome.whole_size, 14u);
    EXPECT_EQ(outcome.commands.size(), 1u);
  }
}

TEST(LogReaderTest, AnnouncedSizesThatTheFileHasNotAreACut) {
  for (const std::string text :
       {"*1000000000000\r\n$1\r\nx\r\n", "*1\r\n$100000000000000\r\nx\r\n"}) {
    const Outcome outcome = Read(kPing + text);
    EXPECT_EQ(outcome.last, Item::kTorn);
    EXPECT_EQ(outcome.whole_size, kPing.size());
  }
}

TEST(LogReaderTest, AnEpochBehindCommandsWithoutOneIsDamage) {
  const Outcome outcome = Read(kPing + EpochText(1, 0, kPing));
  EXPECT_EQ(outcome.last, Item::kDamaged);
  EXPECT_THAT(outcome.error, HasSubstr("offset 14: there is an epoch behind"));
}

// ------------------------------------------------------------------------------------ files of us

TEST(LogReaderTest, EpochsAreReadBack) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const Ours ours = RandomOurs(&random, 1 + random.Uniform(10));
    for (const std::string& end : {std::string(), Filler(3), Filler(64), Filler(5000)}) {
      const Outcome outcome = Read(ours.text + end);
      EXPECT_EQ(outcome.last, Item::kEnd) << outcome.error;
      EXPECT_EQ(outcome.commands, ours.Commands(ours.epochs.size()));
      EXPECT_EQ(outcome.epochs.size(), ours.epochs.size());
      EXPECT_EQ(outcome.whole_size, ours.ends.back());
      EXPECT_TRUE(outcome.has_epochs);
      EXPECT_FALSE(outcome.is_mixed);
    }
  }
}

TEST(LogReaderTest, AFileOfOursThatIsCutEndsBehindTheLastWholeEpoch) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 10; ++round) {
    const Ours ours = RandomOurs(&random, 4);
    for (size_t cut = 0; cut < ours.text.size(); ++cut) {
      const auto whole = static_cast<size_t>(
          std::upper_bound(ours.ends.begin(), ours.ends.end(), cut) - ours.ends.begin());
      const size_t end = whole == 0 ? 0 : ours.ends[whole - 1];
      const Outcome outcome = Read(ours.text.substr(0, cut));
      EXPECT_EQ(outcome.commands, ours.Commands(whole)) << cut;
      EXPECT_EQ(outcome.whole_size, end) << cut;
      EXPECT_NE(outcome.last, Item::kDamaged) << cut << outcome.error;
      if (cut == end) {
        EXPECT_EQ(outcome.last, Item::kEnd) << cut;
      }
    }
  }
}

TEST(LogReaderTest, ABitThatFlipsIsFound) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 8; ++round) {
    const Ours ours = RandomOurs(&random, 4);
    const std::vector<Words> all = ours.Commands(4);
    for (size_t i = 0; i < ours.text.size(); ++i) {
      std::string text = ours.text;
      text[i] = static_cast<char>(text[i] ^ (1 << random.Uniform(8)));
      const Outcome outcome = Read(text);
      ASSERT_LE(outcome.commands.size(), all.size());
      EXPECT_TRUE(std::equal(outcome.commands.begin(), outcome.commands.end(), all.begin())) << i;
      const auto epoch = static_cast<size_t>(
          std::upper_bound(ours.ends.begin(), ours.ends.end(), i) - ours.ends.begin());
      // A line that is none of an epoch's may look otherwise.
      if (outcome.last == Item::kEnd) {
        EXPECT_EQ(outcome.commands, all) << i;
        continue;
      }
      if (epoch < 3 && ours.ends[3] - ours.ends[2] > 0) {
        EXPECT_EQ(outcome.last, Item::kDamaged) << i << " " << outcome.error;
      }
    }
  }
}

TEST(LogReaderTest, ABadEpochIsTornOnlyIfNoGoodOneIsBehindIt) {
  const std::string first = EpochText(1, 0, kSet);
  std::string bad = EpochText(2, kSet.size(), kSet + kSet);
  bad.back() ^= 1;
  const std::string third = EpochText(3, 3 * kSet.size(), kPing);
  const auto check = [&](const std::string& end, Item last) {
    const Outcome outcome = Read(first + bad + end);
    EXPECT_EQ(outcome.last, last) << end;
    EXPECT_EQ(outcome.whole_size, first.size());
    EXPECT_THAT(outcome.commands, ElementsAre(Words{"SET", "key", "value"}));
    EXPECT_EQ(outcome.error,
              fmt::format("offset {}: the checksum of epoch 2 is wrong", first.size()));
  };
  check("", Item::kTorn);
  check(Filler(1000), Item::kTorn);
  check(std::string(1000, '\0'), Item::kTorn);
  check("garbage", Item::kTorn);
  check(third, Item::kDamaged);
  check(Filler(1000) + third, Item::kDamaged);
  check(std::string(5000, '\0') + "\n" + third + "garbage", Item::kDamaged);
  std::string also_bad = third;
  also_bad.back() ^= 1;
  check(also_bad, Item::kTorn);
  // This one was not known to be synced.
  check(EpochText(3, 3 * kSet.size(), kPing, 2 * kSet.size()), Item::kTorn);
  check(EpochText(3, 3 * kSet.size(), kPing, 2 * kSet.size()) +
            EpochText(4, 3 * kSet.size() + kPing.size(), kPing, kPing.size()),
        Item::kDamaged);
  // Those of another file cannot follow here.
  check(EpochText(1, 3 * kSet.size(), kPing), Item::kTorn);
  check(EpochText(3, 0, kPing), Item::kTorn);
  check(EpochText(3, 1 << 20, kPing), Item::kTorn);
}

TEST(LogReaderTest, WhatASystemLeavesBehindACrashIsTorn) {
  const std::string first = EpochText(1, 0, kSet);
  const std::string second = EpochText(2, kSet.size(), kSet);
  for (const std::string& end :
       {std::string(1000, '\0'), Filler(64) + std::string(1000, '\0'), std::string("\r\n"),
        Filler(640) + kSet.substr(0, 5) + Filler(640), Filler(640) + kSet + Filler(640),
        Filler(640) + second.substr(20) + Filler(64), second.substr(0, 10), std::string("#"),
        second.substr(0, second.size() - 1), second.substr(0, 30) + std::string(500, '\0')}) {
    const Outcome outcome = Read(first + end);
    EXPECT_EQ(outcome.last, Item::kTorn) << end;
    EXPECT_EQ(outcome.whole_size, first.size()) << end;
    EXPECT_THAT(outcome.commands, ElementsAre(Words{"SET", "key", "value"})) << end;
    Outcome alone = Read(Filler(64) + end);
    EXPECT_EQ(alone.last, Item::kTorn) << end;
    EXPECT_EQ(alone.whole_size, 0u);
    EXPECT_THAT(alone.commands, IsEmpty());
    alone = Read(std::string(kFileMark) + end);
    EXPECT_EQ(alone.last, Item::kTorn) << end;
    EXPECT_EQ(alone.whole_size, kFileMark.size());
  }
  EXPECT_EQ(Read(std::string(100'000, '\0')).last, Item::kTorn);
  EXPECT_EQ(Read(std::string(100'000, '\0') + "x").last, Item::kDamaged);
}

TEST(LogReaderTest, AnEpochThatIsWholeAndMakesNoSenseIsDamage) {
  const auto check = [](const std::string& text, const std::string& error) {
    const Outcome outcome = Read(text);
    EXPECT_EQ(outcome.last, Item::kDamaged);
    EXPECT_THAT(outcome.error, HasSubstr(error));
  };
  check(EpochText(7, 0, "PING"), "epoch 7 is whole, and is no commands");
  check(EpochText(7, 0, kPing.substr(0, 10)) + kPing, "epoch 7 is whole, and is no commands");
  check(EpochText(7, 0, "#TS:1\r\n" + kPing), "epoch 7 is whole, and is no commands");
  check(EpochText(7, 0, kMulti + kPing), "epoch 7 ends in a MULTI");
  check(EpochText(7, 0, kPing) + EpochText(7, kPing.size(), kPing),
        "epoch 7 begins at 14 of the stream, but epoch 7 ends at 14");
  check(EpochText(7, 0, kPing) + EpochText(8, 99, kPing),
        "epoch 8 begins at 99 of the stream, but epoch 7 ends at 14");
}

TEST(LogReaderTest, RedisMayHaveAppended) {
  const std::string ours = EpochText(1, 0, kSet) + "#TS:1\r\n" + EpochText(2, kSet.size(), kPing);
  const std::string theirs = "#TS:2\r\n" + kSelect + kMulti + kSet + kExec;
  const std::string blocks = ours + Filler(8192 - ours.size());
  for (const std::string& text : {ours + theirs, blocks + theirs}) {
    Outcome outcome = Read(text);
    EXPECT_EQ(outcome.last, Item::kEnd) << outcome.error;
    EXPECT_EQ(outcome.commands.size(), 6u);
    EXPECT_TRUE(outcome.is_mixed);
    EXPECT_EQ(outcome.whole_size, text.size());

    outcome = Read(text.substr(0, text.size() - 1));
    EXPECT_EQ(outcome.last, Item::kTorn);
    EXPECT_TRUE(outcome.is_mixed);
    EXPECT_EQ(outcome.whole_size, text.size() - (kMulti + kSet + kExec).size());

    outcome = Read(text + EpochText(3, kSet.size() + kPing.size(), kSet));
    EXPECT_EQ(outcome.last, Item::kDamaged);
    EXPECT_EQ(outcome.commands.size(), 2u) << "nothing of what is of no epoch";
  }
  EXPECT_EQ(Read(ours + theirs + "garbage").last, Item::kDamaged);
  EXPECT_EQ(Read(ours + theirs + std::string(100, '\0')).last, Item::kDamaged);
}

TEST(LogReaderTest, BehindFillerAPartOfRedisBeginsWithSelectAtTheEndOfABlock) {
  const std::string ours = EpochText(1, 0, kSet);
  const auto check = [&](size_t begin, const std::string& end, Item last, size_t commands) {
    const Outcome outcome = Read(ours + Filler(begin - ours.size()) + end);
    EXPECT_EQ(outcome.last, last) << begin << " " << end;
    EXPECT_EQ(outcome.commands.size(), commands) << begin << " " << end;
    EXPECT_EQ(outcome.is_mixed, commands > 1);
    if (commands == 1) {
      EXPECT_EQ(outcome.whole_size, ours.size());
    }
  };
  check(4096, kSelect + kSet, Item::kEnd, 3);
  check(8192, "#TS:5\r\n" + kSelect + kMulti + kSet + kExec, Item::kEnd, 5);
  check(4096, kMulti + kSelect + kSet + kExec, Item::kEnd, 5);  // Valkey
  check(4096, kSelect + kSet + kSet.substr(0, 9), Item::kTorn, 3);
  // The end of an epoch that has lost its beginning.
  check(4608, kSelect + kSet, Item::kTorn, 1);
  check(4096, kSet + kSelect, Item::kTorn, 1);
  check(4096, kMulti + kSet + kExec, Item::kTorn, 1);
  check(4096, kSelect.substr(0, 9), Item::kTorn, 1);
  check(4096, kSelect + kSet + Filler(64), Item::kTorn, 1);
  check(4096, kSelect + std::string(100, '\0'), Item::kTorn, 1);
  check(4096, "#" + kSelect + kSet, Item::kTorn, 1);
  // Before that there was a later one: it says that what is lost was there.
  check(4096, kSelect + kSet + EpochText(3, 2 * kSet.size(), kSet), Item::kDamaged, 1);
}

TEST(LogReaderTest, AnEpochThatHasLostTheSectorOfItsLineIsTorn) {
  const std::string first = EpochText(1, 0, kSet);
  const std::string second = EpochText(2, kSet.size(), kSet + kPing, kSet.size());
  const std::string third =
      EpochText(3, 2 * kSet.size() + kPing.size(), kPing, 2 * kSet.size() + kPing.size());
  for (const std::string& start : {std::string(kFileMark), std::string(kFileMark) + first}) {
    const uint64_t before = start.size() == kFileMark.size() ? 0 : kSet.size();
    for (const std::string line : {"#TS:1700000000\r\n", ""}) {
      const std::string text = line + (before == 0 ? first : second);
      for (size_t kept = 0; kept < text.size(); ++kept) {
        const size_t lost = std::min(text.size() - kept, size_t{40});
        const std::string left = start + text.substr(0, kept) + std::string(lost, '\0') +
                                 text.substr(std::min(text.size(), kept + lost));
        for (const std::string& end : {std::string(), kSet + kSelect, third, Filler(64) + kSet}) {
          const Outcome outcome = Read(left + end);
          EXPECT_EQ(outcome.last, Item::kTorn) << left << end;
          EXPECT_EQ(outcome.whole_size, start.size()) << left << end;
          EXPECT_EQ(outcome.commands.size(), before > 0 ? 1u : 0u) << left << end;
        }
      }
    }
  }
}

TEST(LogReaderTest, ALostTimestampIsTornWithItsEpoch) {
  const std::string first = EpochText(1, 0, kSet);
  // All before it was synced, but for this line.
  const std::string second = EpochText(2, kSet.size(), kSet);
  for (const std::string& line : {std::string(16, '\0'), "#TS:" + std::string(12, '\0')}) {
    const Outcome outcome = Read(first + line + second);
    EXPECT_EQ(outcome.last, Item::kTorn);
    EXPECT_EQ(outcome.whole_size, first.size());
    EXPECT_EQ(Read(first + line + second + EpochText(3, 2 * kSet.size(), kSet)).last,
              Item::kDamaged);
  }
  EXPECT_EQ(Read(first + std::string(100, '\0') + second).last, Item::kDamaged);
}

// ------------------------------------------------------------------------------------------ sizes

TEST(LogReaderTest, LargeCommandsAndEpochsAreReadBack) {
  Words many(300'000, "a");
  const std::vector<Words> commands = {{"SET", "k", std::string(3 << 20, 'v')},
                                       many,
                                       {"PING"},
                                       {"SET", "k", std::string(2000, 'v')}};
  Ours ours;
  ours.Add({{"PING"}});
  ours.Add(commands);
  ours.Add(commands);
  EXPECT_EQ(Read(ours.text).commands, ours.Commands(3));
  std::string content;
  for (const Words& command : commands) content += CommandText(command);
  EXPECT_EQ(Read(content).commands, commands);
  EXPECT_EQ(Read(content.substr(0, 3 << 20)).last, Item::kTorn);
}

// A disk that cannot read beyond some place.
class BadInput final : public InputFile {
 public:
  BadInput(std::string content, uint64_t good) : content_(std::move(content)), good_(good) {}
  uint64_t size() const override { return content_.size(); }
  std::error_code ReadAt(uint64_t offset, char* out, size_t size, size_t* read) override {
    *read = 0;
    if (offset + size > good_) return std::make_error_code(std::errc::io_error);
    *read = content_.copy(out, size, offset);
    return {};
  }

 private:
  const std::string content_;
  const uint64_t good_;
};

TEST(LogReaderTest, WhatCannotBeReadIsNeverTorn) {
  helio::Random random(helio::TestSeed());
  const Ours ours = RandomOurs(&random, 30);
  for (const bool is_torn : {false, true}) {
    std::string text = ours.text + EpochText(100, ours.stream, std::string(5000, 'x'));
    if (is_torn) text += "#EPOCH:";
    for (uint64_t good = 0; good < text.size(); good += 97) {
      const Outcome outcome = ReadFrom(std::make_unique<BadInput>(text, good), kAnnotationMax);
      EXPECT_EQ(outcome.last, Item::kDamaged);
      EXPECT_THAT(outcome.error, HasSubstr("Input/output error"));
    }
  }
}

// ---------------------------------------------------------------------------------------- crashes

TEST(LogReaderTest, AfterACrashAllSyncedEpochsAreThereAndOthersWholeOrNot) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    MemoryFiles files;
    std::unique_ptr<AppendFile> file;
    const size_t reserve = random.OneIn(2) ? 16384 : 0;
    files.files["f"] = kFileMark;
    ASSERT_FALSE(files.OpenAppend("f", kFileMark.size(), reserve, &file));
    ASSERT_FALSE(files.SyncDirectory("."));
    std::string text;
    Ours ours;
    size_t synced = 0;
    uint64_t synced_stream = 0;
    for (uint64_t i = 1 + random.Uniform(12); i > 0; --i) {
      std::vector<Words> commands;
      for (uint64_t units = random.Uniform(40); units > 0; --units) {
        for (Words& command : RandomUnit(&random)) commands.push_back(std::move(command));
      }
      ours.text.clear();
      ours.Add(commands, synced_stream);
      const bool sync = random.OneIn(2);
      const std::string_view piece = ours.text;
      ASSERT_FALSE(file->Append({&piece, 1}, sync));
      if (!sync) continue;
      synced = ours.epochs.size();
      synced_stream = ours.stream;
    }
    const auto left = files.AfterCrash(&random);
    ASSERT_EQ(left.count("f"), 1u);
    const Outcome outcome = Read(left.at("f"));
    EXPECT_GE(outcome.epochs.size(), synced);
    EXPECT_EQ(outcome.commands, ours.Commands(outcome.epochs.size()));
    // Also if a later one is left of several that were not synced.
    EXPECT_NE(outcome.last, Item::kDamaged) << outcome.error;
  }
}

}  // namespace
}  // namespace dfly
