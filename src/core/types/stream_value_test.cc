// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_value.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "core/table/compact_value.h"
#include "core/table/value_reaper.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class StreamValueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { StreamValue::RegisterType(); }
  void Append(uint64_t ms) {
    const std::string_view pair[] = {"field", "value"};
    stream_->Append({ms, 0}, pair, {});
  }

  std::unique_ptr<StreamValue> stream_ = std::make_unique<StreamValue>();
};

TEST_F(StreamValueTest, CountersFollowWhatIsAddedAndErased) {
  for (uint64_t i = 1; i <= 5; ++i) Append(i);
  EXPECT_TRUE(stream_->Erase({3, 0}));
  EXPECT_FALSE(stream_->Erase({3, 0}));
  EXPECT_TRUE(stream_->Erase({1, 0}));
  EXPECT_EQ(stream_->counters().first_id, (StreamId{2, 0}));
  EXPECT_EQ(stream_->counters().max_deleted_id, (StreamId{3, 0}));
  EXPECT_EQ(stream_->Trim({.size_max = 0}), 3u);
  EXPECT_EQ(stream_->counters().first_id, StreamId());
  EXPECT_EQ(stream_->counters().last_id, (StreamId{5, 0}));
  EXPECT_EQ(stream_->counters().entries_added, 5u);
  stream_->CheckInvariants();
}

TEST_F(StreamValueTest, LagIsKnownWhereNothingIsMissingAhead) {
  StreamGroup* const group = stream_->AddGroup("g");
  EXPECT_EQ(stream_->LagOf(*group), 0);
  for (uint64_t i = 1; i <= 5; ++i) Append(i);
  EXPECT_EQ(stream_->LagOf(*group), 5);
  stream_->AdvanceGroup(group, {1, 0});
  EXPECT_EQ(group->entries_read, 1);
  EXPECT_EQ(stream_->LagOf(*group), 4);
  stream_->Erase({3, 0});
  EXPECT_EQ(stream_->LagOf(*group), std::nullopt);
  stream_->AdvanceGroup(group, {2, 0});
  EXPECT_EQ(group->entries_read, StreamGroup::kUnknownReads);
  stream_->AdvanceGroup(group, {5, 0});
  EXPECT_EQ(group->entries_read, 5);
  EXPECT_EQ(stream_->LagOf(*group), 0);
}

// As RESTORE, XSETID and XGROUP can set them.
TEST_F(StreamValueTest, CountersAtTheirEndStayThere) {
  Append(1);
  StreamValue::Counters counters = stream_->counters();
  counters.entries_added = INT64_MAX;
  stream_->set_counters(counters);
  StreamGroup* const group = stream_->AddGroup("g");
  EXPECT_EQ(stream_->LagOf(*group), 1);
  group->entries_read = INT64_MAX;
  EXPECT_EQ(stream_->LagOf(*group), 0);
  Append(2);
  EXPECT_EQ(stream_->counters().entries_added, uint64_t{INT64_MAX});
  stream_->AdvanceGroup(group, {1, 0});
  EXPECT_EQ(group->entries_read, INT64_MAX);
  EXPECT_EQ(stream_->LagOf(*group), 0);
  group->entries_read = StreamGroup::kUnknownReads;
  EXPECT_EQ(stream_->CountUpTo({0, 1}), INT64_MAX - 2);
  EXPECT_EQ(stream_->CountUpTo({1, 0}), INT64_MAX - 1);
  EXPECT_EQ(stream_->CountUpTo({2, 0}), INT64_MAX);
  EXPECT_EQ(stream_->LagOf(*group), 1);
  EXPECT_EQ(stream_->Trim({.size_max = 0}), 2u);
  EXPECT_EQ(stream_->CountUpTo({0, 1}), INT64_MAX);
}

TEST_F(StreamValueTest, WhatIsPendingHasOneConsumer) {
  StreamGroup* const group = stream_->AddGroup("g");
  StreamConsumer* const one = group->AddConsumer("one", 1000);
  StreamConsumer* const two = group->AddConsumer("two", 1000);
  for (uint64_t i = 1; i <= 9; ++i) group->Assign({i, 0}, one).deliveries = i;
  EXPECT_EQ(group->Assign({4, 0}, two).deliveries, 4u);
  EXPECT_EQ(two->pending.size(), 1u);
  EXPECT_TRUE(group->Acknowledge({4, 0}));
  EXPECT_FALSE(group->Acknowledge({4, 0}));
  EXPECT_TRUE(two->pending.empty());
  group->Assign({5, 0}, two);
  group->CheckInvariants();
  group->RemoveConsumer(one);
  EXPECT_EQ(group->pending().size(), 1u);
  EXPECT_EQ(group->FindConsumer("one"), nullptr);
  group->CheckInvariants();
}

TEST_F(StreamValueTest, ACopyHasItAllAndItsOwn) {
  for (uint64_t i = 1; i <= 300; ++i) Append(i);
  stream_->Erase({7, 0});
  StreamGroup* const group = stream_->AddGroup("a group with a name that is not short at all");
  StreamConsumer* const consumer = group->AddConsumer("consumer", 1000);
  consumer->active_ms = 2000;
  group->AddConsumer("another consumer, whose name is long as well", 3000);
  for (uint64_t i = 1; i <= 100; ++i) {
    stream_->AdvanceGroup(group, {i, 0});
    group->Assign({i, 0}, consumer) = {.delivered_ms = 5, .deliveries = i, .consumer = consumer};
  }
  const std::unique_ptr<StreamValue> copy(stream_->Clone());
  stream_.reset();
  copy->CheckInvariants();
  EXPECT_EQ(copy->size(), 299u);
  EXPECT_EQ(copy->counters().entries_added, 300u);
  StreamGroup* const its = copy->FindGroup("a group with a name that is not short at all");
  ASSERT_NE(its, nullptr);
  EXPECT_EQ(its->last_id, (StreamId{100, 0}));
  EXPECT_EQ(its->pending().size(), 100u);
  EXPECT_EQ(its->FindPending({9, 0})->deliveries, 9u);
  EXPECT_EQ(its->FindConsumer("consumer")->active_ms, 2000);
  EXPECT_EQ(its->FindConsumer("consumer")->pending.size(), 100u);
}

TEST_F(StreamValueTest, WhatGroupsTookIsGivenBack) {
  const size_t empty = stream_->bytes();
  for (int i = 0; i < 100; ++i) {
    StreamGroup* const group = stream_->AddGroup("g" + std::to_string(i));
    StreamConsumer* const consumer = group->AddConsumer(std::string(100, 'c'), 1);
    for (uint64_t id = 0; id < 100; ++id) group->Assign({id, 0}, consumer);
  }
  EXPECT_GT(stream_->bytes(), empty + 100 * 100 * 2 * sizeof(StreamId));
  while (!stream_->groups().empty()) stream_->RemoveGroup(stream_->groups().begin()->second);
  EXPECT_EQ(stream_->bytes(), empty);
}

TEST_F(StreamValueTest, GroupsAreFreedInSteps) {
  constexpr size_t kBudget = 100;
  const size_t empty = stream_->bytes();
  for (int i = 0; i < 4; ++i) {
    StreamGroup* const group = stream_->AddGroup("g" + std::to_string(i));
    for (int c = 0; c < 30; ++c) group->AddConsumer("idle" + std::to_string(c), 1);
    StreamConsumer* const consumer = group->AddConsumer("busy", 1);
    for (uint64_t id = 0; id < 1000; ++id) group->Assign({id, 0}, consumer);
  }
  size_t steps = 1;
  for (size_t before = stream_->bytes(); !stream_->FreeSome(kBudget); ++steps) {
    ASSERT_LT(stream_->bytes(), before);
    before = stream_->bytes();
  }
  // Of each group 1,000 ids at the consumer and with the group, 31 consumers, and itself.
  EXPECT_GE(steps, 4 * 2031 / kBudget);
  EXPECT_LE(stream_->bytes(), empty);
}

TEST_F(StreamValueTest, WhatProducersSentIsFreedInStepsWhenTheyBeginAnew) {
  ValueReaper reaper;
  reaper.ServeThisThread();
  const auto send = [this](uint64_t messages) {
    StreamProducers& producers =
        stream_->MakeProducers({.producer_seconds = 100, .producer_messages = 10'000});
    for (uint64_t id = 1; id <= messages; ++id) {
      producers.Add("p" + std::to_string(id % 7), std::to_string(id), {id, 0}, 0, 100);
    }
    producers.added += messages;
  };
  send(5000);
  stream_->RestartProducers(50, 20);
  EXPECT_EQ(stream_->producers()->duration_s, 50u);
  EXPECT_EQ(stream_->producers()->messages_max, 20u);
  EXPECT_EQ(stream_->producers()->added, 5000u);
  EXPECT_FALSE(stream_->producers()->Find("p1", "1", 0));
  EXPECT_GT(reaper.bytes(), 5000u * sizeof(StreamId));
  EXPECT_LT(stream_->bytes(), 1000u);
  int steps = 1;
  while (!reaper.FreeSome(100)) ++steps;
  EXPECT_GE(steps, 50);
  // A few are not worth steps.
  send(10);
  stream_->RestartProducers(10, 20);
  EXPECT_TRUE(reaper.empty());
}

TEST_F(StreamValueTest, RandomPendingEntriesDoWhatAMapDoes) {
  helio::Random random(helio::TestSeed());
  StreamGroup* const group = stream_->AddGroup("g");
  std::map<StreamId, std::string> model;
  for (int step = 0; step < 20000; ++step) {
    const StreamId id = {random.Next() % 300, random.Next() % 2};
    const std::string name = "c" + std::to_string(random.Next() % 5);
    StreamConsumer* consumer = group->FindConsumer(name);
    switch (random.Next() % 8) {
      case 0:
        if (consumer == nullptr || random.Next() % 20 != 0) break;
        group->RemoveConsumer(consumer);
        std::erase_if(model, [&](const auto& item) { return item.second == name; });
        break;
      case 1:
      case 2:
      case 3:
        EXPECT_EQ(group->Acknowledge(id), model.erase(id) == 1);
        break;
      default:
        if (consumer == nullptr) consumer = group->AddConsumer(name, step);
        group->Assign(id, consumer);
        model[id] = name;
    }
    ASSERT_EQ(group->pending().size(), model.size());
  }
  group->CheckInvariants();
  auto it = model.begin();
  for (const auto& [id, pending] : group->pending()) {
    EXPECT_EQ(id, it->first);
    EXPECT_EQ(std::string_view(pending.consumer->name), it->second);
    ++it;
  }
}

TEST_F(StreamValueTest, AnEmptyStreamIsNoEmptyObject) {
  CompactValue value;
  value.SetObject(ValueType::kStream, stream_.release(), 0);
  EXPECT_FALSE(value.IsEmptyObject());
  EXPECT_EQ(value.ObjectEncodingName(), "stream");
  EXPECT_GT(value.HeapBytes(), 0u);
  const CompactValue copy = value.Clone();
  EXPECT_EQ(copy.type(), ValueType::kStream);
}

}  // namespace
}  // namespace dfly
