// SPDX-License-Identifier: Apache-2.0
// The most frequent items: TOPK.RESERVE TOPK.ADD TOPK.INCRBY TOPK.QUERY TOPK.COUNT TOPK.LIST
// TOPK.INFO. Data: core/sketches/top_k.h.
#include "core/sketches/top_k.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/sketches/probabilistic.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

// Of a key that was looked up: the error to reply, or none.
template <typename Handle>
std::string_view ErrorOf(const Handle& value) {
  if (value.is_wrong_type()) return kErrWrongType;
  return value ? std::string_view() : "TopK: key does not exist";
}

// TOPK.RESERVE key topk [width depth decay]
void Reserve(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() != 3 && args.size() != 6) return reply.Error(WrongArityError("topk.reserve"));
  if (cx.FindMutable(args.key())) return reply.Error("TopK: key already exists");
  TopK::Options options;
  const std::optional<int64_t> k = ParseInt64(args[2]);
  if (!k || *k < 1 || *k > TopK::kListMax) return reply.Error("TopK: invalid k");
  options.k = static_cast<uint32_t>(*k);
  if (args.size() == 6) {
    const std::optional<int64_t> width = ParseInt64(args[3]);
    if (!width || *width < 1) return reply.Error("TopK: invalid width");
    const std::optional<int64_t> depth = ParseInt64(args[4]);
    if (!depth || *depth < 1) return reply.Error("TopK: invalid depth");
    const std::optional<double> decay = ParseDouble(args[5]);
    if (!decay || !(*decay > 0 && *decay <= 1)) {
      return reply.Error("TopK: invalid decay value. must be '<= 1' & '> 0'");
    }
    options.width = static_cast<uint64_t>(*width);
    options.depth = static_cast<uint64_t>(*depth);
    options.decay = *decay;
  }
  if (!options.IsPossible(cx.string_max())) return reply.Error(kErrTooLarge);
  cx.FindOrCreate(args.key(), ValueType::kTopK)
      ->SetObject(ValueType::kTopK, std::make_unique<TopK>(options).release(), 0);
  cx.Changed(args.key(), KeyEvent::kTopKReserve);
  reply.Ok();
}

void ReplyExpelled(const std::optional<std::string>& item, ReplySink& reply) {
  item ? reply.Bulk(*item) : reply.Null();
}

// TOPK.ADD key item [item ...]
void Add(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindMutable(args.key(), ValueType::kTopK);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  auto& top = ObjectIn<TopK>(*value);
  reply.Array(args.rest().size());
  for (std::string_view item : args.rest()) ReplyExpelled(top.Add(item, 1), reply);
  cx.Changed(args.key(), KeyEvent::kTopKAdd, args.rest().size());
}

// TOPK.INCRBY key item increment [item increment ...]
// Nothing is counted unless all increments are ones that the command's documentation allows.
void IncrBy(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() % 2 != 0) return reply.Error(WrongArityError("topk.incrby"));
  const auto value = cx.FindMutable(args.key(), ValueType::kTopK);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  struct Pair {
    std::string_view item;
    uint32_t increment;
  };
  std::vector<Pair> pairs;
  for (size_t i = 2; i < args.size(); i += 2) {
    const int64_t increment = ParseInt64(args[i + 1]).value_or(0);
    if (increment < 1 || increment > TopK::kIncrementMax) {
      return reply.Error(
          fmt::format("TopK: an increment is an integer from 1 to {}", TopK::kIncrementMax));
    }
    pairs.push_back({args[i], static_cast<uint32_t>(increment)});
  }
  auto& top = ObjectIn<TopK>(*value);
  reply.Array(pairs.size());
  for (const Pair& pair : pairs) ReplyExpelled(top.Add(pair.item, pair.increment), reply);
  cx.Changed(args.key(), KeyEvent::kTopKIncrBy, pairs.size());
}

// Replies what `show` makes of each item.
template <typename Show>
void ReplyOfItems(ShardContext& cx, Args args, ReplySink& reply, Show show) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kTopK);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  reply.Array(args.rest().size());
  for (std::string_view item : args.rest()) show(ObjectIn<TopK>(*value), item);
}

// TOPK.QUERY key item [item ...]
void Query(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyOfItems(cx, args, reply,
               [&reply](const TopK& top, std::string_view item) { reply.Bool(top.Has(item)); });
}

// TOPK.COUNT key item [item ...]
void Count(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyOfItems(cx, args, reply, [&reply](const TopK& top, std::string_view item) {
    reply.Integer(top.CountOf(item));
  });
}

// TOPK.LIST key [WITHCOUNT]
void List(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) return reply.Error(WrongArityError("topk.list"));
  const bool with_count = args.size() == 3;
  if (with_count && !IsOption(args[2], "WITHCOUNT")) {
    return reply.Error("WITHCOUNT keyword expected");
  }
  const auto value = cx.FindReadOnly(args.key(), ValueType::kTopK);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  const std::vector<TopK::Listed> list = ObjectIn<TopK>(*value).List();
  reply.Array(list.size() * (with_count ? 2 : 1));
  for (const TopK::Listed& listed : list) {
    reply.Bulk(listed.item);
    if (with_count) reply.Integer(listed.count);
  }
}

void Info(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kTopK);
  if (const std::string_view error = ErrorOf(value); !error.empty()) return reply.Error(error);
  const TopK::Options& options = ObjectIn<TopK>(*value).options();
  reply.Map(4);
  reply.Status("k");
  reply.Integer(options.k);
  reply.Status("width");
  reply.Integer(static_cast<int64_t>(options.width));
  reply.Status("depth");
  reply.Integer(static_cast<int64_t>(options.depth));
  reply.Status("decay");
  reply.Double(options.decay);
}

}  // namespace

void RegisterTopKCommands(CommandTable* table) {
  TopK::RegisterType();
  const auto add = [table](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                           std::string_view key_flags, std::string_view summary,
                           std::string_view complexity) {
    table->Add({.name = name,
                .run = run,
                .arity = arity,
                .flags = flags,
                .keys = KeyAt(1, key_flags),
                .docs = {summary, "2.0.0", "topk", complexity}});
  };
  constexpr std::string_view kEach =
      "O(N*(K+D)) where N is the number of items, K is that of listed ones and D is the depth.";
  add("topk.reserve", Reserve, -3, kWrite | kDenyOom | kFast, "OW insert",
      "Makes an empty list of the most frequent items.", "O(1)");
  add("topk.add", Add, -3, kWrite | kDenyOom, "RW insert",
      "Counts items once; gives those that had to leave the list.", kEach);
  add("topk.incrby", IncrBy, -4, kWrite | kDenyOom, "RW insert",
      "Counts items several times; gives those that had to leave the list.", kEach);
  add("topk.query", Query, -3, kReadonly | kFast, "RO",
      "Tells whether items are among the most frequent ones.",
      "O(N*K) where N is the number of items and K is that of listed ones.");
  add("topk.count", Count, -3, kReadonly, "RO access", "Estimates how often items were counted.",
      kEach);
  add("topk.list", List, -2, kReadonly, "RO access", "Gives the most frequent items.",
      "O(K*log(K)) where K is the number of listed items.");
  add("topk.info", Info, 2, kReadonly | kFast, "RO", "Describes a list of the most frequent items.",
      "O(1)");
}

}  // namespace dfly
