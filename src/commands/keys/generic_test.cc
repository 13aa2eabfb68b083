// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "helio/base/test_seed.h"

namespace dfly {
namespace {

class KeyCommandsTest : public CommandsTest {
 protected:
  void Fill(int count, const std::string& prefix = "key:") {
    for (int i = 0; i < count; ++i) RunWords({"set", prefix + std::to_string(i), "v"});
  }
  std::vector<std::string> Keys(const std::string& pattern) {
    std::vector<std::string> keys;
    for (const RespValue& item : Call({"keys", pattern}).items) keys.push_back(item.text);
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  // A whole walk. Fails when a key comes twice, although nothing changes meanwhile.
  std::vector<std::string> ScanAll(const std::vector<std::string>& options = {}) {
    std::set<std::string> keys;
    std::string cursor = "0";
    do {
      std::vector<std::string> words = {"scan", cursor};
      words.insert(words.end(), options.begin(), options.end());
      const RespValue reply = Call(words);
      cursor = reply.items.at(0).text;
      for (const RespValue& key : reply.items.at(1).items) {
        EXPECT_TRUE(keys.insert(key.text).second) << key.text;
      }
      ++scan_calls_;
    } while (cursor != "0");
    return {keys.begin(), keys.end()};
  }

  int scan_calls_ = 0;
};

TEST_P(KeyCommandsTest, DelExistsTouchAndUnlinkCountOverShards) {
  Run("mset a 1 b 2 c 3 d 4 e 5 f 6");
  MakeHash("h");
  EXPECT_EQ(Run("exists a b c d missing a h"), ":6");
  EXPECT_EQ(Run("touch a b missing"), ":2");
  EXPECT_EQ(Run("del a b missing a"), ":2");
  EXPECT_EQ(Run("unlink c d h e c"), ":4");
  EXPECT_EQ(Run("del missing"), ":0");
  EXPECT_EQ(Run("dbsize"), ":1");
  EXPECT_EQ(Run("get f"), "\"6\"");
}

TEST_P(KeyCommandsTest, StickCountsWhatWasNotStickyBefore) {
  Run("mset a 1 b 2 c 3 d 4");
  EXPECT_EQ(Run("stick a b missing"), ":2");
  EXPECT_EQ(Run("stick a b c d"), ":2");
  EXPECT_EQ(Run("stick a b c d"), ":0");
  Run("del a");
  Run("set a 1");
  EXPECT_EQ(Run("stick a"), ":1");
}

TEST_P(KeyCommandsTest, DeadlinesAreSetAndToldInAllUnits) {
  EXPECT_EQ(Run("expire k 10"), ":0");
  EXPECT_EQ(Run("ttl k"), ":-2");
  Run("set k v");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("pexpiretime k"), ":-1");
  EXPECT_EQ(Run("expire k 10"), ":1");
  EXPECT_EQ(Run("pttl k"), ":10000");
  EXPECT_EQ(Run("pexpire k 1499"), ":1");
  EXPECT_EQ(Run("ttl k"), ":1");
  EXPECT_EQ(Run("pexpire k 1500"), ":1");
  EXPECT_EQ(Run("ttl k"), ":2");
  EXPECT_EQ(Run("expireat k 1800000000"), ":1");
  EXPECT_EQ(Run("expiretime k"), ":1800000000");
  EXPECT_EQ(Run("pexpireat k 1800000000500"), ":1");
  EXPECT_EQ(Run("expiretime k"), ":1800000001");
  EXPECT_EQ(Run("pexpiretime k"), ":1800000000500");
  EXPECT_EQ(Run("persist k"), ":1");
  EXPECT_EQ(Run("persist k"), ":0");
  EXPECT_EQ(Run("persist missing"), ":0");
  EXPECT_EQ(Run("ttl k"), ":-1");
}

TEST_P(KeyCommandsTest, ADeadlineInThePastRemovesTheKey) {
  for (std::string_view line :
       {"expire k 0", "expire k -1", "pexpire k -5", "expireat k 1", "pexpireat k 1700000000000",
        "expire k -9223372036854775", "pexpire k -9223372036854775808"}) {
    Run("set k v");
    EXPECT_EQ(Run(line), ":1") << line;
    EXPECT_EQ(Run("dbsize"), ":0") << line;
  }
}

TEST_P(KeyCommandsTest, ExpireAsksItsConditions) {
  Run("set k v");
  EXPECT_EQ(Run("expire k 100 xx"), ":0");
  EXPECT_EQ(Run("expire k 100 gt"), ":0");
  EXPECT_EQ(Run("expire k 100 nx"), ":1");
  EXPECT_EQ(Run("expire k 200 nx"), ":0");
  EXPECT_EQ(Run("expire k 100 GT"), ":0");
  EXPECT_EQ(Run("expire k 101 gt"), ":1");
  EXPECT_EQ(Run("expire k 101 lt"), ":0");
  EXPECT_EQ(Run("expire k 90 xx lt"), ":1");
  EXPECT_EQ(Run("ttl k"), ":90");
  Run("persist k");
  EXPECT_EQ(Run("expire k 500 xx lt"), ":0");
  EXPECT_EQ(Run("expire k 500 lt"), ":1");
  EXPECT_EQ(Run("expire missing 500 lt"), ":0");
  EXPECT_EQ(Run("expire k 0 gt"), ":0");  // not later than what is there
  EXPECT_EQ(Run("exists k"), ":1");
}

TEST_P(KeyCommandsTest, ExpireErrorsChangeNothing) {
  Run("set k v pxat 1800000000123");
  EXPECT_EQ(Run("expire k x"), kNotInteger);
  EXPECT_EQ(Run("pexpireat k ''"), kNotInteger);
  EXPECT_EQ(Run("expire k x what"), "-ERR Unsupported option what");
  for (std::string_view name : {"expire", "pexpire", "expireat", "pexpireat"}) {
    const std::string line = std::string(name) + " k 9223372036854775807";
    if (name == "pexpireat") continue;  // there it is a deadline like any other
    EXPECT_EQ(Run(line), "-" + InvalidExpireError(name));
  }
  EXPECT_EQ(Run("expire k 9223372036854775"), "-" + InvalidExpireError("expire"));
  EXPECT_EQ(Run("expireat k -9223372036854776"), "-" + InvalidExpireError("expireat"));
  EXPECT_EQ(Run("expire k 1 nx gt"),
            "-ERR NX and XX, GT or LT options at the same time are not compatible");
  EXPECT_EQ(Run("expire k 1 gt lt"), "-ERR GT and LT options at the same time are not compatible");
  EXPECT_EQ(Run("get k"), "\"v\"");
  EXPECT_EQ(Run("pexpiretime k"), ":1800000000123");
}

TEST_P(KeyCommandsTest, TypeAndObjectTellAboutAKey) {
  EXPECT_EQ(Run("type k"), "+none");
  for (std::string_view what : {"encoding", "idletime", "freq", "refcount"}) {
    EXPECT_EQ(Run(std::string("object ").append(what) + " k"), "(nil)");
  }
  Run("set k 12");
  EXPECT_EQ(Run("type k"), "+string");
  EXPECT_EQ(Run("object encoding k"), "\"int\"");
  EXPECT_EQ(Run("object REFCOUNT k"), ":2147483647");  // as in Redis, for 0 to 9999
  Run("set other 10000");
  EXPECT_EQ(Run("object refcount other"), ":1");
  EXPECT_EQ(Run("object idletime k"), ":0");
  now_ms_ += 42'000;
  EXPECT_EQ(Run("object idletime k"), ":42");
  EXPECT_EQ(Run("exists k"), ":1");
  EXPECT_EQ(Run("ttl k"), ":-1");
  EXPECT_EQ(Run("object idletime k"), ":42");
  EXPECT_EQ(Run("touch k"), ":1");
  EXPECT_EQ(Run("object idletime k"), ":0");
  // What looks a key up to change it touches it, though it may change nothing.
  for (const char* line : {"setnx k v", "msetnx k v", "msetnx new v k v", "set k v nx",
                           "expire k 100", "expire k 100 nx", "persist k", "persist k",
                           "pexpireat k 5 nx gt", "getex k", "setrange k 0 ''", "append k ''"}) {
    now_ms_ += 7'000;
    Run(line);
    const bool is_refused = std::string_view(line) == "pexpireat k 5 nx gt";
    EXPECT_EQ(Run("object idletime k"), is_refused ? ":7" : ":0") << line;
  }
  Run("set k 12");
  EXPECT_EQ(Run("object freq k").substr(0, 20), "-ERR An LFU maxmemor");
  MakeHash("h");
  EXPECT_EQ(Run("type h"), "+hash");
  EXPECT_EQ(Run("object encoding h"), "\"listpack\"");
  EXPECT_EQ(Call({"object", "help"}).items.size(), 15u);
  EXPECT_EQ(Run("object what k"), "-ERR unknown subcommand 'what'. Try OBJECT HELP.");
  EXPECT_EQ(Run("object"), "-ERR wrong number of arguments for 'object' command");
  EXPECT_EQ(Run("object encoding"), "-ERR wrong number of arguments for 'object|encoding' command");
}

TEST_P(KeyCommandsTest, ReadsCountHitsAndMisses) {
  Run("set k v");
  const auto hits = [this] {
    uint64_t sum = 0;
    for (ShardId id = 0; id < shards_->size(); ++id) {
      sum += shards_->Await(id, [](Shard& shard) { return shard.stats().hits; });
    }
    return sum;
  };
  const auto counted = [&](const std::string& line) {
    const uint64_t before = hits();
    Run(line);
    return hits() - before;
  };
  for (const char* line :
       {"get k", "exists k", "ttl k", "type k", "touch k", "strlen k", "getrange k 0 1", "mget k",
        "object encoding k", "getex k", "getex k ex x"}) {
    EXPECT_EQ(counted(line), 1u) << line;
  }
  for (const char* line : {"append k x", "expire k 100", "persist k", "set k v", "setnx k v"}) {
    EXPECT_EQ(counted(line), 0u) << line;
  }
}

TEST_P(KeyCommandsTest, KeysAndScanFindAllKeys) {
  EXPECT_EQ(Run("scan 0"), "[\"0\", []]");
  EXPECT_EQ(Run("keys *"), "[]");
  Fill(3000);
  EXPECT_EQ(Keys("*").size(), 3000u);
  EXPECT_EQ(ScanAll(), Keys("*"));
  EXPECT_GT(scan_calls_, 50);  // COUNT is 10: some keys at a time
  EXPECT_LE(scan_calls_, 300);
  scan_calls_ = 0;
  EXPECT_EQ(ScanAll({"count", "1000000000000"}), Keys("*"));
  EXPECT_EQ(scan_calls_, 1);
  EXPECT_EQ(Keys("key:1?"), ScanAll({"match", "key:1?"}));
  EXPECT_EQ(Keys("key:1?").size(), 10u);
}

// More buckets than one hop looks at.
TEST_P(KeyCommandsTest, WalksGoOnWhereTheirLastHopStopped) {
  Fill(40'000);
  EXPECT_EQ(Keys("*").size(), 40'000u);
  EXPECT_EQ(ScanAll({"COUNT", "100000"}).size(), 40'000u);
  EXPECT_EQ(scan_calls_, 1);
}

TEST_P(KeyCommandsTest, ScanSelectsTypes) {
  Fill(10);
  MakeHash("h");
  EXPECT_EQ(ScanAll({"type", "hash"}), std::vector<std::string>{"h"});
  EXPECT_EQ(ScanAll({"TYPE", "String"}).size(), 10u);
  EXPECT_EQ(ScanAll({"type", "nonsense"}).size(), 0u);
  EXPECT_EQ(ScanAll({"type", "string", "match", "*5", "count", "3"}),
            std::vector<std::string>{"key:5"});
}

TEST_P(KeyCommandsTest, ScanFindsWhatStaysWhileTheTableGrowsAndShrinks) {
  std::mt19937_64 random(helio::TestSeed());
  Fill(1000, "stays:");
  Fill(1000, "goes:");
  std::set<std::string> found;
  std::string cursor = "0";
  int step = 0;
  do {
    const RespValue reply = Call({"scan", cursor, "count", std::to_string(1 + random() % 40)});
    cursor = reply.items.at(0).text;
    for (const RespValue& key : reply.items.at(1).items) found.insert(key.text);
    if (++step < 100) {
      Fill(20, "new:" + std::to_string(step) + ":");
      for (int i = 0; i < 10; ++i) RunWords({"del", "goes:" + std::to_string(random() % 1000)});
    }
  } while (cursor != "0");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(found.count("stays:" + std::to_string(i)), 1u);
}

TEST_P(KeyCommandsTest, ScanTakesAnyCursorAndRefusesWhatIsNone) {
  Fill(100);
  for (const char* cursor :
       {"", "1", "-1", "+5", "4294967295", "4294967296", "18446744073709551615"}) {
    const RespValue reply = Call({"scan", cursor});
    ASSERT_EQ(reply.items.size(), 2u) << cursor;
    EXPECT_EQ(reply.items[1].kind, ReplyKind::kArray);
  }
  for (const char* cursor : {"x", "-", " 1", "1 ", "1x", "18446744073709551616"}) {
    EXPECT_EQ(RunWords({"scan", cursor}), "-ERR invalid cursor") << cursor;
  }
  EXPECT_EQ(Run("scan x count 0"), "-ERR invalid cursor");
  for (const char* line : {"scan 0 count", "scan 0 match", "scan 0 what 1", "scan 0 count 0",
                           "scan 0 count -5", "scan 0 count 5 x"}) {
    EXPECT_EQ(Run(line), kSyntaxError) << line;
  }
  EXPECT_EQ(Run("scan 0 count x"), kNotInteger);
}

TEST_P(KeyCommandsTest, RandomKeyReachesEveryKeyAboutEquallyOften) {
  EXPECT_EQ(Run("randomkey"), "(nil)");
  Fill(8);
  std::map<std::string, int> seen;
  for (int i = 0; i < 1600; ++i) ++seen[Call({"randomkey"}).text];
  ASSERT_EQ(seen.size(), 8u);
  // Each count is binomial with mean 200 and deviation 13: these are 7 deviations.
  for (const auto& [key, count] : seen) {
    EXPECT_GT(count, 107) << key;
    EXPECT_LT(count, 293) << key;
  }
}

TEST_P(KeyCommandsTest, AnExpiredKeyIsSeenByNobody) {
  for (int i = 0; i < 50; ++i) RunWords({"set", "k" + std::to_string(i), "v", "px", "10"});
  Run("set stays v");
  now_ms_ += 11;
  EXPECT_EQ(Run("keys *"), "[\"stays\"]");
  EXPECT_EQ(ScanAll(), std::vector<std::string>{"stays"});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Run("randomkey"), "\"stays\"");
  EXPECT_EQ(Run("type k1"), "+none");
  EXPECT_EQ(Run("persist k1"), ":0");
  EXPECT_EQ(Run("expire k1 10"), ":0");
  EXPECT_EQ(Run("exists k1 k2"), ":0");
  EXPECT_EQ(Run("touch k3 k4"), ":0");
  EXPECT_EQ(Run("del k5 k6"), ":0");
  EXPECT_EQ(Run("stick k7"), ":0");
  EXPECT_EQ(Run("ttl k8"), ":-2");
}

TEST_P(KeyCommandsTest, RandomKeyOfOnlyExpiredKeysIsNone) {
  for (int i = 0; i < 50; ++i) RunWords({"set", "k" + std::to_string(i), "v", "px", "10"});
  now_ms_ += 11;
  EXPECT_EQ(Run("randomkey"), "(nil)");
  EXPECT_EQ(Run("dbsize"), ":0");
}

TEST_P(KeyCommandsTest, FlushesRemoveOneDatabaseOrAll) {
  for (const char* mode : {"", " sync", " ASYNC"}) {
    db_index_ = 1;
    Fill(20);
    db_index_ = 0;
    Fill(100);
    EXPECT_EQ(Run(std::string("flushdb") + mode), "+OK");
    EXPECT_EQ(Run("dbsize"), ":0");
    db_index_ = 1;
    EXPECT_EQ(Run("dbsize"), ":20");
    Run("expire key:1 100");
    db_index_ = 0;
    EXPECT_EQ(Run(std::string("flushall") + mode), "+OK");
    db_index_ = 1;
    EXPECT_EQ(Run("dbsize"), ":0");
    EXPECT_EQ(Run("set key:1 v"), "+OK");
    EXPECT_EQ(Run("ttl key:1"), ":-1");
    Run("del key:1");
  }
  Run("set k v");
  for (const char* line : {"flushdb what", "flushall ''", "flushall sync async"}) {
    EXPECT_EQ(Run(line), kSyntaxError) << line;
  }
  EXPECT_EQ(Run("dbsize"), ":1");
}

TEST_P(KeyCommandsTest, WorkOverShardsIsFollowedByTheirCare) {
  struct Care : TurnEnd {
    void OnTurnEnd(Shard& shard) override { ids.insert(shard.id()); }
    std::set<uint32_t> ids;
  } care;
  const auto cares = [this](TurnEnd* end) {
    shards_->AwaitOnAll([end](Shard& shard) { shard.set_turn_end(end); });
  };
  cares(&care);
  Run("flushall async");
  cares(nullptr);
  EXPECT_EQ(care.ids.size(), GetParam());
}

TEST_P(KeyCommandsTest, WrongNumbersOfArgumentsAreRefused) {
  Run("set k v pxat 1800000000123");
  for (std::string_view name :
       {"del", "unlink", "exists", "touch", "stick", "expire", "pexpire", "expireat", "pexpireat",
        "ttl", "pttl", "expiretime", "pexpiretime", "persist", "type", "scan", "keys"}) {
    EXPECT_EQ(Run(name), "-" + WrongArityError(name));
  }
  for (std::string_view name : {"ttl", "pttl", "expiretime", "pexpiretime", "persist", "type",
                                "keys", "randomkey", "dbsize"}) {
    EXPECT_EQ(Run(std::string(name) + " k k"), "-" + WrongArityError(name));
  }
  EXPECT_EQ(Run("pexpiretime k"), ":1800000000123");
}

INSTANTIATE_TEST_SUITE_P(Shards, KeyCommandsTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
