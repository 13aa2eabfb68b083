// SPDX-License-Identifier: Apache-2.0
// Taking the members with the lowest or highest scores from sorted sets, also while there are none
// yet: ZPOPMIN ZPOPMAX ZMPOP BZPOPMIN BZPOPMAX BZMPOP.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "commands/table/blocking.h"
#include "commands/table/command_table.h"
#include "commands/table/key_parts.h"
#include "commands/table/long_reads.h"
#include "commands/table/numbers.h"
#include "commands/zsets/zset_commands.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

enum class Which : uint8_t { kMin, kMax };

// `count` members from that end on, in the order in which they go. REQUIRES: they exist.
RankRange RangeAt(const ZsetValue& zset, Which which, size_t count) {
  return {which == Which::kMax ? zset.size() - 1 : 0, count};
}

void Remove(ShardContext& cx, std::string_view key, ZsetValue zset, Which which, size_t count) {
  zset.EraseRange(which == Which::kMax ? zset.size() - count : 0, count);
  cx.Changed(key, which == Which::kMax ? KeyEvent::kZPopMax : KeyEvent::kZPopMin, count);
  if (cx.wants_effects()) cx.Tell(which == Which::kMax ? "ZPOPMAX" : "ZPOPMIN", key, count);
}

void ReplyWithFirst(const ZsetValue& zset, Which which, ReplySink& reply) {
  zset.ForRange(RangeAt(zset, which, 1).first, 1, false,
                [&reply](std::string_view member, double score) {
                  reply.Bulk(member);
                  reply.Double(score);
                });
}

// ZPOPMIN key [count]: how many. Replies the error and returns none if they are not valid.
std::optional<uint64_t> ParsePop(Args args, ReplySink& reply) {
  if (args.size() > 3) return Refuse(reply, kErrSyntax);
  if (args.size() < 3) return 1;
  const std::optional<int64_t> count = ParseInt64(args[2]);
  if (!count || *count < 0) return Refuse(reply, kErrNotPositive);
  return static_cast<uint64_t>(*count);
}

template <Which kWhich>
void Pop(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> count = ParsePop(args, reply);
  if (!count) return;
  auto value = cx.FindMutable(args.key(), ValueType::kZset);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value || *count == 0) return reply.Array(0);
  ZsetValue zset(&*value);
  const size_t popped = std::min<uint64_t>(zset.size(), *count);
  const bool has_count = args.size() == 3;
  if (has_count || !reply.resp3()) {
    ReplyWithRange(zset, RangeAt(zset, kWhich, popped), kWhich == Which::kMax, true, reply);
  } else {
    reply.Array(2);
    ReplyWithFirst(zset, kWhich, reply);
  }
  Remove(cx, args.key(), zset, kWhich, popped);
}

// What is popped is copied in slices. The last hop removes it, all at once. Suspends.
template <Which kWhich>
void PopInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> count = ParsePop(args, reply);
  if (!count) return;
  struct Look {
    bool is_wrong_type = false;
  };
  using Parts = KeyParts<Look>;
  const std::string_view key = args.key();
  ScoredMembers popped;
  {
    Parts parts(cx, {&key, 1});
    parts.SetTarget(key);
    const auto look = [key](ShardContext& shard_cx, Parts::Item& item) {
      const auto value = shard_cx.Peek(key);
      item.part.is_wrong_type = value && value->type() != ValueType::kZset;
    };
    if (!parts.Hop(look)) return;
    if (parts.items()[0].part.is_wrong_type) return reply.Error(kErrWrongType);
    parts.HopInSlices([](const Parts::Item&) { return true; },
                      [&](ShardContext& shard_cx, const Parts::Item&) {
                        const auto value = shard_cx.Peek(key);
                        if (!value) return false;
                        const ZsetValue zset = ToRead(*value);
                        const size_t all = std::min<uint64_t>(zset.size(), *count);
                        const size_t done = popped.size();
                        popped.Reserve(all);
                        const size_t some = std::min(all - done, SliceOf(*value, zset.size()));
                        const bool is_max = kWhich == Which::kMax;
                        zset.ForRange(is_max ? zset.size() - 1 - done : done, some, is_max,
                                      [&popped](std::string_view member, double score) {
                                        popped.Add(member, score);
                                      });
                        return popped.size() < all;
                      });
    parts.HopToTarget([&](ShardContext& shard_cx) {
      if (popped.size() == 0) return;
      auto value = shard_cx.FindMutable(key, ValueType::kZset);
      if (value) Remove(shard_cx, key, ZsetValue(&*value), kWhich, popped.size());
    });
  }
  const bool is_pair = args.size() < 3 && reply.resp3() && popped.size() > 0;
  if (!is_pair) return ReplyWithScored(popped, true, reply);
  reply.Array(2);
  reply.Bulk(popped.members[0]);
  reply.Double(popped.scores[0]);
}

bool PopsMany(Args args) {
  const std::optional<int64_t> count = args.size() == 3 ? ParseInt64(args[2]) : std::nullopt;
  return count && *count >= static_cast<int64_t>(kLargeMembers);
}

// --- ZMPOP ---

struct ZMPopOptions {
  std::span<const std::string_view> keys;
  Which which = Which::kMin;
  uint64_t count = 1;
};

// ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]. Replies the error and returns none if they
// are not valid.
std::optional<ZMPopOptions> ParseZMPop(Args args, ReplySink& reply) {
  const auto key_count = ParseAtLeast(1, args[1], "ERR numkeys should be greater than 0", reply);
  if (!key_count) return std::nullopt;
  if (static_cast<uint64_t>(*key_count) >= args.size() - 2) return Refuse(reply, kErrSyntax);
  ZMPopOptions options = {.keys = args.from(2).first(static_cast<size_t>(*key_count))};
  const size_t keys_end = 2 + options.keys.size();
  if (IsOption(args[keys_end], "MAX")) {
    options.which = Which::kMax;
  } else if (!IsOption(args[keys_end], "MIN")) {
    return Refuse(reply, kErrSyntax);
  }
  std::optional<int64_t> count;
  for (size_t i = keys_end + 1; i < args.size(); i += 2) {
    if (count || !IsOption(args[i], "COUNT") || i + 1 == args.size()) {
      return Refuse(reply, kErrSyntax);
    }
    count = ParseAtLeast(1, args[i + 1], "ERR count should be greater than 0", reply);
    if (!count) return std::nullopt;
  }
  options.count = static_cast<uint64_t>(count.value_or(1));
  return options;
}

// `key` is a sorted set: pops from it, and replies.
void PopMany(ShardContext& cx, std::string_view key, const ZMPopOptions& options,
             ReplySink& reply) {
  auto value = cx.FindMutable(key, ValueType::kZset);
  ZsetValue zset(&*value);
  const size_t popped = std::min<uint64_t>(zset.size(), options.count);
  const RankRange range = RangeAt(zset, options.which, popped);
  reply.Array(2);
  reply.Bulk(key);
  reply.Array(popped);
  zset.ForRange(range.first, range.count, options.which == Which::kMax,
                [&reply](std::string_view member, double score) {
                  reply.Array(2);
                  reply.Bulk(member);
                  reply.Double(score);
                });
  Remove(cx, key, zset, options.which, popped);
}

bool ParseZMPopCall(Args args, ReplySink& reply, BlockingCall* call) {
  const std::optional<ZMPopOptions> options = ParseZMPop(args, reply);
  if (options) call->keys = options->keys;
  return options.has_value();
}

void TakeZMPop(ShardContext& cx, Args args, std::string_view key, ReplySink& reply) {
  PopMany(cx, key, *ParseZMPop(args, reply), reply);
}

// --- Waiting for a member ---

// BZPOPMIN key [key ...] timeout
bool ParseBZPop(Args args, ReplySink& reply, BlockingCall* call) {
  const std::optional<int64_t> timeout = ParseTimeout(args[args.size() - 1], reply);
  if (!timeout) return false;
  *call = {.keys = args.from(1).first(args.size() - 2), .timeout_ms = *timeout};
  return true;
}

template <Which kWhich>
void TakeOne(ShardContext& cx, Args, std::string_view key, ReplySink& reply) {
  auto value = cx.FindMutable(key, ValueType::kZset);
  reply.Array(3);
  reply.Bulk(key);
  ReplyWithFirst(ZsetValue(&*value), kWhich, reply);
  Remove(cx, key, ZsetValue(&*value), kWhich, 1);
}

// BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]
bool ParseBZMPop(Args args, ReplySink& reply, BlockingCall* call) {
  if (!ParseZMPopCall(Args(args.from(1)), reply, call)) return false;
  const std::optional<int64_t> timeout = ParseTimeout(args[1], reply);
  if (!timeout) return false;
  call->timeout_ms = *timeout;
  return true;
}

void TakeBZMPop(ShardContext& cx, Args args, std::string_view key, ReplySink& reply) {
  TakeZMPop(cx, Args(args.from(1)), key, reply);
}

constexpr BlockingForm FormOf(bool (*parse)(Args, ReplySink&, BlockingCall*),
                              void (*take)(ShardContext&, Args, std::string_view, ReplySink&)) {
  return {.parse = parse,
          .type = ValueType::kZset,
          .take = take,
          .reply_nothing = [](ReplySink& reply) { reply.NullArray(); },
          .take_across = nullptr};
}
// ZMPOP does not wait, but else it is the same.
constexpr BlockingForm kZMPop = FormOf(ParseZMPopCall, TakeZMPop);
constexpr BlockingForm kBZMPop = FormOf(ParseBZMPop, TakeBZMPop);
constexpr BlockingForm kBZPopMin = FormOf(ParseBZPop, TakeOne<Which::kMin>);
constexpr BlockingForm kBZPopMax = FormOf(ParseBZPop, TakeOne<Which::kMax>);

}  // namespace

void RegisterZsetPops(CommandTable* table) {
  constexpr std::string_view kTakes = "RW access delete";
  constexpr std::string_view kRemove =
      "O(log(N)*M) where N is the number of members and M is the number removed.";
  constexpr std::string_view kRemoveOfKeys =
      "O(K+log(N)*M) where K is the number of keys, N is the number of members and M is the number "
      "removed.";
  const auto add = [table](std::string_view name, ShardHandler run, CoordinatorHandler across,
                           const BlockingForm* blocking, int arity, uint32_t flags, KeySpec keys,
                           std::string_view summary, std::string_view since,
                           std::string_view complexity,
                           bool (*asks_for_many)(Args args) = nullptr) {
    table->Add({.name = name,
                .run = run,
                .across = across,
                .slices = asks_for_many != nullptr,
                .asks_for_many = asks_for_many,
                .blocking = blocking,
                .arity = arity,
                .flags = kWrite | flags,
                .categories = kAclSortedSet,
                .keys = keys,
                .docs = {summary, since, "sorted-set", complexity}});
  };
  add("zpopmin", Pop<Which::kMin>, PopInSlices<Which::kMin>, nullptr, -2, kFast, KeyAt(1, kTakes),
      "Removes and returns the members with the lowest scores.", "5.0.0", kRemove, PopsMany);
  add("zpopmax", Pop<Which::kMax>, PopInSlices<Which::kMax>, nullptr, -2, kFast, KeyAt(1, kTakes),
      "Removes and returns the members with the highest scores.", "5.0.0", kRemove, PopsMany);
  add("zmpop", RunWithoutWaiting<kZMPop>, RunAcrossWithoutWaiting<kZMPop>, nullptr, -4,
      kMovableKeys, KeysCountedAt(1, kTakes),
      "Removes and returns the first or last members of the first sorted set that exists.", "7.0.0",
      kRemoveOfKeys);
  add("bzpopmin", RunWithoutWaiting<kBZPopMin>, RunAcrossWithoutWaiting<kBZPopMin>, &kBZPopMin, -3,
      kFast | kBlocking, {1, -2, 1, kTakes},
      "Removes and returns the member with the lowest score of the first sorted set that has one; "
      "waits for it if need be.",
      "5.0.0", kRemoveOfKeys);
  add("bzpopmax", RunWithoutWaiting<kBZPopMax>, RunAcrossWithoutWaiting<kBZPopMax>, &kBZPopMax, -3,
      kFast | kBlocking, {1, -2, 1, kTakes},
      "Removes and returns the member with the highest score of the first sorted set that has one; "
      "waits for it if need be.",
      "5.0.0", kRemoveOfKeys);
  add("bzmpop", RunWithoutWaiting<kBZMPop>, RunAcrossWithoutWaiting<kBZMPop>, &kBZMPop, -5,
      kBlocking | kMovableKeys, KeysCountedAt(2, kTakes),
      "Removes and returns the first or last members of the first sorted set that has some; waits "
      "for them if need be.",
      "7.0.0", kRemoveOfKeys);
}

}  // namespace dfly
