// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/random.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

// The commands are the same in one shard and over several; which of the ways a test takes depends
// on the hash of its keys, so most try several names.
class KeyMovesTest : public CommandsTest {
 protected:
  static constexpr std::string_view kSameObject =
      "-ERR source and destination objects are the same";
  static constexpr std::string_view kDbRange = "-ERR DB index is out of range";
  static constexpr std::string_view kIntRange =
      "-ERR value is out of range, value must between -2147483648 and 2147483647";

  uint64_t UsedBytes() {
    std::atomic<uint64_t> bytes{0};
    shards_->AwaitOnAll([&](Shard& shard) { bytes += shard.used_bytes(); });
    return bytes;
  }
  uint64_t Changes() {
    std::atomic<uint64_t> changes{0};
    shards_->AwaitOnAll([&](Shard& shard) { changes += shard.stats().changes; });
    return changes;
  }
  std::pair<uint64_t, uint64_t> HitsAndMisses() {
    std::atomic<uint64_t> hits{0}, misses{0};
    shards_->AwaitOnAll([&](Shard& shard) {
      hits += shard.stats().hits;
      misses += shard.stats().misses;
    });
    return {hits, misses};
  }
  bool IsSticky(std::string_view key) {
    return shards_->Await(shards_->ShardOfKey(key, HashKey(key)), [&](Shard& shard) {
      return ShardContext(shard, db_index_, now_ms_).IsSticky(key).value_or(false);
    });
  }
  void ExpectNoLocks() {
    shards_->AwaitOnAll([](Shard& shard) { EXPECT_TRUE(shard.transactions().empty()); });
  }
  void TearDown() override { ExpectNoLocks(); }
};

INSTANTIATE_TEST_SUITE_P(Shards, KeyMovesTest, testing::Values(1, 4, 7));

// A large value is copied in slices; in one shard only if the source's name ends oddly (the test's
// dispatch), so two names.
TEST_P(KeyMovesTest, CopyOfLargeValues) {
  constexpr int kCount = 5000;
  for (const std::string source : {"large1", "large2"}) {
    std::vector<std::string> hash = {"hset", source};
    std::vector<std::string> set = {"sadd", source};
    std::vector<std::string> zset = {"zadd", source};
    const auto fill = [&](const std::vector<std::string>& command) {
      RunWords({"del", source});
      RunWords(command);
    };
    for (int i = 0; i < kCount; ++i) {
      const std::string n = std::to_string(i);
      hash.insert(hash.end(), {"field" + n, "a value that has a block of its own " + n});
      set.push_back("member" + n);
      zset.insert(zset.end(), {std::to_string(i % 100), "member" + n});
    }
    const auto expect_equal = [&](const std::vector<std::string>& question) {
      std::vector<std::string> of_copy = question;
      for (std::string& word : of_copy) {
        if (word == source) word = "the copy";
      }
      const auto texts = [this](const std::vector<std::string>& words) {
        std::multiset<std::string> found;
        for (const RespValue& item : Call(words).items) found.insert(item.ToString());
        return found;
      };
      const auto expected = texts(question);
      EXPECT_EQ(expected, texts(of_copy)) << question[0];
      EXPECT_FALSE(expected.empty());
    };
    fill(hash);
    RunWords(
        {"hpexpireat", source, std::to_string(now_ms_ + 77), "fields", "2", "field7", "field4321"});
    Run("pexpireat " + source + " " + std::to_string(now_ms_ + 1000));
    EXPECT_EQ(RunWords({"copy", source, "the copy", "replace"}), ":1");
    expect_equal({"hgetall", source});
    expect_equal({"hpexpiretime", source, "fields", "3", "field6", "field7", "field4321"});
    EXPECT_EQ(RunWords({"pexpiretime", "the copy"}), ":" + std::to_string(now_ms_ + 1000));
    EXPECT_EQ(RunWords({"copy", source, "the copy"}), ":0");
    EXPECT_EQ(RunWords({"copy", source, source, "db", "3"}), ":1");
    EXPECT_EQ(RunWords({"copy", source, source, "db", "3"}), ":0");
    fill(set);
    EXPECT_EQ(RunWords({"copy", source, "the copy", "replace"}), ":1");
    expect_equal({"smembers", source});
    fill(zset);
    EXPECT_EQ(RunWords({"copy", source, "the copy", "replace"}), ":1");
    expect_equal({"zrange", source, "0", "-1", "withscores"});
    EXPECT_EQ(RunWords({"copy", "absent1", "the copy", "replace"}), ":0");
    EXPECT_EQ(RunWords({"copy", "absent1", "another copy"}), ":0");
    db_index_ = 3;
    RunWords({"del", source});
    db_index_ = 0;
  }
}

TEST_P(KeyMovesTest, RenameMovesAnyTypeWithAllItHas) {
  const std::string long_text(1000, 'x');
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    RunWords({"set", "from" + n, i % 2 == 0 ? n : long_text + n, "px", "5000"});
    Run("stick from" + n);
    EXPECT_EQ(Run("rename from" + n + " to" + n), "+OK");
    EXPECT_EQ(Run("exists from" + n), ":0");
    EXPECT_EQ(Run("get to" + n), '"' + (i % 2 == 0 ? n : long_text + n) + '"');
    EXPECT_EQ(Run("pttl to" + n), ":5000");
    EXPECT_TRUE(IsSticky("to" + n));

    Run("rpush list" + n + " a b c " + n);
    EXPECT_EQ(Run("rename list" + n + " to" + n), "+OK");
    EXPECT_EQ(Run("lrange to" + n + " 0 -1"), "[\"a\", \"b\", \"c\", \"" + n + "\"]");
    EXPECT_EQ(Run("pttl to" + n), ":-1");
    EXPECT_FALSE(IsSticky("to" + n));
    EXPECT_EQ(Run("rpush to" + n + " d"), ":5");
  }
  EXPECT_EQ(Run("dbsize"), ":20");
}

TEST_P(KeyMovesTest, RenameKeepsTheEncoding) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set int" + n + " 12345");
    Run("append raw" + n + " abc");
    Run("set raw2" + n + " " + std::string(44, 'x'));
    Run("append raw2" + n + " y");
    for (const char* name : {"int", "raw", "raw2"}) {
      const std::string before = Run("object encoding " + (name + n));
      EXPECT_EQ(Run("copy " + (name + n) + " copy" + n + " replace"), ":1");
      EXPECT_EQ(Run("object encoding copy" + n), before);
      Run("rename " + (name + n) + " new" + n);
      EXPECT_EQ(Run("object encoding new" + n), before);
    }
  }
}

TEST_P(KeyMovesTest, RenameToItsOwnNameNeedsTheKey) {
  EXPECT_EQ(Run("rename k k"), "-ERR no such key");
  EXPECT_EQ(Run("renamenx k k"), "-ERR no such key");
  Run("set k v px 5000");
  EXPECT_EQ(Run("rename k k"), "+OK");
  EXPECT_EQ(Run("renamenx k k"), ":0");
  EXPECT_EQ(Run("get k"), "\"v\"");
  EXPECT_EQ(Run("pttl k"), ":5000");
}

TEST_P(KeyMovesTest, RenameOfAMissingKeyChangesNothing) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set to" + n + " v");
    const uint64_t changes = Changes();
    EXPECT_EQ(Run("rename none to" + n), "-ERR no such key");
    EXPECT_EQ(Run("renamenx none to" + n), "-ERR no such key");
    EXPECT_EQ(Run("copy none to" + n + " replace"), ":0");
    EXPECT_EQ(Run("get to" + n), "\"v\"");
    EXPECT_EQ(Changes(), changes);
  }
}

TEST_P(KeyMovesTest, RenameNxWantsTheNameToBeFree) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set from" + n + " 1");
    Run("set to" + n + " 2");
    EXPECT_EQ(Run("renamenx from" + n + " to" + n), ":0");
    EXPECT_EQ(Run("mget from" + n + " to" + n), "[\"1\", \"2\"]");
    EXPECT_EQ(Run("renamenx from" + n + " free" + n), ":1");
    EXPECT_EQ(Run("mget from" + n + " free" + n), "[(nil), \"1\"]");
  }
}

TEST_P(KeyMovesTest, ADueKeyIsNone) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set due" + n + " 1 px 100");
    Run("set from" + n + " 2");
    now_ms_ += 101;
    EXPECT_EQ(Run("rename due" + n + " x"), "-ERR no such key");
    EXPECT_EQ(Run("copy due" + n + " x"), ":0");
    EXPECT_EQ(Run("move due" + n + " 1"), ":0");
    Run("set due" + n + " 1 px 100");
    now_ms_ += 101;
    EXPECT_EQ(Run("renamenx from" + n + " due" + n), ":1");
    EXPECT_EQ(Run("get due" + n), "\"2\"");
    EXPECT_EQ(Run("pttl due" + n), ":-1");
  }
}

TEST_P(KeyMovesTest, CopyIsDeep) {
  const std::string long_text(1000, 'x');
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set s" + n + " " + long_text + " px 5000");
    Run("stick s" + n);
    EXPECT_EQ(Run("copy s" + n + " t" + n), ":1");
    EXPECT_EQ(Run("pttl t" + n), ":5000");
    EXPECT_TRUE(IsSticky("t" + n));
    Run("append t" + n + " y");
    EXPECT_EQ(Run("strlen s" + n), ":1000");
    EXPECT_EQ(Run("strlen t" + n), ":1001");

    for (int j = 0; j < 300; ++j) RunWords({"rpush", "l" + n, long_text, std::to_string(j)});
    EXPECT_EQ(Run("copy l" + n + " t" + n), ":0");
    EXPECT_EQ(Run("copy l" + n + " t" + n + " replace"), ":1");
    EXPECT_EQ(Run("lrange t" + n + " 0 -1"), Run("lrange l" + n + " 0 -1"));
    EXPECT_EQ(Run("object encoding t" + n), "\"quicklist\"");
    EXPECT_EQ(Run("pttl t" + n), ":-1");
    Run("ltrim t" + n + " 0 0");
    EXPECT_EQ(Run("llen l" + n), ":600");
    Run("rpush t" + n + " z");
    EXPECT_EQ(Run("llen t" + n), ":2");
  }
}

TEST_P(KeyMovesTest, CopyToAnotherDatabase) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set a" + n + " " + n);
    EXPECT_EQ(Run("copy a" + n + " a" + n + " db 1"), ":1");
    EXPECT_EQ(Run("copy a" + n + " b" + n + " db 1"), ":1");
    EXPECT_EQ(Run("copy a" + n + " b" + n + " db 1"), ":0");
    EXPECT_EQ(Run("exists b" + n), ":0");
    db_index_ = 1;
    EXPECT_EQ(Run("mget a" + n + " b" + n), "[\"" + n + "\", \"" + n + "\"]");
    db_index_ = 0;
  }
  EXPECT_EQ(Run("copy a0 c0 db 2 db 1"), ":1");  // the last one
  db_index_ = 1;
  EXPECT_EQ(Run("exists c0"), ":1");
}

TEST_P(KeyMovesTest, CopysErrorsComeInRedisOrder) {
  Run("set a 1");
  for (const char* other : {"b", "c", "d", "e"}) {
    const std::string copy = std::string("copy a ") + other;
    EXPECT_EQ(Run(copy + " db"), kSyntaxError);
    EXPECT_EQ(Run(copy + " foo"), kSyntaxError);
    EXPECT_EQ(Run(copy + " db x"), kNotInteger);
    EXPECT_EQ(Run(copy + " db 16"), kDbRange);
    EXPECT_EQ(Run(copy + " db -1"), kDbRange);
    EXPECT_EQ(Run(copy + " db 3000000000"), kIntRange);
    EXPECT_EQ(Run(copy + " db 99999999999999999999"), kNotInteger);
    EXPECT_EQ(Run(copy + " db 99 foo"), kDbRange);
    EXPECT_EQ(Run(copy + " foo db 99"), kSyntaxError);
    EXPECT_EQ(Run("exists " + std::string(other)), ":0");
  }
  EXPECT_EQ(Run("copy a a"), kSameObject);
  EXPECT_EQ(Run("copy none none"), kSameObject);
  EXPECT_EQ(Run("copy a a db 1 db 0"), kSameObject);
  EXPECT_EQ(Run("copy a a foo"), kSyntaxError);
}

TEST_P(KeyMovesTest, MoveTakesTheKeyToAnotherDatabase) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("rpush k" + n + " a b");
    Run("pexpire k" + n + " 5000");
    EXPECT_EQ(Run("move k" + n + " 9"), ":1");
    EXPECT_EQ(Run("exists k" + n), ":0");
    Run("set k" + n + " other");
    EXPECT_EQ(Run("move k" + n + " 9"), ":0");
    EXPECT_EQ(Run("get k" + n), "\"other\"");
    db_index_ = 9;
    EXPECT_EQ(Run("lrange k" + n + " 0 -1"), "[\"a\", \"b\"]");
    EXPECT_EQ(Run("pttl k" + n), ":5000");
    db_index_ = 0;
  }
}

TEST_P(KeyMovesTest, MovesErrorsComeBeforeTheKey) {
  EXPECT_EQ(Run("move none 0"), kSameObject);
  EXPECT_EQ(Run("move none 16"), kDbRange);
  EXPECT_EQ(Run("move none -1"), kDbRange);
  EXPECT_EQ(Run("move none x"), kNotInteger);
  EXPECT_EQ(Run("move none 3000000000"), kIntRange);
  EXPECT_EQ(Run("move none 1"), ":0");
}

TEST_P(KeyMovesTest, SwapDbExchangesKeysAndDeadlines) {
  for (int i = 0; i < 20; ++i) Run("set a" + std::to_string(i) + " 0 px 1000");
  db_index_ = 3;
  Run("set b 3");
  db_index_ = 0;
  EXPECT_EQ(Run("swapdb 0 3"), "+OK");
  EXPECT_EQ(Run("dbsize"), ":1");
  EXPECT_EQ(Run("get b"), "\"3\"");
  db_index_ = 3;
  EXPECT_EQ(Run("dbsize"), ":20");
  EXPECT_EQ(Run("pttl a7"), ":1000");
  EXPECT_EQ(Run("swapdb 3 3"), "+OK");
  EXPECT_EQ(Run("swapdb 4 3"), "+OK");  // with one that nothing was ever in
  EXPECT_EQ(Run("dbsize"), ":0");
  db_index_ = 4;
  EXPECT_EQ(Run("dbsize"), ":20");
  now_ms_ += 1001;
  shards_->AwaitOnAll([this](Shard& shard) { shard.ExpireStep(now_ms_, 1000); });
  EXPECT_EQ(Run("dbsize"), ":0");
}

// A FLUSHDB ASYNC frees what it has put aside; what comes to its place by SWAPDB is another thing.
TEST_P(KeyMovesTest, SwapDbMeetsABackgroundFlush) {
  for (int i = 0; i < 2000; ++i) Run("set a" + std::to_string(i) + " 0");
  db_index_ = 1;
  for (int i = 0; i < 50; ++i) Run("set b" + std::to_string(i) + " 1");
  db_index_ = 0;
  EXPECT_EQ(Run("flushdb async"), "+OK");
  shards_->AwaitOnAll([](Shard& shard) { shard.FreeStep(10); });
  EXPECT_EQ(Run("swapdb 0 1"), "+OK");
  EXPECT_EQ(Run("dbsize"), ":50");
  shards_->AwaitOnAll([](Shard& shard) {
    while (!shard.FreeStep(100)) {
    }
  });
  EXPECT_EQ(Run("dbsize"), ":50");
  EXPECT_EQ(Run("flushall"), "+OK");
  EXPECT_EQ(UsedBytes(), 0u);
}

TEST_P(KeyMovesTest, AWalkGoesOnInWhatSwapDbHasPutThere) {
  for (int i = 0; i < 500; ++i) Run("set a" + std::to_string(i) + " 0");
  db_index_ = 1;
  for (int i = 0; i < 500; ++i) Run("set a" + std::to_string(i) + " 1");
  std::string cursor = "0";
  size_t found = 0;
  do {
    const RespValue reply = Call({"scan", cursor, "count", "50"});
    cursor = reply.items[0].text;
    found += reply.items[1].items.size();
    EXPECT_EQ(Run("swapdb 0 1"), "+OK");
  } while (cursor != "0");
  EXPECT_EQ(found, 500u);  // the same keys are in both
}

TEST_P(KeyMovesTest, SwapDbsErrors) {
  EXPECT_EQ(Run("swapdb x y"), "-ERR invalid first DB index");
  EXPECT_EQ(Run("swapdb 0 y"), "-ERR invalid second DB index");
  EXPECT_EQ(Run("swapdb 99 y"), "-ERR invalid second DB index");
  EXPECT_EQ(Run("swapdb 0 3000000000"), "-ERR invalid second DB index");
  EXPECT_EQ(Run("swapdb 0 16"), kDbRange);
  EXPECT_EQ(Run("swapdb -1 0"), kDbRange);
}

TEST_P(KeyMovesTest, EachIsOneChangeAndOnlyCopyCountsALookUp) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set a" + n + " 1");
    const uint64_t changes = Changes();
    const auto counts = HitsAndMisses();
    Run("rename a" + n + " b" + n);
    EXPECT_EQ(Changes(), changes + 1);
    Run("renamenx b" + n + " c" + n);
    EXPECT_EQ(Changes(), changes + 2);
    Run("move c" + n + " 1");
    EXPECT_EQ(Changes(), changes + 3);
    EXPECT_EQ(HitsAndMisses(), counts);
    db_index_ = 1;
    Run("copy c" + n + " d" + n);
    EXPECT_EQ(Changes(), changes + 4);
    Run("copy none d" + n);
    EXPECT_EQ(HitsAndMisses(), std::pair(counts.first + 1, counts.second + 1));
    db_index_ = 0;
    Run("swapdb 5 6");
    EXPECT_EQ(Changes(), changes + 5);
  }
}

TEST_P(KeyMovesTest, AMovedKeyWasJustAccessedAndSoWasACopied) {
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    Run("set a" + n + " 1");
    now_ms_ += 100'000;
    EXPECT_EQ(Run("object idletime a" + n), ":100");
    Run("rename a" + n + " b" + n);
    EXPECT_EQ(Run("object idletime b" + n), ":0");
    now_ms_ += 50'000;
    Run("copy b" + n + " c" + n);
    EXPECT_EQ(Run("object idletime c" + n), ":0");
  }
}

// Random moves, against maps. The bytes come back to nothing, so each shard has counted what came
// and what went.
TEST_P(KeyMovesTest, RandomMovesAreThoseOfAModelAndLeaveNoBytes) {
  helio::Random random(helio::TestSeed());
  using Db = std::map<std::string, std::vector<std::string>>;  // a string key has one text
  Db dbs[2];
  const auto show = [&](const std::string& key) -> std::string {
    const auto it = dbs[db_index_].find(key);
    if (it == dbs[db_index_].end()) return "[]";
    std::string out;
    for (const std::string& text : it->second) {
      out += (out.empty() ? "\"" : ", \"") + text + '"';
    }
    return "[" + out + "]";
  };
  for (int i = 0; i < 3000; ++i) {
    db_index_ = static_cast<int>(random.Uniform(2));
    Db& db = dbs[db_index_];
    Db& other = dbs[1 - db_index_];
    const std::string a = "k" + std::to_string(random.Uniform(15));
    const std::string b = "k" + std::to_string(random.Uniform(15));
    const std::string other_index = std::to_string(1 - db_index_);
    const auto found = db.find(a);
    const bool has = found != db.end();
    switch (random.Uniform(8)) {
      case 0:
      case 1: {
        const std::string text(random.Uniform(random.OneIn(10) ? 9000 : 40), 'a');
        ASSERT_EQ(RunWords({"rpush", a, text}), ":" + std::to_string(db[a].size() + 1));
        db[a].push_back(text);
        break;
      }
      case 2:
        ASSERT_EQ(Run("rename " + a + " " + b), has ? "+OK" : "-ERR no such key");
        if (has && a != b) {
          db[b] = found->second;
          db.erase(a);
        }
        break;
      case 3:
        ASSERT_EQ(Run("renamenx " + a + " " + b), !has          ? "-ERR no such key"
                                                  : db.count(b) ? ":0"
                                                                : ":1");
        if (has && db.count(b) == 0) {
          db[b] = found->second;
          db.erase(a);
        }
        break;
      case 4:
        if (a == b) break;
        ASSERT_EQ(Run("copy " + a + " " + b + " replace"), has ? ":1" : ":0");
        if (has) db[b] = found->second;
        break;
      case 5:
        ASSERT_EQ(Run("copy " + a + " " + b + " db " + other_index),
                  has && other.count(b) == 0 ? ":1" : ":0");
        if (has) other.emplace(b, found->second);
        break;
      case 6:
        ASSERT_EQ(Run("move " + a + " " + other_index), has && other.count(a) == 0 ? ":1" : ":0");
        if (has && other.count(a) == 0) {
          other[a] = found->second;
          db.erase(a);
        }
        break;
      default:
        if (random.OneIn(10)) {
          ASSERT_EQ(Run("swapdb 0 1"), "+OK");
          std::swap(dbs[0], dbs[1]);
        } else {
          ASSERT_EQ(Run("lrange " + a + " 0 -1"), show(a));
        }
    }
  }
  for (db_index_ = 0; db_index_ < 2; ++db_index_) {
    ASSERT_EQ(Run("dbsize"), ":" + std::to_string(dbs[db_index_].size()));
    for (const auto& [key, texts] : dbs[db_index_]) {
      ASSERT_EQ(Run("lrange " + key + " 0 -1"), show(key));
    }
  }
  shards_->AwaitOnAll([](Shard& shard) { shard.CheckInvariants(); });
  db_index_ = 0;
  Run("flushall");
  EXPECT_EQ(UsedBytes(), 0u);
}

}  // namespace
}  // namespace dfly
