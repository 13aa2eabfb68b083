// SPDX-License-Identifier: Apache-2.0
// Commands that run in pieces (commands/table/pieces.h) do the same as in one step. The harness
// takes a key whose name ends with an odd digit in pieces of two items, another one in one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "commands/testing/test_harness.h"
#include "engine/keyspace/key_events.h"
#include "engine/keyspace/read_tracker.h"

namespace dfly {
namespace {

// What shards tell of keys, one line for each event. Owner: the test, whose shards have one thread.
class Heard final : public KeyEventListener, public ReadTracker {
 public:
  std::vector<std::string> events;
  size_t changes = 0;
  bool hears_fields = false;

  void OnKeyEvent(uint32_t, int, std::string_view key, KeyEvent event) override {
    events.push_back(std::string(NameOf(event)) + " " + std::string(key));
  }
  void OnFieldEvent(uint32_t, int, std::string_view key, KeyEvent,
                    std::span<const std::string_view> fields) override {
    events.push_back("fields of " + std::string(key) + " " + std::to_string(fields.size()));
  }
  bool HearsFields(uint32_t) const override { return hears_fields; }

  void OnRead(uint32_t, std::string_view, const CachingClient&) override {}
  void OnKeyChanged(uint32_t, std::string_view, const CachingClient*) override { ++changes; }
  void OnFlushed(uint32_t, uint64_t) override {}
};

// The lines of a script; K is a key, L another one, and M a third.
std::string Named(std::string_view line, char digit) {
  std::string named;
  for (char c : line) {
    if (c == 'K' || c == 'L' || c == 'M') {
      named += {'k', c, digit};
    } else {
      named += c;
    }
  }
  return named;
}

class PiecesTest : public CommandsTest {
 protected:
  PiecesTest() {
    shards_->AwaitOnAll([this](Shard& shard) {
      shard.set_key_events(&heard_, true);
      shard.set_tracker(&heard_);
    });
  }
  ~PiecesTest() override {
    shards_->AwaitOnAll([](Shard& shard) {
      shard.set_key_events(nullptr);
      shard.set_tracker(nullptr);
    });
  }
  ShardStats Stats() {
    ShardStats sum;
    shards_->AwaitOnAll([&](Shard& shard) {
      sum.hits += shard.stats().hits;
      sum.misses += shard.stats().misses;
      sum.changes += shard.stats().changes;
    });
    return sum;
  }
  // All that can be known of a command on keys with this digit.
  std::vector<std::string> AllOf(std::string_view line, char digit) {
    heard_.events.clear();
    heard_.changes = 0;
    Effects();
    const ShardStats before = Stats();
    std::vector<std::string> all = {Run(Named(line, digit))};
    const ShardStats after = Stats();
    // As keys of several shards come: in no order.
    std::sort(heard_.events.begin(), heard_.events.end());
    for (const std::string& unit : Effects()) all.push_back("told: " + unit);
    for (const std::string& event : heard_.events) all.push_back("event: " + event);
    all.push_back(heard_.changes > 0 ? "changed" : "not changed");
    all.push_back("hits " + std::to_string(after.hits - before.hits));
    all.push_back("misses " + std::to_string(after.misses - before.misses));
    all.push_back("changes " + std::to_string(after.changes - before.changes));
    return all;
  }
  void Compare(std::string_view line) {
    std::vector<std::string> in_pieces = AllOf(line, '1');
    const size_t changes = heard_.changes;
    const std::vector<std::string> at_once = AllOf(line, '2');
    for (std::string& text : in_pieces) {
      for (const char* name : {"kK", "kL", "kM"}) {
        for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += 3) {
          text[at + 2] = '2';
        }
      }
    }
    EXPECT_EQ(in_pieces, at_once) << line;
    EXPECT_LE(changes, heard_.changes) << line;
  }

  Heard heard_;
};

TEST_P(PiecesTest, CommandsDoTheSameAsInOneStep) {
  const std::string_view lines[] = {
      "hset K a 1 b 2 c 3 a 4 d 5", "hset K a 1 b", "hset K a 1 b 2 e 3", "hmset K x 1 y 2 z 3",
      "hmset K x 1 y", "hmget K a nothing b x y", "hmget M a b c d e", "hgetall K",
      "hdel K nothing a b c", "hdel M a b c d e", "hdel K nothing x y z d e more than there is",
      "exists K",
      // A key and fields with deadlines.
      "hset K a 1 b 2 c 3 d 4", "pexpire K 5000", "hpexpire K 1000 fields 2 a d",
      "hset K b 5 a 6 c 7", "pttl K", "hpttl K fields 4 a b c d", "hmget K a b c d", "later 2000",
      "hmget K a b c d", "hset K d 1 e 2 f 3", "later 10000", "hset K a 1 b 2 c 3", "pttl K",
      "hgetall K", "later 10000", "del K",
      // Sets.
      "sadd K a b c d a e", "sadd K a b c d e", "sadd K 1 2 3 4 5 f", "smismember K a no b c 1 2",
      "smismember M a b c d e", "srem K no a b c", "srem K d e f 1 2 3 4 5 6", "exists K",
      "srem M a b c", "sadd K 1 2 3 4 5", "srem K 5 4 3 2 1",
      // Sorted sets.
      "zadd K 1 a 2 b 3 c 1 a", "zadd K 1 a 2 b 3 c", "zadd K ch 2 a 2 b 4 d 4 e",
      "zadd K xx ch 5 a 6 b 7 no 8 none", "zadd K nx 1 a 9 q 9 r", "zadd K gt ch 1 a 9 b 2 c 3 new",
      "zadd K lt ch 1 a 9 b 2 c 3 newer", "zadd K xx 1 no 2 none 3 never", "zadd M xx 1 a 2 b 3 c",
      "zadd K 1 a 2 b x c", "zadd M 1 a 2 b x c", "zadd K 1 a 2 b nan c", "zadd K 1 a 2 b 3",
      "zadd K nx xx 1 a 2 b 3 c", "zadd K gt lt 1 a 2 b 3 c", "zadd K incr 1 a 2 b 3 c",
      "zadd K incr 5 a", "zadd K nx incr 5 a", "zmscore K a no b c d", "zmscore M a b c d e",
      "zrange K 0 -1 withscores", "zrem K no a b c", "zrem K q r new newer d e no none a b c",
      "exists K", "zrem M a b c", "geoadd K 13 38 a 15 37 b 13 38 c",
      "geoadd K ch 13 39 a 15 37 b 13 38 d", "geoadd K 13 38 e 200 38 f", "geoadd K 13 38 e 13 x f",
      "geoadd K nx xx 1 1 a 2 2 b", "geoadd K 1 1 a 2", "geopos K a b c d e", "del K",
      // Lists.
      "rpush K a b c d e", "lpush K f g h i j", "rpushx K k l m", "lpushx K n o p",
      "rpushx M a b c", "lpushx M a b c", "lrange K 0 -1", "del K",
      // Other types.
      "set K text", "hset K a 1 b 2 c 3", "hmset K a 1 b 2 c 3", "hdel K a b c", "hmget K a b c",
      "sadd K a b c", "srem K a b c", "smismember K a b c", "zadd K 1 a 2 b 3 c",
      "zadd K 1 a 2 b x c", "zrem K a b c", "zmscore K a b c", "rpush K a b c", "lpush K a b c",
      "rpushx K a b c", "get K",
      // Keys.
      "mset K 1 L 2 M 3 K 4", "mset K 1 L 2 M", "mget K no L M K", "exists K L no M K",
      "touch K L M no", "set K v ex 1", "mset K 1 L 2 M 3", "ttl K", "set K v ex 1", "later 2000",
      "mget K L M", "exists K L M", "del K no L M K", "del K L M", "mget K L M", "mset K 1 L 2 M 3",
      "unlink K L M no", "rpush L a b", "mget K L M", "mset K 1 L 2 M 3", "stick K L M no K"};
  for (std::string_view line : lines) {
    if (line.starts_with("later ")) {
      now_ms_ += std::stoi(std::string(line.substr(6)));
    } else {
      Compare(line);
    }
  }
}

TEST_P(PiecesTest, WhoHearsOfFieldsHearsOfAllTogether) {
  heard_.hears_fields = true;
  Compare("hset K a 1 b 2 c 3 d 4 e 5");
  Compare("hdel K a b c d e");
}

TEST_P(PiecesTest, EventsComeInTheirOrder) {
  Run("hset k1 a 1 b 2 c 3");
  Run("hdel k1 a b no c d");
  EXPECT_EQ(heard_.events, (std::vector<std::string>{"new k1", "hset k1", "hdel k1", "del k1"}));
}

TEST_P(PiecesTest, LongTextsAreInPiecesOfTheirOwn) {
  std::vector<std::string> words = {"hset", "k1"};
  const std::string large(300'000, 'x');
  for (char c = 'a'; c < 'h'; ++c) words.insert(words.end(), {std::string(1, c), large + c});
  EXPECT_EQ(RunWords(words), ":7");
  EXPECT_EQ(Run("hget k1 g"), '"' + large + "g\"");
  words[0] = "mset";
  words.erase(words.begin() + 1);
  words[1] = "odd1";
  EXPECT_EQ(RunWords(words), "+OK");
  EXPECT_EQ(Run("get g"), '"' + large + "g\"");
}

INSTANTIATE_TEST_SUITE_P(Shards, PiecesTest, testing::Values(1, 4));

}  // namespace
}  // namespace dfly
