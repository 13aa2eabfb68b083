// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"

namespace dfly {
namespace {

class SortTest : public CommandsTest {
 protected:
  SortTest() {
    Run("rpush l 3 1 10 2");
    Run("sadd s c a b");
    Run("zadd z 1 z1 2 10 3 9");
    Run("mset w_1 30 w_2 20 w_3 10 w_10 40 o_1 one o_2 two o_3 three");
    Run("hset h_1 name eins weight 4");
    Run("hset h_2 name zwei weight 3");
    Run("hset h_3 weight 2");
  }
};

TEST_P(SortTest, OrdersByNumberOrByText) {
  EXPECT_EQ(Run("sort l"), R"(["1", "2", "3", "10"])");
  EXPECT_EQ(Run("sort l desc"), R"(["10", "3", "2", "1"])");
  EXPECT_EQ(Run("sort l alpha"), R"(["1", "10", "2", "3"])");
  EXPECT_EQ(Run("sort l DESC asc Alpha"), R"(["1", "10", "2", "3"])");
  EXPECT_EQ(Run("sort s alpha desc"), R"(["c", "b", "a"])");
  EXPECT_EQ(Run("sort_ro z alpha"), R"(["10", "9", "z1"])");
  EXPECT_EQ(Run("sort none"), "[]");
  EXPECT_EQ(Run("sort s"), R"(-ERR One or more scores can't be converted into double)");
  Run("rpush numbers 1e3 -inf 0x10 0.5");
  EXPECT_EQ(RunWords({"rpush", "numbers", " 7", ""}), ":6");
  EXPECT_EQ(Run("sort numbers"), R"(["-inf", "", "0.5", " 7", "0x10", "1e3"])");
  for (const char* odd : {"nan", "1e999", "1x"}) {
    Run("del odd");
    Run("rpush odd 1 " + std::string(odd));
    EXPECT_EQ(Run("sort odd"), R"(-ERR One or more scores can't be converted into double)") << odd;
  }
}

TEST_P(SortTest, LimitsAsRedisDoes) {
  EXPECT_EQ(Run("sort l limit 1 2"), R"(["2", "3"])");
  EXPECT_EQ(Run("sort l limit 3 100"), R"(["10"])");
  EXPECT_EQ(Run("sort l limit 4 1"), "[]");
  EXPECT_EQ(Run("sort l limit -5 2"), R"(["1", "2"])");
  EXPECT_EQ(Run("sort l limit 2 -1"), R"(["3", "10"])");
  EXPECT_EQ(Run("sort l limit 0 0"), "[]");
  EXPECT_EQ(Run("sort l limit 9223372036854775807 9223372036854775807"), "[]");
  EXPECT_EQ(Run("sort l limit x 1"), kNotInteger);
  EXPECT_EQ(Run("sort l limit 1"), kSyntaxError);
}

TEST_P(SortTest, OrdersByWhatOtherKeysSay) {
  EXPECT_EQ(Run("sort l by w_*"), R"(["3", "2", "1", "10"])");
  EXPECT_EQ(Run("sort l by w_* desc limit 0 2"), R"(["10", "1"])");
  EXPECT_EQ(Run("sort l by h_*->weight"), R"(["10", "3", "2", "1"])");  // h_10 counts as 0
  EXPECT_EQ(Run("sort l by o_* alpha"), R"(["10", "1", "3", "2"])");    // none is before all
  EXPECT_EQ(Run("sort l by o_*"), R"(-ERR One or more scores can't be converted into double)");
  EXPECT_EQ(Run("sort l by none_*"), R"(["1", "10", "2", "3"])");  // equal weights: by text
  EXPECT_EQ(Run("sort l by nosort"), R"(["3", "1", "10", "2"])");
  EXPECT_EQ(Run("sort l by nosort desc"), R"(["2", "10", "1", "3"])");
  EXPECT_EQ(Run("sort l by nosort desc limit 1 2"), R"(["10", "1"])");
  EXPECT_EQ(Run("sort z by nosort"), R"(["z1", "10", "9"])");
  EXPECT_EQ(Run("sort z by nosort desc"), R"(["9", "10", "z1"])");
  EXPECT_EQ(Run("sort s by nosort store t"), ":3");
  EXPECT_EQ(Run("lrange t 0 -1"), R"(["a", "b", "c"])");
}

TEST_P(SortTest, GetsWhatOtherKeysHave) {
  EXPECT_EQ(Run("sort l get # get o_* get w_*"),
            R"(["1", "one", "30", "2", "two", "20", "3", "three", "10", "10", (nil), "40"])");
  EXPECT_EQ(Run("sort l get h_*->name"), R"(["eins", "zwei", (nil), (nil)])");
  EXPECT_EQ(Run("sort l get h_* get fixed get w_*->name get h_*->"),
            "[(nil), (nil), (nil), (nil), (nil), (nil), (nil), (nil), (nil), (nil), (nil), (nil), "
            "(nil), (nil), (nil), (nil)]");
  EXPECT_EQ(Run("sort none get w_*"), "[]");
}

TEST_P(SortTest, StoresAList) {
  Run("set target text");
  Run("pexpire target 100000");
  EXPECT_EQ(Run("sort l by w_* get o_* store target"), ":4");
  EXPECT_EQ(Run("lrange target 0 -1"), R"(["three", "two", "one", ""])");
  EXPECT_EQ(Run("pttl target"), ":-1");
  EXPECT_EQ(Run("sort l store l"), ":4");
  EXPECT_EQ(Run("lrange l 0 -1"), R"(["1", "2", "3", "10"])");
  EXPECT_EQ(Run("sort l limit 9 1 store target"), ":0");
  EXPECT_EQ(Run("exists target"), ":0");
  EXPECT_EQ(Run("sort none store none"), ":0");
  for (int i = 0; i < 16; ++i) {  // in all shards
    const std::string target = "target" + std::to_string(i);
    EXPECT_EQ(Run("sort l store " + target), ":4");
    EXPECT_EQ(Run("lrange " + target + " 0 -1"), R"(["1", "2", "3", "10"])");
  }
}

TEST_P(SortTest, RefusesWhatIsNotSortable) {
  Run("set text v");
  EXPECT_EQ(Run("sort text"), kWrongType);
  EXPECT_EQ(Run("sort h_1"), kWrongType);
  EXPECT_EQ(Run("sort text what"), kSyntaxError);
  EXPECT_EQ(Run("sort_ro l store t"), kSyntaxError);
  for (const char* cut : {"store", "by", "get", "limit 1", "x"}) {
    EXPECT_EQ(Run("sort l " + std::string(cut)), kSyntaxError) << cut;
  }
}

TEST_P(SortTest, DueKeysAndFieldsAreAbsent) {
  Run("pexpire w_3 1000");
  Run("hpexpire h_2 1000 fields 1 name");
  now_ms_ += 2000;
  EXPECT_EQ(Run("sort l by w_*"), R"(["3", "2", "1", "10"])");
  EXPECT_EQ(Run("exists w_3"), ":0");
  EXPECT_EQ(Run("sort l get h_*->name"), R"(["eins", (nil), (nil), (nil)])");
}

TEST_P(SortTest, ManyElementsKeepTheirWeights) {
  constexpr int kElements = 5000;
  for (int i = 0; i < kElements; ++i) {
    Run("sadd many " + std::to_string(i));
    Run("set weight:" + std::to_string(i) + " " + std::to_string(kElements - i));
  }
  const RespValue sorted = Call({"sort", "many", "by", "weight:*", "get", "weight:*"});
  ASSERT_EQ(sorted.items.size(), size_t{kElements});
  for (int i = 0; i < kElements; ++i)
    EXPECT_EQ(sorted.items[static_cast<size_t>(i)].text, std::to_string(i + 1));
}

INSTANTIATE_TEST_SUITE_P(Shards, SortTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
