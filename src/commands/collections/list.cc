// SPDX-License-Identifier: Apache-2.0
// Lists: pushing and popping at both ends, access by index, searching. What moves elements from one
// list to another is in list_moves.cc. Data: core/types/quick_list.h.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/collections/list_commands.h"
#include "commands/table/blocking.h"
#include "commands/table/command_table.h"
#include "commands/table/long_reads.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "core/types/quick_list.h"
#include "engine/hops/coordinator.h"
#include "engine/hops/transaction.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

using End = ListEnd;

constexpr std::string_view kErrElementTooLarge = "ERR Element too large";

// A number whose sign is a direction; its opposite exists, too. Replies the error for others.
std::optional<int64_t> ParseRank(std::string_view text, ReplySink& reply) {
  const std::optional<int64_t> number = ParseInt64(text);
  if (number && *number != INT64_MIN) return number;
  return Refuse(reply,
                number ? "ERR value is out of range, value must between -9223372036854775807 and "
                         "9223372036854775807"
                       : kErrNotInteger);
}

// The index from the front; none if it is outside. Below 0 it counts from the back.
std::optional<size_t> IndexIn(const QuickList& list, int64_t index) {
  const auto size = static_cast<int64_t>(list.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

struct Range {
  size_t first = 0;
  size_t count = 0;
};

// The elements from `start` to `end`, both included; below 0 they count from the back.
Range RangeIn(const QuickList& list, int64_t start, int64_t end) {
  const auto size = static_cast<int64_t>(list.size());
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  if (end < 0) end += size;
  end = std::min(end, size - 1);
  if (start > end) return {};
  return {static_cast<size_t>(start), static_cast<size_t>(end - start + 1)};
}

// Without `inline` it is called for each element of LRANGE: 5 to 9 % more instructions.
inline void ReplyWith(QuickList::Cursor at, ReplySink& reply) {
  char scratch[QuickList::kScratchSize];
  reply.Bulk((*at).View(scratch));
}

// `count` elements from `at` on, straight from the blocks.
void ReplyWithMany(QuickList::Cursor at, size_t count, End towards, ReplySink& reply) {
  reply.Array(count);
  for (; count > 0; --count) {
    ReplyWith(at, reply);
    at.Move(towards);
  }
}

// --- Both ends ---

void Push(ShardContext& cx, Args args, End end, bool only_if_present, ReplySink& reply) {
  auto value =
      only_if_present ? cx.FindMutable(args.key(), ValueType::kList) : ShardContext::WriteHandle();
  if (only_if_present && !value && !value.is_wrong_type()) return reply.Integer(0);
  for (std::string_view text : args.rest()) {
    if (text.size() > QuickList::kElementMax) return reply.Error(kErrElementTooLarge);
  }
  if (!only_if_present) value = cx.FindOrCreate(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  QuickList& list = ListOrNew(value);
  for (std::string_view text : args.rest()) list.Push(end, text, ListLimitOf(cx));
  const size_t size = list.size();
  cx.Changed(args.key(), PushEvent(end), args.rest().size());
  reply.Integer(static_cast<int64_t>(size));
}

// Pieces::check. Suspends.
std::optional<size_t> CheckPush(Args args, ReplySink& reply) {
  constexpr size_t kFirst = 2;
  helio::LongWork work;
  for (std::string_view text : args.from(kFirst)) {
    if (text.size() > QuickList::kElementMax) {
      reply.Error(kErrElementTooLarge);
      return {};
    }
    work.Step();
  }
  return kFirst;
}

void LPush(ShardContext& cx, Args args, ReplySink& reply) {
  Push(cx, args, End::kFront, false, reply);
}
void RPush(ShardContext& cx, Args args, ReplySink& reply) {
  Push(cx, args, End::kBack, false, reply);
}
void LPushX(ShardContext& cx, Args args, ReplySink& reply) {
  Push(cx, args, End::kFront, true, reply);
}
void RPushX(ShardContext& cx, Args args, ReplySink& reply) {
  Push(cx, args, End::kBack, true, reply);
}

// Removes elements, which were popped, and tells so.
void RemovePopped(ShardContext& cx, std::string_view key, QuickList& list, End end, size_t popped) {
  list.Erase(end == End::kFront ? 0 : list.size() - popped, popped, ListLimitOf(cx));
  cx.Changed(key, PopEvent(end), popped);
  if (cx.wants_effects()) cx.Tell(PopName(end), key, popped);
}

// Replies an array of up to `count` elements from that end on and removes them.
void PopMany(ShardContext& cx, std::string_view key, QuickList& list, End end, uint64_t count,
             ReplySink& reply) {
  const size_t popped = std::min<uint64_t>(count, list.size());
  ReplyWithMany(list.At(end), popped, Opposite(end), reply);
  RemovePopped(cx, key, list, end, popped);
}

// What many elements of a large list are popped with: hops copy them, a slice each, and the last
// one, which is short, removes them. So nobody sees some of them gone.
struct Popped {
  bool exists = false;
  bool is_wrong_type = false;
  MemberList elements;
};

// In hops of `tx`, which has the key locked exclusively, and is concluded if it has popped
// something. Suspends.
Popped PopInSlices(CoordinatorContext& cx, Transaction& tx, std::string_view key, End end,
                   uint64_t count) {
  Popped popped;
  bool goes_on = false;
  const auto copy_some = [&](ShardTurn& turn) {
    const auto value = turn.Begin(cx.db_index(), cx.now_ms()).Peek(key);
    popped.exists = static_cast<bool>(value);
    popped.is_wrong_type = value && value->type() != ValueType::kList;
    goes_on = false;
    if (!value || popped.is_wrong_type) return;
    const QuickList& list = ListOf(*value);
    MemberList& elements = popped.elements;
    const size_t wanted = std::min<uint64_t>(count, list.size());
    const size_t stop = std::min(wanted, elements.size() + SliceOf(*value, list.size()));
    char scratch[QuickList::kScratchSize];
    const size_t first = elements.size();
    for (auto at = list.At(end == End::kFront ? first : list.size() - 1 - first);
         elements.size() < stop; at.Move(Opposite(end))) {
      elements.Add((*at).View(scratch));
    }
    goes_on = stop < wanted;
  };
  const ShardId id = cx.shards().ShardOfKey(key, HashKey(key));
  helio::LongWork work(1);  // a hop to this thread's own shard does not wait
  do {
    tx.HopOn({&id, 1}, copy_some);
    work.Step();
  } while (goes_on);
  if (popped.elements.empty()) return popped;
  tx.HopAndConclude({&id, 1}, [&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    auto value = shard_cx.FindMutable(key, ValueType::kList);
    if (!value) {
      LOG(DFATAL) << "a key has gone although it was locked";
      popped = {};
      return;
    }
    RemovePopped(shard_cx, key, ListOf(*value), end, popped.elements.size());
  });
  return popped;
}

// Replies the error and returns none if it is not valid. REQUIRES: there is one.
std::optional<uint64_t> ParsePopCount(Args args, End end, ReplySink& reply) {
  if (args.size() > 3) return Refuse(reply, WrongArityError(end == End::kFront ? "lpop" : "rpop"));
  const std::optional<int64_t> count = ParseAtLeast(0, args[2], kErrNotPositive, reply);
  if (!count) return std::nullopt;
  return static_cast<uint64_t>(*count);
}

template <End kEnd>
void Pop(ShardContext& cx, Args args, ReplySink& reply) {
  std::optional<uint64_t> count = 1;
  const bool has_count = args.size() > 2;
  if (has_count) {
    count = ParsePopCount(args, kEnd, reply);
    if (!count) return;
  }
  auto value = cx.FindMutable(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return has_count ? reply.NullArray() : reply.Null();
  if (*count == 0) return reply.Array(0);
  QuickList& list = ListOf(*value);
  if (has_count) return PopMany(cx, args.key(), list, kEnd, *count, reply);
  ReplyWith(list.At(kEnd), reply);
  list.Pop(kEnd, ListLimitOf(cx));
  cx.Changed(args.key(), PopEvent(kEnd));
}

// REQUIRES: AsksToPopMany. Suspends.
template <End kEnd>
void PopManyInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<uint64_t> count = ParsePopCount(args, kEnd, reply);
  if (!count) return;
  const uint64_t hash = HashKey(args.key());
  Transaction tx(cx);
  tx.Lock(cx.shards().ShardOfKey(args.key(), hash),
          {cx.shards().LockOfKey(args.key(), hash, cx.db_index()), LockMode::kExclusive});
  if (!tx.Schedule()) return;
  Popped popped = PopInSlices(cx, tx, args.key(), kEnd, *count);
  if (popped.is_wrong_type) return reply.Error(kErrWrongType);
  if (!popped.exists) return reply.NullArray();
  reply.Array(popped.elements.size());
  ReplyWithMembers(popped.elements, reply);
}

template <End kEnd>
InSlices PoppingInSlices() {
  return {.across =
              RunOrInSlices<Pop<kEnd>, PopManyInSlices<kEnd>, AsksToPopMany, LockMode::kExclusive>,
          .asks_for_many = AsksToPopMany};
}

struct LMPopOptions {
  std::span<const std::string_view> keys;
  End end = End::kFront;
  uint64_t count = 1;
};

// LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]. Replies the error and returns none if
// they are not valid.
std::optional<LMPopOptions> ParseLMPop(Args args, ReplySink& reply) {
  const auto key_count = ParseAtLeast(1, args[1], "ERR numkeys should be greater than 0", reply);
  if (!key_count) return std::nullopt;
  if (static_cast<uint64_t>(*key_count) >= args.size() - 2) return Refuse(reply, kErrSyntax);
  const size_t keys_end = 2 + static_cast<size_t>(*key_count);
  const std::optional<End> end = ParseListEnd(args[keys_end]);
  if (!end) return Refuse(reply, kErrSyntax);
  std::optional<int64_t> count;
  for (size_t i = keys_end + 1; i < args.size(); i += 2) {
    if (count || !IsOption(args[i], "COUNT") || i + 1 == args.size()) {
      return Refuse(reply, kErrSyntax);
    }
    count = ParseAtLeast(1, args[i + 1], "ERR count should be greater than 0", reply);
    if (!count) return std::nullopt;
  }
  return LMPopOptions{.keys = args.from(2).first(static_cast<size_t>(*key_count)),
                      .end = *end,
                      .count = static_cast<uint64_t>(count.value_or(1))};
}

// Pops from the first of the keys that is a list, and replies. False: none exists.
bool PopFirst(ShardContext& cx, std::span<const std::string_view> keys, const LMPopOptions& options,
              ReplySink& reply) {
  cx.ExpectKeys(keys);
  for (std::string_view key : keys) {
    auto value = cx.FindMutable(key, ValueType::kList);
    if (value.is_wrong_type()) {
      reply.Error(kErrWrongType);
      return true;
    }
    if (!value) continue;
    reply.Array(2);
    reply.Bulk(key);
    PopMany(cx, key, ListOf(*value), options.end, options.count, reply);
    return true;
  }
  return false;
}

void LMPop(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<LMPopOptions> options = ParseLMPop(args, reply);
  if (options && !PopFirst(cx, options->keys, *options, reply)) reply.NullArray();
}

// Command::asks_for_many. Where COUNT is its last words are known.
bool AsksToPopManyOfFirst(Args args) {
  const size_t size = args.size();
  if (!IsOption(args[size - 2], "COUNT")) return false;
  const std::optional<int64_t> count = ParseInt64(args[size - 1]);
  return count && *count >= static_cast<int64_t>(kLargeMembers);
}

// One hop to see which keys exist, then one to the first of them, or more if many are to be popped.
// Suspends.
void LMPopAcross(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<LMPopOptions> options = ParseLMPop(args, reply);
  if (!options) return;
  const auto keys = options->keys;
  std::vector<ShardId> ids(keys.size());
  std::vector<uint8_t> exists(keys.size(), 0);  // bytes, since shards write at the same time
  Transaction tx(cx);
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = HashKey(keys[i]);
    ids[i] = cx.shards().ShardOfKey(keys[i], hash);
    tx.Lock(ids[i], {cx.shards().LockOfKey(keys[i], hash, cx.db_index()), LockMode::kExclusive});
  }
  if (!tx.Schedule()) return;
  tx.Hop([&](ShardTurn& turn) {
    ShardContext& shard_cx = turn.Begin(cx.db_index(), cx.now_ms());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (ids[i] == turn.shard().id()) exists[i] = static_cast<bool>(shard_cx.FindMutable(keys[i]));
    }
  });
  const auto i = static_cast<size_t>(std::find(exists.begin(), exists.end(), 1) - exists.begin());
  if (i == keys.size()) return reply.NullArray();
  if (options->count >= kLargeMembers) {
    Popped popped = PopInSlices(cx, tx, keys[i], options->end, options->count);
    if (popped.is_wrong_type) return reply.Error(kErrWrongType);
    reply.Array(2);
    reply.Bulk(keys[i]);
    reply.Array(popped.elements.size());
    return ReplyWithMembers(popped.elements, reply);
  }
  tx.HopAndConclude({&ids[i], 1}, [&](ShardTurn& turn) {
    PopFirst(turn.Begin(cx.db_index(), cx.now_ms()), keys.subspan(i, 1), *options, reply);
  });
}

// --- By index ---

void LLen(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(ListOf(*value).size()) : 0);
}

// A missing key is null even if the index is no number.
void LIndex(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Null();
  const std::optional<int64_t> number = ParseInt64(args[2]);
  if (!number) return reply.Error(kErrNotInteger);
  const QuickList& list = ListOf(*value);
  const std::optional<size_t> index = IndexIn(list, *number);
  if (!index) return reply.Null();
  ReplyWith(list.At(*index), reply);
}

void LSet(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Error(kErrNoSuchKey);
  const std::optional<int64_t> number = ParseInt64(args[2]);
  if (!number) return reply.Error(kErrNotInteger);
  QuickList& list = ListOf(*value);
  const std::optional<size_t> index = IndexIn(list, *number);
  if (!index) return reply.Error(kErrIndexOutOfRange);
  if (args[3].size() > QuickList::kElementMax) return reply.Error(kErrElementTooLarge);
  list.Replace(list.At(*index), args[3], ListLimitOf(cx));
  cx.Changed(args.key(), KeyEvent::kLSet);
  reply.Ok();
}

struct Indexes {
  int64_t start;
  int64_t end;
};

// Replies the error and returns none if they are not valid.
std::optional<Indexes> ParseIndexes(Args args, ReplySink& reply) {
  const std::optional<int64_t> start = ParseInt64(args[2]);
  const std::optional<int64_t> end = ParseInt64(args[3]);
  if (!start || !end) return Refuse(reply, kErrNotInteger);
  return Indexes{.start = *start, .end = *end};
}

void LRange(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<Indexes> indexes = ParseIndexes(args, reply);
  if (!indexes) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Array(0);
  const QuickList& list = ListOf(*value);
  const Range range = RangeIn(list, indexes->start, indexes->end);
  ReplyWithMany(list.At(range.first), range.count, End::kBack, reply);
}

// For CopyInSlices.
class ListCopy {
 public:
  explicit ListCopy(const Indexes& indexes) : indexes_(indexes) {}

  bool CopySome(ShardContext&, const ShardContext::ReadHandle& value) {
    const QuickList& list = ListOf(*value);
    const Range range = RangeIn(list, indexes_.start, indexes_.end);
    const size_t end = std::min(range.count, elements_.size() + SliceOf(*value, list.size()));
    char scratch[QuickList::kScratchSize];
    for (auto at = list.At(range.first + elements_.size()); elements_.size() < end; at.Next()) {
      elements_.Add((*at).View(scratch));
    }
    return end < range.count;
  }
  MemberList& elements() { return elements_; }

 private:
  const Indexes indexes_;
  MemberList elements_;
};

// Suspends.
void LRangeInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<Indexes> indexes = ParseIndexes(args, reply);
  if (!indexes) return;
  ListCopy copy(*indexes);
  if (!CopyInSlices(cx, args.key(), ValueType::kList, reply, &copy)) return;
  reply.Array(copy.elements().size());
  ReplyWithMembers(copy.elements(), reply);
}

// Reports a change even if nothing was cut off, as in Redis.
void LTrim(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<Indexes> indexes = ParseIndexes(args, reply);
  if (!indexes) return;
  auto value = cx.FindMutable(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Ok();
  QuickList& list = ListOf(*value);
  const Range range = RangeIn(list, indexes->start, indexes->end);
  const size_t behind = range.first + range.count;
  const size_t cut = list.size() - range.count;
  if (range.count == 0) {
    list.Erase(0, list.size(), ListLimitOf(cx));
  } else {
    list.Erase(behind, list.size() - behind, ListLimitOf(cx));
    list.Erase(0, range.first, ListLimitOf(cx));
  }
  cx.Changed(args.key(), KeyEvent::kLTrim, cut);
  reply.Ok();
}

// --- By value ---

// LINSERT key BEFORE | AFTER pivot element
void LInsert(ShardContext& cx, Args args, ReplySink& reply) {
  const bool is_after = IsOption(args[2], "AFTER");
  if (!is_after && !IsOption(args[2], "BEFORE")) return reply.Error(kErrSyntax);
  auto value = cx.FindMutable(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  if (args[4].size() > QuickList::kElementMax) return reply.Error(kErrElementTooLarge);
  QuickList& list = ListOf(*value);
  const PackedText pivot(args[3]);
  QuickList::Cursor at = list.At(End::kFront);
  while (at && !at.Is(pivot)) at.Next();
  if (!at) return reply.Integer(-1);
  if (is_after) {
    list.InsertAfter(at, args[4], ListLimitOf(cx));
  } else {
    list.InsertBefore(at, args[4], ListLimitOf(cx));
  }
  const size_t size = list.size();
  cx.Changed(args.key(), KeyEvent::kLInsert);
  reply.Integer(static_cast<int64_t>(size));
}

// LREM key count element. Below 0 from the back; 0 all.
void LRem(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> count = ParseInt64(args[2]);
  if (!count) return reply.Error(kErrNotInteger);
  auto value = cx.FindMutable(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  const End from = *count < 0 ? End::kBack : End::kFront;
  const auto bits = static_cast<size_t>(*count);
  const size_t max = *count == 0 ? SIZE_MAX : *count < 0 ? 0 - bits : bits;
  const size_t removed = ListOf(*value).Remove(args[3], max, from, ListLimitOf(cx));
  if (removed > 0) cx.Changed(args.key(), KeyEvent::kLRem, removed);
  reply.Integer(static_cast<int64_t>(removed));
}

struct PositionOptions {
  int64_t rank = 1;  // below 0 from the back
  std::optional<int64_t> count;
  int64_t max_len = 0;  // elements to look at; 0: all
};

// Replies the error and returns none if they are not valid.
std::optional<PositionOptions> ParsePositionOptions(std::span<const std::string_view> args,
                                                    ReplySink& reply) {
  PositionOptions options;
  for (size_t i = 0; i < args.size(); i += 2) {
    const bool has_value = i + 1 < args.size();
    std::optional<int64_t> number;
    if (has_value && IsOption(args[i], "RANK")) {
      number = ParseRank(args[i + 1], reply);
      if (number == 0) {
        return Refuse(
            reply,
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or "
            "use negative to start from the end of the list");
      }
      options.rank = number.value_or(0);
    } else if (has_value && IsOption(args[i], "COUNT")) {
      number = ParseAtLeast(0, args[i + 1], "ERR COUNT can't be negative", reply);
      options.count = number;
    } else if (has_value && IsOption(args[i], "MAXLEN")) {
      number = ParseAtLeast(0, args[i + 1], "ERR MAXLEN can't be negative", reply);
      options.max_len = number.value_or(0);
    } else {
      return Refuse(reply, kErrSyntax);
    }
    if (!number) return std::nullopt;
  }
  return options;
}

// LPOS key element [RANK rank] [COUNT count] [MAXLEN len]
void LPos(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<PositionOptions> options = ParsePositionOptions(args.from(3), reply);
  if (!options) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kList);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  absl::InlinedVector<int64_t, 16> found;
  if (value) {
    const QuickList& list = ListOf(*value);
    const PackedText wanted(args[2]);
    const End from = options->rank < 0 ? End::kBack : End::kFront;
    const int64_t first_rank = options->rank < 0 ? -options->rank : options->rank;
    const auto size = static_cast<int64_t>(list.size());
    const int64_t looks = options->max_len == 0 ? size : std::min(options->max_len, size);
    // COUNT 0 means all.
    const size_t found_max =
        options->count == 0 ? SIZE_MAX : static_cast<size_t>(options->count.value_or(1));
    int64_t matches = 0;
    QuickList::Cursor at = list.At(from);
    for (int64_t i = 0; i < looks && found.size() < found_max; ++i, at.Move(Opposite(from))) {
      if (!at.Is(wanted) || ++matches < first_rank) continue;
      found.push_back(from == End::kFront ? i : size - 1 - i);
    }
  }
  if (!options->count) return found.empty() ? reply.Null() : reply.Integer(found[0]);
  reply.Array(found.size());
  for (int64_t index : found) reply.Integer(index);
}

// --- Waiting for an element ---

// BLPOP key [key ...] timeout
bool ParseBPop(Args args, ReplySink& reply, BlockingCall* call) {
  const std::optional<int64_t> timeout = ParseTimeout(args[args.size() - 1], reply);
  if (!timeout) return false;
  *call = {.keys = args.from(1).first(args.size() - 2), .timeout_ms = *timeout};
  return true;
}

template <End kEnd>
void TakeOne(ShardContext& cx, Args, std::string_view key, ReplySink& reply) {
  auto value = cx.FindMutable(key, ValueType::kList);
  QuickList& list = ListOf(*value);
  reply.Array(2);
  reply.Bulk(key);
  ReplyWith(list.At(kEnd), reply);
  list.Pop(kEnd, ListLimitOf(cx));
  cx.Changed(key, PopEvent(kEnd));
  if (cx.wants_effects()) cx.Tell(PopName(kEnd), key);
}

// BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]
bool ParseBLMPop(Args args, ReplySink& reply, BlockingCall* call) {
  const std::optional<LMPopOptions> options = ParseLMPop(Args(args.from(1)), reply);
  if (!options) return false;
  const std::optional<int64_t> timeout = ParseTimeout(args[1], reply);
  if (!timeout) return false;
  *call = {.keys = options->keys, .timeout_ms = *timeout};
  return true;
}

void TakeMany(ShardContext& cx, Args args, std::string_view key, ReplySink& reply) {
  const std::optional<LMPopOptions> options = ParseLMPop(Args(args.from(1)), reply);
  PopFirst(cx, {&key, 1}, *options, reply);
}

constexpr BlockingForm kBLPop = {.parse = ParseBPop,
                                 .type = ValueType::kList,
                                 .take = TakeOne<End::kFront>,
                                 .reply_nothing = [](ReplySink& reply) { reply.NullArray(); },
                                 .take_across = nullptr};
constexpr BlockingForm kBRPop = {.parse = ParseBPop,
                                 .type = ValueType::kList,
                                 .take = TakeOne<End::kBack>,
                                 .reply_nothing = [](ReplySink& reply) { reply.NullArray(); },
                                 .take_across = nullptr};
constexpr BlockingForm kBLMPop = {.parse = ParseBLMPop,
                                  .type = ValueType::kList,
                                  .take = TakeMany,
                                  .reply_nothing = [](ReplySink& reply) { reply.NullArray(); },
                                  .take_across = nullptr};

// --- The type ---

void RegisterListType() {
  RegisterObjectType(
      ValueType::kList,
      {.destroy = [](void* object, uint8_t) { delete static_cast<QuickList*>(object); },
       .bytes = [](const void* object,
                   uint8_t) { return static_cast<const QuickList*>(object)->bytes(); },
       .is_empty = [](const void* object,
                      uint8_t) { return static_cast<const QuickList*>(object)->empty(); },
       .clone = [](const void* object, uint8_t) -> void* {
         return static_cast<const QuickList*>(object)->Clone();
       },
       .clone_some = [](const void* object, uint8_t, void* copy, uint64_t* cursor) -> void* {
         constexpr size_t kCopiedInStep = 128 * 1024;
         return static_cast<const QuickList*>(object)->CopySome(static_cast<QuickList*>(copy),
                                                                cursor, kCopiedInStep);
       },
       .encoding_name = [](const void* object, uint8_t) -> std::string_view {
         return static_cast<const QuickList*>(object)->is_listpack() ? "listpack" : "quicklist";
       },
       .free_some = [](void* object, uint8_t,
                       size_t budget) { return static_cast<QuickList*>(object)->FreeSome(budget); },
       .move = [](void* object, uint8_t, BlockMover& mover, uint64_t* cursor) -> void* {
         return QuickList::Move(static_cast<QuickList*>(object), mover, cursor);
       }});
}

}  // namespace

void RegisterListCommands(CommandTable* table) {
  RegisterListType();
  const auto add = [table](std::string_view name, ShardHandler run, int arity, uint32_t flags,
                           KeySpec keys, std::string_view summary, std::string_view since,
                           std::string_view complexity, const InSlices& in_slices = {}) {
    table->Add({.name = name,
                .run = run,
                .across = in_slices.across,
                .slices = in_slices.across != nullptr,
                .asks_for_many = in_slices.asks_for_many,
                .pieces = in_slices.pieces,
                .arity = arity,
                .flags = flags,
                .categories = kAclList,
                .keys = keys,
                .docs = {summary, since, "list", complexity}});
  };
  constexpr uint32_t kPush = kWrite | kDenyOom | kFast;
  constexpr std::string_view kForEachPushed = "O(N) where N is the number of elements pushed.";
  constexpr InSlices kPushes = InPieces(PieceReplies::kLast, 1, CheckPush);
  constexpr std::string_view kForEachPopped = "O(N) where N is the number of elements returned.";
  add("lpush", LPush, -3, kPush, KeyAt(1, "RW insert"),
      "Puts elements in front of a list; makes the key if need be.", "1.0.0", kForEachPushed,
      kPushes);
  add("rpush", RPush, -3, kPush, KeyAt(1, "RW insert"),
      "Puts elements at the end of a list; makes the key if need be.", "1.0.0", kForEachPushed,
      kPushes);
  add("lpushx", LPushX, -3, kPush, KeyAt(1, "RW insert"),
      "Puts elements in front of a list that exists.", "2.2.0", kForEachPushed, kPushes);
  add("rpushx", RPushX, -3, kPush, KeyAt(1, "RW insert"),
      "Puts elements at the end of a list that exists.", "2.2.0", kForEachPushed, kPushes);
  add("lpop", Pop<End::kFront>, -2, kWrite | kFast, KeyAt(1, "RW access delete"),
      "Removes and returns elements from the front of a list.", "1.0.0", kForEachPopped,
      PoppingInSlices<End::kFront>());
  add("rpop", Pop<End::kBack>, -2, kWrite | kFast, KeyAt(1, "RW access delete"),
      "Removes and returns elements from the end of a list.", "1.0.0", kForEachPopped,
      PoppingInSlices<End::kBack>());
  add("lmpop", LMPop, -4, kWrite | kMovableKeys, KeysCountedAt(1, "RW access delete"),
      "Removes and returns elements of the first list that exists.", "7.0.0",
      "O(N+M) where N is the number of keys and M is the number of elements returned.",
      {.across = LMPopAcross, .asks_for_many = AsksToPopManyOfFirst});
  add("llen", LLen, 2, kReadonly | kFast, KeyAt(1, "RO"),
      "Returns the number of elements of a list.", "1.0.0", "O(1)");
  add("lindex", LIndex, 3, kReadonly, KeyAt(1), "Returns the element at an index of a list.",
      "1.0.0", "O(N) where N is the number of blocks between the nearer end and the index.");
  add("lset", LSet, 4, kWrite | kDenyOom, KeyAt(1, "RW update"),
      "Replaces the element at an index of a list.", "1.0.0",
      "O(N) where N is the number of blocks between the nearer end and the index.");
  add("lrange", LRange, 4, kReadonly, KeyAt(1), "Returns the elements between two indexes.",
      "1.0.0",
      "O(S+N) where S is the distance of the first index from the nearer end, in blocks, and N is "
      "the number of elements returned.",
      {.across = LRangeInSlices, .asks_for_many = AsksForLongRange});
  add("ltrim", LTrim, 4, kWrite, KeyAt(1, "RW delete"),
      "Removes all elements but those between two indexes.", "1.0.0",
      "O(N) where N is the number of blocks.");
  add("linsert", LInsert, 5, kWrite | kDenyOom, KeyAt(1, "RW insert"),
      "Inserts an element before or after another one.", "2.2.0",
      "O(N) where N is the number of elements up to the other one.");
  add("lrem", LRem, 4, kWrite, KeyAt(1, "RW delete"), "Removes elements that equal a text.",
      "1.0.0", "O(N) where N is the number of elements.");
  add("lpos", LPos, -3, kReadonly, KeyAt(1), "Returns the indexes of elements that equal a text.",
      "6.0.6", "O(N) where N is the number of elements.");
  const auto add_blocking = [table](std::string_view name, ShardHandler run,
                                    CoordinatorHandler across, const BlockingForm& form, int arity,
                                    uint32_t flags, KeySpec keys, CommandDocs docs) {
    table->Add({.name = name,
                .run = run,
                .across = across,
                .blocking = &form,
                .arity = arity,
                .flags = kWrite | kBlocking | flags,
                .categories = kAclList,
                .keys = keys,
                .docs = docs});
  };
  constexpr std::string_view kForKeys = "O(N) where N is the number of keys.";
  add_blocking(
      "blpop", RunWithoutWaiting<kBLPop>, RunAcrossWithoutWaiting<kBLPop>, kBLPop, -3, 0,
      {1, -2, 1, "RW access delete"},
      {"Removes and returns the first element of the first list that has one; waits for it "
       "if need be.",
       "2.0.0", "list", kForKeys});
  add_blocking("brpop", RunWithoutWaiting<kBRPop>, RunAcrossWithoutWaiting<kBRPop>, kBRPop, -3, 0,
               {1, -2, 1, "RW access delete"},
               {"Removes and returns the last element of the first list that has one; waits for it "
                "if need be.",
                "2.0.0", "list", kForKeys});
  add_blocking("blmpop", RunWithoutWaiting<kBLMPop>, RunAcrossWithoutWaiting<kBLMPop>, kBLMPop, -5,
               kMovableKeys, KeysCountedAt(2, "RW access delete"),
               {"Removes and returns elements of the first list that has some; waits for them if "
                "need be.",
                "7.0.0", "list",
                "O(N+M) where N is the number of keys and M is the number of elements returned."});
  RegisterListMoves(table);
}

}  // namespace dfly
