// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_producers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/types/stream_value.h"

namespace dfly {
namespace {

constexpr StreamLimit kProducerLimit = {.producer_seconds = 10, .producer_messages = 3};

class StreamProducersTest : public testing::Test {
 protected:
  ~StreamProducersTest() override {
    size_t all = SIZE_MAX;
    EXPECT_TRUE(producers().FreeSome(&all));
    EXPECT_EQ(producers().bytes(), bytes_before_);
  }
  StreamProducers& producers() { return *producers_; }
  void Add(const std::string& producer, const std::string& message, uint64_t ms) {
    producers().Add(producer, message, {ms, 0}, static_cast<int64_t>(ms), producers_max_);
    producers().CheckInvariants();
  }
  std::string Find(const std::string& producer, const std::string& message, int64_t now_ms) {
    const auto id = producers().Find(producer, message, now_ms);
    return id ? std::to_string(id->ms) : "";
  }

  size_t producers_max_ = 10'000;
  std::unique_ptr<StreamProducers> producers_ = std::make_unique<StreamProducers>(kProducerLimit);
  const size_t bytes_before_ = producers_->bytes();
};

TEST_F(StreamProducersTest, EachHasItsOwnMessages) {
  Add("a", "1", 1000);
  Add("b", "1", 2000);
  EXPECT_EQ(Find("a", "1", 2000), "1000");
  EXPECT_EQ(Find("b", "1", 2000), "2000");
  EXPECT_EQ(Find("a", "2", 2000), "");
  EXPECT_EQ(Find("c", "1", 2000), "");
}

TEST_F(StreamProducersTest, WhatIsOldIsForgotten) {
  Add("a", "1", 1000);
  Add("b", "1", 2000);
  EXPECT_EQ(Find("a", "1", 10'999), "1000");
  EXPECT_EQ(Find("a", "1", 11'000), "");
  EXPECT_EQ(producers().Count(11'000).producers, 1u);
  EXPECT_EQ(producers().Count(11'000).messages, 1u);
  EXPECT_EQ(producers().producers(), 2u);
  Add("b", "1", 12'000);  // of itself it is old, too
  EXPECT_EQ(producers().producers(), 1u);
  EXPECT_EQ(Find("b", "1", 12'000), "12000");
}

TEST_F(StreamProducersTest, TheNewestOfEachProducerAreKept) {
  for (uint64_t i = 1; i <= 5; ++i) Add("a", std::to_string(i), 1000 + i);
  Add("b", "1", 2000);
  EXPECT_EQ(Find("a", "2", 2000), "");
  EXPECT_EQ(Find("a", "3", 2000), "1003");
  EXPECT_EQ(producers().Count(2000).messages, 4u);
}

// Memory does not grow with what has come, only with what has come lately.
TEST_F(StreamProducersTest, ManyProducersThatGoAwayCostNothing) {
  size_t most = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    producers().Add("producer" + std::to_string(i), "message", {i * 100, 0},
                    static_cast<int64_t>(i * 100), producers_max_);
    if (i == 200) most = producers().bytes();
  }
  EXPECT_LE(producers().bytes(), most * 2);
  EXPECT_EQ(producers().producers(), 100u);
}

TEST_F(StreamProducersTest, OfTooManyProducersTheOneThatIsSilentForLongestIsForgotten) {
  producers_max_ = 3;
  Add("a", "1", 1000);
  Add("b", "1", 1001);
  Add("b", "2", 1002);
  Add("c", "1", 1003);
  Add("a", "2", 1004);
  Add("d", "1", 1005);
  EXPECT_EQ(producers().producers(), 3u);
  EXPECT_EQ(Find("b", "1", 1005), "");
  EXPECT_EQ(Find("b", "2", 1005), "");
  EXPECT_EQ(Find("a", "1", 1005), "1000");
  EXPECT_EQ(Find("d", "1", 1005), "1005");
  // Whose last message has an id in the past is not forgotten at once.
  Add("e", "1", 900);
  EXPECT_EQ(Find("e", "1", 1005), "900");
  EXPECT_EQ(Find("c", "1", 1005), "");
  // With a smaller limit several go.
  producers_max_ = 1;
  Add("f", "1", 1006);
  EXPECT_EQ(producers().producers(), 1u);
  EXPECT_EQ(Find("f", "1", 1006), "1006");
}

TEST_F(StreamProducersTest, ALowerLimitIsReachedInSteps) {
  uint64_t ms = 1000;
  producers().messages_max = 10'000;
  for (int i = 0; i < 250; ++i) Add("large", std::to_string(i), ++ms);
  for (int i = 0; i < 50; ++i) Add("small" + std::to_string(i), "1", ++ms);
  producers_max_ = 1;
  for (size_t added = 1; producers().producers() > 1; ++added) {
    const size_t before = producers().Count(0).messages;
    Add("last", std::to_string(added), ++ms);
    const size_t after = producers().Count(0).messages;
    EXPECT_GE(after + 100, before + 1);
    EXPECT_EQ(after, added <= 3 ? 300 - 99 * added : added);
  }
  EXPECT_EQ(Find("last", "1", static_cast<int64_t>(ms)), "1301");
  EXPECT_EQ(producers().Count(0).messages, 3u);
}

TEST_F(StreamProducersTest, IsMadeAgainAndFreedInSteps) {
  Add("a", "1", 1000);
  Add("a", "a message with a long name that is not in place", 1001);
  Add("b", "1", 1002);
  StreamProducers copy(StreamLimit{});
  copy.CopyFrom(producers());
  copy.CheckInvariants();
  EXPECT_EQ(copy.duration_s, 10u);
  EXPECT_EQ(copy.Find("b", "1", 1002)->ms, 1002u);
  EXPECT_FALSE(copy.Restore("b", "2", {1002, 0}));
  EXPECT_FALSE(copy.Restore("b", "1", {1003, 0}));
  size_t budget = 2;
  EXPECT_FALSE(copy.FreeSome(&budget));
  EXPECT_EQ(budget, 0u);
  budget = 2;
  EXPECT_TRUE(copy.FreeSome(&budget));
  EXPECT_EQ(budget, 1u);
}

TEST(StreamValueProducersTest, BelongToTheStream) {
  auto stream = std::make_unique<StreamValue>();
  const size_t before = stream->bytes();
  stream->MakeProducers(kProducerLimit).Add("a", "1", {5, 0}, 5, 1);
  EXPECT_GT(stream->bytes(), before);
  const std::unique_ptr<StreamValue> copy(stream->Clone());
  copy->CheckInvariants();
  EXPECT_EQ(copy->producers()->Find("a", "1", 5)->ms, 5u);
  EXPECT_TRUE(stream->FreeSome(100));
}

}  // namespace
}  // namespace dfly
