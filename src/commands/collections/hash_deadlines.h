// SPDX-License-Identifier: Apache-2.0
// The commands for deadlines of fields, and what they share with hash.cc.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

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

// The fields that a command has changed, for ShardContext::ChangedFields: none if nobody hears of
// them.
class ChangedNames {
 public:
  explicit ChangedNames(const ShardContext& cx) : is_wanted_(cx.tells_fields()) {}
  void Add(std::string_view field) {
    if (is_wanted_) [[unlikely]]
      names_.push_back(field);
  }
  // Each second word: the names of pairs.
  void AddPairs(std::span<const std::string_view> pairs) {
    for (size_t i = 0; is_wanted_ && i < pairs.size(); i += 2) names_.push_back(pairs[i]);
  }
  operator std::span<const std::string_view>() const { return names_; }

 private:
  const bool is_wanted_;
  std::vector<std::string_view> names_;
};

// For RegisterHashCommands.
void RegisterHashDeadlineCommands(CommandTable* table);

}  // namespace dfly
