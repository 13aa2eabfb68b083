// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/text/numbers.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class StringCommandsTest : public CommandsTest {
 protected:
  using CommandsTest::CommandsTest;
  // A string that can be told from any other, and its deadline, to see that nothing has changed.
  void SetOld() { ASSERT_EQ(Run("set k old-value pxat 1800000000123"), "+OK"); }
  void ExpectOld() {
    EXPECT_EQ(Run("get k"), "\"old-value\"");
    EXPECT_EQ(Run("pexpiretime k"), ":1800000000123");
    EXPECT_EQ(Run("dbsize"), ":1");
  }
};

TEST_P(StringCommandsTest, GetReturnsWhatSetStored) {
  EXPECT_EQ(Run("get k"), "(nil)");
  for (const std::string& text :
       {std::string(), std::string("v"), std::string("0"), std::string("-17"),
        std::string("a\0b\r\n", 5), std::string(14, 'x'), std::string(100'000, 'y')}) {
    EXPECT_EQ(RunWords({"set", "k", text}), "+OK");
    EXPECT_EQ(Call({"get", "k"}).text, text);
    EXPECT_EQ(Run("strlen k"), ":" + std::to_string(text.size()));
  }
}

TEST_P(StringCommandsTest, SetReplacesAnyTypeAndRemovesTheDeadline) {
  MakeHash("k");
  EXPECT_EQ(Run("set k v"), "+OK");
  EXPECT_EQ(Run("type k"), "+string");
  EXPECT_EQ(Run("expire k 100"), ":1");
  EXPECT_EQ(Run("set k w"), "+OK");
  EXPECT_EQ(Run("ttl k"), ":-1");
}

TEST_P(StringCommandsTest, SetTakesItsConditions) {
  EXPECT_EQ(Run("set k v xx"), "(nil)");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("set k v NX"), "+OK");
  EXPECT_EQ(Run("set k w nx"), "(nil)");
  EXPECT_EQ(Run("get k"), "\"v\"");
  EXPECT_EQ(Run("set k w XX"), "+OK");
  EXPECT_EQ(Run("get k"), "\"w\"");
}

TEST_P(StringCommandsTest, SetGetReturnsTheOldValueWhateverTheConditionSays) {
  EXPECT_EQ(Run("set k v get"), "(nil)");
  EXPECT_EQ(Run("set k w get"), "\"v\"");
  EXPECT_EQ(Run("set k x nx get"), "\"w\"");
  EXPECT_EQ(Run("get k"), "\"w\"");
  EXPECT_EQ(Run("set missing x xx get"), "(nil)");
  EXPECT_EQ(Run("exists missing"), ":0");
}

TEST_P(StringCommandsTest, SetSetsDeadlinesInAllUnits) {
  Run("set k v ex 10");
  EXPECT_EQ(Run("pexpiretime k"), ":1700000010000");
  Run("set k v px 10");
  EXPECT_EQ(Run("pexpiretime k"), ":1700000000010");
  Run("set k v exat 1700000001");
  EXPECT_EQ(Run("pexpiretime k"), ":1700000001000");
  Run("set k v pxat 1700000000001");
  EXPECT_EQ(Run("pexpiretime k"), ":1700000000001");
  Run("set k v px 5 px 7");  // the last one counts
  EXPECT_EQ(Run("pexpiretime k"), ":1700000000007");
  Run("set k w keepttl");
  EXPECT_EQ(Run("get k"), "\"w\"");
  EXPECT_EQ(Run("pexpiretime k"), ":1700000000007");
}

TEST_P(StringCommandsTest, SetWithADeadlineInThePastLeavesNoKey) {
  EXPECT_EQ(Run("set k v exat 1"), "+OK");
  EXPECT_EQ(Run("dbsize"), ":0");
  Run("set k v");
  EXPECT_EQ(Run("set k w pxat 1700000000000 get"), "\"v\"");
  EXPECT_EQ(Run("dbsize"), ":0");
  EXPECT_EQ(Run("set k w exat 1 stick"), "+OK");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(StringCommandsTest, SetErrorsChangeNothing) {
  SetOld();
  for (std::string_view line : {"set k v nx xx", "set k v xx nx", "set k v ex", "set k v ex 1 px 1",
                                "set k v ex 1 keepttl", "set k v keepttl pxat 1", "set k v persist",
                                "set k v what", "set k v ''", "set k v nx get ex"}) {
    EXPECT_EQ(Run(line), kSyntaxError) << line;
  }
  for (std::string_view line :
       {"set k v ex x", "set k v px 1.5", "set k v ex ''", "set k v ex 99999999999999999999",
        "setex k x v", "psetex k 1x v"}) {
    EXPECT_EQ(Run(line), kNotInteger) << line;
  }
  for (std::string_view line :
       {"set k v ex 0", "set k v px -1", "set k v exat 0", "set k v ex 9223372036854775",
        "set k v ex 9223372036854776", "set k v px 9223372036854775807",
        "set k v exat 9223372036854776"}) {
    EXPECT_EQ(Run(line), "-ERR invalid expire time in 'set' command") << line;
  }
  EXPECT_EQ(Run("setex k 0 v"), "-ERR invalid expire time in 'setex' command");
  EXPECT_EQ(Run("psetex k -1 v"), "-ERR invalid expire time in 'psetex' command");
  ExpectOld();
}

TEST_P(StringCommandsTest, LargestDeadlineThatFitsIsTaken) {
  EXPECT_EQ(Run("set k v pxat 9223372036854775807"), "+OK");
  EXPECT_EQ(Run("pexpiretime k"), ":9223372036854775807");
  EXPECT_EQ(Run("set k v exat 9223372036854775"), "+OK");
  EXPECT_EQ(Run("pexpiretime k"), ":9223372036854775000");
}

TEST_P(StringCommandsTest, SetNxSetExAndPSetExAreShortFormsOfSet) {
  EXPECT_EQ(Run("setnx k v"), ":1");
  EXPECT_EQ(Run("setnx k w"), ":0");
  EXPECT_EQ(Run("get k"), "\"v\"");
  EXPECT_EQ(Run("setex k 3 w"), "+OK");
  EXPECT_EQ(Run("pttl k"), ":3000");
  EXPECT_EQ(Run("psetex k 3 x"), "+OK");
  EXPECT_EQ(Run("pttl k"), ":3");
  EXPECT_EQ(Run("get k"), "\"x\"");
}

TEST_P(StringCommandsTest, GetSetAndGetDelReturnTheOldValue) {
  EXPECT_EQ(Run("getset k v"), "(nil)");
  Run("expire k 100");
  EXPECT_EQ(Run("getset k w"), "\"v\"");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("getdel k"), "\"w\"");
  EXPECT_EQ(Run("getdel k"), "(nil)");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(StringCommandsTest, GetExChangesOnlyTheDeadline) {
  EXPECT_EQ(Run("getex k"), "(nil)");
  EXPECT_EQ(Run("getex k ex x"), "(nil)");  // the missing key comes first
  EXPECT_EQ(Run("getex k ex"), kSyntaxError);
  Run("set k v");
  EXPECT_EQ(Run("getex k"), "\"v\"");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("getex k px 500"), "\"v\"");
  EXPECT_EQ(Run("pttl k"), ":500");
  EXPECT_EQ(Run("getex k"), "\"v\"");
  EXPECT_EQ(Run("pttl k"), ":500");
  EXPECT_EQ(Run("getex k persist"), "\"v\"");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("getex k exat 1"), "\"v\"");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(StringCommandsTest, GetExErrorsChangeNothing) {
  SetOld();
  for (std::string_view line : {"getex k nx", "getex k get", "getex k keepttl", "getex k ex 1 px 1",
                                "getex k persist ex 1", "getex k ex 1 persist", "getex k stick"}) {
    EXPECT_EQ(Run(line), kSyntaxError) << line;
  }
  EXPECT_EQ(Run("getex k ex x"), kNotInteger);
  EXPECT_EQ(Run("getex k ex 0"), "-ERR invalid expire time in 'getex' command");
  ExpectOld();
}

TEST_P(StringCommandsTest, AppendAndPrependExtendAndKeepTheDeadline) {
  EXPECT_EQ(Run("append k 12"), ":2");
  EXPECT_EQ(Run("object encoding k"), "\"int\"");
  EXPECT_EQ(Run("expire k 10"), ":1");
  EXPECT_EQ(Run("append k 3"), ":3");
  EXPECT_EQ(Run("incr k"), ":124");
  EXPECT_EQ(Run("prepend k -"), ":4");
  EXPECT_EQ(Run("get k"), "\"-124\"");
  EXPECT_EQ(Run("append k " + std::string(100, 'x')), ":104");
  EXPECT_EQ(Run("prepend k " + std::string(100, 'y')), ":204");
  EXPECT_EQ(Call({"get", "k"}).text, std::string(100, 'y') + "-124" + std::string(100, 'x'));
  EXPECT_EQ(Run("ttl k"), ":10");
  EXPECT_EQ(Run("append empty ''"), ":0");
  EXPECT_EQ(Run("exists empty"), ":1");
  EXPECT_EQ(Run("prepend new abc"), ":3");
}

TEST_P(StringCommandsTest, SetRangePadsWithZeroBytes) {
  EXPECT_EQ(Run("setrange k 3 ''"), ":0");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Run("setrange k 3 abc"), ":6");
  EXPECT_EQ(Call({"get", "k"}).text, std::string("\0\0\0abc", 6));
  EXPECT_EQ(Run("setrange k 0 xyz"), ":6");
  EXPECT_EQ(Run("setrange k 5 long"), ":9");
  EXPECT_EQ(Run("get k"), "\"xyzablong\"");
  EXPECT_EQ(Run("setrange k 100 ''"), ":9");
  Run("set n 12345");
  EXPECT_EQ(Run("setrange n 1 x"), ":5");
  EXPECT_EQ(Run("get n"), "\"1x345\"");
}

TEST_P(StringCommandsTest, TooLongStringsAreRefusedBeforeAnythingIsAllocated) {
  constexpr std::string_view kTooLong =
      "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
  SetOld();
  EXPECT_EQ(Run("setrange k 536870912 v"), kTooLong);
  EXPECT_EQ(Run("setrange k 9223372036854775807 v"), kTooLong);
  EXPECT_EQ(Run("setrange missing 536870911 vv"), kTooLong);
  EXPECT_EQ(Run("setrange k -1 v"), "-ERR offset is out of range");
  EXPECT_EQ(Run("setrange k x v"), kNotInteger);
  ExpectOld();
}

class ShortStringsTest : public StringCommandsTest {
 protected:
  ShortStringsTest() : StringCommandsTest(16) {}
};

TEST_P(ShortStringsTest, TheLimitOfStringsIsAnOption) {
  constexpr std::string_view kTooLong =
      "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
  EXPECT_EQ(Run("setrange k 15 x"), ":16");
  EXPECT_EQ(Run("setrange k 16 x"), kTooLong);
  EXPECT_EQ(Run("append k x"), kTooLong);
  EXPECT_EQ(Run("prepend k x"), kTooLong);
  EXPECT_EQ(Run("append k ''"), ":16");
  EXPECT_EQ(Run("strlen k"), ":16");
  EXPECT_EQ(Run("lcs k k"),
            "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
}

// By the last letter of the key (DispatchForTest).
TEST_P(StringCommandsTest, PartsOfLargeStringsAreTheSameInSlices) {
  std::string text(3 << 20, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + (i >> 11));
  RunWords({"set", "k1", text});
  RunWords({"set", "k2", text});
  RunWords({"set", "small", "0123456789"});  // an odd letter, too
  const auto size = static_cast<int64_t>(text.size());
  for (const auto& [start, end] : std::vector<std::pair<int64_t, int64_t>>{{0, -1},
                                                                           {1, -2},
                                                                           {5, 70'000},
                                                                           {100'000, 2'000'000},
                                                                           {-300'000, size},
                                                                           {-1, -2},
                                                                           {size, size},
                                                                           {-size - 5, 0}}) {
    const std::string range = " " + std::to_string(start) + " " + std::to_string(end);
    const std::string words[] = {"getrange", "k1", std::to_string(start), std::to_string(end)};
    const std::string found = Call({words, words + 4}).text;
    EXPECT_TRUE(found == Call({"getrange", "k2", words[2], words[3]}).text) << range;
    const int64_t from = std::max<int64_t>(start < 0 ? start + size : start, 0);
    const int64_t to = std::min(end < 0 ? end + size : end, size - 1);
    EXPECT_TRUE(found == (from > to ? "" : text.substr(from, to - from + 1))) << range;
  }
  EXPECT_EQ(Run("getrange small 2 4"), "\"234\"");
  EXPECT_EQ(Run("getrange none1 2 4"), "\"\"");
  EXPECT_EQ(Run("getrange k1 x 4"), kNotInteger);
  MakeHash("h1");
  EXPECT_EQ(Run("getrange h1 0 4"), kWrongType);
}

INSTANTIATE_TEST_SUITE_P(Shards, ShortStringsTest, testing::Values(1, 4));

TEST_P(StringCommandsTest, GetRangeTakesNegativeAndWideRanges) {
  Run("set k 0123456789");
  EXPECT_EQ(Run("getrange k 0 -1"), "\"0123456789\"");
  EXPECT_EQ(Run("getrange k -3 -2"), "\"78\"");
  EXPECT_EQ(Run("getrange k -2 -3"), "\"\"");
  EXPECT_EQ(Run("getrange k 3 2"), "\"\"");
  EXPECT_EQ(Run("getrange k -100 2"), "\"012\"");
  EXPECT_EQ(Run("getrange k -100 -50"), "\"0\"");
  EXPECT_EQ(Run("getrange k 8 100"), "\"89\"");
  EXPECT_EQ(Run("getrange k 10 11"), "\"\"");
  EXPECT_EQ(Run("substr k -9223372036854775808 9223372036854775807"), "\"0123456789\"");
  EXPECT_EQ(Run("getrange missing 0 -1"), "\"\"");
  EXPECT_EQ(Run("getrange k a 1"), kNotInteger);
  EXPECT_EQ(Run("getrange k 1 b"), kNotInteger);
  Run("set empty ''");
  EXPECT_EQ(Run("getrange empty 0 0"), "\"\"");
}

TEST_P(StringCommandsTest, CountersCount) {
  EXPECT_EQ(Run("incr k"), ":1");
  EXPECT_EQ(Run("incrby k 41"), ":42");
  EXPECT_EQ(Run("decr k"), ":41");
  EXPECT_EQ(Run("decrby k 50"), ":-9");
  EXPECT_EQ(Run("decr new"), ":-1");
  Run("expire k 10");
  EXPECT_EQ(Run("incr k"), ":-8");
  EXPECT_EQ(Run("ttl k"), ":10");
  EXPECT_EQ(Run("get k"), "\"-8\"");
}

TEST_P(StringCommandsTest, CounterErrorsChangeNothing) {
  SetOld();
  for (std::string_view line : {"incr k", "decr k", "incrby k 1", "decrby k 1", "incrby k x",
                                "incrby k +1", "incrby k 01", "decrby k 1.0"}) {
    EXPECT_EQ(Run(line), kNotInteger) << line;
  }
  EXPECT_EQ(Run("decrby k -9223372036854775808"), "-ERR decrement would overflow");
  EXPECT_EQ(Run("incrbyfloat k 1"), "-ERR value is not a valid float");
  EXPECT_EQ(Run("incrbyfloat missing x"), "-ERR value is not a valid float");
  ExpectOld();
  Run("set k 9223372036854775807");
  EXPECT_EQ(Run("incr k"), "-ERR increment or decrement would overflow");
  EXPECT_EQ(Run("get k"), "\"9223372036854775807\"");
  EXPECT_EQ(Run("incrby k -9223372036854775808"), ":-1");
  EXPECT_EQ(Run("incrby missing x"), kNotInteger);
  EXPECT_EQ(Run("exists missing"), ":0");
}

TEST_P(StringCommandsTest, IncrByFloatPrintsDecimals) {
  EXPECT_EQ(Run("incrbyfloat k 1.5"), "\"1.5\"");
  EXPECT_EQ(Run("incrbyfloat k 1e3"), "\"1001.5\"");
  EXPECT_EQ(Run("incrbyfloat k -0.5"), "\"1001\"");
  EXPECT_EQ(Run("incr k"), ":1002");
  EXPECT_EQ(Run("incrbyfloat k inf"), "-ERR increment would produce NaN or Infinity");
  EXPECT_EQ(Run("get k"), "\"1002\"");
  EXPECT_EQ(Run("incrbyfloat new 0x10"), "\"16\"");
  EXPECT_EQ(Run("object encoding new"), "\"embstr\"");
  EXPECT_EQ(Run("object refcount new"), ":1");
  EXPECT_EQ(Run("incr new"), ":17");
  EXPECT_EQ(Run("object encoding new"), "\"int\"");
}

TEST_P(StringCommandsTest, ManyKeysAreSetAndReadOverShards) {
  EXPECT_EQ(Run("mset a 1 b 2 c 3 d 4 e 5 f 6 g 7"), "+OK");
  EXPECT_EQ(Run("mget a missing g a f e d c b"),
            "[\"1\", (nil), \"7\", \"1\", \"6\", \"5\", \"4\", \"3\", \"2\"]");
  EXPECT_EQ(Run("mset k 1 k 2 k 3"), "+OK");
  EXPECT_EQ(Run("get k"), "\"3\"");
  MakeHash("h");
  EXPECT_EQ(Run("mget h a"), "[(nil), \"1\"]");
}

TEST_P(StringCommandsTest, HundredsOfKeysKeepTheirOrder) {
  for (const std::string prefix : {"key:", "{one}:"}) {
    std::vector<std::string> mset = {"mset"};
    std::vector<std::string> mget = {"mget"};
    std::string expected;
    for (int i = 0; i < 300; ++i) {
      const std::string key = prefix + std::to_string(i);
      mset.insert(mset.end(), {key, "value " + std::to_string(i)});
      mget.insert(mget.end(), {key, key + "?", prefix + "7"});
      expected +=
          (i == 0 ? "\"value " : ", \"value ") + std::to_string(i) + "\", (nil), \"value 7\"";
    }
    EXPECT_EQ(RunWords(mset), "+OK");
    EXPECT_EQ(RunWords(mget), "[" + expected + "]");
    mget[0] = "exists";
    EXPECT_EQ(RunWords(mget), ":600");
    mget[0] = "del";
    EXPECT_EQ(RunWords(mget), ":300");
    EXPECT_EQ(Run("dbsize"), ":0");
  }
}

TEST_P(StringCommandsTest, AKeyWithoutAValueIsAWrongNumberOfArguments) {
  SetOld();
  for (std::string_view rest : {"k", "k v l", "k v a b c d e"}) {
    EXPECT_EQ(Run(std::string("mset ").append(rest)),
              "-ERR wrong number of arguments for 'mset' command");
    EXPECT_EQ(Run(std::string("msetnx ").append(rest)),
              "-ERR wrong number of arguments for 'msetnx' command");
  }
  ExpectOld();
}

TEST_P(StringCommandsTest, MSetNxSetsAllOrNothing) {
  EXPECT_EQ(Run("msetnx a 1 b 2 c 3 d 4"), ":1");
  EXPECT_EQ(Run("msetnx e 5 f 6 g 7 a 8"), ":0");
  EXPECT_EQ(Run("exists e f g"), ":0");
  EXPECT_EQ(Run("mget a b c d"), "[\"1\", \"2\", \"3\", \"4\"]");
  EXPECT_EQ(Run("msetnx k v k w"), ":1");
  EXPECT_EQ(Run("get k"), "\"w\"");
  MakeHash("h");
  EXPECT_EQ(Run("msetnx h v x y"), ":0");
}

TEST_P(StringCommandsTest, KeysOfAnotherTypeAreRefusedAndLeftAlone) {
  MakeHash("h");
  for (std::string_view line :
       {"get h", "getset h v", "getdel h", "getex h", "getex h ex x", "append h v", "prepend h v",
        "strlen h", "setrange h 0 v", "setrange h 0 ''", "getrange h 0 1", "substr h 0 1", "incr h",
        "decr h", "incrby h 1", "decrby h 1", "incrbyfloat h x", "set h v get", "set h v nx get"}) {
    EXPECT_EQ(Run(line), kWrongType) << line;
    EXPECT_EQ(Run("type h"), "+hash") << line;
  }
  EXPECT_EQ(Run("setnx h v"), ":0");
  EXPECT_EQ(Run("set h v nx"), "(nil)");
  EXPECT_EQ(Run("type h"), "+hash");
}

TEST_P(StringCommandsTest, WrongNumbersOfArgumentsAreRefused) {
  SetOld();
  for (std::string_view name :
       {"get",    "set",     "setnx",       "setex",    "psetex",   "getset", "getdel", "getex",
        "append", "prepend", "strlen",      "setrange", "getrange", "substr", "incr",   "decr",
        "incrby", "decrby",  "incrbyfloat", "mget",     "mset",     "msetnx"}) {
    EXPECT_EQ(Run(name), "-" + WrongArityError(name));
    const Command* command = table_.Find(name);
    ASSERT_NE(command, nullptr);
    EXPECT_FALSE(command->docs.summary.empty());
    if (command->arity < 0) continue;
    std::string line(name);
    for (int i = 0; i < command->arity; ++i) line += " k";
    EXPECT_EQ(Run(line), "-" + WrongArityError(name));
  }
  ExpectOld();
}

TEST_P(StringCommandsTest, StickySetsMarkTheKey) {
  EXPECT_EQ(Run("set k v stick"), "+OK");
  EXPECT_EQ(Run("stick k"), ":0");
  EXPECT_EQ(Run("set k w"), "+OK");
  EXPECT_EQ(Run("stick k"), ":0");  // as long as the key is there
  Run("set l v");
  EXPECT_EQ(Run("stick l"), ":1");
}

TEST_P(StringCommandsTest, AnExpiredKeyIsNoKey) {
  Run("set k 5 px 10");
  Run("set l 5 px 10");
  now_ms_ += 11;
  EXPECT_EQ(Run("get k"), "(nil)");
  EXPECT_EQ(Run("setnx k 1"), ":1");
  EXPECT_EQ(Run("incr l"), ":1");
  EXPECT_EQ(Run("ttl l"), ":-1");
  EXPECT_EQ(Run("append m x"), ":1");
}

TEST_P(StringCommandsTest, Resp3HasItsOwnNull) {
  resp3_ = true;
  EXPECT_EQ(Call({"get", "k"}).kind, ReplyKind::kNull);
  EXPECT_EQ(Run("mget k l"), "[(nil), (nil)]");
}

// Random commands against a map of strings.
TEST_P(StringCommandsTest, BehavesAsAMapOfStrings) {
  std::mt19937_64 random(helio::TestSeed());
  std::map<std::string, std::string> model;
  const auto bulk = [&](const std::string& key) {
    const auto it = model.find(key);
    return it == model.end() ? std::string("(nil)") : '"' + it->second + '"';
  };
  for (int step = 0; step < 3000; ++step) {
    const std::string key = "k" + std::to_string(random() % 30);
    const std::string other = "k" + std::to_string(random() % 30);
    const std::string text =
        random() % 2 == 0 ? std::to_string(static_cast<int64_t>(random() % 2000) - 1000)
                          : std::string(1 + random() % 40, static_cast<char>('a' + random() % 26));
    const bool exists = model.count(key) != 0;
    switch (random() % 9) {
      case 0:
        ASSERT_EQ(RunWords({"set", key, text}), "+OK");
        model[key] = text;
        break;
      case 1:
        ASSERT_EQ(RunWords({"get", key}), bulk(key));
        break;
      case 2: {
        const std::optional<int64_t> number = ParseInt64(exists ? model[key] : "0");
        const std::string reply = RunWords({"incr", key});
        if (!number) {
          ASSERT_EQ(reply, kNotInteger);
        } else {
          model[key] = std::to_string(*number + 1);
          ASSERT_EQ(reply, ":" + model[key]);
        }
        break;
      }
      case 3:
        model[key] += text;
        ASSERT_EQ(RunWords({"append", key, text}), ":" + std::to_string(model[key].size()));
        if (model[key].size() > 300) {
          ASSERT_EQ(RunWords({"del", key}), ":1");
          model.erase(key);
        }
        break;
      case 4:
        ASSERT_EQ(RunWords({"getset", key, text}), bulk(key));
        model[key] = text;
        break;
      case 5:
        ASSERT_EQ(RunWords({"getdel", key}), bulk(key));
        model.erase(key);
        break;
      case 6:
        ASSERT_EQ(RunWords({"mset", key, text, other, "both"}), "+OK");
        model[key] = text;
        model[other] = "both";
        break;
      case 7: {
        const bool sets = !exists && model.count(other) == 0;
        ASSERT_EQ(RunWords({"msetnx", key, text, other, "nx"}), sets ? ":1" : ":0");
        if (sets) {
          model[key] = text;
          model[other] = "nx";
        }
        break;
      }
      default:
        ASSERT_EQ(RunWords({"mget", key, other}), "[" + bulk(key) + ", " + bulk(other) + "]");
    }
  }
  ASSERT_EQ(Run("dbsize"), ":" + std::to_string(model.size()));
}

INSTANTIATE_TEST_SUITE_P(Shards, StringCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
