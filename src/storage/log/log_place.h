// SPDX-License-Identifier: Apache-2.0
// Where a replica's log stands in its primary's stream: with it a replica that was stopped goes on
// without a full copy. The log itself cannot say so, as it counts bytes of its own.
//
//   #PLACE:1 <id> <offset> <database> <size> <file> <checksum>\n
//
// The line is a file of its own beside the log, written when the server ends. It counts if <file>
// is the last incremental still and has <size> bytes: nobody has written to the log since. The
// checksum is the CRC-32C of what is before it; it has 8 hex digits.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/snapshot_extras.h"

namespace dfly {

struct LogPlace {
  StreamPlace place;
  std::string file;   // the last incremental
  uint64_t size = 0;  // of it, in bytes

  bool operator==(const LogPlace&) const = default;
};

std::string FormatLogPlace(const LogPlace& place);
// None: it is not exactly as above.
std::optional<LogPlace> ParseLogPlace(std::string_view text);

}  // namespace dfly
