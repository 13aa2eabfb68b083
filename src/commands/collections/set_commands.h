// SPDX-License-Identifier: Apache-2.0
// What the files of the set family share.
#pragma once

#include <cstddef>
#include <string_view>

#include "commands/table/command_table.h"
#include "commands/table/long_reads.h"
#include "core/types/set_value.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {

// The set of a key that was found, at the time of the command.
inline SetValue SetOf(const ShardContext& cx, const ShardContext::WriteHandle& value) {
  return SetValue(&*value, cx.now_ms());
}
inline const SetValue SetOf(const ShardContext& cx, const ShardContext::ReadHandle& value) {
  return SetValue(*value, cx.now_ms());
}
// The set of a key that FindOrCreate gave; a new one gets a set for about `expected` members like
// this one, which must be filled.
inline SetValue SetOrNew(const ShardContext& cx, const ShardContext::WriteHandle& value,
                         std::string_view member, size_t expected, const SetLimit& limit) {
  if (value.was_created()) {
    SetValue::Create(&*value, member, expected, limit);
  } else {
    SetOf(cx, value).Expect(expected, limit);
  }
  return SetOf(cx, value);
}

// SMEMBERS of a large set, or SUNION. Suspends.
void ShowInSlices(CoordinatorContext& cx, Args args, ReplySink& reply);
// SINTER, SUNION and SDIFF with their relatives (set_operations.cc).
void RegisterSetOperations(CommandTable* table);

}  // namespace dfly
