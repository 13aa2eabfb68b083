// SPDX-License-Identifier: Apache-2.0
#include "engine/journal/sections.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/journal/journal_testing.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using testing::ElementsAre;

class SectionsTest : public testing::Test {
 protected:
  uint64_t Append(uint32_t thread, std::vector<std::pair<int, std::string>> commands,
                  UnitOrigin origin = UnitOrigin::kShard) {
    return sections_.Append(thread, EffectsOf(commands), origin);
  }
  // The commands of the epoch that is open.
  std::vector<std::string> Close() {
    sections_.Close(&closed_);
    std::string text;
    for (std::string_view piece : closed_.pieces) text += piece;
    EXPECT_EQ(text.size(), closed_.epoch.bytes);
    sections_.Release(closed_);
    return CommandsOf(text);
  }

  Sections sections_{3, 7};
  ClosedEpoch closed_;
};

TEST_F(SectionsTest, EpochsHaveWhatWasAppended) {
  EXPECT_EQ(sections_.newest(), 0u);
  EXPECT_FALSE(sections_.has_open());
  EXPECT_EQ(Append(0, {{0, "SET a 1"}}), 7u);
  EXPECT_EQ(Append(0, {{0, "SET b 1"}}), 7u);
  EXPECT_EQ(sections_.newest(), 7u);
  EXPECT_TRUE(sections_.has_open());
  EXPECT_THAT(Close(), ElementsAre("SET a 1", "SET b 1"));
  EXPECT_EQ(closed_.epoch.number, 7u);
  EXPECT_EQ(closed_.units, 2u);
  EXPECT_EQ(closed_.pieces.size(), 1u) << "what lies together is one piece";
  EXPECT_FALSE(sections_.has_open());
  EXPECT_EQ(sections_.newest(), 7u);
  EXPECT_EQ(Append(2, {{0, "DEL a"}}), 8u);
  EXPECT_THAT(Close(), ElementsAre("DEL a"));
  EXPECT_THAT(Close(), ElementsAre());
  EXPECT_EQ(closed_.epoch.number, 9u);
}

TEST_F(SectionsTest, SeveralCommandsStandInMulti) {
  Append(1, {{0, "SREM k a"}, {0, "SREM k b"}});
  EXPECT_THAT(Close(), ElementsAre("MULTI", "SREM k a", "SREM k b", "EXEC"));
}

TEST_F(SectionsTest, OneCommandNeedsNoEffects) {
  const std::string large(3 * Section::kBlockBytes, 'x');
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(sections_.Append(0, 0, Words{"SET", "a", "1"}), 7u);
  EXPECT_EQ(sections_.Append(0, 2, Words{"SET", "b", large}), 7u);
  EXPECT_EQ(sections_.Append(0, 2, Words{"DEL", "b"}), 7u);
  Append(0, {{2, "DEL c"}});
  EXPECT_THAT(Close(), ElementsAre("SET a 1", "SELECT 2", "SET b " + large, "DEL b", "DEL c"));
  EXPECT_EQ(closed_.units, 4u);
}

TEST(PrivateWordsTest, AlsoOfOneCommand) {
  Sections sections(1, 1, [](std::string_view name) { return name == "STICK"; });
  sections.Append(0, 0, std::vector<std::string_view>{"STICK", "a"});
  ClosedEpoch closed;
  sections.Close(&closed);
  EXPECT_THAT(closed.pieces, ElementsAre("*2\r\n$4\r\nECHO\r\n$34\r\ndragonfly:1:"
                                         "*2\r\n$5\r\nSTICK\r\n$1\r\na\r\n\r\n"));
  sections.Release(closed);
}

TEST(PrivateWordsTest, StandBehindEcho) {
  Sections sections(1, 1, [](std::string_view name) { return name == "STICK"; });
  sections.Append(0, EffectsOf({{0, "SET a 1"}, {0, "STICK a"}, {0, "STICKY a"}}),
                  UnitOrigin::kShard);
  ClosedEpoch closed;
  sections.Close(&closed);
  std::string text;
  for (std::string_view piece : closed.pieces) text += piece;
  EXPECT_EQ(text,
            "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
            "*2\r\n$4\r\nECHO\r\n$34\r\ndragonfly:1:*2\r\n$5\r\nSTICK\r\n$1\r\na\r\n\r\n"
            "*2\r\n$6\r\nSTICKY\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n");
  sections.Release(closed);
}

TEST_F(SectionsTest, SelectStandsWhereTheDatabaseChanges) {
  Append(1, {{3, "SET a 1"}});
  Append(1, {{3, "SET b 1"}});
  Append(1, {{0, "SET c 1"}, {12, "SET d 1"}, {12, "SET e 1"}});
  Append(1, {{3, "SET f 1"}});
  EXPECT_THAT(Close(),
              ElementsAre("SET a 1", "SET b 1", "SELECT 0", "MULTI", "SET c 1", "SELECT 12",
                          "SET d 1", "SET e 1", "EXEC", "SELECT 3", "SET f 1"));
  EXPECT_EQ(closed_.epoch.first_db, 3);
  EXPECT_EQ(closed_.epoch.last_db, 3);
}

TEST_F(SectionsTest, UnitsOfCoordinatorsStandBetweenThoseThatSawThem) {
  Append(0, {{0, "SET a 1"}});
  Append(2, {{0, "SET b 1"}});
  Append(1, {{0, "MSET a 2 b 2"}}, UnitOrigin::kCoordinator);
  Append(2, {{0, "SET b 3"}});
  Append(0, {{0, "RENAME b a"}}, UnitOrigin::kCoordinator);
  Append(0, {{0, "SET a 4"}});
  Append(1, {{0, "SET c 1"}});
  EXPECT_THAT(Close(), ElementsAre("SET a 1", "SET b 1", "MSET a 2 b 2", "SET b 3", "RENAME b a",
                                   "SET a 4", "SET c 1"));
}

TEST_F(SectionsTest, LargeUnitsAreFreedWhenTheyAreReleased) {
  const std::string large(3 * Section::kBlockBytes, 'x');
  Append(0, {{0, "SET a 1"}});
  Append(0, {{0, "SET b " + large}});
  Append(0, {{0, "SET c 1"}});
  EXPECT_GT(sections_.waiting_bytes(), large.size());
  EXPECT_THAT(Close(), ElementsAre("SET a 1", "SET b " + large, "SET c 1"));
  EXPECT_EQ(sections_.waiting_bytes(), 0u);
}

// Threads count up counters of their own and, as coordinators do, counters that all share under a
// lock. Another one closes epochs all the while. In what comes out each counter counts.
TEST(SectionsOfThreadsTest, EachEpochIsAConsistentCut) {
  constexpr uint32_t kThreads = 4;
  constexpr int kUnits = 4000;
  constexpr int kShared = 3;
  Sections sections(kThreads, 1);
  struct Shared {
    std::mutex lock;
    int value = 0;
  } shared[kShared];
  std::atomic<uint32_t> running{kThreads};
  std::vector<std::thread> threads;
  const uint64_t seed = helio::TestSeed();
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      helio::Random random(seed * 31 + thread);
      int own = 0;
      for (int i = 0; i < kUnits; ++i) {
        const std::string filling(random.OneIn(100) ? 70'000 : random.Uniform(200), 'x');
        if (!random.OneIn(3)) {
          ++own;
          sections.Append(thread,
                          EffectsOf({{static_cast<int>(thread),
                                      absl::StrCat("own", thread, " ", own, " ", filling)}}),
                          UnitOrigin::kShard);
          continue;
        }
        // Of one counter that several change: by coordinators only.
        const auto index = random.Uniform(kShared);
        const std::lock_guard guard(shared[index].lock);
        ++shared[index].value;
        ++own;
        sections.Append(
            thread,
            EffectsOf({{9, absl::StrCat("shared", index, " ", shared[index].value)},
                       {static_cast<int>(thread), absl::StrCat("own", thread, " ", own)}}),
            UnitOrigin::kCoordinator);
      }
      --running;
    });
  }
  std::map<std::string, int> counters;
  uint64_t last = 0;
  ClosedEpoch closed;
  const auto close = [&] {
    sections.Close(&closed);
    ASSERT_EQ(closed.epoch.number, last + 1);
    last = closed.epoch.number;
    std::string text;
    for (std::string_view piece : closed.pieces) text += piece;
    ASSERT_EQ(text.size(), closed.epoch.bytes);
    sections.Release(closed);
    int db_index = closed.epoch.first_db;
    bool is_in_multi = false;
    for (const std::string& command : CommandsOf(text)) {
      const std::vector<std::string> words = absl::StrSplit(command, ' ');
      if (words[0] == "SELECT") {
        db_index = std::stoi(words[1]);
      } else if (words[0] == "MULTI" || words[0] == "EXEC") {
        ASSERT_EQ(is_in_multi, words[0] == "EXEC");
        is_in_multi = !is_in_multi;
      } else {
        ASSERT_EQ(std::stoi(words[1]), ++counters[words[0]]) << words[0];
        ASSERT_EQ(db_index, words[0].starts_with("own") ? words[0].back() - '0' : 9);
      }
    }
    ASSERT_FALSE(is_in_multi);
    ASSERT_EQ(db_index, closed.epoch.last_db);
  };
  while (running != 0 && !testing::Test::HasFatalFailure()) close();
  for (std::thread& thread : threads) thread.join();
  close();
  EXPECT_FALSE(sections.has_open());
  EXPECT_EQ(sections.waiting_bytes(), 0u);
  int sum = 0;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    sum += counters[absl::StrCat("own", thread)];
  }
  EXPECT_EQ(sum, static_cast<int>(kThreads) * kUnits);
  for (int i = 0; i < kShared; ++i) {
    EXPECT_EQ(counters[absl::StrCat("shared", i)], shared[i].value);
  }
}

}  // namespace
}  // namespace dfly
