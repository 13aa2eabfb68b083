// SPDX-License-Identifier: Apache-2.0
// What SCAN and its relatives for one key (HSCAN, SSCAN, ZSCAN) have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

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

// None, with *error, if they are not valid.
std::optional<MemberScanOptions> ParseMemberScanOptions(std::span<const std::string_view> args,
                                                        bool may_leave_out_values,
                                                        std::string_view* error);

}  // namespace dfly
