// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "commands/testing/test_harness.h"
#include "core/text/crc64.h"
#include "helio/base/random.h"

namespace dfly {
namespace {

using Words = std::vector<std::string>;

class DumpTest : public CommandsTest {
 protected:
  static constexpr std::string_view kBadFormat = "-ERR Bad data format";
  static constexpr std::string_view kBadPayload = "-ERR DUMP payload version or checksum are wrong";

  std::string DumpOf(const std::string& key) { return Call({"dump", key}).text; }
  std::string Restore(const std::string& key, const std::string& payload, const Words& more = {},
                      const std::string& ttl = "0") {
    Words words = {"restore", key, ttl, payload};
    words.insert(words.end(), more.begin(), more.end());
    return RunWords(words);
  }
  // Type and value, with the end that belongs to them.
  static std::string Payload(std::string bytes, uint16_t version = 10) {
    for (int i = 0; i < 2; ++i) bytes.push_back(static_cast<char>(version >> (8 * i)));
    const uint64_t checksum = Crc64(0, bytes);
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(checksum >> (8 * i)));
    return bytes;
  }
};

// 22 was a hash in another form in release candidates of Redis 7.4.
TEST_P(DumpTest, TheVersionTellsWhoseTypesAPayloadHas) {
  const std::string of_valkey(
      "\x16\x01\x01"
      "f\x01v\xff\x1f\x4a\xa9\xd1\x01\x00\x00",
      14);
  EXPECT_EQ(Restore("v", Payload(of_valkey, 80)), "+OK");
  EXPECT_EQ(Run("hpexpiretime v fields 1 f"), "[:1999999999999]");
  EXPECT_EQ(Restore("n", Payload(of_valkey, 12)), kBadFormat);
  const std::string of_redis(
      "\x16\x01\x00\x01"
      "f\x01v",
      7);
  EXPECT_EQ(Restore("r", Payload(of_redis, 12)), "+OK");
  EXPECT_EQ(Run("hget r f"), "\"v\"");
  EXPECT_EQ(Restore("n", Payload(of_redis, 80)), kBadFormat);
}

TEST_P(DumpTest, APayloadHasTheBytesOfRedis) {
  Run("set s abc");
  EXPECT_EQ(DumpOf("s"), Payload(std::string("\x00\x03"
                                             "abc",
                                             5)));
  Run("set n 10");
  EXPECT_EQ(DumpOf("n"), std::string("\x00\xc0\x0a\x0a\x00n\x9fWE\x0e\xae"
                                     "c\xbb",
                                     13))
      << "as redis-server 7.0";
  EXPECT_EQ(Run("dump missing"), "(nil)");
}

TEST_P(DumpTest, EveryTypeComesBack) {
  Run("set s text");
  Run("rpush l a 1 b");
  Run("sadd i 1 2 3");
  Run("sadd m 1 a");
  Run("zadd z 1 a 2.5 b");
  Run("hset h f v g 5");
  for (const auto& [key, show] :
       std::vector<std::pair<std::string, std::string>>{{"s", "get "},
                                                        {"l", "lrange % 0 -1"},
                                                        {"i", "smembers "},
                                                        {"m", "smembers "},
                                                        {"z", "zrange % 0 -1 withscores"},
                                                        {"h", "hgetall "}}) {
    const auto shown = [&](const std::string& name) {
      std::string line = show;
      const size_t at = line.find('%');
      return Run(at == std::string::npos ? line + name : line.replace(at, 1, name));
    };
    const std::string payload = DumpOf(key);
    for (const char* target : {"t", "u", "v", "w"}) {
      EXPECT_EQ(Restore(target, payload, {"REPLACE"}), "+OK") << key;
      EXPECT_EQ(shown(target), shown(key));
      EXPECT_EQ(Run("object encoding " + std::string(target)), Run("object encoding " + key));
      EXPECT_EQ(DumpOf(target), payload);
    }
  }
}

TEST_P(DumpTest, AKeyThatExistsIsReplacedOnlyIfAskedFor) {
  Run("set k old");
  const std::string payload = DumpOf("k");
  Run("setex k 100 new");
  EXPECT_EQ(Restore("k", payload), "-BUSYKEY Target key name already exists.");
  EXPECT_EQ(Restore("k", "garbage"), "-BUSYKEY Target key name already exists.");
  EXPECT_EQ(Restore("k", payload, {}, "-1"), "-BUSYKEY Target key name already exists.");
  EXPECT_EQ(Run("get k"), "\"new\"");
  EXPECT_EQ(Restore("k", payload, {"replace"}), "+OK");
  EXPECT_EQ(Run("get k"), "\"old\"");
  EXPECT_EQ(Run("ttl k"), ":-1");
  Run("psetex k 5 x");
  now_ms_ += 6;
  EXPECT_EQ(Restore("k", payload), "+OK") << "it was due";
}

TEST_P(DumpTest, TimesToLiveAreRelativeOrAbsolute) {
  Run("set k v");
  const std::string payload = DumpOf("k");
  Run("del k");
  EXPECT_EQ(Restore("k", payload, {}, "5000"), "+OK");
  EXPECT_EQ(Run("pttl k"), ":5000");
  EXPECT_EQ(Restore("k", payload, {"REPLACE", "ABSTTL"}, std::to_string(now_ms_ + 77)), "+OK");
  EXPECT_EQ(Run("pttl k"), ":77");
  EXPECT_EQ(Restore("k", payload, {"REPLACE", "ABSTTL"}, std::to_string(now_ms_)), "+OK");
  EXPECT_EQ(Run("exists k"), ":0") << "it is over";
  EXPECT_EQ(Restore("k", payload, {"ABSTTL"}, "1"), "+OK");
  EXPECT_EQ(Run("exists k"), ":0");
  EXPECT_EQ(Restore("k", payload, {"ABSTTL"}, "0"), "+OK") << "0 is none";
  EXPECT_EQ(Run("ttl k"), ":-1");
  Run("del k");
  constexpr std::string_view kErrTtl = "-ERR Invalid TTL value, must be >= 0";
  EXPECT_EQ(Restore("k", payload, {}, "-1"), kErrTtl);
  EXPECT_EQ(Restore("k", payload, {}, "9223372036854775807"), kErrTtl);
  EXPECT_EQ(Restore("k", payload, {}, "x"), kNotInteger);
  EXPECT_EQ(Run("exists k"), ":0");
}

TEST_P(DumpTest, OptionsAreChecked) {
  Run("set k v");
  const std::string payload = DumpOf("k");
  EXPECT_EQ(Restore("n", payload, {"IDLETIME", "-1"}), "-ERR Invalid IDLETIME value, must be >= 0");
  EXPECT_EQ(Restore("n", payload, {"IDLETIME", "x"}), kNotInteger);
  EXPECT_EQ(Restore("n", payload, {"FREQ", "256"}),
            "-ERR Invalid FREQ value, must be >= 0 and <= 255");
  EXPECT_EQ(Restore("n", payload, {"FREQ", "-1"}),
            "-ERR Invalid FREQ value, must be >= 0 and <= 255");
  EXPECT_EQ(Restore("n", payload, {"FREQ", "1", "IDLETIME", "1"}), kSyntaxError);
  EXPECT_EQ(Restore("n", payload, {"IDLETIME"}), kSyntaxError);
  EXPECT_EQ(Restore("n", payload, {"FOO"}), kSyntaxError);
  EXPECT_EQ(Restore("k", payload, {"FOO"}), kSyntaxError) << "before the key";
  EXPECT_EQ(Run("exists n"), ":0");
  EXPECT_EQ(Restore("n", payload, {"IDLETIME", "1000"}), "+OK");
  EXPECT_EQ(Run("object idletime n"), ":1000");
  EXPECT_EQ(Restore("n", payload, {"REPLACE", "FREQ", "7", "FREQ", "8"}), "+OK");
}

TEST_P(DumpTest, PayloadsAreChecked) {
  Run("set k v");
  const std::string payload = DumpOf("k");
  for (size_t at = 0; at < payload.size(); ++at) {
    std::string wrong = payload;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    EXPECT_EQ(Restore("n", wrong), kBadPayload) << at;
    EXPECT_EQ(Restore("n", payload.substr(0, at)), kBadPayload) << at;
  }
  const std::string value("\x00\x01v", 3);
  EXPECT_EQ(Restore("a", Payload(value, 11)), "+OK") << "7.2 writes that";
  EXPECT_EQ(Restore("b", Payload(value, 1)), "+OK");
  EXPECT_EQ(Restore("c", Payload(value, 12)), "+OK") << "8.0";
  EXPECT_EQ(Restore("d", Payload(value, 15)), "+OK") << "8.10";
  EXPECT_EQ(Restore("e", Payload(value, 80)), "+OK") << "Valkey 9";
  EXPECT_EQ(Restore("n", Payload(std::string("\x07\x01", 2))),
            "-ERR Bad data format: a value of a module (type 7), which this server does not read");
  EXPECT_EQ(Restore("n", Payload("\x21 abc", 15)),
            "-ERR Bad data format: a rate limiter of a later Redis 8 (type 33), which this server "
            "does not read");
  EXPECT_EQ(Restore("n", Payload("")), kBadFormat);
  EXPECT_EQ(Restore("n", Payload(std::string("\x00\x02v", 3))), kBadFormat);
  EXPECT_EQ(Restore("n", Payload(std::string("\x02\x00", 2))), kBadFormat) << "an empty set";
  EXPECT_EQ(Restore("n", Payload(std::string("\x04\x00", 2))), kBadFormat) << "an empty hash";
  EXPECT_EQ(Restore("n", Payload(std::string("\x12\x00", 2))), kBadFormat) << "an empty list";
  EXPECT_EQ(Run("exists n"), ":0");
  Run("set n old");
  EXPECT_EQ(Restore("n", Payload(std::string("\x00\x02v", 3)), {"REPLACE"}), kBadFormat);
  EXPECT_EQ(Run("get n"), "\"old\"");
}

TEST_P(DumpTest, DeadlinesOfMembersComeBackAndCount) {
  Run("hset h f v g w");
  Run("hpexpire h 100 fields 1 f");
  Run("saddex s 1 a");
  Run("sadd s b");
  const std::string hash = DumpOf("h"), set = DumpOf("s");
  EXPECT_EQ(hash[hash.size() - 10], 12) << "a version that redis-server 7.2 refuses";
  for (const char* shard : {"0", "1", "2", "3"}) {
    EXPECT_EQ(Restore("h2" + std::string(shard), hash), "+OK");
    EXPECT_EQ(Restore("s2" + std::string(shard), set), "+OK");
  }
  EXPECT_EQ(Run("hpttl h21 fields 2 f g"), Run("hpttl h fields 2 f g"));
  now_ms_ += 101;
  EXPECT_EQ(Run("hget h21 f"), "(nil)");
  EXPECT_EQ(Run("hget h21 g"), "\"w\"");
  EXPECT_EQ(Run("scard s21"), ":2");
  now_ms_ += 1000;
  EXPECT_EQ(Run("smembers s21"), Run("smembers s"));
  EXPECT_EQ(Run("sismember s21 a"), ":0");
  // All are over before they come.
  EXPECT_EQ(Restore("late", Payload(std::string("\x18\x05\0\0\0\0\0\0\0\x01\x01\x01"
                                                "f\x01v",
                                                15),
                                    12)),
            "+OK");
  EXPECT_EQ(Run("hget late f"), "(nil)");
  EXPECT_EQ(Run("exists late"), ":0");
  EXPECT_EQ(Restore("h3", DumpOf("h")), "+OK");
  now_ms_ -= 1101;
  EXPECT_EQ(Run("hgetall h3"), "[\"g\", \"w\"]") << "what was due was left out";
  EXPECT_EQ(DumpOf("h3")[DumpOf("h3").size() - 10], 10) << "which 7.0 reads";
}

TEST_P(DumpTest, ProbabilisticValuesComeBack) {
  Run("bf.reserve b 0.01 10");
  Run("bf.add b x");
  Run("cms.initbydim c 10 3");
  Run("cms.incrby c x 7");
  Run("topk.reserve t 3");
  Run("topk.add t x y x");
  for (const char* key : {"b", "c", "t"}) {
    const std::string payload = DumpOf(key);
    EXPECT_EQ(Restore(key, payload, {"REPLACE"}), "+OK");
    EXPECT_EQ(DumpOf(key), payload);
  }
  EXPECT_EQ(Run("bf.exists b x"), ":1");
  EXPECT_EQ(Run("bf.exists b y"), ":0");
  EXPECT_EQ(Run("cms.query c x y"), "[:7, :0]");
  EXPECT_EQ(Run("topk.list t"), "[\"x\", \"y\"]");
}

// Payloads of all types, changed at random but with the right checksum.
TEST_P(DumpTest, HostilePayloadsDoNoHarm) {
  Words keys = {"s", "l", "i", "m", "z", "h", "c", "d", "e", "bf", "cms", "top"};
  Run("set s text");
  Run("rpush l a 1 b");
  Run("sadd i 1 2 3");
  Run("sadd m 1 a");
  Run("zadd z 1 a 2.5 b");
  Run("hset h f v g 5");
  for (int i = 0; i < 600; ++i) Run("hset c f" + std::to_string(i) + " v");
  Run("hset d f v g 5");
  Run("hexpire d 100 fields 1 f");
  Run("saddex e 100 a 1");
  Run("bf.reserve bf 0.01 10");
  Run("cms.initbydim cms 10 3");
  Run("topk.reserve top 3");
  Run("topk.add top x y x");
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    const std::string payload = DumpOf(key);
    values.push_back(payload.substr(0, payload.size() - 10));
  }
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    helio::Random random(seed);
    std::string bytes = values[random.Uniform(values.size())];
    for (uint64_t i = 1 + random.Uniform(4); i > 0; --i) {
      bytes[random.Uniform(random.OneIn(2) ? std::min<size_t>(bytes.size(), 12) : bytes.size())] =
          static_cast<char>(random.Next());
    }
    const std::string reply = Restore("t", Payload(bytes), {"REPLACE"});
    EXPECT_TRUE(reply == "+OK" || reply.starts_with(kBadFormat)) << reply;
    // What is over already has gone.
    if (reply == "+OK" && Run("exists t") == ":1") {
      EXPECT_EQ(Restore("u", DumpOf("t"), {"REPLACE"}), "+OK");
    }
  }
}

// In slices and in one step, as the last letter of the key decides (DispatchForTest). A set and a
// hash have the order of their tables, and a copy may have another one.
TEST_P(DumpTest, LargeValuesAreTheSameInSlices) {
  constexpr int kCount = 30'000;
  std::vector<Words> writes = {{"rpush"}, {"sadd"}, {"hset"}, {"zadd"}, {"sadd"}};
  for (int i = 0; i < kCount; ++i) {
    const std::string number = std::to_string(i * 7);
    const std::string text = "element:" + number;
    for (size_t k : {0, 1}) writes[k].push_back(text);
    writes[2].insert(writes[2].end(), {text, std::string(i % 50, 'x')});
    writes[3].insert(writes[3].end(), {number, text});
    writes[4].push_back(number);
  }
  std::string large(5 << 19, '\0');  // bytes that cannot be compressed
  helio::Random random(3);
  for (char& c : large) c = static_cast<char>(random.Next());
  writes.push_back({"append", large});
  for (Words words : writes) {
    SCOPED_TRACE(words[0]);
    for (const char* key : {"k1", "k2"}) {
      words.insert(words.begin() + 1, key);
      RunWords(words);
      words.erase(words.begin() + 1);
    }
    const std::string payload = DumpOf("k2");
    const bool has_order = words[0] != "sadd" && words[0] != "hset";
    const auto expect_same = [&](const std::string& key) {
      const std::string other = DumpOf(key);
      EXPECT_EQ(other.size(), payload.size());
      if (has_order) {
        EXPECT_TRUE(other == payload);
        return;
      }
      const std::string all = words[0] == "sadd" ? "smembers" : "hgetall";
      std::multiset<std::string> found[2];
      for (const RespValue& item : Call({all, key}).items) found[0].insert(item.text);
      for (const RespValue& item : Call({all, "k2"}).items) found[1].insert(item.text);
      EXPECT_TRUE(found[0] == found[1]);
    };
    expect_same("k1");
    for (const std::string& key : {std::string("r1"), std::string("r2")}) {
      // What either of them has made.
      EXPECT_EQ(Restore(key, DumpOf(key == "r1" ? "k1" : "k2"), {}, "100000"), "+OK");
      expect_same(key);
      EXPECT_EQ(Run("pttl " + key), ":100000");
      EXPECT_EQ(Restore(key, payload), "-BUSYKEY Target key name already exists.");
      std::string damaged = payload;
      ++damaged[damaged.size() / 2];
      EXPECT_EQ(Restore(key, damaged), "-BUSYKEY Target key name already exists.");
      EXPECT_EQ(Restore(key, damaged, {"REPLACE"}), kBadPayload);
      const std::string cut = payload.substr(0, payload.size() / 2);
      EXPECT_EQ(Restore(key, Payload(cut), {"REPLACE"}), kBadFormat);
      EXPECT_EQ(Restore(key, payload, {"REPLACE"}, "x"), kNotInteger);
      EXPECT_EQ(Restore(key, payload, {"REPLACE"}, "9223372036854775807"),
                "-ERR Invalid TTL value, must be >= 0");
      expect_same(key);
    }
    Run("del k1 k2 r1 r2");
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, DumpTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
