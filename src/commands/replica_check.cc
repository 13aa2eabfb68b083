// SPDX-License-Identifier: Apache-2.0
#include "commands/replica_check.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>

#include "engine/shard_context.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr int64_t kLate = int64_t{1} << 45;  // the year 3084

std::vector<std::string> WordsOf(std::string_view resp) {
  RespValue value;
  CHECK_EQ(ReadRespValue(resp, &value), resp.size());
  std::vector<std::string> words;
  for (const RespValue& item : value.items) words.push_back(item.text);
  return words;
}

// Without what a reader of the effects cannot know: when consumers were seen, and how the nodes of
// a stream are cut.
std::string StreamText(const RespValue& value) {
  if (value.items.empty()) return value.ToString();
  std::string text = "[";
  for (size_t i = 0; i < value.items.size(); ++i) {
    const std::string& name = value.items[i].text;
    if (name == "seen-time" || name == "active-time" || name == "radix-tree-keys" ||
        name == "radix-tree-nodes") {
      ++i;
      continue;
    }
    absl::StrAppend(&text, StreamText(value.items[i]), ", ");
  }
  return text + "]";
}

}  // namespace

ReplicaCheck::ReplicaCheck(helio::ProactorPool* pool, ShardSet* shards, RunFn run)
    : primary_(*shards),
      replica_(std::make_unique<ShardSet>(pool, 1, shards->db_count(), shards->string_max())),
      run_(std::move(run)) {
  primary_.SetEffectSink(this);
}

ReplicaCheck::~ReplicaCheck() { primary_.SetEffectSink(nullptr); }

void ReplicaCheck::OnUnit(const Effects& effects) {
  std::string unit;
  effects.ForEach([&](int db_index, std::string_view resp) {
    to_apply_.emplace_back(db_index, WordsOf(resp));
    absl::StrAppend(&unit, unit.empty() ? "" : "; ", db_index, " ",
                    absl::StrJoin(to_apply_.back().second, " "));
  });
  seen_.push_back(std::move(unit));
}

void ReplicaCheck::CatchUp() {
  for (const auto& [db_index, words] : std::exchange(to_apply_, {})) {
    // XCLAIM takes no time that is still to come.
    const RespValue reply = Ask(*replica_, db_index, words[0] == "XCLAIM" ? kLate : 0, words);
    if (reply.kind != ReplyKind::kError) continue;
    absl::StrAppend(&failed_, "effect ", absl::StrJoin(words, " "), ": ", reply.text, "\n");
  }
}

std::string ReplicaCheck::DescribeMembers(ShardSet& shards, int db_index, int64_t now_ms,
                                          const std::string& key, std::string_view read,
                                          bool has_values) {
  const RespValue all = Ask(shards, db_index, now_ms, {std::string(read), key});
  std::map<std::string, std::string> members;
  for (size_t i = 0; i < all.items.size(); i += has_values ? 2 : 1) {
    const std::string& name = all.items[i].text;
    std::string& text = members[name];
    if (has_values) text = all.items[i + 1].text;
    const RespValue at = Ask(shards, db_index, now_ms, {"fieldttl", key, name});
    // Relative there: to the clock of the set.
    const int64_t seconds = std::atoll(at.text.c_str());
    if (has_values) {
      absl::StrAppend(
          &text, " at ",
          Ask(shards, db_index, now_ms, {"hpexpiretime", key, "FIELDS", "1", name}).ToString());
    } else if (seconds >= 0) {
      absl::StrAppend(&text, " at about ", (now_ms + 999) / 1000 + seconds);
    }
  }
  std::string text;
  for (const auto& [name, value] : members) absl::StrAppend(&text, name, "=", value, ", ");
  return text;
}

std::string ReplicaCheck::Describe(ShardSet& shards, int db_index, int64_t now_ms,
                                   const std::string& key) {
  const auto ask = [&](const Words& words) { return Ask(shards, db_index, now_ms, words); };
  const std::string type = ask({"type", key}).text;
  std::string text = type + ": ";
  if (type == "string") {
    text += ask({"get", key}).text;
  } else if (type == "list") {
    text += ask({"lrange", key, "0", "-1"}).ToString();
  } else if (type == "hash") {
    text += DescribeMembers(shards, db_index, now_ms, key, "hgetall", true);
  } else if (type == "set") {
    text += DescribeMembers(shards, db_index, now_ms, key, "smembers", false);
  } else if (type == "zset") {
    text += ask({"zrange", key, "0", "-1", "WITHSCORES"}).ToString();
  } else if (type == "stream") {
    text += StreamText(ask({"xinfo", "stream", key, "FULL", "COUNT", "0"}));
  } else if (type != "none") {
    text += ask({"dump", key}).text;
  }
  const ShardId id = shards.ShardOfKey(key, HashKey(key));
  const auto is_sticky = shards.Await(id, [&](ShardTurn& turn) {
    return turn.Begin(db_index, now_ms).IsSticky(key).value_or(false);
  });
  absl::StrAppend(&text, "; until ", ask({"pexpiretime", key}).text, is_sticky ? ", sticky" : "");
  return text;
}

std::string ReplicaCheck::Compare(int64_t now_ms) {
  CatchUp();
  std::string differences = std::exchange(failed_, {});
  for (int db_index = 0; db_index < primary_.db_count(); ++db_index) {
    std::vector<std::string> keys;
    for (ShardSet* shards : {&primary_, replica_.get()}) {
      const RespValue found =
          Ask(*shards, db_index, shards == &primary_ ? now_ms : 0, {"keys", "*"});
      for (const RespValue& key : found.items) keys.push_back(key.text);
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (const std::string& key : keys) {
      const std::string here = Describe(primary_, db_index, now_ms, key);
      CatchUp();  // what is due has gone now
      const std::string there = Describe(*replica_, db_index, 0, key);
      if (here == there) continue;
      absl::StrAppend(&differences, "key ", key, " of ", db_index, "\n  has     ", here,
                      "\n  replica ", there, "\n");
    }
  }
  return differences;
}

}  // namespace dfly
