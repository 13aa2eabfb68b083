// SPDX-License-Identifier: Apache-2.0
// Members of sets with deadlines, and what is the same for fields of hashes, as Dragonfly documents
// it: SADDEX, FIELDEXPIRE, FIELDTTL. Redis has no such commands.
//
// A member whose deadline has passed is absent for every command at once (core/types/set_value.h);
// who erases it, and the key with the last one, is told in engine/keyspace/database.h. Here
// deadlines are only set and told.
#include "commands/collections/member_deadlines.h"

#include "commands/collections/hash_deadlines.h"
#include "commands/collections/set_commands.h"
#include "commands/table/numbers.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

void ReplyWithAll(MemberAnswer answer, size_t count, ReplySink& reply) {
  reply.Array(count);
  for (; count > 0; --count) reply.Integer(answer);
}

void TellNamed(ShardContext& cx, std::string_view command, std::string_view key,
               std::span<const std::string_view> names) {
  std::vector<std::string_view> words = {command, key};
  words.insert(words.end(), names.begin(), names.end());
  cx.TellAll(words);
}

void TellDeadlines(ShardContext& cx, std::string_view key, const DeadlineEvents& events,
                   int64_t at_ms, std::span<const std::string_view> names) {
  const EffectWord at(at_ms);
  const EffectWord count(names.size());
  std::vector<std::string_view> words;
  if (events.set == KeyEvent::kHExpire) {
    words = {"HPEXPIREAT", key, at.text(), "FIELDS", count.text()};
  } else {
    words = {"FIELDPEXPIREAT", key, at.text()};
  }
  words.insert(words.end(), names.begin(), names.end());
  cx.TellAll(words);
}

namespace {

// SADDEX key [KEEPTTL] seconds member [member ...]. Errors are worded as SETEX does.
void SAddEx(ShardContext& cx, Args args, ReplySink& reply) {
  const bool keep_ttl = IsOption(args[2], "KEEPTTL");
  const auto words = args.from(keep_ttl ? 3 : 2);
  if (words.size() < 2) return reply.Error(WrongArityError("saddex"));
  const std::optional<int64_t> seconds = ParseInt64(words[0]);
  if (seconds && *seconds <= 0) return reply.Error(InvalidExpireError("saddex"));
  const auto at_ms = ParseDeadline(kMemberDeadline, words[0], 1000, cx.now_ms(), "saddex", reply);
  if (!at_ms) return;
  auto value = cx.FindOrCreate(args.key(), ValueType::kSet);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  const auto members = words.subspan(1);
  const SetLimit& limit = cx.shard().set_limit();
  SetValue set = SetOrNew(cx, value, members[0], members.size(), limit);
  size_t added = 0;
  DeadlineChanges changes;
  for (std::string_view member : members) {
    const bool is_new = set.Add(member, limit);
    added += is_new;
    if (is_new || !keep_ttl) changes.Count(cx, member, SetMemberDeadline(cx, set, member, *at_ms));
  }
  if (added > 0) cx.Changed(args.key(), KeyEvent::kSAdd, added);
  if (cx.wants_effects()) TellNamed(cx, "SADD", args.key(), members);
  changes.Report(cx, args.key(), kMemberEvents, *at_ms);
  reply.Integer(static_cast<int64_t>(added));
}

// `Value` is HashValue or SetValue.
template <typename Value>
void ExpireAll(ShardContext& cx, Args args, Value value, int64_t at_ms,
               const DeadlineEvents& events, ReplySink& reply) {
  const auto members = args.from(3);
  DeadlineChanges changes;
  reply.Array(members.size());
  for (std::string_view member : members) {
    const MemberAnswer answer =
        value.Has(member) ? SetMemberDeadline(cx, value, member, at_ms) : kAbsent;
    changes.Count(cx, member, answer);
    reply.Integer(answer);
  }
  changes.Report(cx, args.key(), events, at_ms);
}

// FIELDEXPIRE key seconds member [member ...], of a hash or a set.
void ExpireMembers(ShardContext& cx, Args args, int64_t unit_ms, int64_t base_ms,
                   std::string_view command, ReplySink& reply) {
  const auto at_ms = ParseDeadline(kMemberDeadline, args[2], unit_ms, base_ms, command, reply);
  if (!at_ms) return;
  auto value = cx.FindMutable(args.key());
  if (!value) return ReplyWithAll(kAbsent, args.size() - 3, reply);
  switch (value->type()) {
    case ValueType::kHash:
      return ExpireAll(cx, args, HashOf(cx, value), *at_ms, kFieldEvents, reply);
    case ValueType::kSet:
      return ExpireAll(cx, args, SetOf(cx, value), *at_ms, kMemberEvents, reply);
    default:
      reply.Error(kErrWrongType);
  }
}

void FieldExpire(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireMembers(cx, args, 1000, cx.now_ms(), "fieldexpire", reply);
}
void FieldPExpireAt(ShardContext& cx, Args args, ReplySink& reply) {
  ExpireMembers(cx, args, 1, 0, "fieldpexpireat", reply);
}

// FIELDTTL key member, of a hash or a set. It tells an absent key from an absent member.
void FieldTtl(ShardContext& cx, Args args, ReplySink& reply) {
  constexpr int64_t kAbsentKey = -2;
  constexpr int64_t kAbsentMember = -3;
  const auto value = cx.FindReadOnly(args.key());
  if (!value) return reply.Integer(kAbsentKey);
  std::optional<int64_t> at_ms;
  switch (value->type()) {
    case ValueType::kHash:
      at_ms = HashOf(cx, value).Deadline(args[2]);
      break;
    case ValueType::kSet:
      at_ms = SetOf(cx, value).Deadline(args[2]);
      break;
    default:
      return reply.Error(kErrWrongType);
  }
  if (!at_ms) return reply.Integer(kAbsentMember);
  if (*at_ms == kNoDeadline) return reply.Integer(kHasNone);
  reply.Integer((*at_ms - cx.now_ms() + 999) / 1000);
}

}  // namespace

void RegisterMemberDeadlineCommands(CommandTable* table) {
  table->Add({.name = "saddex",
              .run = SAddEx,
              .arity = -4,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclSet,
              .keys = KeyAt(1, "RW insert"),
              .docs = {"Adds members to a set that leave it after so many seconds.", "7.2.0", "set",
                       "O(N) where N is the number of members that are named."}});
  table->Add({.name = "fieldexpire",
              .run = FieldExpire,
              .arity = -4,
              .flags = kWrite | kDenyOom | kFast,
              .categories = kAclSet | kAclHash,
              .keys = KeyAt(1, "RW update"),
              .docs = {"Sets deadlines of a hash's fields or a set's members in seconds from now.",
                       "7.2.0", "generic", "O(N) where N is the number of those that are named."}});
  table->Add(
      {.name = "fieldpexpireat",
       .run = FieldPExpireAt,
       .arity = -4,
       .flags = kWrite | kDenyOom | kFast,
       .categories = kAclSet | kAclHash,
       .keys = KeyAt(1, "RW update"),
       .docs = {"Sets deadlines of a hash's fields or a set's members, in Unix milliseconds.",
                "7.2.0", "generic", "O(N) where N is the number of those that are named."}});
  table->Add(
      {.name = "fieldttl",
       .run = FieldTtl,
       .arity = 3,
       .flags = kReadonly | kFast,
       .categories = kAclKeyspace,
       .keys = KeyAt(1, "RO access"),
       .docs = {"Returns the seconds until the deadline of a hash's field or a set's member.",
                "7.2.0", "generic", "O(1)"},
       .tips = "nondeterministic_output"});
}

}  // namespace dfly
