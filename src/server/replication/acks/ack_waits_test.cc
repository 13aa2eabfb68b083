// SPDX-License-Identifier: Apache-2.0
#include "server/replication/acks/ack_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dfly {
namespace {

// A stream of which the test says where it is.
class Stream final : public AckSource {
 public:
  std::optional<uint64_t> NewestEpoch() const override { return newest; }
  Streamed NewestStreamed() const override { return streamed; }
  uint64_t CountAcked(uint64_t offset, bool is_durable) const override {
    const std::vector<uint64_t>& acks = is_durable ? durable : received;
    return static_cast<uint64_t>(
        std::count_if(acks.begin(), acks.end(), [offset](uint64_t ack) { return ack >= offset; }));
  }
  void Hurry() override { ++hurries; }
  void AskForAcks() override { ++asks; }

  std::optional<uint64_t> newest = 7;
  Streamed streamed = {.epoch = 7, .offset = 100};
  std::vector<uint64_t> received = {0, 0};
  std::vector<uint64_t> durable = {0, 0};
  int hurries = 0;
  int asks = 0;
};

class AckWaitsTest : public testing::Test {
 protected:
  AckWaitsTest() {
    wait_.wanted = 1;
    wait_.on_end = [this] { ++ends_; };
  }

  Stream stream_;
  AckWaits waits_{&stream_};
  AckWaits::Wait wait_;
  int ends_ = 0;
};

TEST_F(AckWaitsTest, WhatReplicasHaveIsNotWaitedFor) {
  stream_.received = {100, 99};
  EXPECT_FALSE(waits_.Begin(&wait_));
  EXPECT_EQ(waits_.End(&wait_), 1u);
  EXPECT_EQ(stream_.hurries + stream_.asks + ends_, 0);
}

TEST_F(AckWaitsTest, NobodyIsWantedSoNobodyIsWaitedFor) {
  wait_.wanted = 0;
  EXPECT_FALSE(waits_.Begin(&wait_));
  EXPECT_EQ(waits_.End(&wait_), 0u);
}

TEST_F(AckWaitsTest, ReplicasAreAskedAndTheWaitEndsOnce) {
  EXPECT_TRUE(waits_.Begin(&wait_));
  EXPECT_EQ(stream_.asks, 1);
  stream_.received = {99, 0};
  waits_.Look();
  EXPECT_EQ(ends_, 0);
  stream_.received = {99, 100};
  waits_.Look();
  waits_.Look();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(stream_.asks, 1);
  stream_.received = {100, 100};
  EXPECT_EQ(waits_.End(&wait_), 2u);
}

// What was done before the wait is in an epoch that is not in the stream yet: any acknowledgement
// is of something older.
TEST_F(AckWaitsTest, TheTargetIsTheEndOfTheEpoch) {
  stream_.newest = 8;
  stream_.received = {100, 100};
  EXPECT_TRUE(waits_.Begin(&wait_));
  EXPECT_EQ(stream_.hurries, 1);
  EXPECT_EQ(stream_.asks, 0);
  waits_.Look();
  EXPECT_EQ(ends_, 0);
  EXPECT_EQ(waits_.End(&wait_), 0u);
  EXPECT_TRUE(waits_.Begin(&wait_));
  stream_.streamed = {.epoch = 9, .offset = 150};
  waits_.Look();
  EXPECT_EQ(stream_.asks, 1);
  EXPECT_EQ(ends_, 0);
  stream_.received = {149, 150};
  waits_.Look();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(waits_.End(&wait_), 1u);
}

TEST_F(AckWaitsTest, WhatIsOnDisksIsAnotherQuestion) {
  wait_.is_durable = true;
  stream_.received = {100, 100};
  EXPECT_TRUE(waits_.Begin(&wait_));
  stream_.durable = {100, 0};
  waits_.Look();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(waits_.End(&wait_), 1u);
}

// Until its client gives up.
TEST_F(AckWaitsTest, WithoutAStreamNobodyHasIt) {
  stream_.newest = {};
  stream_.received = {100, 100};
  EXPECT_TRUE(waits_.Begin(&wait_));
  waits_.Look();
  EXPECT_EQ(waits_.End(&wait_), 0u);
  EXPECT_EQ(ends_, 0);
}

TEST_F(AckWaitsTest, ALookIsAskedForOnlyWhileSomebodyWaits) {
  EXPECT_FALSE(waits_.WantsLook());
  EXPECT_TRUE(waits_.Begin(&wait_));
  EXPECT_TRUE(waits_.WantsLook());
  EXPECT_FALSE(waits_.WantsLook());  // it is on its way
  waits_.Look();
  EXPECT_TRUE(waits_.WantsLook());
  waits_.End(&wait_);
  waits_.Look();
  EXPECT_FALSE(waits_.WantsLook());
}

}  // namespace
}  // namespace dfly
