// SPDX-License-Identifier: Apache-2.0
#include "server/replication/acks/ack_quorum.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace dfly {
namespace {

class AckQuorumTest : public testing::Test {
 protected:
  void AddReplicas(size_t count) {
    for (size_t i = 0; i < count; ++i) replicas_.push_back(std::make_shared<AckState>());
    quorum_.SetVoters({replicas_.begin(), replicas_.end()});
  }

  AckQuorum quorum_;
  std::vector<std::shared_ptr<AckState>> replicas_;
};

TEST_F(AckQuorumTest, WithoutRulesNothingWaits) {
  quorum_.OnEpoch(1, 100);
  EXPECT_EQ(quorum_.Limit(0), UINT64_MAX);
  EXPECT_EQ(quorum_.facts(0).waiting_epochs, 0u);
}

TEST_F(AckQuorumTest, AnEpochIsTakenWhenEnoughReplicasHaveItsEnd) {
  AddReplicas(3);
  quorum_.SetRules({.replicas = 2}, 7);
  EXPECT_EQ(quorum_.Limit(0), 7u);
  quorum_.OnEpoch(8, 100);
  quorum_.OnEpoch(9, 200);
  replicas_[0]->received = 1000;
  EXPECT_EQ(quorum_.Limit(0), 7u);
  replicas_[2]->received = 99;
  EXPECT_EQ(quorum_.Limit(0), 7u);
  replicas_[2]->received = 100;
  EXPECT_EQ(quorum_.Limit(0), 8u);
  replicas_[1]->received = 200;
  EXPECT_EQ(quorum_.Limit(0), 9u);
  EXPECT_EQ(quorum_.facts(0).waiting_epochs, 0u);
}

TEST_F(AckQuorumTest, TooFewReplicasAcknowledgeNothing) {
  quorum_.SetRules({.replicas = 2}, 0);
  quorum_.OnEpoch(1, 0);
  AddReplicas(1);
  replicas_[0]->received = 1000;
  EXPECT_EQ(quorum_.Limit(0), 0u);
  AddReplicas(1);
  EXPECT_EQ(quorum_.Limit(0), 1u);  // what was done before any of them is in their copies
}

TEST_F(AckQuorumTest, OnlyWhatIsOnTheirDisksCounts) {
  AddReplicas(1);
  quorum_.SetRules({.replicas = 1, .is_durable = true}, 0);
  quorum_.OnEpoch(1, 100);
  replicas_[0]->received = 100;
  EXPECT_EQ(quorum_.Limit(0), 0u);
  replicas_[0]->durable = 100;
  EXPECT_EQ(quorum_.Limit(0), 1u);
}

TEST_F(AckQuorumTest, WhatWasToldStaysToldWhenReplicasGo) {
  AddReplicas(1);
  quorum_.SetRules({.replicas = 1}, 0);
  quorum_.OnEpoch(1, 100);
  replicas_[0]->received = 100;
  EXPECT_EQ(quorum_.Limit(0), 1u);
  quorum_.SetVoters({});
  quorum_.OnEpoch(2, 200);
  EXPECT_EQ(quorum_.Limit(0), 1u);
}

TEST_F(AckQuorumTest, OtherRulesHoldForWhatWaits) {
  AddReplicas(2);
  quorum_.SetRules({.replicas = 2}, 0);
  quorum_.OnEpoch(1, 100);
  replicas_[0]->received = 100;
  EXPECT_EQ(quorum_.Limit(0), 0u);
  quorum_.SetRules({.replicas = 1}, 5);
  EXPECT_EQ(quorum_.Limit(0), 1u);
  quorum_.SetRules({}, 5);
  EXPECT_EQ(quorum_.Limit(0), UINT64_MAX);
}

TEST_F(AckQuorumTest, TheFenceIsOpenWhileSentinelsAreHeard) {
  quorum_.SetRules({.sentinels = 2, .fence_ns = 10}, 0);
  quorum_.OnEpoch(1, 100);
  quorum_.SetSentinels(1, {{"a", 100}, {"a", 101}});
  EXPECT_EQ(quorum_.Limit(101), 0u) << "one of them, with two connections";
  EXPECT_TRUE(quorum_.facts(101).is_fenced);
  quorum_.SetSentinels(0, {{"b", 102}, {"a", 90}});
  EXPECT_EQ(quorum_.Limit(110), 1u);
  EXPECT_FALSE(quorum_.facts(110).is_fenced);
  quorum_.OnEpoch(2, 200);
  EXPECT_EQ(quorum_.Limit(111), 1u) << "a was heard 10 before";
  quorum_.SetSentinels(1, {{"c", 111}});
  EXPECT_EQ(quorum_.Limit(111), 2u);
  quorum_.OnEpoch(3, 300);
  quorum_.SetSentinels(1, {});
  EXPECT_EQ(quorum_.Limit(111), 2u) << "a connection that has ended";
}

TEST_F(AckQuorumTest, EpochsThatWaitAreBounded) {
  AddReplicas(1);
  quorum_.SetRules({.replicas = 1}, 0);
  for (uint64_t i = 1; i <= 200'000; ++i) quorum_.OnEpoch(i, i * 10);
  EXPECT_LE(quorum_.facts(0).waiting_epochs, 65'536u);
  replicas_[0]->received = 1'999'999;
  EXPECT_LT(quorum_.Limit(0), 200'000u);
  replicas_[0]->received = 2'000'000;
  EXPECT_EQ(quorum_.Limit(0), 200'000u);
}

}  // namespace
}  // namespace dfly
