// SPDX-License-Identifier: Apache-2.0
// Hashes: fields with their values, counters, random fields and walks. Data:
// core/types/hash_value.h. Deadlines of fields are in hash_deadlines.cc.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/collections/hash_deadlines.h"
#include "commands/collections/member_deadlines.h"
#include "commands/collections/random_members.h"
#include "commands/table/command_table.h"
#include "commands/table/local_random.h"
#include "commands/table/long_reads.h"
#include "commands/table/member_scans.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"
#include "core/text/numbers.h"
#include "core/types/hash_value.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrHashNotInteger = "ERR hash value is not an integer";
constexpr std::string_view kErrHashNotFloat = "ERR hash value is not a float";
constexpr std::string_view kErrNanOrInf = "ERR value is NaN or Infinity";

// --- Setting and removing ---

// Sets all pairs and reports it. False: a wrong type, which was replied.
bool SetPairs(ShardContext& cx, Args args, ReplySink& reply, int64_t* added) {
  using enum HashValue::Sharing;
  auto value = cx.FindOrCreate(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) {
    reply.Error(kErrWrongType);
    return false;
  }
  HashValue hash = HashOrNew(cx, value);
  const auto pairs = args.rest();
  const PackedLimit& limit = cx.shard().hash_limit();
  const auto sharing = value.was_created() ? hash.SetAllShared(pairs, limit) : kUnknown;
  if (sharing == kDone) {
    *added = static_cast<int64_t>(pairs.size() / 2);
  } else {
    for (size_t i = 0; i < pairs.size(); i += 2) *added += hash.Set(pairs[i], pairs[i + 1], limit);
    if (*added > 0 && sharing == kUnknown) hash.ShareNames();
  }
  if (!cx.tells_fields()) [[likely]] {
    cx.Changed(args.key(), KeyEvent::kHSet, pairs.size() / 2);
    return true;
  }
  ChangedNames names(cx);
  names.AddPairs(pairs);
  cx.ChangedFields(args.key(), KeyEvent::kHSet, names, pairs.size() / 2);
  return true;
}

bool HasWholePairs(Args args) { return args.size() % 2 == 0; }

void HSet(ShardContext& cx, Args args, ReplySink& reply) {
  if (!HasWholePairs(args)) return reply.Error(WrongArityError("hset"));
  int64_t added = 0;
  if (SetPairs(cx, args, reply, &added)) reply.Integer(added);
}

void HMSet(ShardContext& cx, Args args, ReplySink& reply) {
  if (!HasWholePairs(args)) return reply.Error(WrongArityError("hmset"));
  int64_t added = 0;
  if (SetPairs(cx, args, reply, &added)) reply.Ok();
}

void HSetNx(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (value && HashOf(cx, value).Has(args[2])) return reply.Integer(0);
  if (!value) value = cx.FindOrCreate(args.key(), ValueType::kHash);
  HashValue hash = HashOrNew(cx, value);
  hash.Set(args[2], args[3], cx.shard().hash_limit());
  hash.ShareNames();
  cx.ChangedFields(args.key(), KeyEvent::kHSet, args.from(2).first(1));
  reply.Integer(1);
}

void HDel(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  HashValue hash = HashOf(cx, value);
  size_t erased = 0;
  ChangedNames names(cx);
  for (std::string_view field : args.rest()) {
    if (hash.Erase(field)) {
      ++erased;
      names.Add(field);
    }
    if (hash.size() == 0) break;
  }
  if (erased > 0) cx.ChangedFields(args.key(), KeyEvent::kHDel, names, erased);
  reply.Integer(static_cast<int64_t>(erased));
}

// --- Counters ---

// A field that gets another number keeps its deadline.
void SetNumber(ShardContext& cx, Args args, ShardContext::WriteHandle value, std::string_view text,
               KeyEvent event) {
  if (!value) value = cx.FindOrCreate(args.key(), ValueType::kHash);
  HashValue hash = HashOrNew(cx, value);
  if (hash.Set(args[2], text, cx.shard().hash_limit(), HashValue::OldDeadline::kKeep)) {
    hash.ShareNames();
  }
  cx.ChangedFields(args.key(), event, args.from(2).first(1));
}

void HIncrBy(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> by = ParseInt64(args[3]);
  if (!by) return reply.Error(kErrNotInteger);
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::optional<int64_t> number = 0;
  if (value) {
    char scratch[HashValue::kScratchSize];
    const auto text = HashOf(cx, value).Get(args[2], scratch);
    if (text) number = ParseInt64(*text);
  }
  if (!number) return reply.Error(kErrHashNotInteger);
  int64_t sum = 0;
  if (__builtin_add_overflow(*number, *by, &sum)) return reply.Error(kErrOverflow);
  SetNumber(cx, args, value, std::to_string(sum), KeyEvent::kHIncrBy);
  reply.Integer(sum);
}

void HIncrByFloat(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<long double> by = ParseLongDouble(args[3]);
  if (!by) return reply.Error(kErrNotFloat);
  if (std::isinf(*by)) return reply.Error(kErrNanOrInf);
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::optional<long double> number = 0.0L;
  if (value) {
    char scratch[HashValue::kScratchSize];
    const auto text = HashOf(cx, value).Get(args[2], scratch);
    if (text) number = ParseLongDouble(*text);
  }
  if (!number) return reply.Error(kErrHashNotFloat);
  const long double sum = *number + *by;
  if (std::isnan(sum) || std::isinf(sum)) return reply.Error(kErrIncrNanOrInf);
  const std::string text = FormatLongDouble(sum);
  SetNumber(cx, args, value, text, KeyEvent::kHIncrByFloat);
  if (cx.wants_effects()) {
    cx.Tell("HSET", args.key(), args[2], text);
    const int64_t at_ms = HashOf(cx, cx.Peek(args.key())).Deadline(args[2]).value_or(kNoDeadline);
    if (at_ms != kNoDeadline)
      TellDeadlines(cx, args.key(), kFieldEvents, at_ms, args.all().subspan(2, 1));
  }
  reply.Bulk(text);
}

// --- Reading ---

// A handle that is not a hash answers for an absent key. False: a wrong type, which was replied.
bool FindHash(ShardContext& cx, std::string_view key, ReplySink& reply,
              ShardContext::ReadHandle* value) {
  *value = cx.FindReadOnly(key, ValueType::kHash);
  if (!value->is_wrong_type()) return true;
  reply.Error(kErrWrongType);
  return false;
}

void HGet(ShardContext& cx, Args args, ReplySink& reply) {
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  if (!value) return reply.Null();
  ReplyWithField(HashOf(cx, value), args[2], reply);
}

void HMGet(ShardContext& cx, Args args, ReplySink& reply) {
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  reply.Array(args.rest().size());
  for (std::string_view field : args.rest()) {
    if (value) {
      ReplyWithField(HashOf(cx, value), field, reply);
    } else {
      reply.Null();
    }
  }
}

void HExists(ShardContext& cx, Args args, ReplySink& reply) {
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  reply.Integer(value && HashOf(cx, value).Has(args[2]));
}

void HLen(ShardContext& cx, Args args, ReplySink& reply) {
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  reply.Integer(value ? static_cast<int64_t>(HashOf(cx, value).size()) : 0);
}

void HStrLen(ShardContext& cx, Args args, ReplySink& reply) {
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  char scratch[HashValue::kScratchSize];
  const auto text = value ? HashOf(cx, value).Get(args[2], scratch) : std::nullopt;
  reply.Integer(text ? static_cast<int64_t>(text->size()) : 0);
}

enum class HashPart : uint8_t { kPairs, kFields, kTexts };

template <HashPart kPart>
void ReplyHeader(size_t fields, ReplySink& reply) {
  kPart == HashPart::kPairs ? reply.Map(fields) : reply.Array(fields);
}

// fn(text) for each text of a pair that is wanted.
template <HashPart kPart, typename F>
void Give(std::string_view field, std::string_view text, F&& fn) {
  if constexpr (kPart != HashPart::kTexts) fn(field);
  if constexpr (kPart != HashPart::kFields) fn(text);
}

// HGETALL, HKEYS and HVALS.
template <HashPart kPart>
void Show(ShardContext& cx, Args args, ReplySink& reply) {
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  if (!value) return ReplyHeader<kPart>(0, reply);
  const HashValue hash = HashOf(cx, value);
  ReplyHeader<kPart>(hash.size(), reply);
  hash.ForEach([&reply](std::string_view field, std::string_view text) {
    Give<kPart>(field, text, [&reply](std::string_view each) { reply.Bulk(each); });
  });
}

// For CopyInSlices.
template <HashPart kPart>
class HashCopy {
 public:
  static constexpr size_t kTexts = kPart == HashPart::kPairs ? 2 : 1;  // of a field

  bool CopySome(ShardContext& cx, const ShardContext::ReadHandle& value) {
    const HashValue hash = HashOf(cx, value);
    const size_t end = texts_.size() + SliceOf(*value, hash.size()) * kTexts;
    do {
      cursor_ = hash.Scan(cursor_, [this](std::string_view field, std::string_view text) {
        Give<kPart>(field, text, [this](std::string_view each) { texts_.Add(each); });
      });
    } while (cursor_ != 0 && texts_.size() < end);
    return cursor_ != 0;
  }
  MemberList& texts() { return texts_; }

 private:
  MemberList texts_;
  uint32_t cursor_ = 0;
};

// Suspends.
template <HashPart kPart>
void ShowInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  HashCopy<kPart> copy;
  if (!CopyInSlices(cx, args.key(), ValueType::kHash, reply, &copy)) return;
  ReplyHeader<kPart>(copy.texts().size() / copy.kTexts, reply);
  ReplyWithMembers(copy.texts(), reply);
}

// --- Random fields ---

// The items of HRANDFIELD's array: fields alone, or with their values; pairs in RESP3.
class FieldWriter {
 public:
  FieldWriter(ReplySink& reply, bool with_values, size_t fields)
      : reply_(reply), with_values_(with_values) {
    reply_.Array(with_values && !reply.resp3() ? fields * 2 : fields);
  }
  void operator()(std::string_view field, std::string_view text) {
    if (with_values_ && reply_.resp3()) reply_.Array(2);
    reply_.Bulk(field);
    if (with_values_) reply_.Bulk(text);
  }

 private:
  ReplySink& reply_;
  const bool with_values_;
};

// `count` different fields of more, each set of them with the same probability.
void WriteDifferent(const HashValue& hash, size_t count, FieldWriter& write) {
  size_t left = hash.size();
  if (hash.encoding() != HashValue::kTable || count * 3 > left) {
    // Each in turn with the probability that just so many come out (Knuth, TAOCP 3.4.2, S).
    hash.ForEach([&](std::string_view field, std::string_view text) {
      if (LocalRandom().Uniform(left--) >= count) return;
      --count;
      write(field, text);
    });
    return;
  }
  absl::flat_hash_set<std::string> drawn;
  while (drawn.size() < count) {
    hash.Random(RandomBits, [&](std::string_view field, std::string_view text) {
      if (drawn.insert(std::string(field)).second) write(field, text);
    });
  }
}

// HRANDFIELD key [count [WITHVALUES]]. Below 0: that many, and the same one may come again.
struct RandomCall {
  std::optional<int64_t> count;
  bool has_values = false;

  // With repetitions; a mistake that would take all memory for its reply.
  bool is_too_large() const { return count && *count < -(1 << 24); }
};

// None: the error was replied.
std::optional<RandomCall> ParseRandom(Args args, ReplySink& reply) {
  RandomCall call;
  if (args.size() == 2) return call;
  call.count = ParseInt64(args[2]);
  if (!call.count) return Refuse(reply, kErrNotInteger);
  if (*call.count == INT64_MIN) {
    return Refuse(reply,
                  "ERR value is out of range, value must between -9223372036854775807 and "
                  "9223372036854775807");
  }
  call.has_values = args.size() == 4 && IsOption(args[3], "WITHVALUES");
  if (args.size() > 4 || (args.size() == 4 && !call.has_values)) return Refuse(reply, kErrSyntax);
  constexpr int64_t kPairsMax = INT64_MAX / 2;
  if (call.has_values && (*call.count > kPairsMax || *call.count < -kPairsMax)) {
    return Refuse(reply, kErrOutOfRange);
  }
  return call;
}

void HRandField(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<RandomCall> call = ParseRandom(args, reply);
  if (!call) return;
  ShardContext::ReadHandle value;
  if (!FindHash(cx, args.key(), reply, &value)) return;
  const std::optional<int64_t> count = call->count;
  if (!value) return count ? reply.Array(0) : reply.Null();
  const HashValue hash = HashOf(cx, value);
  if (!count) {
    hash.Random(RandomBits,
                [&reply](std::string_view field, std::string_view) { reply.Bulk(field); });
    return;
  }
  if (call->is_too_large()) return reply.Error(kErrOutOfRange);
  if (*count < 0) {
    FieldWriter write(reply, call->has_values, static_cast<size_t>(-*count));
    for (int64_t i = 0; i < -*count; ++i) hash.Random(RandomBits, write);
    return;
  }
  const size_t wanted = static_cast<size_t>(*count);
  FieldWriter write(reply, call->has_values, std::min(wanted, hash.size()));
  if (wanted >= hash.size()) return hash.ForEach(write);
  WriteDifferent(hash, wanted, write);
}

// --- Walks ---

// HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]. A packed hash comes whole.
struct HashWalk {
  static constexpr ValueType kType = ValueType::kHash;
  static constexpr bool kMayLeaveOutValues = true;

  static size_t Size(const ShardContext& cx, const ShardContext::ReadHandle& value) {
    return HashOf(cx, value).size();
  }
  template <typename F>
  static uint32_t Scan(const ShardContext& cx, const ShardContext::ReadHandle& value,
                       uint32_t cursor, F&& fn) {
    return HashOf(cx, value).Scan(cursor, fn);
  }
  // For RandomCopy.
  static bool DrawsQuickly(const ShardContext& cx, const ShardContext::ReadHandle& value) {
    const HashValue hash = HashOf(cx, value);
    return hash.encoding() == HashValue::kTable && hash.size() >= hash.table().size() / 2;
  }
  template <typename F>
  static void Draw(const ShardContext& cx, const ShardContext::ReadHandle& value, F&& fn) {
    HashOf(cx, value).Random(RandomBits, fn);
  }
};

// REQUIRES: AsksForManyRandom. Suspends.
void HRandFieldInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<RandomCall> call = ParseRandom(args, reply);
  if (!call) return;
  const bool is_too_large = call->is_too_large();
  RandomCopy<HashWalk> copy(is_too_large ? 0 : *call->count, call->has_values);
  if (!CopyInSlices(cx, args.key(), ValueType::kHash, reply, &copy)) return;
  if (!copy.has_value()) return reply.Array(0);
  if (is_too_large) return reply.Error(kErrOutOfRange);
  FieldWriter write(reply, call->has_values, copy.reply_size());
  copy.ForEachOfReply(write);
}

}  // namespace

void RegisterHashCommands(CommandTable* table) {
  HashValue::RegisterType();
  const FamilyRows add(table, "hash", kAclHash);
  constexpr uint32_t kSet = kWrite | kDenyOom | kFast;
  constexpr uint32_t kGet = kReadonly | kFast;
  constexpr std::string_view kForFields = "O(N) where N is the number of fields given.";
  constexpr std::string_view kForAll = "O(N) where N is the number of fields of the hash.";
  constexpr std::string_view kAnyOrder = "nondeterministic_output_order";
  add("hset", HSet, -4, kSet, KeyAndElement(2), "Sets fields of a hash; makes the key if need be.",
      "2.0.0", kForFields, {}, InPieces(PieceReplies::kSum, 2));
  add("hsetnx", HSetNx, 4, kSet, KeyAndElement(2, "RW insert"),
      "Sets a field of a hash that does not exist.", "2.0.0", "O(1)");
  table->Add({.name = "hmset",
              .run = HMSet,
              .pieces = {.replies = PieceReplies::kLast, .step = 2},
              .arity = -4,
              .flags = kSet,
              .categories = kAclHash,
              .keys = KeyAndElement(2),
              .docs = {.summary = "Sets fields of a hash.",
                       .since = "2.0.0",
                       .group = "hash",
                       .complexity = kForFields,
                       .deprecated_since = "4.0.0",
                       .replaced_by = "`HSET` with multiple field-value pairs"}});
  add("hdel", HDel, -3, kWrite | kFast, KeyAndElement(2, "RW delete"),
      "Removes fields of a hash, and the key with the last one.", "2.0.0", kForFields, {},
      InPieces(PieceReplies::kSum));
  add("hincrby", HIncrBy, 4, kSet, KeyAndElement(2, "RW access update"),
      "Adds to the integer of a field; a missing one counts as 0.", "2.0.0", "O(1)");
  add("hincrbyfloat", HIncrByFloat, 4, kSet, KeyAndElement(2, "RW access update"),
      "Adds to the decimal number of a field; a missing one counts as 0.", "2.6.0", "O(1)");
  add("hget", HGet, 3, kGet, KeyAndElement(2), "Returns the value of a field.", "2.0.0", "O(1)");
  add("hmget", HMGet, -3, kGet, KeyAndElement(2), "Returns the values of fields.", "2.0.0",
      kForFields, {}, InPieces(PieceReplies::kItems));
  add("hexists", HExists, 3, kGet, KeyAndElement(2, "RO"), "Tells whether a field exists.", "2.0.0",
      "O(1)");
  add("hlen", HLen, 2, kGet, KeyAt(1, "RO"), "Returns the number of fields.", "2.0.0",
      "O(1), O(log N) where N fields have deadlines.");
  add("hstrlen", HStrLen, 3, kGet, KeyAndElement(2, "RO"), "Returns the length of a field's value.",
      "3.2.0", "O(1)");
  add("hgetall", Show<HashPart::kPairs>, 2, kReadonly, KeyAt(1),
      "Returns all fields and their values.", "2.0.0", kForAll, kAnyOrder,
      {.across = ShowInSlices<HashPart::kPairs>});
  add("hkeys", Show<HashPart::kFields>, 2, kReadonly, KeyAt(1), "Returns all fields.", "2.0.0",
      kForAll, kAnyOrder, {.across = ShowInSlices<HashPart::kFields>});
  add("hvals", Show<HashPart::kTexts>, 2, kReadonly, KeyAt(1), "Returns the values of all fields.",
      "2.0.0", kForAll, kAnyOrder, {.across = ShowInSlices<HashPart::kTexts>});
  add("hrandfield", HRandField, -2, kReadonly, KeyAt(1), "Returns random fields of a hash.",
      "6.2.0", "O(N) where N is the number of fields returned, at most that of the hash's.",
      "nondeterministic_output",
      {.across = RunOrInSlices<HRandField, HRandFieldInSlices, AsksForManyRandom>,
       .asks_for_many = AsksForManyRandom});
  add("hscan", ScanMembers<HashWalk>, -3, kReadonly, KeyAt(1),
      "Walks over the fields of a hash, some at a time.", "2.8.0",
      "O(1) for each call, O(N) for the whole walk where N is the number of fields.",
      "nondeterministic_output",
      {.across = ScanMembersInSlices<HashWalk>, .asks_for_many = ScansMany<HashWalk>});
  RegisterHashDeadlineCommands(table);
}

}  // namespace dfly
