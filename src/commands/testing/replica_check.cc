// SPDX-License-Identifier: Apache-2.0
#include "commands/testing/replica_check.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "commands/collections/hash_deadlines.h"
#include "commands/collections/member_deadlines.h"
#include "commands/collections/set_commands.h"
#include "commands/table/lookup.h"
#include "commands/table/pieces.h"
#include "commands/table/spread.h"
#include "engine/hops/coordinator.h"
#include "facade/replies/error_texts.h"
#include "facade/replies/resp_writer.h"
#include "helio/base/ascii.h"
#include "helio/base/clock.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr int64_t kLate = int64_t{1} << 45;  // the year 3084
constexpr int kTries = 5;                    // while keys expire

std::vector<std::string> WordsOf(std::string_view resp) {
  RespValue value;
  CHECK_EQ(ReadRespValue(resp, &value), resp.size());
  std::vector<std::string> words;
  for (const RespValue& item : value.items) words.push_back(item.text);
  return words;
}

// Without what a reader of the effects cannot know: when consumers were seen, and how the nodes of
// a stream are cut; and, as its clock is another one, what producers have sent lately.
std::string StreamText(const RespValue& value) {
  if (value.items.empty()) return value.ToString();
  std::string text = "[";
  for (size_t i = 0; i < value.items.size(); ++i) {
    const std::string& name = value.items[i].text;
    if (name == "seen-time" || name == "active-time" || name == "radix-tree-keys" ||
        name == "radix-tree-nodes" || name == "pids-tracked" || name == "iids-tracked" ||
        name == "iids-duplicates") {
      ++i;
      continue;
    }
    absl::StrAppend(&text, StreamText(value.items[i]), ", ");
  }
  return text + "]";
}

std::optional<int64_t> MemberDeadline(ShardContext& cx, std::string_view key,
                                      std::string_view member) {
  const auto value = cx.Peek(key);
  if (!value) return std::nullopt;
  return value->type() == ValueType::kHash ? HashOf(cx, value).Deadline(member)
                                           : SetOf(cx, value).Deadline(member);
}

// What belongs to no shard, which a client alone can run.
bool IsOfServer(std::string_view command) {
  return helio::EqualsIgnoreCase(command, "function") || helio::EqualsIgnoreCase(command, "script");
}

// No command of these families looks at its client.
class NoClient final : public CommandClient {};

}  // namespace

void DispatchForTest(const CommandTable& table, ShardSet& shards, int db_index, int64_t now_ms,
                     Args args, ReplySink& reply) {
  const Lookup found = Find(table, args);
  if (!found.is_found()) return reply.Error(found.Error(args));
  const Command* const command = found.row;
  NoClient client;
  CoordinatorContext coordinator(&shards, &client, db_index, now_ms);
  coordinator.set_command(command->effect, args.all());
  if (command->session != nullptr) return command->session(client, args, reply);
  if (command->coordinate != nullptr) return command->coordinate(coordinator, args, reply);

  const KeyIndexes keys = command->KeysOf(args);
  const size_t first = keys.first();
  const uint64_t hash = HashKey(args[first]);
  const ShardId id = shards.ShardOfKey(args[first], hash);
  bool is_one_shard = true;
  for (size_t i : keys) {
    is_one_shard &= shards.ShardOfKey(args[i], HashKey(args[i])) == id;
  }
  // Of those that have two ways in one shard, each is taken, by the name of the first key.
  const bool is_odd = (args[first].back() & 1) != 0;
  const bool in_slices = command->slices && is_odd;
  // The same of those that run in pieces, which are small ones then.
  if (command->can_run_in_pieces() && is_odd) {
    return RunInPieces(coordinator, *command, args, reply, 2);
  }
  if (is_one_shard && !in_slices) {
    shards.Await(id, [&](ShardTurn& turn) {
      ShardContext& cx = turn.Begin(db_index, now_ms);
      cx.SetKeyHash(args[first], hash);
      const EffectScope effects(cx, command->effect, args.all());
      command->run(cx, args, reply);
    });
  } else if (command->across != nullptr) {
    command->across(coordinator, args, reply);
  } else {
    RunSpread(coordinator, *command, args, reply);
  }
}

ReplicaCheck::ReplicaCheck(const CommandTable* table, ShardSet* shards)
    : table_(*table),
      primary_(*shards),
      replica_(std::make_unique<ShardSet>(&shards->pool(), 1, shards->db_count(),
                                          shards->string_max())) {
  primary_.SetEffectSink(this);
}

ReplicaCheck::~ReplicaCheck() { primary_.SetEffectSink(nullptr); }

uint64_t ReplicaCheck::OnUnit(const Effects& effects, UnitOrigin) {
  std::string unit;
  const std::lock_guard guard(mutex_);
  effects.ForEach([&](int db_index, std::string_view resp) {
    Words words = WordsOf(resp);
    absl::StrAppend(&unit, unit.empty() ? "" : "; ", db_index, " ", absl::StrJoin(words, " "));
    if (!IsOfServer(words[0])) to_apply_.emplace_back(db_index, std::move(words));
  });
  seen_.push_back(std::move(unit));
  return 0;
}

std::vector<std::string> ReplicaCheck::TakeUnits() {
  const std::lock_guard guard(mutex_);
  return std::exchange(seen_, {});
}

int64_t ReplicaCheck::ClockOf(const ShardSet& shards) const {
  if (&shards == replica_.get()) return 0;
  return now_ms_ != 0 ? now_ms_ : helio::UnixMillis();
}

RespValue ReplicaCheck::Ask(ShardSet& shards, int db_index, const Words& words) {
  helio::IoBuf out;
  RespWriter writer(&out, false);
  const std::vector<std::string_view> args(words.begin(), words.end());
  // XCLAIM takes no time that is still to come.
  const int64_t now_ms = words[0] == "XCLAIM" ? kLate : ClockOf(shards);
  DispatchForTest(table_, shards, db_index, now_ms, Args(args), writer);
  RespValue reply;
  CHECK_EQ(ReadRespValue(out.view(), &reply), out.size()) << "not exactly one reply";
  return reply;
}

void ReplicaCheck::CatchUp() {
  std::vector<std::pair<int, Words>> arrived;
  {
    const std::lock_guard guard(mutex_);
    arrived.swap(to_apply_);
  }
  for (const auto& [db_index, words] : arrived) {
    const RespValue reply = Ask(*replica_, db_index, words);
    if (reply.kind != ReplyKind::kError) continue;
    absl::StrAppend(&failed_, "effect ", absl::StrJoin(words, " "), ": ", reply.text, "\n");
  }
}

std::string ReplicaCheck::DescribeMembers(ShardSet& shards, int db_index, const std::string& key,
                                          std::string_view read, bool has_values) {
  const RespValue all = Ask(shards, db_index, {std::string(read), key});
  std::map<std::string, std::string> members;
  for (size_t i = 0; i < all.items.size(); i += has_values ? 2 : 1) {
    members[all.items[i].text] = has_values ? all.items[i + 1].text : "";
  }
  const ShardId id = shards.ShardOfKey(key, HashKey(key));
  shards.Await(id, [&](ShardTurn& turn) {
    ShardContext& cx = turn.Begin(db_index, ClockOf(shards));
    for (auto& [name, text] : members) {
      const int64_t at_ms = MemberDeadline(cx, key, name).value_or(kNoDeadline);
      if (at_ms != kNoDeadline) absl::StrAppend(&text, " until ", at_ms);
    }
  });
  std::string text;
  for (const auto& [name, value] : members) absl::StrAppend(&text, name, "=", value, ", ");
  return text;
}

std::string ReplicaCheck::Describe(ShardSet& shards, int db_index, const std::string& key) {
  const auto ask = [&](const Words& words) { return Ask(shards, db_index, words); };
  const std::string type = ask({"type", key}).text;
  std::string text = type + ": ";
  if (type == "string") {
    text += ask({"get", key}).text;
  } else if (type == "list") {
    text += ask({"lrange", key, "0", "-1"}).ToString();
  } else if (type == "hash") {
    text += DescribeMembers(shards, db_index, key, "hgetall", true);
  } else if (type == "set") {
    text += DescribeMembers(shards, db_index, key, "smembers", false);
  } else if (type == "zset") {
    text += ask({"zrange", key, "0", "-1", "WITHSCORES"}).ToString();
  } else if (type == "stream") {
    text += StreamText(ask({"xinfo", "stream", key, "FULL", "COUNT", "0"}));
  } else if (type != "none") {
    text += ask({"dump", key}).text;
  }
  const ShardId id = shards.ShardOfKey(key, HashKey(key));
  const bool is_sticky = shards.Await(id, [&](ShardTurn& turn) {
    return turn.Begin(db_index, ClockOf(shards)).IsSticky(key).value_or(false);
  });
  absl::StrAppend(&text, "; until ", ask({"pexpiretime", key}).text, is_sticky ? ", sticky" : "");
  return text;
}

std::vector<std::string> ReplicaCheck::KeysOf(int db_index) {
  std::vector<std::string> keys;
  for (ShardSet* shards : {&primary_, replica_.get()}) {
    std::atomic<size_t> size = 0;
    shards->AwaitOnAll([&](Shard& shard) {
      const Database* const database = shard.FindDb(db_index);
      if (database != nullptr) size += database->size();
    });
    if (size == 0) continue;
    for (const RespValue& key : Ask(*shards, db_index, {"keys", "*"}).items) {
      keys.push_back(key.text);
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::string ReplicaCheck::Compare(int64_t now_ms) {
  now_ms_ = now_ms;
  CatchUp();
  std::string differences;
  for (int db_index = 0; db_index < primary_.db_count(); ++db_index) {
    for (const std::string& key : KeysOf(db_index)) {
      std::string here, there;
      for (int i = 0; i < kTries; ++i) {
        here = Describe(primary_, db_index, key);
        CatchUp();  // what is due has gone now
        there = Describe(*replica_, db_index, key);
        if (here == there) break;
      }
      if (here == there) continue;
      absl::StrAppend(&differences, "key ", key, " of ", db_index, "\n  has     ", here,
                      "\n  replica ", there, "\n");
    }
  }
  return std::exchange(failed_, {}) + differences;
}

}  // namespace dfly
