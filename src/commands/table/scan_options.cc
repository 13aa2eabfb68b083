// SPDX-License-Identifier: Apache-2.0
#include "commands/table/scan_options.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "commands/table/args.h"
#include "core/text/glob.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

std::optional<uint64_t> ParseCursor(std::string_view text) {
  const std::string terminated(text);
  char* end = nullptr;
  errno = 0;
  const uint64_t cursor = std::strtoull(terminated.c_str(), &end, 10);
  const bool has_space = std::isspace(static_cast<unsigned char>(terminated.c_str()[0])) != 0;
  if (has_space || *end != '\0' || errno == ERANGE) return std::nullopt;
  return cursor;
}

bool MemberScanOptions::Accepts(std::string_view member) const {
  return !pattern || *pattern == "*" || GlobMatch(*pattern, member);
}

std::optional<MemberScanOptions> ParseMemberScanOptions(std::span<const std::string_view> args,
                                                        bool may_leave_out_values,
                                                        std::string_view* error) {
  MemberScanOptions options;
  const auto refuse = [error](std::string_view text) -> std::optional<MemberScanOptions> {
    *error = text;
    return {};
  };
  for (size_t i = 0; i < args.size(); ++i) {
    const bool has_value = i + 1 < args.size();
    if (has_value && IsOption(args[i], "COUNT")) {
      const std::optional<int64_t> count = ParseInt64(args[++i]);
      if (!count || *count < 1) return refuse(count ? kErrSyntax : kErrNotInteger);
      options.count = static_cast<uint64_t>(*count);
    } else if (has_value && IsOption(args[i], "MATCH")) {
      options.pattern = args[++i];
    } else if (may_leave_out_values && IsOption(args[i], "NOVALUES")) {
      options.has_values = false;
    } else {
      return refuse(kErrSyntax);
    }
  }
  return options;
}

}  // namespace dfly
