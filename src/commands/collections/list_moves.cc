// SPDX-License-Identifier: Apache-2.0
// From one list to another: LMOVE and RPOPLPUSH, LMOVEM, and those of them that wait. Data:
// core/types/quick_list.h.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/collections/list_commands.h"
#include "commands/table/blocking.h"
#include "core/text/hash.h"
#include "core/text/numbers.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

using End = ListEnd;

std::string_view PushName(End end) { return end == End::kFront ? "LPUSH" : "RPUSH"; }
std::string_view EndName(End end) { return end == End::kFront ? "LEFT" : "RIGHT"; }

// --- One element ---

// Both keys may be the same: then the list turns around.
void Move(ShardContext& cx, std::span<const std::string_view> keys, End from, End to,
          ReplySink& reply) {
  const std::string_view source_key = keys[0];
  const std::string_view target_key = keys[1];
  cx.ExpectKeys(keys);
  auto source = cx.FindMutable(source_key, ValueType::kList);
  if (source.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!source) return reply.Null();
  auto target = cx.FindMutable(target_key, ValueType::kList);
  if (target.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!target) {
    target = cx.FindOrCreate(target_key, ValueType::kList);
    ListOrNew(target);
    source = cx.FindMutable(source_key, ValueType::kList);
  }

  QuickList& list = ListOf(*source);
  QuickList& target_list = ListOf(*target);
  char scratch[QuickList::kScratchSize];
  const std::string_view text = (*list.At(from)).View(scratch);
  reply.Bulk(text);
  if (&list == &target_list) {
    if (from != to) {
      const std::string copy(text);  // a push may move what `text` views
      list.Pop(from, ListLimitOf(cx));
      list.Push(to, copy, ListLimitOf(cx));
    }
  } else {
    target_list.Push(to, text, ListLimitOf(cx));
    list.Pop(from, ListLimitOf(cx));
  }
  cx.Changed(target_key, PushEvent(to), 0);  // with the pop it is one change
  cx.Changed(source_key, PopEvent(from));
  if (cx.wants_effects()) cx.Tell("LMOVE", source_key, target_key, EndName(from), EndName(to));
}

// The lists are in two shards: one hop of `tx` to look, one to change both. False: there is no
// source. Suspends.
bool MoveInHops(CoordinatorContext& cx, Transaction& tx, std::span<const std::string_view> keys,
                End from, End to, ReplySink& reply) {
  ShardId ids[2];
  for (size_t i : {0, 1}) ids[i] = cx.shards().ShardOfKey(keys[i], HashKey(keys[i]));
  bool is_wrong_type[2] = {};
  std::optional<std::string> text;
  tx.HopOn(ids, [&](ShardTurn& turn) {
    const size_t i = turn.shard().id() == ids[0] ? 0 : 1;
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    const auto value = shard_cx.FindMutable(keys[i], ValueType::kList);
    is_wrong_type[i] = value.is_wrong_type();
    if (i == 1 || !value) return;
    char scratch[QuickList::kScratchSize];
    text.emplace((*ListOf(*value).At(from)).View(scratch));
  });
  if (!is_wrong_type[0] && !text) return false;
  if (is_wrong_type[0] || is_wrong_type[1]) {
    reply.Error(kErrWrongType);
    return true;
  }
  tx.HopOn(ids, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    if (turn.shard().id() == ids[1]) {
      auto target = shard_cx.FindOrCreate(keys[1], ValueType::kList);
      ListOrNew(target).Push(to, *text, ListLimitOf(shard_cx));
      shard_cx.Changed(keys[1], PushEvent(to), 0);  // with the pop it is one change
    } else {
      auto source = shard_cx.FindMutable(keys[0], ValueType::kList);
      ListOf(*source).Pop(from, ListLimitOf(shard_cx));
      shard_cx.Changed(keys[0], PopEvent(from));
    }
  });
  if (tx.records()) tx.Tell(cx.db_index(), "LMOVE", keys[0], keys[1], EndName(from), EndName(to));
  reply.Bulk(*text);
  return true;
}

void LockExclusively(CoordinatorContext& cx, std::span<const std::string_view> keys,
                     Transaction* tx) {
  for (std::string_view key : keys) {
    const uint64_t hash = HashKey(key);
    tx->Lock(cx.shards().ShardOfKey(key, hash),
             {cx.shards().LockOfKey(key, hash, cx.db_index()), LockMode::kExclusive});
  }
}

void MoveAcross(CoordinatorContext& cx, std::span<const std::string_view> keys, End from, End to,
                ReplySink& reply) {
  Transaction tx(cx);
  LockExclusively(cx, keys, &tx);
  if (!tx.Schedule()) return;
  if (!MoveInHops(cx, tx, keys, from, to, reply)) reply.Null();
}

// LMOVE source destination LEFT | RIGHT LEFT | RIGHT
void LMove(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<End> from = ParseListEnd(args[3]);
  const std::optional<End> to = ParseListEnd(args[4]);
  if (!from || !to) return reply.Error(kErrSyntax);
  Move(cx, args.from(1).first(2), *from, *to, reply);
}

void RPopLPush(ShardContext& cx, Args args, ReplySink& reply) {
  Move(cx, args.from(1), End::kBack, End::kFront, reply);
}

// Suspends.
void LMoveAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<End> from = ParseListEnd(args[3]);
  const std::optional<End> to = ParseListEnd(args[4]);
  if (!from || !to) return reply.Error(kErrSyntax);
  MoveAcross(cx, args.from(1).first(2), *from, *to, reply);
}

// Suspends.
void RPopLPushAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  MoveAcross(cx, args.from(1), End::kBack, End::kFront, reply);
}

// --- Several elements ---

// What LMOVEM and BLMOVEM ask for.
struct MoveMany {
  End from = End::kFront;
  End to = End::kFront;
  size_t count = 1;
  bool is_exact = false;     // all of them, or none
  bool keeps_order = false;  // BULK: they lie there as they lay here. Else they go one by one

  size_t CountIn(const QuickList& list) const {
    if (list.size() < count) return is_exact ? 0 : list.size();
    return count;
  }
  // Within one list, of so many: all lie as they lay.
  bool ChangesNothing(size_t moved) const { return from == to && (keeps_order || moved == 1); }
  // The first that comes from `from` is the last of those that have come.
  bool is_reversed() const { return keeps_order ? from == End::kBack : to == End::kFront; }
};

// From args[options_at] on: nothing, or COUNT count | EXACTLY count, OBO | BULK. None: it is not
// valid.
std::optional<MoveMany> ParseMoveMany(Args args, size_t options_at, std::string_view* error) {
  const std::optional<End> from = ParseListEnd(args[3]);
  const std::optional<End> to = ParseListEnd(args[4]);
  const auto options = args.from(options_at);
  *error = kErrSyntax;
  if (!from || !to || (!options.empty() && options.size() != 3)) return std::nullopt;
  MoveMany what = {.from = *from, .to = *to};
  if (options.empty()) return what;
  what.is_exact = IsOption(options[0], "EXACTLY");
  what.keeps_order = IsOption(options[2], "BULK");
  if (!what.is_exact && !IsOption(options[0], "COUNT")) return std::nullopt;
  if (!what.keeps_order && !IsOption(options[2], "OBO")) return std::nullopt;
  const std::optional<int64_t> count = ParseInt64(options[1]);
  *error = "ERR count should be greater than 0";
  if (!count || *count < 1) return std::nullopt;
  what.count = static_cast<size_t>(*count);
  return what;
}

// The same, and replies the error.
std::optional<MoveMany> ParseMoveMany(Args args, size_t options_at, ReplySink& reply) {
  std::string_view error;
  const std::optional<MoveMany> what = ParseMoveMany(args, options_at, &error);
  if (!what) reply.Error(error);
  return what;
}

// In the order in which they lie where they come to, from the front.
using Elements = std::vector<std::string>;

Elements ElementsOf(const QuickList& list, const MoveMany& what, size_t count) {
  Elements elements;
  elements.reserve(count);
  QuickList::Cursor at = list.At(what.from);
  for (size_t i = 0; i < count; ++i, at.Move(Opposite(what.from))) {
    char scratch[QuickList::kScratchSize];
    elements.emplace_back((*at).View(scratch));
  }
  if (what.is_reversed()) std::reverse(elements.begin(), elements.end());
  return elements;
}

void Take(QuickList& list, End from, size_t count, const BlockLimit& limit) {
  list.Erase(from == End::kFront ? 0 : list.size() - count, count, limit);
}

void Put(QuickList& list, End to, const Elements& elements, const BlockLimit& limit) {
  if (to == End::kBack) {
    for (const std::string& element : elements) list.Push(to, element, limit);
  } else {
    for (size_t i = elements.size(); i > 0; --i) list.Push(to, elements[i - 1], limit);
  }
}

void ReplyElements(const Elements& elements, ReplySink& reply) {
  reply.Array(elements.size());
  for (const std::string& element : elements) reply.Bulk(element);
}

// For servers that know no LMOVEM. tell(words): a command.
template <typename Tell>
void TellMoved(std::span<const std::string_view> keys, const MoveMany& what,
               const Elements& elements, Tell tell) {
  const auto count = static_cast<int64_t>(elements.size());
  if (keys[0] == keys[1] && what.from == what.to) {
    // A list that lost all of its elements would lose its deadline, too.
    const int64_t first = what.from == End::kFront ? 0 : -count;
    for (int64_t i = 0; i < count; ++i) {
      const std::string index = std::to_string(first + i);
      tell(std::vector<std::string_view>{"LSET", keys[1], index, elements[static_cast<size_t>(i)]});
    }
    return;
  }
  std::vector<std::string_view> words = {PushName(what.to), keys[1]};
  words.insert(words.end(), elements.begin(), elements.end());
  if (what.to == End::kFront) std::reverse(words.begin() + 2, words.end());
  tell(words);
  const std::string text = std::to_string(count);
  tell(std::vector<std::string_view>{PopName(what.from), keys[0], text});
}

// False: there is nothing to move, and nothing was replied.
bool MoveSome(ShardContext& cx, std::span<const std::string_view> keys, const MoveMany& what,
              ReplySink& reply) {
  cx.ExpectKeys(keys);
  auto source = cx.FindMutable(keys[0], ValueType::kList);
  if (source.is_wrong_type()) {
    reply.Error(kErrWrongType);
    return true;
  }
  const size_t count = source ? what.CountIn(ListOf(*source)) : 0;
  if (count == 0) return false;
  auto target = cx.FindMutable(keys[1], ValueType::kList);
  if (target.is_wrong_type()) {
    reply.Error(kErrWrongType);
    return true;
  }
  if (!target) {
    target = cx.FindOrCreate(keys[1], ValueType::kList);
    ListOrNew(target);
    source = cx.FindMutable(keys[0], ValueType::kList);
  }
  const Elements elements = ElementsOf(ListOf(*source), what, count);
  if (keys[0] == keys[1] && what.ChangesNothing(count)) {
    ReplyElements(elements, reply);
    return true;
  }
  Take(ListOf(*source), what.from, count, ListLimitOf(cx));
  Put(ListOf(*target), what.to, elements, ListLimitOf(cx));
  cx.Changed(keys[1], PushEvent(what.to), 0);  // with the pops it is `count` changes
  cx.Changed(keys[0], PopEvent(what.from), count);
  if (cx.wants_effects()) {
    TellMoved(keys, what, elements,
              [&cx](const std::vector<std::string_view>& words) { cx.TellAll(words); });
  }
  ReplyElements(elements, reply);
  return true;
}

// The same for lists in two shards: one hop of `tx` to look, one to change both. Suspends.
bool MoveSomeInHops(CoordinatorContext& cx, Transaction& tx, std::span<const std::string_view> keys,
                    const MoveMany& what, ReplySink& reply) {
  ShardId ids[2];
  for (size_t i : {0, 1}) ids[i] = cx.shards().ShardOfKey(keys[i], HashKey(keys[i]));
  bool is_wrong_type[2] = {};
  Elements elements;
  tx.HopOn(ids, [&](ShardTurn& turn) {
    const size_t i = turn.shard().id() == ids[0] ? 0 : 1;
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    const auto value = shard_cx.FindMutable(keys[i], ValueType::kList);
    is_wrong_type[i] = value.is_wrong_type();
    if (i == 1 || !value) return;
    elements = ElementsOf(ListOf(*value), what, what.CountIn(ListOf(*value)));
  });
  if (!is_wrong_type[0] && elements.empty()) return false;
  if (is_wrong_type[0] || is_wrong_type[1]) {
    reply.Error(kErrWrongType);
    return true;
  }
  tx.HopOn(ids, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    if (turn.shard().id() == ids[1]) {
      auto target = shard_cx.FindOrCreate(keys[1], ValueType::kList);
      Put(ListOrNew(target), what.to, elements, ListLimitOf(shard_cx));
      shard_cx.Changed(keys[1], PushEvent(what.to), 0);  // with the pops it is `count` changes
    } else {
      auto source = shard_cx.FindMutable(keys[0], ValueType::kList);
      Take(ListOf(*source), what.from, elements.size(), ListLimitOf(shard_cx));
      shard_cx.Changed(keys[0], PopEvent(what.from), elements.size());
    }
  });
  if (tx.records()) {
    TellMoved(keys, what, elements, [&](const std::vector<std::string_view>& words) {
      tx.TellAll(cx.db_index(), words);
    });
  }
  ReplyElements(elements, reply);
  return true;
}

// LMOVEM source destination LEFT | RIGHT LEFT | RIGHT [COUNT count | EXACTLY count OBO | BULK]
void LMoveM(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<MoveMany> what = ParseMoveMany(args, 5, reply);
  if (what && !MoveSome(cx, args.from(1).first(2), *what, reply)) reply.NullArray();
}

// Suspends.
void LMoveMAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<MoveMany> what = ParseMoveMany(args, 5, reply);
  if (!what) return;
  const auto keys = args.from(1).first(2);
  Transaction tx(cx);
  LockExclusively(cx, keys, &tx);
  if (!tx.Schedule()) return;
  if (!MoveSomeInHops(cx, tx, keys, *what, reply)) reply.NullArray();
}

// --- Waiting for an element ---

// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout, BRPOPLPUSH source destination
// timeout: the ends are fixed then.
std::optional<std::pair<End, End>> EndsOfBMove(Args args) {
  if (args.size() == 4) return std::pair(End::kBack, End::kFront);
  const std::optional<End> from = ParseListEnd(args[3]);
  const std::optional<End> to = ParseListEnd(args[4]);
  if (!from || !to) return std::nullopt;
  return std::pair(*from, *to);
}

bool ParseBMove(Args args, ReplySink& reply, BlockingCall* call) {
  if (!EndsOfBMove(args)) {
    reply.Error(kErrSyntax);
    return false;
  }
  const std::optional<int64_t> timeout = ParseTimeout(args[args.size() - 1], reply);
  if (!timeout) return false;
  *call = {.keys = args.from(1).first(1), .timeout_ms = *timeout};
  return true;
}

void TakeToTarget(ShardContext& cx, Args args, std::string_view, ReplySink& reply) {
  const auto [from, to] = *EndsOfBMove(args);
  Move(cx, args.from(1).first(2), from, to, reply);
}

bool TakeToTargetAcross(CoordinatorContext& cx, Transaction& tx, Args args, ReplySink& reply) {
  const auto [from, to] = *EndsOfBMove(args);
  return MoveInHops(cx, tx, args.from(1).first(2), from, to, reply);
}

// BLMOVEM source destination LEFT | RIGHT LEFT | RIGHT timeout
//         [COUNT count | EXACTLY count OBO | BULK]
constexpr size_t kBLMoveMOptions = 6;

// Of a call that was parsed before.
MoveMany MoveManyOf(Args args) {
  std::string_view error;
  return *ParseMoveMany(args, kBLMoveMOptions, &error);
}

bool ParseBLMoveM(Args args, ReplySink& reply, BlockingCall* call) {
  if (!ParseMoveMany(args, kBLMoveMOptions, reply)) return false;
  const std::optional<int64_t> timeout = ParseTimeout(args[5], reply);
  if (!timeout) return false;
  *call = {.keys = args.from(1).first(1), .timeout_ms = *timeout};
  return true;
}

bool TrySomeHere(ShardContext& cx, Args args, BlockingCall*, ReplySink& reply) {
  return MoveSome(cx, args.from(1).first(2), MoveManyOf(args), reply);
}

// Both keys are in one shard.
bool TrySomeAcross(CoordinatorContext& cx, Transaction& tx, Args args, BlockingCall* call,
                   ReplySink& reply) {
  const ShardId id = cx.shards().ShardOfKey(args[1], HashKey(args[1]));
  bool is_replied = false;
  tx.HopOn({&id, 1}, [&](ShardTurn& turn) {
    is_replied = TrySomeHere(turn.Begin(cx.db_index(), cx.now_ms()), args, call, reply);
  });
  return is_replied;
}

void TakeSome(ShardContext& cx, Args args, std::string_view, ReplySink& reply) {
  const bool is_moved = MoveSome(cx, args.from(1).first(2), MoveManyOf(args), reply);
  DCHECK(is_moved) << "IsReadyForSome has looked";
}

bool TakeSomeAcross(CoordinatorContext& cx, Transaction& tx, Args args, ReplySink& reply) {
  return MoveSomeInHops(cx, tx, args.from(1).first(2), MoveManyOf(args), reply);
}

bool IsReadyForSome(const ShardContext& cx, Args args, const BlockingCall&, std::string_view key) {
  const auto value = cx.Peek(key);
  return value && value->type() == ValueType::kList && MoveManyOf(args).CountIn(ListOf(*value)) > 0;
}

constexpr BlockingForm kBMove = {.parse = ParseBMove,
                                 .type = ValueType::kList,
                                 .take = TakeToTarget,
                                 .reply_nothing = [](ReplySink& reply) { reply.Null(); },
                                 .take_across = TakeToTargetAcross,
                                 .target_at = 2};

constexpr BlockingForm kBLMoveM = {.parse = ParseBLMoveM,
                                   .type = ValueType::kList,
                                   .take = TakeSome,
                                   .reply_nothing = [](ReplySink& reply) { reply.NullArray(); },
                                   .take_across = TakeSomeAcross,
                                   .target_at = 2,
                                   .try_here = TrySomeHere,
                                   .try_across = TrySomeAcross,
                                   .is_ready = IsReadyForSome};

}  // namespace

void RegisterListMoves(CommandTable* table) {
  const auto add = [table](std::string_view name, ShardHandler run, CoordinatorHandler across,
                           int arity, const CommandDocs& docs,
                           const BlockingForm* blocking = nullptr) {
    table->Add({.name = name,
                .run = run,
                .across = across,
                .blocking = blocking,
                .arity = arity,
                .flags = kWrite | kDenyOom | (blocking == nullptr ? 0u : kBlocking),
                .categories = kAclList,
                .keys = TwoKeys("RW access delete", "RW insert"),
                .docs = docs});
  };
  constexpr std::string_view kForEachMoved = "O(N) where N is the number of elements moved.";
  add("lmove", LMove, LMoveAcross, 5,
      {"Moves an element from one list to another, or to the other end.", "6.2.0", "list", "O(1)"});
  add("lmovem", LMoveM, LMoveMAcross, -5,
      {"Moves elements from one list to another, or to the other end.", "8.10.0", "list",
       kForEachMoved});
  add("rpoplpush", RPopLPush, RPopLPushAcross, 3,
      {.summary = "Moves the last element of a list to the front of another.",
       .since = "1.2.0",
       .group = "list",
       .complexity = "O(1)",
       .deprecated_since = "6.2.0",
       .replaced_by = "`LMOVE` with the `RIGHT` and `LEFT` arguments"});
  add("blmove", RunWithoutWaiting<kBMove>, RunAcrossWithoutWaiting<kBMove>, 6,
      {"Moves an element from one list to another; waits for it if need be.", "6.2.0", "list",
       "O(1)"},
      &kBMove);
  add("blmovem", RunWithoutWaiting<kBLMoveM>, RunAcrossWithoutWaiting<kBLMoveM>, -6,
      {"Moves elements from one list to another; waits for them if need be.", "8.10.0", "list",
       kForEachMoved},
      &kBLMoveM);
  add("brpoplpush", RunWithoutWaiting<kBMove>, RunAcrossWithoutWaiting<kBMove>, 4,
      {.summary = "Moves the last element of a list to the front of another; waits for it if need "
                  "be.",
       .since = "2.2.0",
       .group = "list",
       .complexity = "O(1)",
       .deprecated_since = "6.2.0",
       .replaced_by = "`BLMOVE` with the `RIGHT` and `LEFT` arguments"},
      &kBMove);
}

}  // namespace dfly
