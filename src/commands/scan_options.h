// SPDX-License-Identifier: Apache-2.0
// What SCAN, SSCAN and their like are asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "facade/reply_sink.h"

namespace dfly {

struct ScanOptions {
  std::optional<std::string_view> pattern;  // MATCH
  std::optional<std::string> type;          // TYPE, in lower case
  uint64_t count = 10;                      // COUNT: so many to look at, about

  // TYPE aside.
  bool Accepts(std::string_view name) const;
  // Enough for one call. `buckets` bounds the way through a table with many holes, as in Redis.
  bool IsEnough(uint64_t seen, uint64_t buckets) const {
    return seen >= count || buckets / 10 >= count;
  }
};

// Redis reads the cursor with strtoul: the empty text is 0, a sign is taken, what follows a NUL is
// not seen.
std::optional<uint64_t> ParseCursor(std::string_view text);

// [MATCH pattern] [COUNT count], and [TYPE type] where that makes sense. Replies the error and
// returns none if they are not valid. `args` must outlive it.
std::optional<ScanOptions> ParseScanOptions(std::span<const std::string_view> args, bool with_type,
                                            ReplySink& reply);

}  // namespace dfly
