// SPDX-License-Identifier: Apache-2.0
// DUMP and RESTORE, and what ends such payloads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commands/table/command_table.h"
#include "core/text/rdb_encoding.h"
#include "helio/fibers/long_work.h"

namespace dfly {

inline constexpr std::string_view kErrDumpPayload =
    "ERR DUMP payload version or checksum are wrong";

// Appends the version, and the checksum of all before it.
void SealPayload(std::string* payload, uint16_t version = kRdbVersionWritten);
struct Payload {
  std::string_view bytes;  // what is in front of the version
  uint16_t version;
};
// None: the checksum is wrong. Any version is welcome (kRdbVersionDeadlines tells why). With `work`
// it suspends now and then.
std::optional<Payload> UnsealPayload(std::string_view payload, helio::LongWork* work = nullptr);

void RegisterDump(CommandTable* table);

}  // namespace dfly
