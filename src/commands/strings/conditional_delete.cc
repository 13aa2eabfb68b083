// SPDX-License-Identifier: Apache-2.0
// DELEX, DELIFEQ and DIGEST: to delete a string that is still what the client thinks it is. SET has
// the same conditions (string_options.h).
#include <string_view>

#include "commands/strings/string_options.h"
#include "commands/table/command_table.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/error_texts.h"

namespace dfly {

namespace {

void DeleteAndReply(ShardContext& cx, std::string_view key, ReplySink& reply) {
  const bool is_deleted = cx.Delete(key);
  if (is_deleted && cx.wants_effects()) cx.Tell("DEL", key);
  reply.Integer(is_deleted ? 1 : 0);
}

void DeleteIf(ShardContext& cx, std::string_view key, const ValueCondition& condition,
              ReplySink& reply) {
  if (!condition.is_valid()) return reply.Error(kErrDigest);
  const auto value = cx.FindMutable(key, ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Integer(0);
  char scratch[CompactValue::kScratchSize];
  if (!condition.IsMetBy(value->View(scratch))) return reply.Integer(0);
  DeleteAndReply(cx, key, reply);
}

// DELEX key [IFEQ | IFNE | IFDEQ | IFDNE operand]. Without a condition: of any type.
void DelEx(ShardContext& cx, Args args, ReplySink& reply) {
  if (args.size() == 2) return DeleteAndReply(cx, args.key(), reply);
  if (args.size() != 4) return reply.Error(WrongArityError("delex"));
  const ValueCondition condition = {.kind = FindValueCondition(args[2]), .operand = args[3]};
  if (!condition) return reply.Error(kErrSyntax);
  DeleteIf(cx, args.key(), condition, reply);
}

void DelIfEq(ShardContext& cx, Args args, ReplySink& reply) {
  DeleteIf(cx, args.key(), {.kind = ValueCondition::Kind::kEqual, .operand = args[2]}, reply);
}

void Digest(ShardContext& cx, Args args, ReplySink& reply) {
  const auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Null();
  char scratch[CompactValue::kScratchSize];
  reply.Bulk(HexDigest(value->View(scratch)));
}

}  // namespace

void RegisterConditionalDeletes(CommandTable* table) {
  table->Add({.name = "delex",
              .run = DelEx,
              .arity = -2,
              .flags = kWrite | kFast,
              .categories = kAclString,
              .effect = EffectRule::kTold,
              .keys = KeyAt(1, "RW delete variable_flags"),
              .docs = {"Removes a key, if its string or the digest of that is as expected.",
                       "8.4.0", "string",
                       "O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE where N is the number of "
                       "bytes of the string."}});
  table->Add({.name = "delifeq",
              .run = DelIfEq,
              .arity = 3,
              .flags = kWrite | kFast,
              .categories = kAclString,
              .effect = EffectRule::kTold,
              .keys = KeyAt(1, "RM delete"),
              .docs = {"Removes a key whose string is as expected.", "9.0.0", "string", "O(1)"}});
  table->Add({.name = "digest",
              .run = Digest,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclString,
              .keys = KeyAt(1),
              .docs = {"Returns the XXH3 digest of a string in hexadecimal.", "8.4.0", "string",
                       "O(N) where N is the number of bytes of the string."}});
}

}  // namespace dfly
