// SPDX-License-Identifier: Apache-2.0
// The commands for deadlines of fields, and what they share with hash.cc.
#pragma once

#include <optional>
#include <string_view>

#include "commands/table/command_table.h"
#include "core/types/hash_value.h"
#include "engine/keyspace/shard_context.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

// The hash of a key that was found, at the time of the command.
inline HashValue HashOf(const ShardContext& cx, const ShardContext::WriteHandle& value) {
  return HashValue(&*value, cx.now_ms());
}
inline const HashValue HashOf(const ShardContext& cx, const ShardContext::ReadHandle& value) {
  return HashValue(*value, cx.now_ms());
}
// The hash of a key that FindOrCreate gave; a new one gets an empty hash, which must be filled.
inline HashValue HashOrNew(const ShardContext& cx, const ShardContext::WriteHandle& value) {
  if (value.was_created()) HashValue::Create(&*value);
  return HashOf(cx, value);
}

// The field's value, or null.
inline void ReplyWithField(const HashValue& hash, std::string_view field, ReplySink& reply) {
  char scratch[HashValue::kScratchSize];
  if (const auto text = hash.Get(field, scratch)) return reply.Bulk(*text);
  reply.Null();
}

// For RegisterHashCommands.
void RegisterHashDeadlineCommands(CommandTable* table);

}  // namespace dfly
