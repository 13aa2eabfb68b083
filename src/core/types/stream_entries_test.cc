// SPDX-License-Identifier: Apache-2.0
#include "core/types/stream_entries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

using Texts = std::vector<std::string>;
using Model = std::map<StreamId, Texts>;

class StreamEntriesTest : public testing::Test {
 protected:
  void Append(StreamId id, const Texts& texts, const StreamLimit& limit = {}) {
    const std::vector<std::string_view> pairs(texts.begin(), texts.end());
    entries_.Append(id, pairs, limit);
  }
  static Texts TextsOf(const StreamEntry& entry) {
    Texts texts;
    entry.ForEachField([&](PackedElement name, PackedElement value) {
      texts.push_back(name.ToString());
      texts.push_back(value.ToString());
    });
    EXPECT_EQ(texts.size(), entry.fields * 2);
    return texts;
  }
  using Found = std::vector<std::pair<StreamId, Texts>>;
  Found Range(StreamId first, StreamId last, bool backwards = false) const {
    Found found;
    const auto add = [&](const StreamEntry& entry) {
      found.emplace_back(entry.id, TextsOf(entry));
      return true;
    };
    if (backwards) {
      entries_.ForEachBackwards(first, last, add);
    } else {
      entries_.ForEach(first, last, add);
    }
    return found;
  }
  Found All() const { return Range(StreamId::Min(), StreamId::Max()); }

  size_t bytes_ = 0;
  StreamEntries entries_{&bytes_};
};

TEST_F(StreamEntriesTest, EntriesComeBackAsTheyWere) {
  const Texts odd = {"",
                     "",
                     "a",
                     "-0",
                     "12",
                     "0012",
                     "-9223372036854775808",
                     "9223372036854775807",
                     std::string(70000, 'x'),
                     std::string("\0\r\n", 3)};
  Append({0, 1}, {"a", "1"});
  Append({0, 2}, {"a", "2"});
  Append({5, 0}, {"a", "2", "b", "3"});
  Append({5, UINT64_MAX}, {"b", "2"});
  Append({UINT64_MAX, 7}, odd);
  Append({UINT64_MAX, UINT64_MAX}, {"a", "b"});
  const Found expected = {{{0, 1}, {"a", "1"}},           {{0, 2}, {"a", "2"}},
                          {{5, 0}, {"a", "2", "b", "3"}}, {{5, UINT64_MAX}, {"b", "2"}},
                          {{UINT64_MAX, 7}, odd},         {StreamId::Max(), {"a", "b"}}};
  EXPECT_EQ(All(), expected);
  EXPECT_EQ(entries_.First(), (StreamId{0, 1}));
  EXPECT_EQ(entries_.Last(), StreamId::Max());
  EXPECT_TRUE(entries_.Has({5, 0}));
  EXPECT_FALSE(entries_.Has({5, 1}));
  entries_.CheckInvariants();
}

TEST_F(StreamEntriesTest, ANodeHasSoManyEntriesAsTheLimitSays) {
  for (uint64_t i = 1; i <= 101; ++i) Append({i, 0}, {"a", "b"});
  EXPECT_EQ(entries_.nodes(), 2u);
  for (uint64_t i = 102; i <= 110; ++i) Append({i, 0}, {"a", "b"}, {.node_entries = 3});
  EXPECT_EQ(entries_.nodes(), 2u + 3);  // 3 in the second
  for (uint64_t i = 111; i <= 500; ++i) Append({i, 0}, {"a", "b"}, {.node_entries = 0});
  EXPECT_EQ(entries_.nodes(), 5u + 1);  // by bytes now
  entries_.CheckInvariants();
}

// What redis-server 7.0 says of the same entries in DEBUG LISTPACK and XINFO.
TEST_F(StreamEntriesTest, ANodeCountsTheBytesOfRedisForm) {
  Append({1, 1}, {"a", "b"});
  // Frame 7; 1, 0, 1 field, "a", 0; flags, 0, 0, "b", 4.
  EXPECT_EQ(entries_.NodeListpackBytes(0), 7u + 2 + 2 + 2 + 3 + 2 + 2 + 2 + 2 + 3 + 2);
  Append({1, 2}, {"a", "100000"});
  EXPECT_EQ(entries_.NodeListpackBytes(0), 29u + 2 + 2 + 2 + 5 + 2);
  Append({2, 0}, {"x", std::string(100, 'v')});
  // The number goes down by one: -1 has two bytes.
  EXPECT_EQ(entries_.NodeListpackBytes(0), 42u + 2 + 2 + 3 + 2 + 3 + 103 + 2);
}

TEST_F(StreamEntriesTest, ManyEntriesAreCountedByNodes) {
  constexpr size_t kAnyBytes = SIZE_MAX;
  EXPECT_FALSE(entries_.HasMany(StreamId::Min(), StreamId::Max(), 1, 1));
  for (uint64_t i = 1; i <= 1000; ++i) Append({1, i}, {"field", "value"});
  EXPECT_TRUE(entries_.HasMany(StreamId::Min(), StreamId::Max(), 1000, kAnyBytes));
  EXPECT_FALSE(entries_.HasMany(StreamId::Min(), StreamId::Max(), 1001, kAnyBytes));
  EXPECT_TRUE(entries_.HasMany({1, 501}, {1, 1000}, 500, kAnyBytes));
  EXPECT_FALSE(entries_.HasMany({1, 501}, {1, 1000}, 601, kAnyBytes));
  EXPECT_FALSE(entries_.HasMany({1, 1}, {1, 200}, 301, kAnyBytes));
  EXPECT_FALSE(entries_.HasMany({1, 1000}, StreamId::Max(), 101, kAnyBytes));
  EXPECT_FALSE(entries_.HasMany({1, 1001}, StreamId::Max(), 1, 1));
  Append({2, 1}, {"field", std::string(10'000, 'x')});
  EXPECT_TRUE(entries_.HasMany({2, 0}, StreamId::Max(), 1001, 10'000));
  EXPECT_FALSE(entries_.HasMany({2, 0}, StreamId::Max(), 1001, 20'000));
}

TEST_F(StreamEntriesTest, ANodeGoesWithItsLastEntry) {
  for (uint64_t i = 1; i <= 30; ++i) Append({i, 0}, {"a", "b"}, {.node_entries = 10});
  EXPECT_FALSE(entries_.Erase({31, 0}));
  EXPECT_FALSE(entries_.Erase({0, 5}));
  for (uint64_t i = 11; i <= 20; ++i) {
    EXPECT_EQ(entries_.nodes(), 3u);
    EXPECT_TRUE(entries_.Erase({i, 0}));
    EXPECT_FALSE(entries_.Erase({i, 0}));
  }
  EXPECT_EQ(entries_.nodes(), 2u);
  EXPECT_EQ(entries_.size(), 20u);
  EXPECT_EQ(Range({10, 0}, {21, 0}).size(), 2u);
  EXPECT_EQ(Range({11, 0}, {20, 9}).size(), 0u);
  entries_.CheckInvariants();
}

TEST_F(StreamEntriesTest, AnApproximateTrimTakesWholeNodes) {
  for (uint64_t i = 1; i <= 100; ++i) Append({i, 0}, {"a", "b"}, {.node_entries = 10});
  EXPECT_EQ(entries_.TrimFront({.size_max = 55, .is_approximate = true}), 40u);
  EXPECT_EQ(entries_.TrimFront({.size_max = 55}), 5u);
  EXPECT_EQ(entries_.TrimFront({.size_max = 0, .is_approximate = true, .erased_max = 14}), 5u);
  EXPECT_EQ(entries_.TrimFront({.id_min = {73, 0}, .is_approximate = true}), 20u);
  EXPECT_EQ(entries_.TrimFront({.id_min = {73, 1}}), 3u);
  EXPECT_EQ(entries_.First(), (StreamId{74, 0}));
  EXPECT_EQ(entries_.TrimFront({.size_max = 0}), 27u);
  EXPECT_EQ(entries_.nodes(), 0u);
  EXPECT_EQ(entries_.First(), std::nullopt);
  EXPECT_EQ(entries_.Last(), std::nullopt);
  EXPECT_TRUE(All().empty());
  EXPECT_TRUE(Range(StreamId::Min(), StreamId::Max(), true).empty());
}

TEST_F(StreamEntriesTest, ACopyHasItsOwnNodes) {
  for (uint64_t i = 1; i <= 250; ++i) Append({i, 0}, {"a", std::to_string(i)});
  entries_.Erase({7, 0});
  size_t bytes = 0;
  StreamEntries copy(&bytes);
  copy.CopyFrom(entries_);
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, bytes_);
  copy.CheckInvariants();
  entries_.TrimFront({.size_max = 0});
  EXPECT_EQ(copy.size(), 249u);
  copy.Clear();
  EXPECT_EQ(bytes, 0u);
}

TEST_F(StreamEntriesTest, RandomOperationsDoWhatAMapDoes) {
  helio::Random random(helio::TestSeed());
  const auto below = [&](uint64_t n) { return random.Next() % n; };
  for (int round = 0; round < 30; ++round) {
    entries_.Clear();
    EXPECT_EQ(bytes_, 0u);
    Model model;
    StreamId id;
    const StreamLimit limit = {.node_bytes = below(2) == 0 ? 4096u : 200u,
                               .node_entries = std::vector<uint64_t>{0, 1, 5, 100}[below(4)]};
    const auto any_id = [&]() -> StreamId {
      if (model.empty() || below(4) == 0) return {below(id.ms + 2), below(3)};
      auto it = model.lower_bound({below(id.ms + 1), 0});
      return it == model.end() ? model.rbegin()->first : it->first;
    };
    for (int step = 0; step < 600; ++step) {
      switch (below(10)) {
        case 0:
          EXPECT_EQ(entries_.Erase(id), model.erase(id) == 1);
          break;
        case 1: {
          const StreamId gone = any_id();
          EXPECT_EQ(entries_.Erase(gone), model.erase(gone) == 1);
          break;
        }
        case 2: {
          if (below(5) != 0) break;
          StreamEntries::Trim trim;
          if (below(2) == 0) {
            trim.size_max = below(model.size() + 2);
          } else {
            trim.id_min = any_id();
          }
          uint64_t erased = 0;
          while (!model.empty() && (trim.size_max ? model.size() > *trim.size_max
                                                  : model.begin()->first < trim.id_min)) {
            model.erase(model.begin());
            ++erased;
          }
          EXPECT_EQ(entries_.TrimFront(trim), erased);
          break;
        }
        case 3: {
          StreamId first = any_id(), last = any_id();
          if (last < first) std::swap(first, last);
          Found expected;
          for (auto it = model.lower_bound(first); it != model.end() && it->first <= last; ++it) {
            expected.emplace_back(*it);
          }
          EXPECT_EQ(Range(first, last), expected);
          std::reverse(expected.begin(), expected.end());
          EXPECT_EQ(Range(first, last, true), expected);
          break;
        }
        default: {
          if (below(3) == 0) {
            id = {id.ms + 1 + below(300), below(3)};
          } else {
            id.seq += 1 + below(4) / 3 * below(1000);
          }
          Texts texts;
          for (uint64_t fields = below(6) == 0 ? 1 + below(4) : 2; fields > 0; --fields) {
            texts.push_back(below(8) == 0 ? "other" : "f" + std::to_string(fields));
            texts.push_back(below(2) == 0
                                ? std::to_string(static_cast<int64_t>(random.Next()) >> below(64))
                                : std::string(below(90), 'v'));
          }
          Append(id, texts, limit);
          model.emplace(id, std::move(texts));
        }
      }
      ASSERT_EQ(entries_.size(), model.size());
    }
    entries_.CheckInvariants();
    EXPECT_EQ(All(), Found(model.begin(), model.end()));
    if (!model.empty()) {
      EXPECT_EQ(entries_.First(), model.begin()->first);
      EXPECT_EQ(entries_.Last(), model.rbegin()->first);
    }
  }
}

}  // namespace
}  // namespace dfly
