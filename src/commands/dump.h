// SPDX-License-Identifier: Apache-2.0
// DUMP and RESTORE, and what ends such payloads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commands/command_table.h"
#include "core/rdb_encoding.h"

namespace dfly {

inline constexpr std::string_view kErrDumpPayload =
    "ERR DUMP payload version or checksum are wrong";

// Appends the version, and the checksum of all before it.
void SealPayload(std::string* payload, uint16_t version = kRdbVersionWritten);
// What is in front of them; none if they are not right.
std::optional<std::string_view> UnsealPayload(std::string_view payload);

void RegisterDump(CommandTable* table);

}  // namespace dfly
