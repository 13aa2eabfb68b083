// SPDX-License-Identifier: Apache-2.0
#include "commands/command_table.h"
#include "engine/shard_context.h"
#include "facade/error_texts.h"

namespace dfly {

namespace {

void Get(ShardContext& cx, Args args, ReplySink& reply) {
  auto value = cx.FindReadOnly(args.key(), ValueType::kString);
  if (value.is_wrong_type()) return reply.Error(kErrWrongType);
  if (!value) return reply.Null();
  char scratch[CompactValue::kScratchSize];
  reply.Bulk(value->View(scratch));
}

void Set(ShardContext& cx, Args args, ReplySink& reply) {
  cx.SetString(args.key(), args[2]);
  reply.Ok();
}

}  // namespace

void RegisterStringCommands(CommandTable* table) {
  table->Add({.name = "get",
              .run = Get,
              .arity = 2,
              .flags = kReadonly | kFast,
              .categories = kAclString,
              .keys = KeyAt(1)});
  table->Add({.name = "set",
              .run = Set,
              .arity = -3,
              .flags = kWrite | kDenyOom,
              .categories = kAclString,
              .keys = KeyAt(1)});
}

}  // namespace dfly
