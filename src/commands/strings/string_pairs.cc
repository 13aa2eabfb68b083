// SPDX-License-Identifier: Apache-2.0
// MSET, MSETNX and MSETEX: the strings of many keys, which may be in several shards.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/strings/string_options.h"
#include "commands/table/command_table.h"
#include "commands/table/numbers.h"
#include "core/memory/large_text.h"
#include "core/text/hash.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

// Keys and their strings by turns: args[first] up to args[end].
struct Pairs {
  Args args;
  size_t first;
  size_t end;
};

// set(key, text) for the pair at args[at]. The log, the slow log and others read the arguments when
// the command has run. So a string that a later pair replaces must not become the value as it is
// (LargeText): that would be freed.
template <typename Set>
void SetPair(const Pairs& pairs, size_t at, Set set) {
  const Args& args = pairs.args;
  const std::string_view text = args[at + 1];
  if (text.size() >= LargeText::kMin) [[unlikely]] {
    for (size_t later = at + 2; later < pairs.end; later += 2) {
      if (args[later] == args[at]) return set(args[at], std::string_view(std::string(text)));
    }
  }
  set(args[at], text);
}

// What has to be true of all keys.
enum class Demand : uint8_t { kNothing, kAbsence, kPresence };

bool IsMet(ShardContext& cx, std::string_view key, Demand demand) {
  if (demand == Demand::kNothing) return true;
  return static_cast<bool>(cx.FindMutable(key)) == (demand == Demand::kPresence);
}

// False: the demand is not met, and nothing was set. set(ShardContext&, key, text) sets a key.
template <typename Set>
bool SetAll(ShardContext& cx, const Pairs& pairs, Demand demand, Set set) {
  cx.ExpectKeys(pairs.args.from(pairs.first).first(pairs.end - pairs.first), 2);
  if (demand != Demand::kNothing) {
    for (size_t i = pairs.first; i < pairs.end; i += 2) {
      if (!IsMet(cx, pairs.args[i], demand)) return false;
    }
  }
  for (size_t i = pairs.first; i < pairs.end; i += 2) {
    SetPair(pairs, i, [&](std::string_view key, std::string_view text) { set(cx, key, text); });
  }
  return true;
}

// The same over shards: asks all of them, if there is a demand, then sets on all. None: the command
// is refused. Suspends.
template <typename Set>
std::optional<bool> SetAllAcross(CoordinatorContext& cx, const Pairs& pairs, Demand demand,
                                 Set set) {
  const Args& args = pairs.args;
  std::vector<std::vector<size_t>> parts(cx.shards().size());  // of each shard, where its keys are
  std::vector<ShardId> ids;
  Transaction tx(cx);
  for (size_t i = pairs.first; i < pairs.end; i += 2) {
    const uint64_t hash = HashKey(args[i]);
    const ShardId id = cx.shards().ShardOfKey(args[i], hash);
    if (parts[id].empty()) ids.push_back(id);
    parts[id].push_back(i);
    tx.Lock(id, {cx.shards().LockOfKey(args[i], hash, cx.db_index()), LockMode::kExclusive});
  }
  const auto set_part = [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    for (size_t i : parts[turn.shard().id()]) {
      SetPair(pairs, i,
              [&](std::string_view key, std::string_view text) { set(shard_cx, key, text); });
    }
  };
  if (demand == Demand::kNothing) {
    if (!tx.Run(set_part)) return std::nullopt;
    return true;
  }
  if (!tx.Schedule()) return std::nullopt;
  std::vector<uint8_t> refuses(cx.shards().size(), 0);  // bytes: shards write at the same time
  tx.Hop([&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    for (size_t i : parts[turn.shard().id()]) {
      refuses[turn.shard().id()] |= !IsMet(shard_cx, args[i], demand);
    }
  });
  if (std::find(refuses.begin(), refuses.end(), 1) != refuses.end()) return false;
  tx.HopAndConclude(ids, set_part);
  return true;
}

// --- MSET and MSETNX ---

bool HasWholePairs(Args args) { return args.size() % 2 == 1; }
Pairs AllPairs(Args args) { return {args, 1, args.size()}; }

void SetPlainly(ShardContext& cx, std::string_view key, std::string_view text) {
  cx.SetString(key, text);
}

void MSet(ShardContext& cx, Args args, ReplySink& reply) {
  if (!HasWholePairs(args)) return reply.Error(WrongArityError("mset"));
  SetAll(cx, AllPairs(args), Demand::kNothing, SetPlainly);
  reply.Ok();
}

void MSetNx(ShardContext& cx, Args args, ReplySink& reply) {
  if (!HasWholePairs(args)) return reply.Error(WrongArityError("msetnx"));
  reply.Integer(SetAll(cx, AllPairs(args), Demand::kAbsence, SetPlainly) ? 1 : 0);
}

// Suspends.
void MSetNxAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  if (!HasWholePairs(args)) return reply.Error(WrongArityError("msetnx"));
  const auto is_set = SetAllAcross(cx, AllPairs(args), Demand::kAbsence, SetPlainly);
  if (is_set) reply.Integer(*is_set ? 1 : 0);
}

// --- MSETEX ---

// MSETEX numkeys key value [key value ...] [NX | XX] [EX | PX | EXAT | PXAT time | KEEPTTL]
struct MSetExCall {
  Pairs pairs;
  Demand demand = Demand::kNothing;
  bool keep_ttl = false;
  std::optional<int64_t> deadline_ms = {};

  // Redis 7.0 knows the effect.
  void Set(ShardContext& cx, std::string_view key, std::string_view text) const {
    if (deadline_ms) return StoreUntil(cx, key, text, *deadline_ms);
    ShardContext::SetOptions how;
    how.keep_deadline = keep_ttl;
    cx.SetString(key, text, how);
    if (!cx.wants_effects()) return;
    if (keep_ttl) {
      cx.Tell("SET", key, text, "KEEPTTL");
    } else {
      cx.Tell("SET", key, text);
    }
  }
};

// None: the error was replied.
std::optional<MSetExCall> ParseMSetEx(Args args, int64_t now_ms, ReplySink& reply) {
  constexpr std::string_view kErrCount = "ERR invalid numkeys value or out of range";
  constexpr size_t kFirst = 2;
  const auto count = ParseAtLeast(1, args[1], kErrCount, reply);
  if (!count) return std::nullopt;
  if (*count > INT32_MAX) return Refuse(reply, kErrCount);
  const size_t end = kFirst + static_cast<size_t>(*count) * 2;
  StringOptions options;
  if (end > args.size() || !ParseStringOptions(args.from(end), OptionSet::kOfMSetEx, &options)) {
    return Refuse(reply, kErrSyntax);
  }
  MSetExCall call = {.pairs = {args, kFirst, end}, .keep_ttl = options.keep_ttl};
  if (options.if_absent) call.demand = Demand::kAbsence;
  if (options.if_present) call.demand = Demand::kPresence;
  if (options.unit != nullptr) {
    call.deadline_ms = DeadlineOf(options, now_ms, "msetex", reply);
    if (!call.deadline_ms) return std::nullopt;
  }
  return call;
}

void MSetEx(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<MSetExCall> call = ParseMSetEx(args, cx.now_ms(), reply);
  if (!call) return;
  const auto set = [&call](ShardContext& shard_cx, std::string_view key, std::string_view text) {
    call->Set(shard_cx, key, text);
  };
  reply.Integer(SetAll(cx, call->pairs, call->demand, set) ? 1 : 0);
}

// Suspends.
void MSetExAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<MSetExCall> call = ParseMSetEx(args, cx.now_ms(), reply);
  if (!call) return;
  const auto set = [&call](ShardContext& shard_cx, std::string_view key, std::string_view text) {
    call->Set(shard_cx, key, text);
  };
  const auto is_set = SetAllAcross(cx, call->pairs, call->demand, set);
  if (is_set) reply.Integer(*is_set ? 1 : 0);
}

}  // namespace

void RegisterStringPairs(CommandTable* table) {
  table->Add({.name = "mset",
              .run = MSet,
              .arity = -3,
              .flags = kWrite | kDenyOom,
              .categories = kAclString,
              .keys = KeysFrom(1, 2, "OW update"),
              .spread = Spread::kAllOk,
              .docs = {"Sets the strings of many keys.", "1.0.1", "string",
                       "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:all_succeeded"});
  table->Add({.name = "msetnx",
              .run = MSetNx,
              .across = MSetNxAcross,
              .arity = -3,
              .flags = kWrite | kDenyOom,
              .categories = kAclString,
              .keys = KeysFrom(1, 2, "OW insert"),
              .docs = {"Sets the strings of many keys if none of them exists.", "1.0.1", "string",
                       "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:agg_min"});
  table->Add({.name = "msetex",
              .run = MSetEx,
              .across = MSetExAcross,
              .arity = -4,
              .flags = kWrite | kDenyOom | kMovableKeys,
              .categories = kAclString,
              .effect = EffectRule::kTold,
              .keys = {.first = 2, .step = 2, .flags = "OW update", .count_at = 1},
              .docs = {"Sets the strings of many keys and their time to live, with conditions.",
                       "8.4.0", "string", "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard response_policy:all_succeeded"});
}

}  // namespace dfly
