// SPDX-License-Identifier: Apache-2.0
#include "engine/journal/journal.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/journal/journal_testing.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"
#include "helio/fibers/fiber.h"

namespace dfly {
namespace {

using testing::ElementsAre;

// Keeps what it gets; a test can make it wait, and stop.
class MemoryLog final : public DurableLog {
 public:
  bool Write(const Epoch& epoch) override {
    EXPECT_FALSE(is_writing_.exchange(true)) << "two at a time";
    std::string text;
    for (std::string_view piece : epoch.pieces) text += piece;
    EXPECT_EQ(text.size(), epoch.bytes);
    if (pause_) pause_();
    const bool goes_on = writes_left_.fetch_sub(1) > 0;
    if (goes_on) {
      EXPECT_EQ(epoch.number, last_ + 1);
      last_ = epoch.number;
      const std::lock_guard guard(mutex_);
      for (std::string& command : CommandsOf(text)) commands_.push_back(std::move(command));
    }
    is_writing_ = false;
    return goes_on;
  }

  std::vector<std::string> Commands() {
    const std::lock_guard guard(mutex_);
    return commands_;
  }
  void set_last(uint64_t last) { last_ = last; }
  void set_pause(std::function<void()> pause) { pause_ = std::move(pause); }
  void set_writes_left(int64_t count) { writes_left_ = count; }

 private:
  std::atomic<bool> is_writing_{false};
  std::atomic<int64_t> writes_left_{INT64_MAX / 2};
  std::function<void()> pause_;
  std::mutex mutex_;
  std::vector<std::string> commands_;
  uint64_t last_ = 0;
};

struct Setting {
  uint32_t threads;
  bool force_epoll;
  Journal::Pace pace;
};

class JournalTest : public testing::TestWithParam<Setting> {
 protected:
  JournalTest() { pool_.Start(); }
  ~JournalTest() override {
    journal_.reset();
    pool_.Stop();
  }
  void Start(uint64_t first_epoch = 1) {
    log_.set_last(first_epoch - 1);
    journal_ = std::make_unique<Journal>(
        &pool_, &log_,
        Journal::Options{
            .pace = GetParam().pace, .first_epoch = first_epoch, .on_bytes = on_bytes_});
  }
  uint64_t AppendHere(const std::string& command) {
    return journal_->OnUnit(EffectsOf({{0, command}}), UnitOrigin::kShard);
  }
  uint64_t Append(uint32_t thread, const std::string& command) {
    return pool_.at(thread)->Await([&] { return AppendHere(command); });
  }
  uint32_t last_thread() const { return pool_.size() - 1; }

  helio::ProactorPool pool_{{.threads = GetParam().threads, .force_epoll = GetParam().force_epoll}};
  MemoryLog log_;
  std::function<void()> on_bytes_;
  std::unique_ptr<Journal> journal_;
};

TEST_P(JournalTest, FlushReturnsWhenAllIsWritten) {
  Start(5);
  EXPECT_EQ(journal_->newest(), 4u);
  EXPECT_EQ(journal_->durable(), 4u);
  EXPECT_TRUE(journal_->Flush());
  EXPECT_EQ(Append(last_thread(), "SET a 1"), 5u);
  EXPECT_TRUE(journal_->Flush());
  EXPECT_EQ(journal_->durable(), 5u);
  EXPECT_THAT(log_.Commands(), ElementsAre("SET a 1"));
  EXPECT_EQ(journal_->waiting_bytes(), 0u);
  EXPECT_GT(Append(0, "SET b 1"), 5u);
  EXPECT_TRUE(journal_->Flush());
  EXPECT_THAT(log_.Commands(), ElementsAre("SET a 1", "SET b 1"));
}

TEST_P(JournalTest, RepliesTellOfNothingBehindTheirLimit) {
  Start();
  const uint32_t thread = last_thread();
  std::atomic<uint64_t> told{0};
  pool_.at(thread)->Await([&] {
    journal_->SetListener(thread, [&](uint64_t released) {
      told = released;
      return true;
    });
  });
  const auto append = [&](const std::string& command) {
    const uint64_t epoch = Append(thread, command);
    EXPECT_TRUE(journal_->Flush());
    return epoch;
  };
  const auto set_limit = [&](uint64_t limit) {
    pool_.at(0)->Await([&] { journal_->SetReplyLimit(limit); });
  };
  const auto raise_limit = [&](uint64_t limit) {
    pool_.at(0)->Await([&] { journal_->RaiseReplyLimit(limit); });
  };
  const uint64_t first = append("SET a 1");
  EXPECT_EQ(journal_->released(), first);
  set_limit(first);
  const uint64_t second = append("SET a 2");
  const uint64_t third = append("SET a 3");
  EXPECT_EQ(journal_->durable(), third);
  EXPECT_EQ(journal_->released(), first);
  EXPECT_EQ(pool_.at(thread)->Await([&] { return journal_->Watch(second); }), first);
  raise_limit(0);  // only a higher one
  EXPECT_EQ(journal_->released(), first);
  EXPECT_LE(told, first);
  raise_limit(second);
  while (told != second) std::this_thread::yield();
  EXPECT_EQ(journal_->released(), second);
  raise_limit(UINT64_MAX);
  while (told != third) std::this_thread::yield();
  set_limit(first);
  EXPECT_EQ(journal_->released(), first);
  journal_.reset();  // before what the listener refers to
}

TEST_P(JournalTest, TellsOfBytesThatWait) {
  std::atomic<uint64_t> most{0}, last{0};
  std::atomic<bool> sticks{true};
  on_bytes_ = [&] {
    const uint64_t bytes = journal_->waiting_bytes();
    last = bytes;
    if (bytes > most) most = bytes;
  };
  log_.set_pause([&sticks] {
    while (sticks) helio::this_fiber::SleepForMillis(1);
  });
  Start();
  // Nothing is written, and each thread tells of what it has, but for less than a step.
  constexpr uint64_t kTotal = 10 * Journal::kGrowthBytes;
  const std::string command = "SET k " + std::string(1000, 'x');
  for (uint64_t i = 0; i * 1000 < kTotal; ++i) {
    Append(static_cast<uint32_t>(i % pool_.size()), command);
  }
  EXPECT_GT(journal_->waiting_bytes(), kTotal);
  EXPECT_GT(most + pool_.size() * (Journal::kGrowthBytes + 2000), kTotal);
  sticks = false;
  EXPECT_TRUE(journal_->Flush());
  EXPECT_EQ(last, 0u);
  journal_.reset();  // it calls back
}

TEST_P(JournalTest, WritesByItself) {
  Start();
  const uint64_t epoch = Append(0, "SET a 1");
  pool_.at(0)->AwaitFiber("waits", [&] {
    while (journal_->durable() < epoch) helio::this_fiber::SleepForMillis(1);
  });
  EXPECT_THAT(log_.Commands(), ElementsAre("SET a 1"));
}

TEST_P(JournalTest, TheEndWritesWhatIsLeft) {
  Start();
  for (uint32_t thread = 0; thread < pool_.size(); ++thread) {
    pool_.at(thread)->Await([&] {
      for (int i = 0; i < 100; ++i) AppendHere("SET a 1");
    });
  }
  journal_.reset();
  EXPECT_EQ(log_.Commands().size(), 100u * pool_.size());
}

TEST_P(JournalTest, ALogThatStopsEndsTheWaiting) {
  Start();
  log_.set_writes_left(1);
  Append(0, "SET a 1");
  EXPECT_TRUE(journal_->Flush());
  Append(last_thread(), "SET b 1");
  EXPECT_FALSE(journal_->Flush());
  EXPECT_TRUE(journal_->has_failed());
  Append(0, "SET c 1");
  EXPECT_FALSE(journal_->Flush());
  EXPECT_THAT(log_.Commands(), ElementsAre("SET a 1"));
}

TEST_P(JournalTest, WhatComesDuringAWriteIsWrittenWithoutAnotherOne) {
  Start();
  helio::BlockingCounter begun(1);
  helio::BlockingCounter may_end(1);
  bool is_first = true;
  log_.set_pause([&] {
    if (!std::exchange(is_first, false)) return;
    begun.Done();
    may_end.Wait();
  });
  Append(0, "SET a 1");
  begun.Wait();
  for (uint32_t thread = 0; thread < pool_.size(); ++thread) Append(thread, "SET b 1");
  // Their threads have looked for a leader by now: their iterations are over.
  for (uint32_t thread = 0; thread < pool_.size(); ++thread) {
    pool_.at(thread)->AwaitFiber("next", [] { helio::this_fiber::SleepForMillis(1); });
  }
  may_end.Done();
  pool_.at(0)->AwaitFiber("waits", [&] {
    while (log_.Commands().size() < 1 + pool_.size()) helio::this_fiber::SleepForMillis(1);
  });
}

// Each thread appends all the time, and listens for what it has appended; a few fibers flush. None
// waits for ever, and nothing is told before it is written.
TEST_P(JournalTest, EveryListenerHearsOfItsEpochs) {
  Start();
  constexpr int kUnits = 300;
  struct Thread {
    helio::Random random{1};
    uint64_t awaited = 0;  // the newest epoch that it waits for
    uint64_t told = 0;
    helio::EventCount told_event;
  };
  std::vector<Thread> threads(pool_.size());
  for (uint32_t index = 0; index < pool_.size(); ++index) {
    Thread& thread = threads[index];
    thread.random = helio::Random(helio::TestSeed() + index);
    pool_.at(index)->Await([&] {
      journal_->SetListener(index, [this, &thread](uint64_t durable) {
        EXPECT_LE(durable, journal_->durable());
        EXPECT_GE(durable, thread.told);
        thread.told = durable;
        thread.told_event.Notify();
        return durable < thread.awaited;
      });
    });
  }
  if (helio::TestSeed() % 2 == 0) log_.set_pause([] { helio::this_fiber::Yield(); });
  helio::BlockingCounter done(pool_.size());
  for (uint32_t index = 0; index < pool_.size(); ++index) {
    pool_.at(index)->DispatchFiber("appends", [&, index] {
      Thread& thread = threads[index];
      for (int i = 0; i < kUnits; ++i) {
        const uint64_t epoch = AppendHere(absl::StrCat("SET ", index, " ", i));
        if (thread.random.OneIn(3)) {
          thread.awaited = epoch;
          if (journal_->Watch(epoch) < epoch) {
            thread.told_event.Await([&] { return thread.told >= epoch; });
          }
          EXPECT_GE(journal_->durable(), epoch);
        } else if (thread.random.OneIn(40)) {
          EXPECT_TRUE(journal_->Flush());
          EXPECT_GE(journal_->durable(), epoch);
        } else if (thread.random.OneIn(2)) {
          helio::this_fiber::Yield();
        }
      }
      done.Done();
    });
  }
  done.Wait();
  EXPECT_TRUE(journal_->Flush());
  std::map<std::string, int> next;
  for (const std::string& command : log_.Commands()) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    EXPECT_EQ(std::stoi(words[2]), next[words[1]]++);
  }
  for (const auto& [index, count] : next) EXPECT_EQ(count, kUnits) << index;
  EXPECT_EQ(next.size(), pool_.size());
}

// Of the pace that has a period.
class JournalPeriodTest : public JournalTest {};

TEST_P(JournalPeriodTest, MuchDataDoesNotWaitForThePeriod) {
  journal_ = std::make_unique<Journal>(
      &pool_, &log_,
      Journal::Options{.pace = Journal::Pace::kTimed,
                       .period_ns = 3'600'000'000'000,  // no test waits for an hour
                       .period_bytes_max = 100'000});
  const std::string large(60'000, 'x');
  const uint64_t epoch = Append(last_thread(), "SET a " + large);
  EXPECT_EQ(Append(last_thread(), "SET b " + large), epoch);
  pool_.at(0)->AwaitFiber("waits", [&] {
    while (journal_->durable() < epoch) helio::this_fiber::SleepForMillis(1);
  });
  // Flush does not either.
  Append(0, "SET c 1");
  EXPECT_TRUE(journal_->Flush());
  Append(0, "SET d 1");
  journal_.reset();
  EXPECT_EQ(log_.Commands().size(), 4u);
}

std::string NameOf(const testing::TestParamInfo<Setting>& info) {
  return absl::StrCat("threads", info.param.threads, info.param.force_epoll ? "_epoll" : "_uring",
                      info.param.pace == Journal::Pace::kEach ? "_each" : "_timed");
}
INSTANTIATE_TEST_SUITE_P(Paces, JournalTest,
                         testing::Values(Setting{1, false, Journal::Pace::kEach},
                                         Setting{3, false, Journal::Pace::kEach},
                                         Setting{3, true, Journal::Pace::kEach},
                                         Setting{1, false, Journal::Pace::kTimed},
                                         Setting{3, false, Journal::Pace::kTimed},
                                         Setting{3, true, Journal::Pace::kTimed}),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Paces, JournalPeriodTest,
                         testing::Values(Setting{1, false, Journal::Pace::kTimed},
                                         Setting{3, false, Journal::Pace::kTimed},
                                         Setting{3, true, Journal::Pace::kTimed}),
                         NameOf);

}  // namespace
}  // namespace dfly
