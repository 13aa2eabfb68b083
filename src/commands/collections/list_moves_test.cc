// SPDX-License-Identifier: Apache-2.0
// LMOVEM and BLMOVEM; what moves one element is in list_test.cc.
#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

constexpr std::string_view kCountError = "-ERR count should be greater than 0";

class ListMovesTest : public CommandsTest {
 protected:
  std::string All(const std::string& key) { return Run("lrange " + key + " 0 -1"); }
};

TEST_P(ListMovesTest, WithoutACountOneElementMovesInAnArray) {
  Run("rpush a 1 2 3");
  EXPECT_EQ(Run("lmovem a b left right"), R"(["1"])");
  EXPECT_EQ(Run("LMOVEM a b RIGHT LEFT"), R"(["3"])");
  EXPECT_EQ(All("a"), R"(["2"])");
  EXPECT_EQ(All("b"), R"(["3", "1"])");
  EXPECT_EQ(Run("lmovem a a left right"), R"(["2"])");
  EXPECT_EQ(Run("lmovem a b left left"), R"(["2"])");
  EXPECT_EQ(Run("exists a"), ":0");
}

// The examples of the command's page.
TEST_P(ListMovesTest, OneByOneTurnsRoundAtTheSameEnd) {
  Run("rpush mylist 1 2 3 4");
  EXPECT_EQ(Run("lmovem mylist other left left count 2 obo"), R"(["2", "1"])");
  EXPECT_EQ(All("mylist"), R"(["3", "4"])");
  EXPECT_EQ(All("other"), R"(["2", "1"])");
  EXPECT_EQ(Run("lmovem mylist other left left exactly 5 bulk"), "(nil)");
  Run("rpush some a b c");
  EXPECT_EQ(Run("lmovem some some left left exactly 2 obo"), R"(["b", "a"])");
  EXPECT_EQ(All("some"), R"(["b", "a", "c"])");
  EXPECT_EQ(Run("lmovem some some left left exactly 2 bulk"), R"(["b", "a"])");
  EXPECT_EQ(All("some"), R"(["b", "a", "c"])");
}

TEST_P(ListMovesTest, InBulkTheOrderStays) {
  Run("rpush a 1 2 3 4 5 6");
  Run("rpush b x");
  EXPECT_EQ(Run("lmovem a b right left count 2 bulk"), R"(["5", "6"])");
  EXPECT_EQ(All("b"), R"(["5", "6", "x"])");
  EXPECT_EQ(Run("lmovem a b right right count 2 bulk"), R"(["3", "4"])");
  EXPECT_EQ(All("b"), R"(["5", "6", "x", "3", "4"])");
  EXPECT_EQ(Run("lmovem a b left right count 9 obo"), R"(["1", "2"])");
  EXPECT_EQ(All("b"), R"(["5", "6", "x", "3", "4", "1", "2"])");
}

TEST_P(ListMovesTest, ExactlyMovesAllOrNothing) {
  EXPECT_EQ(Run("lmovem a b left right count 2 obo"), "(nil)");
  EXPECT_EQ(Run("lmovem a b left right"), "(nil)");
  Run("rpush a 1 2");
  EXPECT_EQ(Run("lmovem a b left right exactly 3 bulk"), "(nil)");
  EXPECT_EQ(All("a"), R"(["1", "2"])");
  EXPECT_EQ(Run("exists b"), ":0");
  EXPECT_EQ(Run("lmovem a b left right exactly 2 bulk"), R"(["1", "2"])");
  EXPECT_EQ(Run("exists a"), ":0");
}

TEST_P(ListMovesTest, ArgumentsThatAreWrongChangeNothing) {
  Run("rpush a 1 2");
  Run("set s v");
  for (const char* line :
       {"up left", "left down", "left right count 1", "left right count 1 bulk obo",
        "left right obo count 1", "left right count 1 both", "left right some 1 obo",
        "left right count", "left right bulk"}) {
    EXPECT_EQ(Run("lmovem a b " + std::string(line)), kSyntaxError) << line;
  }
  for (const char* count : {"0", "-1", "x", "1.5", "9223372036854775808"}) {
    const std::string text = count;
    EXPECT_EQ(Run("lmovem a b left right count " + text + " obo"), kCountError);
    EXPECT_EQ(Run("lmovem a b left right exactly " + text + " bulk"), kCountError);
    EXPECT_EQ(Run("blmovem a b left right 0 exactly " + text + " bulk"), kCountError);
  }
  EXPECT_EQ(Run("lmovem a b left"), "-ERR wrong number of arguments for 'lmovem' command");
  EXPECT_EQ(Run("blmovem a b left right"), "-ERR wrong number of arguments for 'blmovem' command");
  EXPECT_EQ(Run("blmovem a b left right -1"), "-ERR timeout is negative");
  EXPECT_EQ(Run("blmovem a b left right count 1 obo"), kSyntaxError);
  for (const char* line : {"lmovem s b left right", "lmovem s b left right exactly 9 obo",
                           "lmovem a s left right", "lmovem a s left left count 2 bulk",
                           "blmovem a s left left 0 count 2 bulk", "lmovem s s left right"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(All("a"), R"(["1", "2"])");
  EXPECT_EQ(Run("get s"), "\"v\"");
  EXPECT_EQ(Run("dbsize"), ":2");
  // A count that no list has is as good as all.
  EXPECT_EQ(Run("lmovem a b left right count 9223372036854775807 obo"), R"(["1", "2"])");
}

TEST_P(ListMovesTest, AListThatGivesToItselfKeepsItsDeadline) {
  Run("rpush a 1 2 3");
  Run("expire a 100");
  EXPECT_EQ(Run("lmovem a a left right exactly 3 bulk"), R"(["1", "2", "3"])");
  EXPECT_EQ(Run("lmovem a a right right exactly 3 obo"), R"(["3", "2", "1"])");
  EXPECT_EQ(All("a"), R"(["3", "2", "1"])");
  EXPECT_EQ(Run("ttl a"), ":100");
}

// Against lists that are moved one by one, and as a block.
TEST_P(ListMovesTest, DoesAsTheModelSays) {
  using Model = std::deque<std::string>;
  std::mt19937_64 random(helio::TestSeed());
  const auto below = [&](uint64_t bound) { return random() % bound; };
  Model models[3];
  const auto shown = [](const Model& model) {
    std::string text = "[";
    for (const std::string& element : model) {
      text.append(text.size() > 1 ? ", \"" : "\"").append(element).append("\"");
    }
    return text + "]";
  };
  const auto pop = [](Model& model, bool is_left) {
    std::string element = is_left ? model.front() : model.back();
    is_left ? model.pop_front() : model.pop_back();
    return element;
  };
  const auto push = [](Model& model, bool is_left, const std::string& element) {
    is_left ? model.push_front(element) : model.push_back(element);
  };
  for (int round = 0; round < 3000; ++round) {
    const size_t from = below(3);
    const size_t to = below(3);
    if (below(3) == 0) {
      const std::string element = std::to_string(round) + std::string(below(20), 'x');
      Run("rpush k" + std::to_string(to) + " " + element);
      models[to].push_back(element);
      continue;
    }
    const bool from_left = below(2) == 0;
    const bool to_left = below(2) == 0;
    const bool is_exact = below(2) == 0;
    const bool is_bulk = below(2) == 0;
    const size_t count = 1 + below(4);
    Model& source = models[from];
    Model& target = models[to];
    const size_t moved = is_exact && source.size() < count ? 0 : std::min(count, source.size());
    Model block;
    if (is_bulk) {
      for (size_t i = 0; i < moved; ++i) push(block, !from_left, pop(source, from_left));
    } else {
      for (size_t i = 0; i < moved; ++i) push(block, to_left, pop(source, from_left));
    }
    target.insert(to_left ? target.begin() : target.end(), block.begin(), block.end());
    const bool may_wait = below(2) == 0;
    const std::string line = (may_wait ? "blmovem k" : "lmovem k") + std::to_string(from) + " k" +
                             std::to_string(to) + (from_left ? " left" : " right") +
                             (to_left ? " left" : " right") + (may_wait ? " 0.001" : "") +
                             (is_exact ? " exactly " : " count ") + std::to_string(count) +
                             (is_bulk ? " bulk" : " obo");
    ASSERT_EQ(Run(line), moved == 0 ? "(nil)" : shown(block)) << line;
    for (int i = 0; i < 3; ++i) ASSERT_EQ(All("k" + std::to_string(i)), shown(models[i])) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ListMovesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
