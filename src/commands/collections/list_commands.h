// SPDX-License-Identifier: Apache-2.0
// What the files of the list family share.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "commands/table/args.h"
#include "commands/table/command_table.h"
#include "core/types/quick_list.h"
#include "engine/keyspace/shard_context.h"

namespace dfly {

using ListEnd = QuickList::End;

inline QuickList& ListOf(CompactValue& value) { return *static_cast<QuickList*>(value.object()); }
inline const QuickList& ListOf(const CompactValue& value) {
  return *static_cast<const QuickList*>(value.object());
}

// The list of a key that FindOrCreate gave; a new one gets an empty list, which must be filled.
inline QuickList& ListOrNew(ShardContext::WriteHandle& value) {
  if (value.was_created()) {
    value->SetObject(ValueType::kList, std::make_unique<QuickList>().release(), 0);
  }
  return ListOf(*value);
}

inline const BlockLimit& ListLimitOf(ShardContext& cx) { return cx.shard().list_limit(); }

inline ListEnd Opposite(ListEnd end) {
  return end == ListEnd::kFront ? ListEnd::kBack : ListEnd::kFront;
}
inline KeyEvent PushEvent(ListEnd end) {
  return end == ListEnd::kFront ? KeyEvent::kLPush : KeyEvent::kRPush;
}
inline KeyEvent PopEvent(ListEnd end) {
  return end == ListEnd::kFront ? KeyEvent::kLPop : KeyEvent::kRPop;
}
inline std::string_view PopName(ListEnd end) { return end == ListEnd::kFront ? "LPOP" : "RPOP"; }

// LEFT or RIGHT.
inline std::optional<ListEnd> ParseListEnd(std::string_view text) {
  if (IsOption(text, "LEFT")) return ListEnd::kFront;
  if (IsOption(text, "RIGHT")) return ListEnd::kBack;
  return std::nullopt;
}

// LMOVE with its relatives (list_moves.cc).
void RegisterListMoves(CommandTable* table);

}  // namespace dfly
