// SPDX-License-Identifier: Apache-2.0
#include "server/care/script_args.h"

#include <cstddef>
#include <cstdint>

#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

ScriptArgs ScriptArgsOf(Args args) {
  const auto count = static_cast<size_t>(*ParseInt64(args[2]));
  return {.command = args.all(),
          .keys = args.all().subspan(3, count),
          .args = args.all().subspan(3 + count)};
}

std::optional<std::string> CheckScriptArgs(Args args) {
  const std::optional<int64_t> count = ParseInt64(args[2]);
  if (!count) return std::string(kErrNotInteger);
  if (*count < 0) return "ERR Number of keys can't be negative";
  if (static_cast<uint64_t>(*count) > args.size() - 3) {
    return "ERR Number of keys can't be greater than number of args";
  }
  return {};
}

}  // namespace dfly
