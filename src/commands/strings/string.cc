// SPDX-License-Identifier: Apache-2.0
// Strings: GET, SET and their relatives, ranges, counters, and the forms for many keys.
//
// Redis words and orders its errors in this way and clients match on them, so the order of the
// checks inside a handler is part of its contract. A handler whose check fails has changed nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/strings/lcs.h"
#include "commands/strings/string_options.h"
#include "commands/strings/throttle.h"
#include "commands/table/command_table.h"
#include "commands/table/long_reads.h"
#include "commands/table/numbers.h"
#include "core/memory/large_text.h"
#include "core/memory/work_bytes.h"
#include "core/text/numbers.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

bool IsTooLong(const ShardContext& cx, uint64_t size, uint64_t more) {
  const uint64_t max = cx.string_max();
  return size > max || more > max - size;
}

// --- Whole values ---

// Inlined by force: gcc would make two functions of it, as the scratch is large.
[[gnu::always_inline]] inline void ReplyWith(const CompactValue& value, ReplySink& reply) {
  if (char* const block = value.lent_block()) return reply.LentBulk(block, value.StringSize());
  char scratch[CompactValue::kScratchSize];
  reply.Bulk(value.View(scratch));
}

// Replies the string, or null if there is none. False if it was a wrong type, and replied as that.
bool ReplyWithValue(ShardContext& cx, std::string_view key, ReplySink& reply) {
  const auto value = cx.FindReadOnly(key, ValueType::kString);
  if (value.is_wrong_type()) {
    reply.Error(kErrWrongType);
    return false;
  }
  if (!value) {
    reply.Null();
    return true;
  }
  ReplyWith(*value, reply);
  return true;
}

void Get(ShardContext& cx, Args args, ReplySink& reply) { ReplyWithValue(cx, args.key(), reply); }

// SET without a deadline. Redis 7.0 does not know the option STICK, nor conditions on the value,
// and nobody needs GET.
void TellSet(ShardContext& cx, Args args, const StringOptions& options) {
  if (options.keep_ttl) {
    cx.Tell("SET", args.key(), args[2], "KEEPTTL");
  } else {
    cx.Tell("SET", args.key(), args[2]);
  }
}

// What NX, XX or a condition on the value says. None: it is a wrong type, which was replied.
// REQUIRES: there is one of them.
std::optional<bool> MaySet(ShardContext& cx, std::string_view key, const StringOptions& options,
                           ReplySink& reply) {
  if (options.if_absent || options.if_present) {
    return static_cast<bool>(cx.FindMutable(key)) == options.if_present;
  }
  const auto value = cx.FindMutable(key, ValueType::kString);
  if (value.is_wrong_type()) return Refuse(reply, kErrWrongType);
  if (!value) return options.if_value.is_negative();
  char scratch[CompactValue::kScratchSize];
  return options.if_value.IsMetBy(value->View(scratch));
}

// SET with options. Conditions are asked after GET has replied, and change no reply then.
void SetWithOptions(ShardContext& cx, Args args, ReplySink& reply) {
  StringOptions options;
  if (!ParseStringOptions(args.from(3), OptionSet::kOfSet, &options)) {
    return reply.Error(kErrSyntax);
  }
  std::optional<int64_t> deadline_ms;
  if (options.unit != nullptr) {
    deadline_ms = DeadlineOf(options, cx.now_ms(), "set", reply);
    if (!deadline_ms) return;
  }
  if (options.if_value && !options.if_value.is_valid()) return reply.Error(kErrDigest);
  if (options.get && !ReplyWithValue(cx, args.key(), reply)) return;
  if (options.if_absent || options.if_present || options.if_value) {
    const std::optional<bool> may_set = MaySet(cx, args.key(), options, reply);
    if (!may_set) return;
    if (!*may_set) {
      if (!options.get) reply.Null();
      return;
    }
  }
  if (deadline_ms) {
    StoreUntil(cx, args.key(), args[2], *deadline_ms);
  } else {
    ShardContext::SetOptions how;
    how.keep_deadline = options.keep_ttl;
    cx.SetString(args.key(), args[2], how);
    const bool is_own = !options.get && !options.stick && !options.if_value;
    if (!is_own && cx.wants_effects()) TellSet(cx, args, options);
  }
  if (options.stick) {
    cx.SetSticky(args.key(), true);
    if (cx.wants_effects()) cx.Tell("STICK", args.key());
  }
  if (!options.get) reply.Ok();
}

void Set(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() > 3) [[unlikely]] {
    return SetWithOptions(cx, args, reply);
  }
  cx.SetString(args.key(), args[2]);
  reply.Ok();
}

void SetNx(ShardContext& cx, Args args, ReplySink& reply) {
  const bool exists = static_cast<bool>(cx.FindMutable(args.key()));
  if (!exists) cx.SetString(args.key(), args[2]);
  reply.Integer(exists ? 0 : 1);
}

void SetEx(ShardContext& cx, Args args, ReplySink& reply) {
  const auto deadline_ms = ParseDeadline(kNewDeadline, args[2], 1000, cx.now_ms(), "setex", reply);
  if (!deadline_ms) return;
  StoreUntil(cx, args.key(), args[3], *deadline_ms);
  reply.Ok();
}

void PSetEx(ShardContext& cx, Args args, ReplySink& reply) {
  const auto deadline_ms = ParseDeadline(kNewDeadline, args[2], 1, cx.now_ms(), "psetex", reply);
  if (!deadline_ms) return;
  StoreUntil(cx, args.key(), args[3], *deadline_ms);
  reply.Ok();
}

void GetSet(ShardContext& cx, Args args, ReplySink& reply) {
  if (!ReplyWithValue(cx, args.key(), reply)) return;
  cx.SetString(args.key(), args[2]);
  if (cx.wants_effects()) cx.Tell("SET", args.key(), args[2]);
}

void GetDel(ShardContext& cx, Args args, ReplySink& reply) {
  if (!ReplyWithValue(cx, args.key(), reply)) return;
  if (cx.Delete(args.key()) && cx.wants_effects()) cx.Tell("DEL", args.key());
}

// The key comes before the deadline's number: a missing key is null even if that is wrong.
void GetEx(ShardContext& cx, Args args, ReplySink& reply) {
  StringOptions options;
  if (!ParseStringOptions(args.rest(), OptionSet::kOfGetEx, &options)) {
    return reply.Error(kErrSyntax);
  }
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Null();
  std::optional<int64_t> deadline_ms;
  if (options.unit != nullptr) {
    deadline_ms = DeadlineOf(options, cx.now_ms(), "getex", reply);
    if (!deadline_ms) return;
  }
  ReplyWith(*value, reply);
  if (deadline_ms) cx.SetDeadline(args.key(), *deadline_ms);
  if (options.persist) cx.Persist(args.key());
}

// --- Parts of a value ---

// The effect of who has changed a string otherwise than Redis does.
void TellText(ShardContext& cx, std::string_view key) {
  const auto value = cx.Peek(key);
  if (!value || value->type() != ValueType::kString) return;  // nothing was changed
  char scratch[CompactValue::kScratchSize];
  cx.Tell("SET", key, value->View(scratch), "KEEPTTL");
}

// APPEND and PREPEND. What makes a new key encodes it as SET does.
template <void (CompactValue::*kExtend)(std::string_view)>
void Extend(ShardContext& cx, Args args, KeyEvent event, ReplySink& reply) {
  auto value = cx.FindOrCreate(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (value.was_created()) {
    value->SetString(args[2]);
  } else {
    if (IsTooLong(cx, value->StringSize(), args[2].size())) return reply.Error(kErrStringTooLong);
    ((*value).*kExtend)(args[2]);
  }
  const size_t size = value->StringSize();
  cx.Changed(args.key(), event);
  reply.Integer(static_cast<int64_t>(size));
}

void Append(ShardContext& cx, Args args, ReplySink& reply) {
  Extend<&CompactValue::Append>(cx, args, KeyEvent::kAppend, reply);
}

// Redis has no such command.
void Prepend(ShardContext& cx, Args args, ReplySink& reply) {
  Extend<&CompactValue::Prepend>(cx, args, KeyEvent::kPrepend, reply);
  if (cx.wants_effects()) TellText(cx, args.key());
}

void StrLen(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  reply.Integer(value ? static_cast<int64_t>(value->StringSize()) : 0);
}

void SetRange(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> offset = ParseInt64(args[2]);
  const std::string_view text = args[3];
  if (!offset) return reply.Error(kErrNotInteger);
  if (*offset < 0) return reply.Error(kErrOffsetOutOfRange);
  auto value = cx.FindMutable(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (text.empty()) return reply.Integer(value ? static_cast<int64_t>(value->StringSize()) : 0);
  if (IsTooLong(cx, static_cast<uint64_t>(*offset), text.size())) {
    return reply.Error(kErrStringTooLong);
  }
  if (!value) value = cx.FindOrCreate(args.key(), ValueType::kString);
  value->SetRange(static_cast<size_t>(*offset), text);
  const size_t size = value->StringSize();
  cx.Changed(args.key(), KeyEvent::kSetRange);
  reply.Integer(static_cast<int64_t>(size));
}

// The bytes from `start` to `end`, both included; below 0 they count from the end.
std::string_view Range(std::string_view text, int64_t start, int64_t end) {
  const auto size = static_cast<int64_t>(text.size());
  if (start < 0 && end < 0 && start > end) return {};
  if (start < 0) start = std::max<int64_t>(size + start, 0);
  if (end < 0) end = std::max<int64_t>(size + end, 0);
  end = std::min(end, size - 1);
  if (start > end) return {};
  return text.substr(static_cast<size_t>(start), static_cast<size_t>(end - start + 1));
}

void GetRange(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> start = ParseInt64(args[2]);
  const std::optional<int64_t> end = ParseInt64(args[3]);
  if (!start || !end) return reply.Error(kErrNotInteger);
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  char scratch[CompactValue::kScratchSize];
  reply.Bulk(Range(value ? value->View(scratch) : std::string_view(), *start, *end));
}

// Command::asks_for_many.
bool AsksForLongPart(Args args) { return AsksForLongText(args[2], args[3]); }

// A part of a string: for CopyInSlices.
class PartCopy {
 public:
  PartCopy(int64_t start, int64_t end) : start_(start), end_(end) {}

  bool CopySome(ShardContext&, const ShardContext::ReadHandle& value) {
    char scratch[CompactValue::kScratchSize];
    const std::string_view part = Range(value->View(scratch), start_, end_);
    if (part.empty()) return false;
    if (!copy_) {
      copy_.emplace(part.size());
      counted_.Set(part.size());
    }
    const size_t bytes = std::min(copy_->room(), kSliceBytes);
    memcpy(copy_->end(), part.data() + copy_->size(), bytes);
    copy_->Filled(bytes);
    return copy_->room() != 0;
  }
  // Once.
  void Reply(ReplySink& reply) { copy_ ? ReplyWithText(*std::move(copy_), reply) : reply.Bulk({}); }

 private:
  const int64_t start_;
  const int64_t end_;
  std::optional<LargeText> copy_;
  WorkBytes counted_;
};

// Suspends.
void GetRangeInSlices(CoordinatorContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> start = ParseInt64(args[2]);
  const std::optional<int64_t> end = ParseInt64(args[3]);
  if (!start || !end) return reply.Error(kErrNotInteger);
  PartCopy copy(*start, *end);
  if (CopyInSlices(cx, args.key(), ValueType::kString, reply, &copy)) copy.Reply(reply);
}

// --- Counters ---

// One look-up, and no allocation for a key that exists.
void Add(ShardContext& cx, std::string_view key, int64_t by, ReplySink& reply) {
  auto value = cx.FindOrCreate(key, ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  int64_t number = 0;
  if (!value.was_created()) {
    const std::optional<int64_t> present = value->TryInt();
    if (!present) return reply.Error(kErrNotInteger);
    if (__builtin_add_overflow(*present, by, &number)) return reply.Error(kErrOverflow);
  } else {
    number = by;
  }
  value->SetInt(number);
  cx.Changed(key, KeyEvent::kIncrBy);
  reply.Integer(number);
}

void Incr(ShardContext& cx, Args args, ReplySink& reply) { Add(cx, args.key(), 1, reply); }

void Decr(ShardContext& cx, Args args, ReplySink& reply) { Add(cx, args.key(), -1, reply); }

void IncrBy(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> by = ParseInt64(args[2]);
  if (!by) return reply.Error(kErrNotInteger);
  Add(cx, args.key(), *by, reply);
}

void DecrBy(ShardContext& cx, Args args, ReplySink& reply) {
  const std::optional<int64_t> by = ParseInt64(args[2]);
  if (!by) return reply.Error(kErrNotInteger);
  if (*by == INT64_MIN) return reply.Error(kErrDecrementOverflow);
  Add(cx, args.key(), -*by, reply);
}

void IncrByFloat(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindMutable(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::optional<long double> number = 0.0L;
  if (value) {
    char scratch[CompactValue::kScratchSize];
    number = ParseLongDouble(value->View(scratch));
  }
  const std::optional<long double> by = ParseLongDouble(args[2]);
  if (!number || !by) return reply.Error(kErrNotFloat);
  const long double sum = *number + *by;
  if (std::isnan(sum) || std::isinf(sum)) return reply.Error(kErrIncrNanOrInf);
  const std::string text = FormatLongDouble(sum);
  if (!value) value = cx.FindOrCreate(args.key(), ValueType::kString);
  value->SetText(text);
  cx.Changed(args.key(), KeyEvent::kIncrByFloat);
  if (cx.wants_effects()) cx.Tell("SET", args.key(), text, "KEEPTTL");
  reply.Bulk(text);
}

// --- Many keys ---

// A key of another type is null.
void MGet(ShardContext& cx, Args args, ReplySink& reply) {
  reply.Array(args.size() - 1);
  cx.ExpectKeys(args.from(1));
  for (std::string_view key : args.from(1)) {
    const auto value = cx.FindReadOnly(key, ValueType::kString);
    if (!value) {
      reply.Null();
      continue;
    }
    ReplyWith(*value, reply);
  }
}

}  // namespace

void RegisterStringCommands(CommandTable* table) {
  table->Add({.name = "get",
              .run = Get,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclString,
              .keys = KeyAt(1),
              .docs = {"Returns the string of a key.", "1.0.0", "string", "O(1)"}});
  table->Add({.name = "set",
              .run = Set,
              .arity = -3,
              .flags = kWrite | kDenyOom,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update variable_flags"),
              .docs = {"Sets the string of a key, whatever it held, with conditions and a deadline "
                       "if asked for.",
                       "1.0.0", "string", "O(1)"}});
  table->Add(
      {.name = "setnx",
       .run = SetNx,
       .arity = 3,
       .flags = kWrite | kDenyOom | kFast,
       .categories = kAclString,
       .keys = KeyAt(1, "OW insert"),
       .docs = {"Sets the string of a key that does not exist.", "1.0.0", "string", "O(1)"}});
  table->Add({.name = "setex",
              .run = SetEx,
              .arity = 4,
              .flags = kWrite | kDenyOom,
              .categories = kAclString,
              .keys = KeyAt(1, "OW update"),
              .docs = {"Sets the string of a key and its time to live in seconds.", "2.0.0",
                       "string", "O(1)"}});
  table->Add({.name = "psetex",
              .run = PSetEx,
              .arity = 4,
              .flags = kWrite | kDenyOom,
              .categories = kAclString,
              .keys = KeyAt(1, "OW update"),
              .docs = {"Sets the string of a key and its time to live in milliseconds.", "2.6.0",
                       "string", "O(1)"}});
  table->Add({.name = "getset",
              .run = GetSet,
              .arity = 3,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Sets the string of a key and returns the one it had.", "1.0.0", "string",
                       "O(1)", "6.2.0", "`SET` with the `!GET` argument"}});
  table->Add(
      {.name = "getdel",
       .run = GetDel,
       .arity = 2,
       .flags = kWrite | kFast,
       .categories = kAclString,
       .keys = KeyAt(1, "RW access delete"),
       .docs = {"Returns the string of a key and removes the key.", "6.2.0", "string", "O(1)"}});
  table->Add({.name = "getex",
              .run = GetEx,
              .arity = -2,
              .flags = kWrite | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Returns the string of a key and sets or removes the key's deadline.",
                       "6.2.0", "string", "O(1)"}});
  table->Add(
      {.name = "append",
       .run = Append,
       .arity = 3,
       .flags = kWrite | kDenyOom | kFast,
       .categories = kAclString,
       .keys = KeyAt(1, "RW insert"),
       .docs = {
           "Adds bytes at the end of a string; makes the key if need be.", "2.0.0", "string",
           "O(M) where M is the number of bytes added; amortized, whatever is there already."}});
  table->Add({.name = "prepend",
              .run = Prepend,
              .arity = 3,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW insert"),
              .docs = {"Adds bytes in front of a string; makes the key if need be.", "7.2.0",
                       "string", "O(N) where N is the number of bytes of the result."}});
  table->Add({.name = "strlen",
              .run = StrLen,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RO"),
              .docs = {"Returns the number of bytes of a string.", "2.2.0", "string", "O(1)"}});
  table->Add(
      {.name = "setrange",
       .run = SetRange,
       .arity = 4,
       .flags = kWrite | kDenyOom,
       .categories = kAclString,
       .keys = KeyAt(1),
       .docs = {
           "Overwrites a string from an offset on, after padding it with zero bytes up to there.",
           "2.2.0", "string", "O(M) where M is the number of bytes written, padding included."}});
  table->Add({.name = "getrange",
              .run = GetRange,
              .across = GetRangeInSlices,
              .slices = true,
              .asks_for_many = AsksForLongPart,
              .arity = 4,
              .flags = kReadonly,
              .categories = kAclString,
              .keys = KeyAt(1),
              .docs = {"Returns the bytes of a string between two offsets.", "2.4.0", "string",
                       "O(N) where N is the number of bytes returned."}});
  table->Add({.name = "substr",
              .run = GetRange,
              .across = GetRangeInSlices,
              .slices = true,
              .asks_for_many = AsksForLongPart,
              .arity = 4,
              .flags = kReadonly,
              .categories = kAclString,
              .keys = KeyAt(1),
              .docs = {"The old name of GETRANGE.", "1.0.0", "string",
                       "O(N) where N is the number of bytes returned.", "2.0.0", "`GETRANGE`"}});
  table->Add({.name = "incr",
              .run = Incr,
              .arity = 2,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Adds one to the integer of a key; a missing key counts as 0.", "1.0.0",
                       "string", "O(1)"}});
  table->Add({.name = "decr",
              .run = Decr,
              .arity = 2,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Subtracts one from the integer of a key; a missing key counts as 0.",
                       "1.0.0", "string", "O(1)"}});
  table->Add({.name = "incrby",
              .run = IncrBy,
              .arity = 3,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Adds a number to the integer of a key; a missing key counts as 0.", "1.0.0",
                       "string", "O(1)"}});
  table->Add({.name = "decrby",
              .run = DecrBy,
              .arity = 3,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Subtracts a number from the integer of a key; a missing key counts as 0.",
                       "1.0.0", "string", "O(1)"}});
  table->Add({.name = "incrbyfloat",
              .run = IncrByFloat,
              .arity = 3,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclString,
              .keys = KeyAt(1, "RW access update"),
              .docs = {"Adds a number to the decimal number of a key; a missing key counts as 0.",
                       "2.6.0", "string", "O(1)"}});
  table->Add({.name = "mget",
              .run = MGet,
              .arity = -2,
              .flags = kReadonly | kFast,
              .categories = kAclString,
              .keys = KeysFrom(1),
              .spread = Spread::kKeepOrder,
              .docs = {"Returns the strings of many keys.", "1.0.0", "string",
                       "O(N) where N is the number of keys."},
              .tips = "request_policy:multi_shard"});
  RegisterStringPairs(table);
  RegisterConditionalDeletes(table);
  RegisterIncrEx(table);
  RegisterLcs(table);
  RegisterThrottle(table);
}

}  // namespace dfly
