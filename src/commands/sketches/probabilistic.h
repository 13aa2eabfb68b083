// SPDX-License-Identifier: Apache-2.0
// What the families of BF.*, CMS.* and TOPK.* share. Replies and errors are those of RedisBloom.
#pragma once

#include <string_view>

#include "commands/table/command_table.h"
#include "core/table/compact_value.h"

namespace dfly {

// An object would take more than one string may have.
inline constexpr std::string_view kErrTooLarge =
    "ERR it would take more bytes than --max_bulk_len allows";

// REQUIRES: the value's type is that of T.
template <typename T>
const T& ObjectIn(const CompactValue& value) {
  return *static_cast<const T*>(value.object());
}
template <typename T>
T& ObjectIn(CompactValue& value) {
  return *static_cast<T*>(value.object());
}

void RegisterBloomFilterCommands(CommandTable* table);
void RegisterCountMinSketchCommands(CommandTable* table);
void RegisterTopKCommands(CommandTable* table);

}  // namespace dfly
