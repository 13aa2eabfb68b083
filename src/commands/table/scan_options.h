// SPDX-License-Identifier: Apache-2.0
// What SCAN and its relatives for one key (HSCAN, SSCAN, ZSCAN) have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "commands/table/args.h"
#include "facade/replies/reply_sink.h"

namespace dfly {

// Redis reads the cursor with strtoul: the empty text is 0, a sign is taken, what follows a NUL is
// not seen.
std::optional<uint64_t> ParseCursor(std::string_view text);

// [MATCH pattern] [COUNT count] [NOVALUES], of a walk over the members of one key.
struct MemberScanOptions {
  std::optional<std::string_view> pattern;
  uint64_t count = 10;  // the members to look at, about
  bool has_values = true;

  bool Accepts(std::string_view member) const;
};

// Replies the error and returns none if they are not valid.
std::optional<MemberScanOptions> ParseMemberScanOptions(std::span<const std::string_view> args,
                                                        bool may_leave_out_values,
                                                        ReplySink& reply);

// Walks from `cursor` on with scan(cursor) -> the next one, which adds to *seen, until there is
// enough or nothing left. Bounded also in a table with many holes. Returns the next cursor.
template <typename Scan>
uint32_t ScanSome(uint32_t cursor, const MemberScanOptions& options, const uint64_t* seen,
                  Scan&& scan) {
  for (uint64_t buckets = 0;;) {
    cursor = scan(cursor);
    ++buckets;
    if (cursor == 0 || *seen >= options.count || buckets / 10 >= options.count) return cursor;
  }
}

}  // namespace dfly
