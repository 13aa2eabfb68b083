// SPDX-License-Identifier: Apache-2.0
// Deadlines of fields, as Redis 7.4 and 8.0 document them: HEXPIRE and its relatives, HTTL and its
// relatives, HPERSIST, and the commands that read or set fields along with it.
//
// A field whose deadline has passed is absent for every command at once (core/types/hash_value.h);
// who erases it, and the key with the last one, is told in engine/keyspace/database.h. Here
// deadlines are only set and told. One that has been reached already erases the field at once.
#include "commands/collections/hash_deadlines.h"
#include "commands/table/numbers.h"
#include "commands/table/rows.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "commands/collections/member_deadlines.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

constexpr std::string_view kErrNoFields =
    "ERR Mandatory argument FIELDS is missing or not at the right position";
constexpr std::string_view kErrFieldCount = "ERR Parameter `numFields` should be greater than 0";
constexpr std::string_view kErrFieldCountMismatch =
    "ERR The `numfields` parameter must match the number of arguments";

// FIELDS numfields field [field ...], where each may be a pair. `args` begins with FIELDS. Replies
// the error and returns none if it is not valid.
std::optional<std::span<const std::string_view>> ParseFields(std::span<const std::string_view> args,
                                                             size_t words_each, ReplySink& reply) {
  if (args.size() < 2 || !IsOption(args[0], "FIELDS")) return Refuse(reply, kErrNoFields);
  const std::optional<int64_t> count = ParseInt64(args[1]);
  if (!count || *count < 1) return Refuse(reply, kErrFieldCount);
  const auto words = args.subspan(2);
  if (words.size() % words_each != 0 ||
      words.size() / words_each != static_cast<uint64_t>(*count)) {
    return Refuse(reply, kErrFieldCountMismatch);
  }
  return words;
}

// --- HEXPIRE and its relatives ---

enum class Condition : uint8_t { kNone, kIfNone, kIfSome, kIfLater, kIfEarlier };

std::optional<Condition> ParseCondition(std::string_view text) {
  if (IsOption(text, "NX")) return Condition::kIfNone;
  if (IsOption(text, "XX")) return Condition::kIfSome;
  if (IsOption(text, "GT")) return Condition::kIfLater;
  if (IsOption(text, "LT")) return Condition::kIfEarlier;
  return std::nullopt;
}

bool IsMet(Condition condition, int64_t present_ms, int64_t at_ms) {
  switch (condition) {
    case Condition::kNone:
      return true;
    case Condition::kIfNone:
      return present_ms == kNoDeadline;
    case Condition::kIfSome:
      return present_ms != kNoDeadline;
    case Condition::kIfLater:
      return at_ms > present_ms;
    case Condition::kIfEarlier:
      return at_ms < present_ms;
  }
  return false;
}

// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]. No deadline is later
// than all.
void ExpireFields(ShardContext& cx, Args args, int64_t unit_ms, int64_t base_ms,
                  std::string_view command, ReplySink& reply) {
  const auto at_ms = ParseDeadline(kMemberDeadline, args[2], unit_ms, base_ms, command, reply);
  if (!at_ms) return;
  const std::optional<Condition> condition = ParseCondition(args[3]);
  const auto fields = ParseFields(args.from(condition ? 4 : 3), 1, reply);
  if (!fields) return;
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return ReplyWithAll(kAbsent, fields->size(), reply);
  HashValue hash = HashOf(cx, value);
  DeadlineChanges changes;
  reply.Array(fields->size());
  for (std::string_view field : *fields) {
    MemberAnswer answer = kAbsent;
    if (const std::optional<int64_t> present_ms = hash.Deadline(field)) {
      const bool is_met = IsMet(condition.value_or(Condition::kNone), *present_ms, *at_ms);
      answer = is_met ? SetMemberDeadline(cx, hash, field, *at_ms) : kNotMet;
    }
    changes.Count(cx, field, answer);
    reply.Integer(answer);
  }
  changes.Report(cx, args.key(), kFieldEvents, *at_ms);
}

void HExpire(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireFields(cx, args, 1000, cx.now_ms(), "hexpire", reply);
}
void HPExpire(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireFields(cx, args, 1, cx.now_ms(), "hpexpire", reply);
}
void HExpireAt(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireFields(cx, args, 1000, 0, "hexpireat", reply);
}
void HPExpireAt(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireFields(cx, args, 1, 0, "hpexpireat", reply);
}

// HPERSIST key FIELDS numfields field [field ...]
void HPersist(ShardContext& cx, Args args, ReplySink& reply) {
  const auto fields = ParseFields(args.from(2), 1, reply);
  if (!fields) return;
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return ReplyWithAll(kAbsent, fields->size(), reply);
  HashValue hash = HashOf(cx, value);
  size_t persisted = 0;
  ChangedNames names(cx);
  reply.Array(fields->size());
  for (std::string_view field : *fields) {
    const bool had_one = hash.ClearDeadline(field);
    persisted += had_one;
    if (had_one) names.Add(field);
    reply.Integer(had_one ? kDone : hash.Has(field) ? kHasNone : kAbsent);
  }
  if (persisted > 0) cx.ChangedFields(args.key(), KeyEvent::kHPersist, names, persisted);
}

// --- HTTL and its relatives ---

// Milliseconds from `base_ms` to each deadline, in units of `unit_ms`, rounded up.
void ReplyDeadlines(ShardContext& cx, Args args, int64_t unit_ms, int64_t base_ms,
                    ReplySink& reply) {
  const auto fields = ParseFields(args.from(2), 1, reply);
  if (!fields) return;
  const auto value = cx.FindReadOnly(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return ReplyWithAll(kAbsent, fields->size(), reply);
  const HashValue hash = HashOf(cx, value);
  reply.Array(fields->size());
  for (std::string_view field : *fields) {
    const std::optional<int64_t> at_ms = hash.Deadline(field);
    if (!at_ms) {
      reply.Integer(kAbsent);
    } else if (*at_ms == kNoDeadline) {
      reply.Integer(kHasNone);
    } else {
      reply.Integer((*at_ms - base_ms + unit_ms - 1) / unit_ms);
    }
  }
}

void HTtl(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyDeadlines(cx, args, 1000, cx.now_ms(), reply);
}
void HPTtl(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyDeadlines(cx, args, 1, cx.now_ms(), reply);
}
void HExpireTime(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyDeadlines(cx, args, 1000, 0, reply);
}
void HPExpireTime(ShardContext& cx, Args args, ReplySink& reply) {
  ReplyDeadlines(cx, args, 1, 0, reply);
}

// --- Fields with their deadlines ---

// What stands before FIELDS in HGETEX and HSETEX.
struct FieldOptions {
  std::optional<int64_t> at_ms;  // EX, PX, EXAT, PXAT
  bool persist = false;
  bool keep_ttl = false;
  bool if_no_key = false;   // NX: the key does not exist
  bool if_key = false;      // XX: it does
  bool if_absent = false;   // FNX: none of the fields exists
  bool if_present = false;  // FXX: all of them do
  std::span<const std::string_view> fields;
};

// Replies the error and returns none if they are not valid.
std::optional<FieldOptions> ParseFieldOptions(const ShardContext& cx, Args args, bool of_set,
                                              ReplySink& reply) {
  const std::string_view only_one =
      of_set ? "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"
             : "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified";
  FieldOptions options;
  size_t i = 2;
  for (; i < args.size() && !IsOption(args[i], "FIELDS"); ++i) {
    const bool has_other = options.at_ms || options.persist || options.keep_ttl;
    if (const DeadlineUnit* const unit = FindDeadlineUnit(args[i])) {
      if (has_other) return Refuse(reply, only_one);
      if (i + 1 == args.size()) return Refuse(reply, kErrSyntax);
      options.at_ms =
          ParseDeadline(kMemberDeadline, args[++i], unit->unit_ms, unit->base_ms(cx.now_ms()),
                        of_set ? "hsetex" : "hgetex", reply);
      if (!options.at_ms) return std::nullopt;
    } else if (!of_set && IsOption(args[i], "PERSIST")) {
      if (has_other) return Refuse(reply, only_one);
      options.persist = true;
    } else if (of_set && IsOption(args[i], "KEEPTTL")) {
      if (has_other) return Refuse(reply, only_one);
      options.keep_ttl = true;
    } else if (of_set && (IsOption(args[i], "FNX") || IsOption(args[i], "FXX"))) {
      if (options.if_absent || options.if_present) {
        return Refuse(reply, "ERR Only one of FXX or FNX arguments can be specified");
      }
      (IsOption(args[i], "FNX") ? options.if_absent : options.if_present) = true;
    } else if (of_set && (IsOption(args[i], "NX") || IsOption(args[i], "XX"))) {
      (IsOption(args[i], "NX") ? options.if_no_key : options.if_key) = true;
      if (options.if_no_key && options.if_key) return Refuse(reply, kErrSyntax);
    } else {
      return Refuse(reply, kErrNoFields);
    }
  }
  const auto fields = ParseFields(args.from(i), of_set ? 2 : 1, reply);
  if (!fields) return std::nullopt;
  options.fields = *fields;
  return options;
}

void ReplyWithNulls(size_t count, ReplySink& reply) {
  reply.Array(count);
  for (; count > 0; --count) reply.Null();
}

// HGETEX key [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | PERSIST]
// FIELDS numfields field [field ...]
void HGetEx(ShardContext& cx, Args args, ReplySink& reply) {
  const auto options = ParseFieldOptions(cx, args, false, reply);
  if (!options) return;
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return ReplyWithNulls(options->fields.size(), reply);
  HashValue hash = HashOf(cx, value);
  DeadlineChanges changes;
  size_t persisted = 0;
  ChangedNames names(cx);
  reply.Array(options->fields.size());
  for (std::string_view field : options->fields) {
    ReplyWithField(hash, field, reply);
    if (options->persist && hash.ClearDeadline(field)) {
      ++persisted;
      names.Add(field);
    }
    if (options->at_ms && hash.Has(field)) {
      changes.Count(cx, field, SetMemberDeadline(cx, hash, field, *options->at_ms));
    }
  }
  if (persisted > 0) {
    cx.ChangedFields(args.key(), KeyEvent::kHPersist, names, persisted);
    if (cx.wants_effects()) {
      const EffectWord count(options->fields.size());
      std::vector<std::string_view> words = {"HPERSIST", args.key(), "FIELDS", count.text()};
      words.insert(words.end(), options->fields.begin(), options->fields.end());
      cx.TellAll(words);
    }
  }
  changes.Report(cx, args.key(), kFieldEvents, options->at_ms.value_or(0));
}

// Whether NX, XX, FNX and FXX let HSETEX set its pairs; `hash` is null for an absent key.
bool IsMet(const FieldOptions& options, const HashValue* hash) {
  if (options.if_no_key && hash != nullptr) return false;
  if (options.if_key && hash == nullptr) return false;
  if (!options.if_absent && !options.if_present) return true;
  for (size_t i = 0; i < options.fields.size(); i += 2) {
    const bool exists = hash != nullptr && hash->Has(options.fields[i]);
    if (exists != options.if_present) return false;
  }
  return true;
}

// HSET, which lets deadlines go; those that are kept are set again.
void TellSet(ShardContext& cx, std::string_view key, const FieldOptions& options,
             const HashValue& hash) {
  TellNamed(cx, "HSET", key, options.fields);
  if (!options.keep_ttl) return;
  for (size_t i = 0; i < options.fields.size(); i += 2) {
    const std::string_view field = options.fields[i];
    const int64_t at_ms = hash.Deadline(field).value_or(kNoDeadline);
    if (at_ms != kNoDeadline) TellDeadlines(cx, key, kFieldEvents, at_ms, {&field, 1});
  }
}

// HSETEX key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time |
// PXAT unix-time-ms | KEEPTTL] FIELDS numfields field value [field value ...]. All of them or none.
void HSetEx(ShardContext& cx, Args args, ReplySink& reply) {
  const auto options = ParseFieldOptions(cx, args, true, reply);
  if (!options) return;
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  std::optional<HashValue> hash;
  if (value) hash.emplace(HashOf(cx, value));
  if (!IsMet(*options, hash ? &*hash : nullptr)) return reply.Integer(0);
  const bool is_over = options->at_ms && *options->at_ms <= cx.now_ms();
  if (!hash && is_over) return reply.Integer(1);  // nothing would be left
  if (!hash) {
    value = cx.FindOrCreate(args.key(), ValueType::kHash);
    hash.emplace(HashOrNew(cx, value));
  }
  const auto old_deadline =
      options->keep_ttl ? HashValue::OldDeadline::kKeep : HashValue::OldDeadline::kDrop;
  DeadlineChanges changes;
  for (size_t i = 0; i < options->fields.size(); i += 2) {
    const std::string_view field = options->fields[i];
    if (is_over) {
      if (hash->Erase(field)) changes.Count(cx, field, kErased);
      continue;
    }
    hash->Set(field, options->fields[i + 1], cx.shard().hash_limit(), old_deadline);
    if (options->at_ms) {
      changes.Count(cx, field, SetMemberDeadline(cx, *hash, field, *options->at_ms));
    }
  }
  if (!is_over) {
    hash->ShareNames();
    if (cx.wants_effects()) TellSet(cx, args.key(), *options, *hash);
    ChangedNames names(cx);
    names.AddPairs(options->fields);
    cx.ChangedFields(args.key(), KeyEvent::kHSet, names, options->fields.size() / 2);
  }
  changes.Report(cx, args.key(), kFieldEvents, options->at_ms.value_or(0));
  reply.Integer(1);
}

// HGETDEL key FIELDS numfields field [field ...]
void HGetDel(ShardContext& cx, Args args, ReplySink& reply) {
  const auto fields = ParseFields(args.from(2), 1, reply);
  if (!fields) return;
  auto value = cx.FindMutable(args.key(), ValueType::kHash);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return ReplyWithNulls(fields->size(), reply);
  HashValue hash = HashOf(cx, value);
  size_t erased = 0;
  ChangedNames names(cx);
  reply.Array(fields->size());
  for (std::string_view field : *fields) {
    ReplyWithField(hash, field, reply);
    if (!hash.Erase(field)) continue;
    ++erased;
    names.Add(field);
  }
  if (erased == 0) return;
  cx.ChangedFields(args.key(), KeyEvent::kHDel, names, erased);
  if (cx.wants_effects()) TellNamed(cx, "HDEL", args.key(), *fields);
}

}  // namespace

void RegisterHashDeadlineCommands(CommandTable* table) {
  static constexpr std::string_view kForFields = "O(N) where N is the number of fields given.";
  const FamilyRows add(table, "hash", kAclHash);
  constexpr uint32_t kExpire = kWrite | kDenyOom | kFast;
  constexpr uint32_t kTell = kReadonly | kFast;
  constexpr std::string_view kRandomOutput = "nondeterministic_output";
  add("hexpire", HExpire, -6, kExpire, KeyAt(1), "Sets deadlines of fields in seconds from now.",
      "7.4.0", kForFields);
  add("hpexpire", HPExpire, -6, kExpire, KeyAt(1),
      "Sets deadlines of fields in milliseconds from now.", "7.4.0", kForFields);
  add("hexpireat", HExpireAt, -6, kExpire, KeyAt(1),
      "Sets deadlines of fields as a Unix time in seconds.", "7.4.0", kForFields);
  add("hpexpireat", HPExpireAt, -6, kExpire, KeyAt(1),
      "Sets deadlines of fields as a Unix time in milliseconds.", "7.4.0", kForFields);
  add("httl", HTtl, -5, kTell, KeyAt(1, "RO access"),
      "Returns the seconds until fields' deadlines.", "7.4.0", kForFields, kRandomOutput);
  add("hpttl", HPTtl, -5, kTell, KeyAt(1, "RO access"),
      "Returns the milliseconds until fields' deadlines.", "7.4.0", kForFields, kRandomOutput);
  add("hexpiretime", HExpireTime, -5, kTell, KeyAt(1, "RO access"),
      "Returns deadlines of fields as Unix times in seconds.", "7.4.0", kForFields);
  add("hpexpiretime", HPExpireTime, -5, kTell, KeyAt(1, "RO access"),
      "Returns deadlines of fields as Unix times in milliseconds.", "7.4.0", kForFields);
  add("hpersist", HPersist, -5, kWrite | kFast, KeyAt(1), "Removes deadlines of fields.", "7.4.0",
      kForFields);
  add("hgetex", HGetEx, -5, kWrite | kFast, KeyAt(1, "RW access update"),
      "Returns the values of fields and changes their deadlines.", "8.0.0", kForFields);
  add("hsetex", HSetEx, -6, kExpire, KeyAt(1), "Sets fields together with their deadlines.",
      "8.0.0", kForFields);
  add("hgetdel", HGetDel, -5, kWrite | kFast, KeyAt(1, "RW access delete"),
      "Returns the values of fields and removes these.", "8.0.0", kForFields);
}

}  // namespace dfly
