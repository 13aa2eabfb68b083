// SPDX-License-Identifier: Apache-2.0
#include "facade/replies/reply_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/random.h"

namespace dfly {
namespace {

using helio::IoBuf;
using helio::Random;

class ReplyQueueTest : public testing::Test {
 protected:
  void Local(std::string_view reply) {
    queue_.BeginLocal()->Append(reply);
    queue_.EndLocal();
  }

  void Fill(PendingReplies* batch, std::initializer_list<std::string_view> replies) {
    for (std::string_view reply : replies) {
      batch->bytes.Append(reply);
      batch->EndReply();
    }
    queue_.Complete(batch);
  }

  IoBuf output_;
  std::vector<PendingReplies*> released_;
  ReplyQueue queue_{&output_, [this](PendingReplies* batch) { released_.push_back(batch); }};
};

TEST_F(ReplyQueueTest, LocalRepliesGoStraightToTheOutput) {
  Local("a");
  Local("b");
  EXPECT_EQ(output_.view(), "ab");
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.memory_used(), 0u);
}

TEST_F(ReplyQueueTest, LaterRepliesWaitForEarlierOnes) {
  PendingReplies first, second;
  queue_.AddRemote(&first);
  queue_.AddRemote(&first);
  Local("3");
  Local("4");
  queue_.AddRemote(&second);
  queue_.AddRemote(&first);
  EXPECT_EQ(queue_.slots(), 6u);
  Fill(&second, {"5"});
  EXPECT_EQ(queue_.Advance(), 0u);
  EXPECT_EQ(queue_.pending_bytes(), 3u);
  Fill(&first, {"1", "2", "6"});
  EXPECT_EQ(queue_.Advance(), 6u);
  EXPECT_EQ(output_.view(), "123456");
  EXPECT_EQ(released_, (std::vector<PendingReplies*>{&second, &first}));
  EXPECT_EQ(queue_.pending_bytes(), 0u);
  Local("7");
  EXPECT_EQ(output_.view(), "1234567");
}

TEST_F(ReplyQueueTest, AReplyThatIsBeingWrittenStaysBehindWhatAdvances) {
  PendingReplies batch;
  queue_.AddRemote(&batch);
  Local("2");
  IoBuf* out = queue_.BeginLocal();
  out->Append("3");
  Fill(&batch, {"1"});
  queue_.Advance();
  EXPECT_EQ(output_.view(), "12");
  out->Append("three");
  queue_.EndLocal();
  EXPECT_EQ(queue_.Advance(), 6u);
  EXPECT_EQ(output_.view(), "123three");
}

TEST_F(ReplyQueueTest, ABatchThatComesBackInPartsIsTakenInParts) {
  PendingReplies batch;
  queue_.AddRemote(&batch);
  queue_.AddRemote(&batch);
  Local("3");
  queue_.AddRemote(&batch);
  batch.bytes.Append("1");
  batch.EndReply();
  queue_.CompletePart(&batch);
  EXPECT_FALSE(queue_.waits_for(&batch));
  EXPECT_EQ(queue_.pending_bytes(), 2u);
  EXPECT_EQ(queue_.Advance(), 1u);
  EXPECT_EQ(queue_.slots(), 3u);
  EXPECT_TRUE(queue_.waits_for(&batch));
  batch.BeginPart();
  Fill(&batch, {"2", "4"});
  EXPECT_EQ(queue_.Advance(), 3u);
  EXPECT_EQ(output_.view(), "1234");
  EXPECT_EQ(released_, (std::vector<PendingReplies*>{&batch}));
  EXPECT_EQ(queue_.pending_bytes(), 0u);
}

TEST_F(ReplyQueueTest, APartOfAReadsRepliesIsKnown) {
  PendingReplies one, two, later;
  queue_.BeginRead();
  Local("1");
  EXPECT_FALSE(queue_.is_in_read());  // nothing is to come
  queue_.AddRemote(&one);
  Local("3");
  queue_.AddRemote(&two);
  EXPECT_TRUE(queue_.is_in_read());
  queue_.BeginRead();
  queue_.AddRemote(&later);
  Fill(&one, {"2"});
  queue_.Advance();
  EXPECT_EQ(output_.view(), "123");
  EXPECT_TRUE(queue_.is_in_read());
  Fill(&two, {"4"});
  queue_.Advance();
  EXPECT_EQ(output_.view(), "1234");
  EXPECT_FALSE(
      queue_.is_in_read());  // the first read is answered, and does not wait for the second
  output_.Clear();
  Fill(&later, {"5"});
  queue_.Advance();
  EXPECT_FALSE(queue_.is_in_read());
}

TEST_F(ReplyQueueTest, WhatAnEarlierReadHasLeftIsNoPartOfOne) {
  PendingReplies batch;
  queue_.BeginRead();
  Local("1");
  queue_.BeginRead();  // nobody has sent it yet
  Local("2");
  queue_.AddRemote(&batch);
  EXPECT_FALSE(queue_.is_in_read());
  Fill(&batch, {"3"});
  queue_.Advance();
  EXPECT_EQ(output_.view(), "123");
}

TEST_F(ReplyQueueTest, RepliesThatJoinThoseOfAnEarlierReadDoNotHoldThem) {
  PendingReplies first, second;
  queue_.BeginRead();
  queue_.AddRemote(&first);
  Local("2");
  queue_.BeginRead();
  Local("3");
  queue_.AddRemote(&second);
  Fill(&first, {"1"});
  queue_.Advance();
  EXPECT_EQ(output_.view(), "123");
  EXPECT_FALSE(queue_.is_in_read());
  Fill(&second, {"4"});
  queue_.Advance();
}

TEST_F(ReplyQueueTest, WhatAnotherDecidesIsNotWaitedFor) {
  PendingReplies change;
  change.release = [](PendingReplies*) {};
  queue_.BeginRead();
  Local("1");
  queue_.AddRemote(&change);
  EXPECT_FALSE(queue_.is_in_read());
  Fill(&change, {"2"});
  queue_.Advance();
}

TEST_F(ReplyQueueTest, EmptyRepliesTakeNoBytes) {
  PendingReplies batch;
  queue_.AddRemote(&batch);
  Local("");
  queue_.AddRemote(&batch);
  EXPECT_EQ(queue_.slots(), 2u);
  Fill(&batch, {"", ""});
  EXPECT_EQ(queue_.Advance(), 0u);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(released_.size(), 1u);
}

TEST_F(ReplyQueueTest, ClearReleasesWhatIsBackAndAbandonsTheRest) {
  PendingReplies back, away;
  queue_.AddRemote(&away);
  queue_.AddRemote(&back);
  queue_.AddRemote(&away);
  Local("x");
  queue_.AddRemote(&back);
  Fill(&back, {"1", "2"});
  queue_.Clear();
  EXPECT_EQ(released_, (std::vector<PendingReplies*>{&back}));
  EXPECT_TRUE(away.abandoned);
  EXPECT_FALSE(back.abandoned);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.pending_bytes(), 0u);
  queue_.Release();
  EXPECT_EQ(queue_.memory_used(), 0u);
  Local("works");
  EXPECT_EQ(output_.view(), "works");
}

TEST_F(ReplyQueueTest, MarksHoldWhatStandsBehindThem) {
  const auto held = [&](std::string_view reply, uint64_t epoch) {
    queue_.BeginLocal()->Append(reply);
    queue_.Hold(epoch);
    queue_.EndLocal();
  };
  Local("ab");
  held("cd", 3);
  held("ef", 2);
  held("", 9);  // dropped: the next one waits for it
  held("gh", 5);
  Local("ij");
  EXPECT_EQ(queue_.Sendable(0), 2u);
  EXPECT_EQ(queue_.awaited(), 3u);
  EXPECT_EQ(queue_.Sendable(2), 2u);
  EXPECT_EQ(queue_.Sendable(3), 6u);
  EXPECT_EQ(queue_.awaited(), 9u);
  output_.Consume(6);
  queue_.OnTaken(6);
  EXPECT_EQ(queue_.Sendable(8), 0u);
  EXPECT_EQ(queue_.Sendable(9), 4u);
  EXPECT_EQ(queue_.awaited(), 0u);
}

TEST_F(ReplyQueueTest, RepliesBehindABatchBringTheirMarks) {
  PendingReplies batch, other;
  queue_.AddRemote(&batch);
  Local("b");
  queue_.BeginLocal()->Append("c");
  queue_.Hold(4);
  queue_.EndLocal();
  Local("d");
  queue_.AddRemote(&other);
  queue_.CheckInvariants();
  other.Await(6);
  Fill(&other, {"e"});
  batch.Await(2);
  batch.Await(1);
  Fill(&batch, {"a"});
  queue_.Advance();
  EXPECT_EQ(output_.view(), "abcde");
  EXPECT_EQ(queue_.Sendable(1), 0u);
  EXPECT_EQ(queue_.Sendable(2), 2u);
  EXPECT_EQ(queue_.Sendable(4), 4u);
  EXPECT_EQ(queue_.Sendable(6), 5u);
  batch.Recycle();
  EXPECT_EQ(batch.awaited, 0u);
}

TEST_F(ReplyQueueTest, ClearForgetsMarks) {
  queue_.BeginLocal()->Append("a");
  queue_.Hold(4);
  queue_.EndLocal();
  queue_.Clear();
  EXPECT_EQ(queue_.awaited(), 0u);
  queue_.Release();
  EXPECT_EQ(queue_.memory_used(), 0u);
}

TEST_F(ReplyQueueTest, SteadyStateReusesItsMemory) {
  PendingReplies batch;
  size_t memory = 0;
  for (int i = 0; i < 1000; i++) {
    for (int k = 0; k < 5; k++) {
      queue_.AddRemote(&batch);
      Local("local");
    }
    Fill(&batch, {"r", "r", "r", "r", "r"});
    queue_.Advance();
    output_.Clear();
    batch.Recycle();
    if (i == 10) memory = queue_.memory_used();
  }
  EXPECT_EQ(queue_.memory_used(), memory);
}

TEST_F(ReplyQueueTest, RecycledBatchesDropBigBuffers) {
  PendingReplies batch;
  batch.bytes.Append(std::string(1 << 20, 'x'));
  batch.EndReply();
  batch.Recycle();
  EXPECT_EQ(batch.bytes.capacity(), 0u);
  EXPECT_TRUE(batch.ends.empty());
}

// Commands go to random places, batches leave and come back in any order, connections die in the
// middle: replies must come out complete and in the order of the commands.
TEST(ReplyQueueModelTest, RandomTrafficKeepsTheOrder) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    struct Batch : PendingReplies {
      std::vector<std::string> replies;
      size_t written = 0;
      bool freed = false;
    };
    std::deque<std::unique_ptr<Batch>> batches;  // all ever made
    std::vector<Batch*> filling(4, nullptr);
    std::vector<Batch*> away;
    std::vector<Batch*> cut;  // back with a part of their replies
    IoBuf output;
    std::string sent, expected;
    auto free_batch = [](PendingReplies* batch) {
      ASSERT_FALSE(static_cast<Batch*>(batch)->freed);
      static_cast<Batch*>(batch)->freed = true;
    };
    int id = 0;
    {
      ReplyQueue queue(&output, free_batch);
      auto come_back = [&](size_t i) {
        Batch* batch = away[i];
        away.erase(away.begin() + static_cast<ptrdiff_t>(i));
        const size_t left = batch->replies.size() - batch->written;
        for (size_t n = random.OneIn(2) ? left : random.Uniform(left + 1); n > 0; n--) {
          batch->bytes.Append(batch->replies[batch->written++]);
          batch->EndReply();
        }
        if (batch->written == batch->replies.size()) {
          queue.Complete(batch);
        } else {
          queue.CompletePart(batch);
          cut.push_back(batch);
        }
      };
      auto go_on = [&] {
        for (size_t i = 0; i < cut.size(); i++) {
          if (!queue.waits_for(cut[i])) continue;
          cut[i]->BeginPart();
          away.push_back(cut[i]);
          cut.erase(cut.begin() + static_cast<ptrdiff_t>(i));
          return;
        }
      };
      const int steps = 500;
      for (int step = 0; step < steps; step++) {
        std::string reply = std::to_string(++id) + std::string(random.Uniform(60), '.') + ";";
        if (random.OneIn(10)) reply.clear();  // CLIENT REPLY OFF
        switch (random.Uniform(6)) {
          case 0:
            queue.BeginLocal()->Append(reply);
            queue.EndLocal();
            expected += reply;
            break;
          case 1:
          case 2:
          case 3: {
            Batch*& batch = filling[random.Uniform(filling.size())];
            if (batch == nullptr) {
              batches.push_back(std::make_unique<Batch>());
              batch = batches.back().get();
            }
            queue.AddRemote(batch);
            batch->replies.push_back(reply);
            expected += reply;
            break;
          }
          case 4: {
            Batch*& batch = filling[random.Uniform(filling.size())];
            if (batch != nullptr) away.push_back(std::exchange(batch, nullptr));
            break;
          }
          default:
            if (!away.empty()) come_back(random.Uniform(away.size()));
            if (random.OneIn(2)) queue.Advance();
            if (random.OneIn(2)) go_on();
            if (random.OneIn(2)) {
              sent += output.view();
              output.Clear();
            }
        }
        queue.CheckInvariants();
        ASSERT_TRUE(expected.starts_with(sent + std::string(output.view())));
      }
      if (seed % 3 != 0) {  // an orderly end
        for (Batch*& batch : filling) {
          if (batch != nullptr) away.push_back(std::exchange(batch, nullptr));
        }
        while (!away.empty()) {
          come_back(random.Uniform(away.size()));
          queue.Advance();
          go_on();
        }
        EXPECT_TRUE(queue.empty());
        EXPECT_EQ(queue.slots(), 0u);
        EXPECT_EQ(queue.pending_bytes(), 0u);
        ASSERT_EQ(sent + std::string(output.view()), expected);
      }
    }
    for (const auto& batch : batches) {
      // Released or abandoned, never both and never neither.
      ASSERT_NE(batch->freed, batch->abandoned);
    }
  }
}

}  // namespace
}  // namespace dfly
