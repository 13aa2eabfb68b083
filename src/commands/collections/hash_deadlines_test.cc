// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "commands/testing/test_harness.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class HashDeadlinesTest : public CommandsTest {
 protected:
  void SetOld() { ASSERT_EQ(Run("hset h a 1 b 2 c 3"), ":3"); }
  // One step of active expiry on all shards. Returns how many members and keys it has erased.
  size_t ExpireStep(size_t budget) {
    std::atomic<size_t> expired = 0;
    shards_->AwaitOnAll(
        [&](Shard& shard) { expired += shard.ExpireStep(now_ms_, budget).expired; });
    return expired;
  }
  std::string At(int64_t ms) { return std::to_string(ms); }
};

TEST_P(HashDeadlinesTest, AreSetAndToldInAllUnits) {
  SetOld();
  EXPECT_EQ(Run("hexpire h 10 fields 2 a x"), "[:1, :-2]");
  EXPECT_EQ(Run("httl h fields 3 a b x"), "[:10, :-1, :-2]");
  EXPECT_EQ(Run("hpttl h fields 1 a"), "[:10000]");
  EXPECT_EQ(Run("hpexpiretime h fields 1 a"), "[:" + At(now_ms_ + 10'000) + "]");
  EXPECT_EQ(Run("hexpiretime h fields 1 a"), "[:" + At(now_ms_ / 1000 + 10) + "]");
  EXPECT_EQ(Run("hpexpire h 1500 fields 1 b"), "[:1]");
  EXPECT_EQ(Run("httl h fields 1 b"), "[:2]");
  EXPECT_EQ(Run("hexpireat h " + At(now_ms_ / 1000 + 5) + " fields 1 b"), "[:1]");
  EXPECT_EQ(Run("hpttl h fields 1 b"), "[:5000]");
  EXPECT_EQ(Run("hpexpireat h " + At(now_ms_ + 77) + " fields 1 b"), "[:1]");
  EXPECT_EQ(Run("hpttl h fields 1 b"), "[:77]");
  EXPECT_EQ(Run("object encoding h"), "\"hashtable\"");
  EXPECT_EQ(Run("ttl h"), ":-1");
}

TEST_P(HashDeadlinesTest, AMissingKeyHasNoFields) {
  for (const char* line : {"hexpire h 10 fields 2 a b", "httl h fields 2 a b",
                           "hpexpiretime h fields 2 a b", "hpersist h fields 2 a b"}) {
    EXPECT_EQ(Run(line), "[:-2, :-2]") << line;
  }
  EXPECT_EQ(Run("hgetex h ex 10 fields 2 a b"), "[(nil), (nil)]");
  EXPECT_EQ(Run("hgetdel h fields 2 a b"), "[(nil), (nil)]");
  EXPECT_EQ(Run("exists h"), ":0");
}

TEST_P(HashDeadlinesTest, ConditionsCompareWithTheOldOne) {
  SetOld();
  EXPECT_EQ(Run("hexpire h 10 xx fields 1 a"), "[:0]");
  EXPECT_EQ(Run("object encoding h"), "\"listpack\"");
  EXPECT_EQ(Run("hexpire h 10 gt fields 1 a"), "[:0]");
  EXPECT_EQ(Run("hexpire h 10 nx fields 1 a"), "[:1]");
  EXPECT_EQ(Run("hexpire h 20 nx fields 2 a b"), "[:0, :1]");
  EXPECT_EQ(Run("hexpire h 10 GT fields 1 a"), "[:0]");
  EXPECT_EQ(Run("hexpire h 11 gt fields 1 a"), "[:1]");
  EXPECT_EQ(Run("hexpire h 11 lt fields 1 a"), "[:0]");
  EXPECT_EQ(Run("hexpire h 9 lt fields 2 a c"), "[:1, :1]");
  EXPECT_EQ(Run("hexpire h 5 xx fields 1 a"), "[:1]");
  EXPECT_EQ(Run("httl h fields 3 a b c"), "[:5, :20, :9]");
}

TEST_P(HashDeadlinesTest, OneInThePastErasesTheFieldAndTheKeyWithTheLastOne) {
  SetOld();
  EXPECT_EQ(Run("hexpire h 0 fields 2 a x"), "[:2, :-2]");
  EXPECT_EQ(Run("hpexpireat h 1 fields 1 b"), "[:2]");
  EXPECT_EQ(Run("hgetall h"), R"(["c", "3"])");
  EXPECT_EQ(Run("hexpireat h 5 fields 1 c"), "[:2]");
  EXPECT_EQ(Run("exists h"), ":0");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(HashDeadlinesTest, ADueFieldIsAbsentForEveryCommand) {
  SetOld();
  EXPECT_EQ(Run("hpexpire h 100 fields 2 a b"), "[:1, :1]");
  now_ms_ += 100;
  EXPECT_EQ(Run("hlen h"), ":3");  // the clock is not past it
  now_ms_ += 1;
  EXPECT_EQ(Run("hlen h"), ":1");
  EXPECT_EQ(Run("hget h a"), "(nil)");
  EXPECT_EQ(Run("hmget h a b c"), R"([(nil), (nil), "3"])");
  EXPECT_EQ(Run("hexists h a"), ":0");
  EXPECT_EQ(Run("hstrlen h a"), ":0");
  EXPECT_EQ(Run("hgetall h"), R"(["c", "3"])");
  EXPECT_EQ(Run("hkeys h"), R"(["c"])");
  EXPECT_EQ(Run("hvals h"), R"(["3"])");
  EXPECT_EQ(Run("hrandfield h"), "\"c\"");
  EXPECT_EQ(Run("hrandfield h 5"), R"(["c"])");
  EXPECT_EQ(Run("hrandfield h -2"), R"(["c", "c"])");
  EXPECT_EQ(Run("hscan h 0"), R"(["0", ["c", "3"]])");
  EXPECT_EQ(Run("hdel h a"), ":0");
  EXPECT_EQ(Run("httl h fields 1 a"), "[:-2]");
  EXPECT_EQ(Run("hpersist h fields 1 a"), "[:-2]");
  EXPECT_EQ(Run("hexpire h 10 fields 1 a"), "[:-2]");
  EXPECT_EQ(Run("hgetex h persist fields 1 a"), "[(nil)]");
  EXPECT_EQ(Run("hgetdel h fields 1 a"), "[(nil)]");
  EXPECT_EQ(Run("hsetex h fxx fields 1 a 9"), ":0");
  // Whoever sets it makes a new field, without a deadline.
  EXPECT_EQ(Run("hincrby h b 5"), ":5");
  EXPECT_EQ(Run("hsetnx h a 9"), ":1");
  EXPECT_EQ(Run("httl h fields 2 a b"), "[:-1, :-1]");
  EXPECT_EQ(Run("hlen h"), ":3");
}

TEST_P(HashDeadlinesTest, AHashOfDueFieldsIsAbsentForEveryCommand) {
  const auto make = [&] {
    Run("del h other");
    SetOld();
    EXPECT_EQ(Run("hpexpire h 100 fields 3 a b c"), "[:1, :1, :1]");
    now_ms_ += 101;
  };
  for (const auto& [line, reply] :
       std::map<std::string, std::string>{{"exists h", ":0"},
                                          {"type h", "+none"},
                                          {"hlen h", ":0"},
                                          {"hgetall h", "[]"},
                                          {"hrandfield h", "(nil)"},
                                          {"hdel h a", ":0"},
                                          {"del h", ":0"},
                                          {"ttl h", ":-2"},
                                          {"object encoding h", "(nil)"},
                                          {"rename h other", "-ERR no such key"},
                                          {"copy h other", ":0"},
                                          {"keys *", "[]"},
                                          {"randomkey", "(nil)"},
                                          {"get h", "(nil)"},
                                          {"rpush h x", ":1"},
                                          {"set h x", "+OK"},
                                          {"incr h", ":1"}}) {
    make();
    EXPECT_EQ(Run(line), reply) << line;
  }
  make();
  EXPECT_EQ(Run("hset h z 1"), ":1");
  EXPECT_EQ(Run("hgetall h"), R"(["z", "1"])");
  EXPECT_EQ(Run("object encoding h"), "\"listpack\"");
  // The last live field goes: so does the key, though due ones are still in it.
  Run("del h");
  SetOld();
  Run("hpexpire h 100 fields 2 a b");
  now_ms_ += 101;
  EXPECT_EQ(Run("hdel h c"), ":1");
  EXPECT_EQ(Run("exists h"), ":0");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(HashDeadlinesTest, ExpireStepsEraseDueFieldsSoManyAtATime) {
  for (int i = 0; i < 100; ++i) Run("hset h f" + std::to_string(i) + " v");
  Run("hset h stays v");
  Run("hset gone a 1");
  std::string line = "hpexpire h 50 fields 100";
  for (int i = 0; i < 100; ++i) line += " f" + std::to_string(i);
  Run(line);
  Run("hpexpire gone 50 fields 1 a");
  EXPECT_EQ(ExpireStep(1000), 0u);
  now_ms_ += 51;
  EXPECT_EQ(Run("dbsize"), ":2");
  size_t total = 0;
  int steps = 0;
  while (total < 101 && steps < 100) {
    const size_t expired = ExpireStep(10);
    EXPECT_LE(expired, 24u);
    total += expired;
    ++steps;
  }
  EXPECT_EQ(total, 101u);
  EXPECT_GE(steps, 5);
  EXPECT_EQ(Run("dbsize"), ":1");
  EXPECT_EQ(Run("hgetall h"), R"(["stays", "v"])");
  shards_->AwaitOnAll([](Shard& shard) { EXPECT_FALSE(shard.needs_steps()); });
}

TEST_P(HashDeadlinesTest, HSetDropsThemAndCountersKeepThem) {
  SetOld();
  Run("hexpire h 10 fields 3 a b c");
  EXPECT_EQ(Run("hset h a 5"), ":0");
  EXPECT_EQ(Run("hincrby h b 1"), ":3");
  EXPECT_EQ(Run("hincrbyfloat h c 1"), "\"4\"");
  EXPECT_EQ(Run("httl h fields 3 a b c"), "[:-1, :10, :10]");
  EXPECT_EQ(Run("hpersist h fields 4 a b c x"), "[:-1, :1, :1, :-2]");
  EXPECT_EQ(Run("httl h fields 3 a b c"), "[:-1, :-1, :-1]");
  Run("hexpire h 10 fields 1 a");
  Run("hdel h a");
  Run("hset h a 1");
  EXPECT_EQ(Run("httl h fields 1 a"), "[:-1]");
}

TEST_P(HashDeadlinesTest, GetExReturnsValuesAndChangesDeadlines) {
  SetOld();
  EXPECT_EQ(Run("hgetex h fields 2 a x"), R"(["1", (nil)])");
  EXPECT_EQ(Run("hgetex h ex 10 fields 2 a x"), R"(["1", (nil)])");
  EXPECT_EQ(Run("hgetex h px 500 fields 1 b"), R"(["2"])");
  EXPECT_EQ(Run("hpttl h fields 2 a b"), "[:10000, :500]");
  EXPECT_EQ(Run("hgetex h pxat " + At(now_ms_ + 9) + " fields 1 b"), R"(["2"])");
  EXPECT_EQ(Run("hgetex h exat " + At(now_ms_ / 1000 + 9) + " fields 1 c"), R"(["3"])");
  EXPECT_EQ(Run("hpttl h fields 2 b c"), "[:9, :9000]");
  EXPECT_EQ(Run("hgetex h persist fields 2 a b"), R"(["1", "2"])");
  EXPECT_EQ(Run("httl h fields 3 a b c"), "[:-1, :-1, :9]");
  EXPECT_EQ(Run("hgetex h ex 0 fields 3 a b c"), R"(["1", "2", "3"])");
  EXPECT_EQ(Run("exists h"), ":0");
}

TEST_P(HashDeadlinesTest, SetExSetsAllOrNothing) {
  EXPECT_EQ(Run("hsetex h fxx ex 10 fields 1 a 1"), ":0");
  EXPECT_EQ(Run("exists h"), ":0");
  EXPECT_EQ(Run("hsetex h fnx ex 10 fields 2 a 1 b 2"), ":1");
  EXPECT_EQ(Run("httl h fields 2 a b"), "[:10, :10]");
  EXPECT_EQ(Run("hsetex h fnx fields 2 b 3 c 3"), ":0");
  EXPECT_EQ(Run("hsetex h fxx fields 2 b 3 c 3"), ":0");
  EXPECT_EQ(Run("hmget h a b c"), R"(["1", "2", (nil)])");
  EXPECT_EQ(Run("hsetex h fxx keepttl fields 1 a 5"), ":1");
  EXPECT_EQ(Run("hsetex h fields 1 b 6"), ":1");
  EXPECT_EQ(Run("httl h fields 2 a b"), "[:10, :-1]");
  EXPECT_EQ(Run("hsetex h ex 5 fxx fields 1 b 7"), ":1");
  EXPECT_EQ(Run("httl h fields 1 b"), "[:5]");
  EXPECT_EQ(Run("hsetex h pxat 1 fields 2 a 1 b 1"), ":1");
  EXPECT_EQ(Run("exists h"), ":0");
  EXPECT_EQ(Run("hsetex h ex 0 fields 1 a 1"), ":1");
  EXPECT_EQ(Run("exists h"), ":0");
}

TEST_P(HashDeadlinesTest, SetExMayWantTheKeyToExistOrNot) {
  EXPECT_EQ(Run("hsetex h xx fields 1 a 1"), ":0");
  EXPECT_EQ(Run("exists h"), ":0");
  EXPECT_EQ(Run("hsetex h nx ex 10 fields 1 a 1"), ":1");
  EXPECT_EQ(Run("hsetex h nx fields 1 b 2"), ":0");
  EXPECT_EQ(Run("hsetex h nx fnx fields 1 b 2"), ":0");
  EXPECT_EQ(Run("hsetex h fxx xx fields 1 b 2"), ":0");
  EXPECT_EQ(Run("hgetall h"), R"(["a", "1"])");
  EXPECT_EQ(Run("hsetex h fnx keepttl xx fields 1 b 2"), ":1");
  EXPECT_EQ(Run("httl h fields 2 a b"), "[:10, :-1]");
  EXPECT_EQ(Run("hsetex h nx xx fields 1 a 1"), "-ERR syntax error");
  EXPECT_EQ(Run("hsetex h xx xx fields 1 a 1"), ":1");
  EXPECT_EQ(Run("hgetex h nx fields 1 a").substr(0, 14), "-ERR Mandatory");
  Run("set s 1");
  EXPECT_EQ(Run("hsetex s nx fields 1 a 1"), kWrongType);
}

TEST_P(HashDeadlinesTest, GetDelReturnsAndErases) {
  SetOld();
  EXPECT_EQ(Run("hgetdel h fields 3 a x a"), R"(["1", (nil), (nil)])");
  EXPECT_EQ(Run("hlen h"), ":2");
  EXPECT_EQ(Run("hgetdel h fields 2 b c"), R"(["2", "3"])");
  EXPECT_EQ(Run("exists h"), ":0");
}

TEST_P(HashDeadlinesTest, ArgumentsAreChecked) {
  SetOld();
  for (const auto& [line, error] : std::map<std::string, std::string>{
           {"hexpire h x fields 1 a", std::string(kNotInteger)},
           {"hexpire h -1 fields 1 a", "-ERR invalid expire time, must be >= 0"},
           {"hexpire h 9223372036854775807 fields 1 a",
            "-ERR invalid expire time in 'hexpire' command"},
           {"hpexpireat h 281474976710657 fields 1 a",
            "-ERR invalid expire time in 'hpexpireat' command"},
           {"hexpire h 1 nx gt fields 1 a",
            "-ERR Mandatory argument FIELDS is missing or not at the right position"},
           {"hexpire h 1 fields 0 a", "-ERR Parameter `numFields` should be greater than 0"},
           {"hexpire h 1 fields 2 a",
            "-ERR The `numfields` parameter must match the number of arguments"},
           {"httl h a 1 b",
            "-ERR Mandatory argument FIELDS is missing or not at the right position"},
           {"httl h fields 1 a b",
            "-ERR The `numfields` parameter must match the number of arguments"},
           {"hgetex h ex 1 persist fields 1 a",
            "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified"},
           {"hsetex h ex 1 keepttl fields 1 a b",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"},
           {"hsetex h fnx fxx fields 1 a b",
            "-ERR Only one of FXX or FNX arguments can be specified"},
           {"hsetex h fields 2 a 1 b",
            "-ERR The `numfields` parameter must match the number of arguments"},
           {"hgetdel h fields x a", "-ERR Parameter `numFields` should be greater than 0"},
           {"hsetex h fields 9223372036854775807 a 1",
            "-ERR The `numfields` parameter must match the number of arguments"}}) {
    EXPECT_EQ(Run(line), error) << line;
  }
  EXPECT_EQ(Run("hmget h a b c"), R"(["1", "2", "3"])");
  Run("set s v");
  for (const char* line :
       {"hexpire s 1 fields 1 a", "httl s fields 1 a", "hpersist s fields 1 a",
        "hgetex s fields 1 a", "hsetex s fields 1 a 1", "hgetdel s fields 1 a"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
  }
  EXPECT_EQ(Run("get s"), "\"v\"");
}

TEST_P(HashDeadlinesTest, TravelWithTheHashOverShards) {
  for (int i = 0; i < 20; ++i) {
    const std::string to = "to" + std::to_string(i);
    SetOld();
    Run("hexpire h 10 fields 1 a");
    EXPECT_EQ(Run("copy h copy:" + to), ":1");
    EXPECT_EQ(Run("rename h " + to), "+OK");
    EXPECT_EQ(Run("httl " + to + " fields 2 a b"), "[:10, :-1]");
    EXPECT_EQ(Run("httl copy:" + to + " fields 2 a b"), "[:10, :-1]");
    now_ms_ += 10'001;
    EXPECT_EQ(Run("hlen " + to), ":2");
    EXPECT_EQ(Run("hlen copy:" + to), ":2");
  }
  ExpireStep(10'000);
  shards_->AwaitOnAll([](Shard& shard) { EXPECT_FALSE(shard.needs_steps()); });
}

// Random commands against a plain map with deadlines, while time passes and steps are taken.
TEST_P(HashDeadlinesTest, BehaveLikeAMapWithDeadlines) {
  helio::Random random(helio::TestSeed());
  std::map<std::string, std::pair<std::string, int64_t>> model;  // value, deadline
  for (int step = 0; step < 8000; ++step) {
    now_ms_ += static_cast<int64_t>(random.Uniform(4));
    std::erase_if(model, [&](const auto& item) { return item.second.second < now_ms_; });
    const std::string field = "f" + std::to_string(random.Uniform(30));
    const bool exists = model.count(field) != 0;
    switch (random.Uniform(8)) {
      case 0:
        EXPECT_EQ(Run("hset h " + field + " 1"), exists ? ":0" : ":1");
        model[field] = {"1", INT64_MAX};
        break;
      case 1: {
        const int64_t value = (exists ? std::stoll(model[field].first) : 0) + 1;
        EXPECT_EQ(Run("hincrby h " + field + " 1"), ":" + std::to_string(value));
        model[field] = {std::to_string(value), exists ? model[field].second : INT64_MAX};
        break;
      }
      case 2:
        EXPECT_EQ(Run("hdel h " + field), exists ? ":1" : ":0");
        model.erase(field);
        break;
      case 3:
      case 4: {
        const auto after_ms = static_cast<int64_t>(random.Uniform(40));
        EXPECT_EQ(Run("hpexpire h " + At(after_ms) + " fields 1 " + field), !exists ? "[:-2]"
                                                                            : after_ms == 0
                                                                                ? "[:2]"
                                                                                : "[:1]");
        if (exists && after_ms == 0) model.erase(field);
        if (exists && after_ms != 0) model[field].second = now_ms_ + after_ms;
        break;
      }
      case 5: {
        const int64_t at_ms = exists ? model[field].second : 0;
        EXPECT_EQ(Run("hpexpiretime h fields 1 " + field), !exists ? "[:-2]"
                                                           : at_ms == INT64_MAX
                                                               ? "[:-1]"
                                                               : "[:" + At(at_ms) + "]");
        break;
      }
      case 6:
        EXPECT_EQ(Run("hlen h"), ":" + std::to_string(model.size()));
        EXPECT_EQ(Run("exists h"), model.empty() ? ":0" : ":1");
        EXPECT_EQ(Run("hget h " + field), exists ? "\"" + model[field].first + "\"" : "(nil)");
        break;
      case 7:
        if (random.OneIn(2)) ExpireStep(1 + random.Uniform(5));
        break;
    }
    if (HasFailure()) FAIL() << "at step " << step;
    if (step % 256 == 0) {
      shards_->AwaitOnAll([](Shard& shard) { shard.CheckInvariants(); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, HashDeadlinesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
