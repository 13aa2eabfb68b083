// SPDX-License-Identifier: Apache-2.0
#include "core/table/score_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/text/hash.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

// A tree, the members that it refers to, and the same as a set of the standard library.
class Checked {
 public:
  void Insert(double score, const std::string& member) {
    auto& key = keys_[member];
    key = std::make_unique<CompactKey>(KeyProbe(member, HashKey(member)));
    tree.Insert(score, *key);
    model.insert({score, member});
  }
  void Erase(double score, const std::string& member) {
    tree.Erase(score, member);
    model.erase({score, member});
    keys_.erase(member);
  }

  void EraseRange(size_t first, size_t count) {
    while (count > 0) {
      CompactKeyRef erased[ScoreTree::kErasedMax];
      const uint32_t some = tree.EraseSome(first, count, erased);
      ASSERT_GT(some, 0u);
      ASSERT_LE(some, count);
      count -= some;
      auto at = std::next(model.begin(), static_cast<ptrdiff_t>(first));
      for (uint32_t i = 0; i < some; ++i) {
        ASSERT_EQ(erased[i].ToString(), at->second);
        keys_.erase(at->second);
        at = model.erase(at);
      }
      if (model.size() < 3000) tree.CheckInvariants();
    }
  }

  void Check() const {
    tree.CheckInvariants();
    ASSERT_EQ(tree.size(), model.size());
    auto cursor = tree.At(0);
    for (const auto& [score, member] : model) {
      ASSERT_TRUE(cursor);
      char scratch[CompactKeyRef::kScratchSize];
      ASSERT_EQ(cursor.score(), score);
      ASSERT_EQ(cursor.member(scratch), member);
      cursor.Next();
    }
    ASSERT_FALSE(cursor);
  }

  ScoreTree tree;
  std::set<std::pair<double, std::string>> model;

 private:
  std::map<std::string, std::unique_ptr<CompactKey>> keys_;
};

TEST(ScoreTreeTest, AnEmptyTreeHasNothing) {
  ScoreTree tree;
  tree.CheckInvariants();
  EXPECT_FALSE(tree.At(0));
  EXPECT_EQ(tree.Rank(0, "a"), 0u);
  EXPECT_EQ(tree.CountUpTo(std::numeric_limits<double>::infinity()), 0u);
  EXPECT_TRUE(tree.FreeSome(1));
}

TEST(ScoreTreeTest, OrdersByScoreAndThenByBytes) {
  Checked checked;
  const double infinity = std::numeric_limits<double>::infinity();
  checked.Insert(1, "b");
  checked.Insert(1, std::string("a\0", 2));
  checked.Insert(1, "a");
  checked.Insert(infinity, "top");
  checked.Insert(-infinity, "bottom");
  checked.Insert(1, "\xff");
  checked.Insert(0.5, "a member that does not fit into sixteen bytes");
  checked.Check();
  EXPECT_EQ(checked.tree.Rank(1, "a"), 2u);
  EXPECT_EQ(checked.tree.CountBelow(1), 2u);
  EXPECT_EQ(checked.tree.CountUpTo(1), 6u);
  EXPECT_EQ(checked.tree.CountBelow(-infinity), 0u);
  EXPECT_EQ(checked.tree.CountUpTo(infinity), 7u);
}

TEST(ScoreTreeTest, RandomChangesAgreeWithASet) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 12; ++round) {
    Checked checked;
    std::map<std::string, double> scores;
    const uint64_t members = 10 + random.Uniform(round % 3 == 0 ? 20'000 : 500);
    const uint64_t distinct = 1 + random.Uniform(random.OneIn(2) ? 4 : 100'000);
    uint64_t grows = 7;  // of ten changes
    for (int step = 0; step < 30'000; ++step) {
      if (step % 5000 == 0) grows = 2 + random.Uniform(7);
      std::string member = "member:" + std::to_string(random.Uniform(members));
      if (random.OneIn(2)) member += " and something that is on the heap";
      const auto it = scores.find(member);
      if (random.Uniform(10) < grows) {
        const double score = static_cast<double>(random.Uniform(distinct)) - 5;
        if (it != scores.end()) checked.Erase(it->second, member);
        checked.Insert(score, member);
        scores[member] = score;
      } else if (it != scores.end()) {
        checked.Erase(it->second, member);
        scores.erase(it);
      }
      if (step % 3000 == 0) checked.Check();
      if (step % 50 != 0 || checked.model.empty()) continue;
      auto at = checked.model.begin();
      const size_t rank = random.Uniform(checked.model.size());
      std::advance(at, rank);
      ASSERT_EQ(checked.tree.Rank(at->first, at->second), rank);
      auto cursor = checked.tree.At(rank);
      char scratch[CompactKeyRef::kScratchSize];
      ASSERT_EQ(cursor.member(scratch), at->second);
      cursor.Previous();
      ASSERT_EQ(static_cast<bool>(cursor), rank > 0);
      if (rank > 0) {
        ASSERT_EQ(cursor.member(scratch), std::prev(at)->second);
      }
      const size_t below = static_cast<size_t>(
          std::distance(checked.model.begin(), checked.model.lower_bound({at->first, ""})));
      ASSERT_EQ(checked.tree.CountBelow(at->first), below);
    }
    checked.Check();
  }
}

TEST(ScoreTreeTest, RangesAreErased) {
  helio::Random random(helio::TestSeed());
  for (int round = 0; round < 20; ++round) {
    Checked checked;
    const uint64_t grows = 1 + random.Uniform(round % 10 == 0 ? 8000 : 500);
    int next = 0;
    for (int step = 0; step < 30; ++step) {
      const bool is_at_end = random.OneIn(2);
      for (uint64_t i = random.Uniform(grows); i > 0; --i, ++next) {
        const double score = is_at_end ? next : static_cast<double>(random.Uniform(100));
        checked.Insert(score, "m" + std::to_string(next) + (next % 3 == 0 ? "" : " on the heap"));
      }
      const size_t size = checked.model.size();
      if (size == 0) continue;
      const size_t first = random.OneIn(4) ? 0 : random.Uniform(size);
      const size_t most = random.OneIn(4) ? size : 1 + random.Uniform(size);
      checked.EraseRange(first, std::min(most, size - first));
      checked.Check();
      for (uint64_t i = random.Uniform(50); i > 0 && !checked.model.empty(); --i) {
        const auto [score, member] = *checked.model.begin();
        checked.Erase(score, member);
      }
      checked.Check();
    }
    checked.EraseRange(0, checked.model.size());
    checked.Check();
    EXPECT_EQ(checked.tree.bytes(), 0u);
  }
}

// Nodes that were split at the end have few items, and so have those that much was erased from.
TEST(ScoreTreeTest, WhatGrewAtItsEndCanShrinkInAnyOrder) {
  helio::Random random(3);
  for (int order = 0; order < 3; ++order) {
    Checked checked;
    std::vector<int> left;
    for (int i = 0; i < 30'000; ++i) {
      checked.Insert(i, "m" + std::to_string(i));
      left.push_back(i);
    }
    if (order == 1) std::reverse(left.begin(), left.end());
    if (order == 2) std::shuffle(left.begin(), left.end(), random);
    for (size_t i = 0; i < left.size(); ++i) {
      checked.Erase(left[i], "m" + std::to_string(left[i]));
      if (i % 2000 == 0) checked.Check();
    }
    checked.Check();
    EXPECT_EQ(checked.tree.bytes(), 0u);
  }
}

TEST(ScoreTreeTest, RangesOfMembers) {
  Checked checked;
  std::set<std::string> members;
  for (int i = 0; i < 1000; ++i) members.insert("m" + std::to_string(i * 7));
  for (const std::string& member : members) checked.Insert(0, member);
  const auto below = [&](const std::string& text) {
    return static_cast<size_t>(std::distance(members.begin(), members.lower_bound(text)));
  };
  for (const char* text : {"", "m", "m49", "m490", "m50", "m5999", "z"}) {
    EXPECT_EQ(checked.tree.CountBelowMember(text), below(text)) << text;
    EXPECT_EQ(checked.tree.CountUpToMember(text), below(text) + members.count(text)) << text;
  }
}

// However a set was filled, an entry costs well under what a skip list's would.
TEST(ScoreTreeTest, NodesAreWellFilled) {
  enum Way { kUp, kDown, kRandom };
  for (Way way : {kUp, kDown, kRandom}) {
    helio::Random random(5);
    ScoreTree tree;
    std::vector<std::unique_ptr<CompactKey>> keys;
    constexpr size_t kEntries = 100'000;
    for (size_t i = 0; i < kEntries; ++i) {
      const std::string member = "member:" + std::to_string(i);
      keys.push_back(std::make_unique<CompactKey>(KeyProbe(member, HashKey(member))));
      const double up = static_cast<double>(i);
      tree.Insert(way == kUp ? up : way == kDown ? -up : random.NextDouble(), *keys.back());
    }
    tree.CheckInvariants();
    EXPECT_LT(tree.bytes() / kEntries, way == kUp ? 27u : 34u) << way;
  }
}

TEST(ScoreTreeTest, FreesInSteps) {
  Checked checked;
  for (int i = 0; i < 20'000; ++i) checked.Insert(i, "m" + std::to_string(i));
  int steps = 1;
  for (; !checked.tree.FreeSome(100); ++steps) EXPECT_GT(checked.tree.bytes(), 0u);
  EXPECT_GT(steps, 50);
  EXPECT_EQ(checked.tree.bytes(), 0u);
  EXPECT_EQ(checked.tree.size(), 0u);
}

}  // namespace
}  // namespace dfly
