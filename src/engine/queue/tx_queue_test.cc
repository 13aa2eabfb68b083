// SPDX-License-Identifier: Apache-2.0
// What scripts add to a queue: entries that hold, and those that overtake. transaction_test has the
// order of the others.
#include "engine/queue/tx_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using helio::Random;
using testing::ElementsAre;
using testing::IsEmpty;

using Events = std::vector<std::string>;

TagLock Write(uint64_t fingerprint) { return {fingerprint, LockMode::kExclusive}; }
TagLock Read(uint64_t fingerprint) { return {fingerprint, LockMode::kShared}; }

// Notes what happens to it.
struct Entry : TxEntry {
  Entry(std::string entry_name, std::vector<TagLock> tag_locks, Events* log)
      : name(std::move(entry_name)), wanted(std::move(tag_locks)), events(*log) {
    SortAndMerge(&wanted);
    tags = wanted;
    run = [](TxEntry* entry) {
      auto* const self = static_cast<Entry*>(entry);
      self->events.push_back(self->name + " runs");
      return --self->hops == 0;
    };
    done = [](TxEntry*) {};
    granted = [](TxEntry* entry) {
      auto* const self = static_cast<Entry*>(entry);
      self->events.push_back(self->name + " granted");
    };
    revoked = [](TxEntry* entry) {
      auto* const self = static_cast<Entry*>(entry);
      self->events.push_back(self->name + " asked");
      return self->agrees;
    };
  }

  const std::string name;
  std::vector<TagLock> wanted;
  Events& events;
  bool agrees = true;  // to be revoked
  int hops = 1;
};

class TxQueueTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(queue_.empty());
    EXPECT_EQ(queue_.length(), 0u);
    EXPECT_EQ(queue_.locks().tags(), 0u);
  }

  Entry* Make(std::string name, std::vector<TagLock> wanted, const void* owner = nullptr) {
    entries_.emplace_back(std::move(name), std::move(wanted), &events_);
    entries_.back().owner = owner;
    return &entries_.back();
  }
  Entry* MakeOfShard(std::string name, LockMode mode, const void* owner = nullptr) {
    Entry* const entry = Make(std::move(name), {}, owner);
    entry->locks_shard = true;
    entry->shard_mode = mode;
    return entry;
  }
  // It holds from now on.
  Entry* Holder(std::string name, std::vector<TagLock> wanted, const void* owner = nullptr) {
    Entry* const entry = Make(std::move(name), std::move(wanted), owner);
    queue_.Hold(entry);
    return entry;
  }
  // A command of this shard, whose turn it is or not.
  Entry* Command(std::string name, std::vector<TagLock> wanted) {
    Entry* const entry = Make(std::move(name), std::move(wanted));
    queue_.ScheduleLast(entry);
    queue_.Arm(entry);
    return entry;
  }
  // A transaction over several shards that was announced here.
  Entry* Numbered(std::string name, uint64_t number, std::vector<TagLock> wanted) {
    Entry* const entry = Make(std::move(name), std::move(wanted));
    entry->number = number;
    EXPECT_TRUE(queue_.Schedule(entry)) << entry->name;
    return entry;
  }
  // What happened since the last call.
  Events Happened() { return std::exchange(events_, {}); }

  Events events_;
  std::deque<Entry> entries_;
  TxQueue queue_{[](void* events) { static_cast<Events*>(events)->emplace_back("after run"); },
                 &events_};
};

TEST_F(TxQueueTest, WhatADueKeyIsLockedForWithAnEarlierClockIsSeenByAllUntilItEnds) {
  Entry* const first = Holder("first", {Read(1)});
  first->clock_ms = 100;
  Entry* const second = Holder("second", {Read(1), Read(2)});
  second->clock_ms = 200;
  EXPECT_EQ(queue_.KeepDue(3, 150), 150) << "nobody wants it";
  EXPECT_EQ(queue_.KeepDue(2, 150), 150) << "its clock is later";
  EXPECT_EQ(queue_.KeepDue(1, 100), 100);
  EXPECT_EQ(queue_.length(), 2u);
  EXPECT_FALSE(queue_.Conflicts(Read(1)));
  EXPECT_EQ(queue_.KeepDue(1, 150), 100);
  EXPECT_EQ(queue_.KeepDue(1, 300), 100);
  EXPECT_EQ(queue_.length(), 3u) << "one barrier is enough";
  EXPECT_EQ(queue_.oldest_clock_ms(), 100);

  Command("late", {Read(1)});
  EXPECT_THAT(Happened(), IsEmpty()) << "or the key would be seen for ever";
  queue_.Release(first);
  EXPECT_EQ(queue_.KeepDue(1, 300), 100) << "the second may have seen it, too";
  EXPECT_THAT(Happened(), ElementsAre("after run"));
  queue_.Release(second);
  EXPECT_THAT(Happened(), ElementsAre("after run", "after run", "late runs", "after run"));
  EXPECT_EQ(queue_.KeepDue(1, 300), 300);
}

TEST_F(TxQueueTest, WhoHasTheShardHasItsKeys) {
  Entry* const holder = MakeOfShard("holder", LockMode::kShared);
  holder->clock_ms = 100;
  queue_.Hold(holder);
  EXPECT_EQ(queue_.KeepDue(1, 150), 100);
  EXPECT_TRUE(queue_.Conflicts(Read(1)));
  EXPECT_FALSE(queue_.Conflicts(Read(2)));
  queue_.Release(holder);
}

TEST_F(TxQueueTest, WhoHoldsIsWaitedFor) {
  Entry* const holder = Holder("holder", {Write(1)});
  EXPECT_TRUE(queue_.Conflicts(Read(1)));
  EXPECT_TRUE(queue_.IsInUse(Read(1)));
  EXPECT_FALSE(queue_.Conflicts(Write(2)));
  Command("one", {Read(1)});
  Command("another", {Write(2)});
  EXPECT_THAT(Happened(), ElementsAre("another runs", "after run"));
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run", "one runs", "after run"))
      << "who waits for its changes comes before who waits for its locks";
}

TEST_F(TxQueueTest, WhoWaitsKnowsTheFirstThatExcludesIt) {
  const auto named = [this](const char* name, std::vector<TagLock> wanted,
                            const void* owner = nullptr) {
    Entry* const entry = Make(name, std::move(wanted), owner);
    entry->origin = {.name = name, .client_id = 7};
    return entry;
  };
  const int owner = 0;
  Entry* const reader = named("reader", {Read(1)});
  queue_.Hold(reader);
  Entry* const holder = named("holder", {Write(2)}, &owner);
  queue_.Hold(holder);
  Entry* const both = named("both", {Read(1), Read(2)});
  queue_.ScheduleLast(both);
  EXPECT_STREQ(both->held_by.name, "holder") << "who reads the same is in nobody's way";
  EXPECT_EQ(both->held_by.client_id, 7u);
  Entry* const writer = named("writer", {Write(1), Write(2)});
  queue_.ScheduleLast(writer);
  EXPECT_STREQ(writer->held_by.name, "reader") << "the first, not the last";
  Entry* const own = named("own", {Write(2)}, &owner);
  queue_.ScheduleLast(own);
  EXPECT_STREQ(own->held_by.name, "both");
  Entry* const free = named("free", {Write(3)});
  free->held_by = {.name = "of its last stand"};
  queue_.ScheduleLast(free);
  EXPECT_EQ(free->held_by.name, nullptr);
  Entry* const numbered = named("numbered", {Write(2)});
  numbered->number = 5;
  ASSERT_TRUE(queue_.Schedule(numbered));
  EXPECT_STREQ(numbered->held_by.name, "holder");
  for (Entry* entry : {numbered, free, own, writer, both}) queue_.Cancel(entry);
  queue_.Release(holder);
  queue_.Release(reader);
}

TEST_F(TxQueueTest, HoldersThatReadShare) {
  Entry* const first = Holder("first", {Read(1)});
  Entry* const second = Holder("second", {Read(1), Write(2)});
  Command("reader", {Read(1)});
  EXPECT_THAT(Happened(), ElementsAre("reader runs", "after run"));
  Command("writer", {Write(1)});
  queue_.Release(first);
  EXPECT_THAT(Happened(), ElementsAre("after run"));
  queue_.Release(second);
  EXPECT_THAT(Happened(), ElementsAre("after run", "writer runs", "after run"));
}

TEST_F(TxQueueTest, AHolderStandsBehindAllThatAreHere) {
  Entry* const seven = Numbered("seven", 7, {Write(1)});
  Entry* const holder = Holder("holder", {Write(2)});
  Entry* const five = Make("five", {Write(2)});
  five->number = 5;
  EXPECT_FALSE(queue_.Schedule(five)) << "it would be before what has begun";
  Entry* const six = Numbered("six", 6, {Write(3)});
  EXPECT_TRUE(six->is_granted);
  Entry* const eight = Numbered("eight", 8, {Write(2)});
  EXPECT_FALSE(eight->is_granted);
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run", "eight granted"));
  for (Entry* entry : {seven, six, eight}) queue_.Arm(entry);
}

TEST_F(TxQueueTest, AHolderTakesMoreTagsWhileNobodyWantsThem) {
  Entry* const holder = Holder("holder", {Write(2)});
  holder->wanted = {Read(1), Write(2)};
  EXPECT_TRUE(queue_.HoldAlso(holder, Read(1), holder->wanted));
  EXPECT_EQ(holder->tags.size(), 2u);
  EXPECT_EQ(queue_.length(), 1u);
  EXPECT_TRUE(queue_.Conflicts(Write(1)));
  EXPECT_FALSE(queue_.Conflicts(Read(1)));
  EXPECT_TRUE(queue_.IsInUse(Write(1)));

  // Of somebody else, who has not even been granted it.
  Entry* const waiting = Numbered("waiting", 1, {Write(2), Write(3)});
  const std::vector<TagLock> more = {Read(1), Write(2), Write(3)};
  EXPECT_FALSE(queue_.HoldAlso(holder, Write(3), more));
  EXPECT_EQ(holder->tags.data(), holder->wanted.data());
  EXPECT_EQ(queue_.locks().tags(), 3u);
  EXPECT_EQ(queue_.locks().intents(), 4u);

  Command("writer", {Write(1)});
  EXPECT_THAT(Happened(), IsEmpty());
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run", "waiting granted", "writer runs", "after run"));
  queue_.Arm(waiting);
}

TEST_F(TxQueueTest, ReleaseEndsWhoHasLeftItsIntentsInPlace) {
  Entry* const first = Make("first", {Write(1)});
  first->hops = 2;
  queue_.ScheduleLast(first);
  queue_.Arm(first);
  Command("second", {Write(1)});
  EXPECT_THAT(Happened(), ElementsAre("first runs", "after run"));
  queue_.Release(first);
  EXPECT_THAT(Happened(), ElementsAre("after run", "second runs", "after run"));
}

TEST_F(TxQueueTest, WhoOvertakesIsGrantedAtOnceWhatNobodyHas) {
  Entry* const holder = Holder("holder", {Write(1), Read(2)});
  Entry* const late = Make("late", {Read(2), Write(3)});
  queue_.Overtake(late);
  EXPECT_TRUE(late->is_granted);
  EXPECT_TRUE(queue_.IsInUse(Read(3)));
  Command("next", {Write(3)});
  Entry* const five = Numbered("five", 5, {Read(3), Write(4)});
  EXPECT_FALSE(five->is_granted);
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run")) << "it is told nothing, and hinders the others";
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "next runs", "after run", "five granted"));
  queue_.Arm(five);
}

TEST_F(TxQueueTest, WhoOvertakesWaitsForWhoRunsAndGoesBeforeWhoWaits) {
  Entry* const holder = Holder("holder", {Write(1)});
  Command("command", {Write(1)});
  Entry* const five = Numbered("five", 5, {Write(1)});
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  EXPECT_FALSE(late->is_granted);
  Entry* const four = Numbered("four", 4, {Write(1)});
  EXPECT_FALSE(four->is_granted);
  EXPECT_THAT(Happened(), IsEmpty()) << "nobody is asked who was granted nothing";
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run", "late granted"));
  EXPECT_TRUE(late->is_granted);
  queue_.Release(late);
  // The command has the number that was the last when it came: 0.
  EXPECT_THAT(Happened(), ElementsAre("after run", "command runs", "after run", "four granted"));
  queue_.Arm(four);
  EXPECT_THAT(Happened(), ElementsAre("four runs", "after run", "five granted"));
  queue_.Arm(five);
}

TEST_F(TxQueueTest, WhileWhoOvertakesWaitsTheOthersRun) {
  Entry* const holder = Holder("holder", {Write(1)});
  Entry* const late = Make("late", {Write(1), Write(2)});
  queue_.Overtake(late);
  EXPECT_FALSE(late->is_granted);
  Command("hindered", {Read(2)});
  Entry* const five = Numbered("five", 5, {Write(3)});
  EXPECT_TRUE(five->is_granted);
  Command("free", {Write(4)});
  EXPECT_THAT(Happened(), ElementsAre("free runs", "after run"));
  queue_.Arm(five);
  EXPECT_THAT(Happened(), ElementsAre("five runs", "after run"));
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run", "late granted"));
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "hindered runs", "after run"));
}

TEST_F(TxQueueTest, WhoAgreesIsOvertakenAndGrantedAgain) {
  Entry* const five = Numbered("five", 5, {Write(1)});
  Entry* const six = Numbered("six", 6, {Write(2)});
  Entry* const late = Make("late", {Read(1)});
  ASSERT_TRUE(five->is_granted);
  queue_.Overtake(late);
  EXPECT_THAT(Happened(), ElementsAre("five asked")) << "the other one does not conflict";
  EXPECT_TRUE(late->is_granted);
  EXPECT_FALSE(five->is_granted);
  EXPECT_TRUE(six->is_granted);
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "five granted"));
  EXPECT_TRUE(five->is_granted);
  for (Entry* entry : {five, six}) queue_.Arm(entry);
  EXPECT_THAT(Happened(), ElementsAre("five runs", "after run", "six runs", "after run"));
}

TEST_F(TxQueueTest, WhoWasOvertakenMayCancel) {
  Entry* const five = Numbered("five", 5, {Write(1)});
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  Entry* const six = Numbered("six", 6, {Write(1)});
  queue_.Cancel(five);
  EXPECT_THAT(Happened(), ElementsAre("five asked"));
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "six granted"));
  queue_.Arm(six);
}

TEST_F(TxQueueTest, WhoReadsTheSameIsNotAsked) {
  Entry* const five = Numbered("five", 5, {Read(1)});
  Entry* const late = Make("late", {Read(1)});
  queue_.Overtake(late);
  EXPECT_TRUE(late->is_granted);
  EXPECT_TRUE(five->is_granted);
  EXPECT_THAT(Happened(), IsEmpty());
  queue_.Arm(five);
  queue_.Release(late);
}

TEST_F(TxQueueTest, WhoDoesNotAgreeIsWaitedForWithAllItsHops) {
  Entry* const five = Numbered("five", 5, {Write(1)});
  five->agrees = false;
  five->hops = 2;
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  EXPECT_THAT(Happened(), ElementsAre("five asked"));
  EXPECT_FALSE(late->is_granted);
  EXPECT_TRUE(five->is_granted);
  Entry* const six = Numbered("six", 6, {Write(1)});
  queue_.Arm(five);
  EXPECT_THAT(Happened(), ElementsAre("five runs", "after run"));
  EXPECT_FALSE(late->is_granted);
  queue_.Arm(five);
  EXPECT_THAT(Happened(), ElementsAre("five runs", "after run", "late granted"));
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "six granted"));
  queue_.Arm(six);
}

TEST_F(TxQueueTest, WhoHasRunIsNotAsked) {
  Entry* const five = Numbered("five", 5, {Write(1)});
  five->hops = 2;
  queue_.Arm(five);
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  EXPECT_FALSE(late->is_granted);
  EXPECT_THAT(Happened(), ElementsAre("five runs", "after run"));
  queue_.Arm(five);
  EXPECT_THAT(Happened(), ElementsAre("five runs", "after run", "late granted"));
  queue_.Release(late);
}

TEST_F(TxQueueTest, WhoDoesNotAgreeMayCancel) {
  Entry* const five = Numbered("five", 5, {Write(1)});
  five->agrees = false;
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  queue_.Cancel(five);
  EXPECT_THAT(Happened(), ElementsAre("five asked", "late granted"));
  queue_.Release(late);
}

TEST_F(TxQueueTest, APlaceInAdvanceIsOvertakenUnasked) {
  Entry* const reserved = Make("reserved", {Write(1)});
  queue_.Reserve(reserved);
  ASSERT_TRUE(reserved->is_granted);
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  EXPECT_TRUE(late->is_granted);
  EXPECT_FALSE(reserved->is_granted);
  reserved->number = 9;
  EXPECT_TRUE(queue_.ScheduleReserved(reserved));
  queue_.Settle();
  EXPECT_FALSE(reserved->is_granted);
  EXPECT_THAT(Happened(), IsEmpty());
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "reserved granted"));
  queue_.Arm(reserved);
}

TEST_F(TxQueueTest, ACommandThatIsOvertakenBeforeItRunsWaits) {
  Entry* const command = Make("command", {Write(1)});
  queue_.ScheduleLast(command);
  ASSERT_TRUE(command->is_granted);
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  EXPECT_TRUE(late->is_granted);
  queue_.Arm(command);
  EXPECT_THAT(Happened(), IsEmpty());
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "command runs", "after run"));
}

TEST_F(TxQueueTest, OnesOwnEntriesAreNoObstacle) {
  const int script = 0;
  const int other = 0;
  Entry* const own = Holder("own", {Write(1)}, &script);
  Entry* const first = Make("first", {Write(1)}, &script);
  queue_.Overtake(first);
  EXPECT_TRUE(first->is_granted);
  Entry* const second = Make("second", {Write(1)}, &script);
  queue_.Overtake(second);
  EXPECT_TRUE(second->is_granted);
  Entry* const alien = Make("alien", {Write(1)}, &other);
  queue_.Overtake(alien);
  EXPECT_FALSE(alien->is_granted);
  for (Entry* entry : {own, second}) queue_.Release(entry);
  EXPECT_FALSE(alien->is_granted);
  queue_.Release(first);
  EXPECT_TRUE(alien->is_granted);
  queue_.Release(alien);
}

TEST_F(TxQueueTest, EntriesWithoutAnOwnerAreNotOfTheSame) {
  Entry* const holder = Holder("holder", {Write(1)});
  Entry* const late = Make("late", {Write(1)});
  queue_.Overtake(late);
  EXPECT_FALSE(late->is_granted);
  queue_.Release(holder);
  queue_.Release(late);
}

TEST_F(TxQueueTest, AWholeShardIsOvertakenLikeATag) {
  const int script = 0;
  Entry* const own = Holder("own", {Write(1)}, &script);
  Entry* const holder = Holder("holder", {Read(2)});
  Entry* const five = Numbered("five", 5, {Write(3)});
  Entry* const late = MakeOfShard("late", LockMode::kExclusive, &script);
  queue_.Overtake(late);
  EXPECT_THAT(Happened(), ElementsAre("five asked"));
  EXPECT_FALSE(late->is_granted) << "somebody reads";
  Command("command", {Read(7)});
  queue_.Release(holder);
  EXPECT_THAT(Happened(), ElementsAre("after run", "late granted"));
  EXPECT_TRUE(queue_.Conflicts(Read(8)));
  EXPECT_TRUE(queue_.IsInUse(Read(8)));
  queue_.Release(own);
  EXPECT_THAT(Happened(), ElementsAre("after run"));
  queue_.Release(late);
  EXPECT_THAT(Happened(), ElementsAre("after run", "five granted", "command runs", "after run"));
  queue_.Arm(five);
}

TEST_F(TxQueueTest, OnlyASlowScriptThatTakesWhatACommandWantsIsWhatItWaitsFor) {
  const int writer = 0;
  const int reader = 0;
  const int late = 0;
  Entry* const entries[] = {Holder("writer", {Write(1), Write(5)}, &writer),
                            Holder("reader", {Read(2)}, &reader), Holder("nobody", {Write(3)})};
  const auto what_is_before = [&](std::vector<TagLock> tags, const void* slow_owner, Slow what,
                                  const void* own = nullptr) {
    SlowScripts slow;
    slow.Add(slow_owner, what);
    SortAndMerge(&tags);
    TxEntry entry;
    entry.tags = tags;
    entry.owner = own;
    return queue_.SlowBefore(entry, &slow);
  };
  // Each is slow once.
  const auto all_that_exclude = [&](const std::vector<TagLock>& tags) {
    std::vector<const void*> owners;
    for (const void* owner : {&writer, &reader, &late}) {
      if (what_is_before(tags, owner, Slow::kScript) != Slow::kNone) owners.push_back(owner);
    }
    return owners;
  };
  EXPECT_THAT(all_that_exclude({Read(1)}), ElementsAre(&writer));
  EXPECT_THAT(all_that_exclude({Read(2)}), IsEmpty());
  EXPECT_THAT(all_that_exclude({Write(2), Read(3), Read(5)}), ElementsAre(&writer, &reader));
  EXPECT_THAT(all_that_exclude({Write(3), Write(4)}), IsEmpty()) << "nobody owns that entry";
  EXPECT_THAT(all_that_exclude({}), IsEmpty());

  EXPECT_EQ(what_is_before({Write(1)}, &writer, Slow::kScript), Slow::kScript);
  EXPECT_EQ(what_is_before({Write(1)}, &writer, Slow::kFunction), Slow::kFunction);
  EXPECT_EQ(what_is_before({Write(1)}, &writer, Slow::kScript, &writer), Slow::kNone) << "its own";

  // One that waits excludes a command, too: that would be behind it.
  Entry* const shard = MakeOfShard("late", LockMode::kExclusive, &late);
  queue_.Overtake(shard);
  EXPECT_FALSE(shard->is_granted);
  EXPECT_THAT(all_that_exclude({Read(9)}), ElementsAre(&late));
  for (Entry* entry : entries) queue_.Release(entry);
  queue_.Release(shard);
}

TEST_F(TxQueueTest, TheOldestClockIsThatOfTheEntryFurthestBehind) {
  EXPECT_EQ(queue_.oldest_clock_ms(), INT64_MAX);
  Entry* const timeless = Holder("timeless", {Write(9)});
  EXPECT_EQ(queue_.oldest_clock_ms(), INT64_MAX);
  std::vector<Entry*> entries;
  for (const int64_t clock_ms : {2000, 1000, 3000}) {
    entries.push_back(Make("holder", {Write(static_cast<uint64_t>(clock_ms))}));
    entries.back()->clock_ms = clock_ms;
    queue_.Hold(entries.back());
  }
  EXPECT_EQ(queue_.oldest_clock_ms(), 1000);
  Entry* const late = Make("late", {Write(9)});
  late->clock_ms = 500;
  queue_.Overtake(late);
  EXPECT_EQ(queue_.oldest_clock_ms(), 500) << "it need not be granted";
  queue_.Release(timeless);
  queue_.Release(late);
  queue_.Release(entries[1]);
  EXPECT_EQ(queue_.oldest_clock_ms(), 2000);
  queue_.Release(entries[0]);
  EXPECT_EQ(queue_.oldest_clock_ms(), 3000);
  queue_.Release(entries[2]);
  EXPECT_EQ(queue_.oldest_clock_ms(), INT64_MAX);
}

// Everybody at once, in an order from a seed. Whoever runs keeps its tags until it ends, against
// all but its owner; who was promised that it may run relies on that; and all come to their end.
class Crowd {
 public:
  explicit Crowd(uint64_t seed) : random_(seed) {}
  ~Crowd() {
    for (Member& member : members_) {
      if (member.linked()) member.Unlink();
    }
  }

  std::string Run() {
    for (int steps = 0; error_.empty() && steps < 60; ++steps) Step(true);
    for (int steps = 0; error_.empty() && IsAnybodyThere(); ++steps) {
      Step(false);
      if (steps > 10000) return "somebody waits for ever: " + queue_.Describe();
    }
    if (error_.empty() && (!queue_.empty() || queue_.length() != 0)) return "something is left";
    return error_;
  }

  uint64_t overtaken() const { return overtaken_; }
  uint64_t waited() const { return waited_; }

 private:
  enum class State : uint8_t { kGone, kWaits, kRuns };

  struct Member : TxEntry {
    Crowd* crowd;
    std::vector<TagLock> wanted;
    State state = State::kGone;
    bool is_promised = false;  // it has been told, and does not give way any more
    bool is_late = false;
    int hops = 1;
  };

  bool IsAnybodyThere() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.state != State::kGone; });
  }

  static bool Excludes(const Member& a, const Member& b) {
    if (a.owner != nullptr && a.owner == b.owner) return false;
    const auto writes = [](const Member& member) {
      return member.shard_mode == LockMode::kExclusive;
    };
    if (a.locks_shard && b.locks_shard) return writes(a) || writes(b);
    for (const TagLock& x : a.wanted) {
      if (b.locks_shard && (writes(b) || x.mode == LockMode::kExclusive)) return true;
      for (const TagLock& y : b.wanted) {
        if (x.fingerprint == y.fingerprint &&
            (x.mode == LockMode::kExclusive || y.mode == LockMode::kExclusive)) {
          return true;
        }
      }
    }
    return a.locks_shard && !b.locks_shard && Excludes(b, a);
  }

  // It runs, or may rely on that.
  void CheckThatItMay(const Member& member) {
    for (const Member& other : members_) {
      if (&other == &member || (other.state != State::kRuns && !other.is_promised)) continue;
      if (Excludes(member, other)) error_ = "two run at a time: " + queue_.Describe();
    }
  }

  Member* Join() {
    Member& member = members_.emplace_back();
    member.crowd = this;
    member.run = [](TxEntry* entry) {
      auto* const self = static_cast<Member*>(entry);
      self->crowd->CheckThatItMay(*self);
      self->state = State::kRuns;
      return --self->hops == 0;
    };
    member.done = [](TxEntry* entry) {
      auto* const self = static_cast<Member*>(entry);
      if (!self->linked()) self->crowd->Leave(self);
    };
    member.granted = [](TxEntry* entry) {
      auto* const self = static_cast<Member*>(entry);
      if (!self->is_granted) self->crowd->error_ = "told before it was granted";
      self->crowd->CheckThatItMay(*self);
      if (self->is_late) self->state = State::kRuns;
    };
    member.revoked = [](TxEntry* entry) {
      auto* const self = static_cast<Member*>(entry);
      if (!self->is_granted) self->crowd->error_ = "asked for what it does not have";
      self->crowd->overtaken_ += !self->is_promised;
      return !self->is_promised;
    };
    if (random_.OneIn(8)) {
      member.locks_shard = true;
      member.shard_mode = random_.OneIn(2) ? LockMode::kShared : LockMode::kExclusive;
    } else {
      for (uint64_t n = 1 + random_.Uniform(3); n > 0; --n) member.wanted.push_back(RandomTag());
      SortAndMerge(&member.wanted);
      member.tags = member.wanted;
    }
    member.state = State::kWaits;
    return &member;
  }
  void Leave(Member* member) {
    member->state = State::kGone;
    member->is_promised = false;
  }

  TagLock RandomTag() {
    const uint64_t fingerprint = 1 + random_.Uniform(5);
    return random_.OneIn(2) ? Read(fingerprint) : Write(fingerprint);
  }

  void Step(bool may_join) {
    const uint64_t kind = random_.Uniform(may_join ? 10 : 5);
    if (kind >= 5) return Enter(kind);
    if (members_.empty()) return;
    Member& member = members_[random_.Uniform(members_.size())];
    if (member.state == State::kGone) return;
    if (member.has_number) {
      // Its other shards have granted it: it relies on this one, too. Then it runs its hops.
      if (!member.is_granted || member.is_armed) return;
      if (!member.is_promised && random_.OneIn(6)) {
        Leave(&member);
        return queue_.Cancel(&member);
      }
      if (!std::exchange(member.is_promised, true)) return CheckThatItMay(member);
      queue_.Arm(&member);
    } else if (member.state == State::kRuns && !member.is_armed) {
      if (random_.OneIn(3) && !member.locks_shard) return TakeOneMore(&member);
      Leave(&member);
      queue_.Release(&member);
    }
  }

  void Enter(uint64_t kind) {
    Member* const member = Join();
    if (kind == 9 && !IsAnybodyOvertaking()) {
      member->is_late = true;
      member->owner = &owners_[random_.Uniform(2)];
      queue_.Overtake(member);
      if (member->is_granted) {
        CheckThatItMay(*member);
        member->state = State::kRuns;
      } else {
        ++waited_;
      }
    } else if (kind == 8 && IsFree(*member)) {
      member->owner = &owners_[random_.Uniform(2)];
      queue_.Hold(member);
      CheckThatItMay(*member);
      member->state = State::kRuns;
    } else if (kind >= 6) {
      // Numbers of other threads come a little late.
      last_number_ += 3;
      member->number = last_number_ - random_.Uniform(9);
      member->hops = 1 + static_cast<int>(random_.Uniform(3));
      if (!queue_.Schedule(member)) Leave(member);
    } else {
      member->hops = random_.OneIn(4) ? 2 : 1;  // Release ends those with 2
      queue_.ScheduleLast(member);
      queue_.Arm(member);
    }
  }

  bool IsFree(const Member& member) const {
    return !member.locks_shard &&
           std::none_of(member.wanted.begin(), member.wanted.end(),
                        [&](const TagLock& tag) { return queue_.Conflicts(tag); });
  }
  bool IsAnybodyOvertaking() const {
    return std::any_of(members_.begin(), members_.end(), [](const Member& member) {
      return member.is_late && member.state == State::kWaits;
    });
  }

  void TakeOneMore(Member* member) {
    const TagLock tag = RandomTag();
    for (const TagLock& own : member->wanted) {
      if (own.fingerprint == tag.fingerprint) return;
    }
    const bool is_free = !queue_.Conflicts(tag);
    std::vector<TagLock> wanted = member->wanted;
    wanted.push_back(tag);
    SortAndMerge(&wanted);
    if (queue_.HoldAlso(member, tag, wanted) != is_free) error_ = "HoldAlso and Conflicts differ";
    if (!is_free) return;
    member->wanted.swap(wanted);  // what the queue looks at stays in place
    CheckThatItMay(*member);
  }

  Random random_;
  std::deque<Member> members_;
  TxQueue queue_;
  uint64_t last_number_ = 10;
  uint64_t overtaken_ = 0;
  uint64_t waited_ = 0;
  int owners_[2] = {};
  std::string error_;
};

TEST(TxQueueScheduleTest, NobodyRunsWithWhomItExcludesAndAllComeToAnEnd) {
#ifdef DFLY_SANITIZED
  const helio::SeedRange seeds = helio::TestSeeds(2000);
#else
  const helio::SeedRange seeds = helio::TestSeeds(20000);
#endif
  uint64_t overtaken = 0;
  uint64_t waited = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    Crowd crowd(seed);
    ASSERT_EQ(crowd.Run(), "") << "DFLY_SEED=" << seed;
    overtaken += crowd.overtaken();
    waited += crowd.waited();
  }
  if (!helio::IsReplay()) {
    EXPECT_GT(overtaken, seeds.count / 10) << "revoking was not tested";
    EXPECT_GT(waited, seeds.count / 10) << "waiting for who runs was not tested";
  }
}

}  // namespace
}  // namespace dfly
