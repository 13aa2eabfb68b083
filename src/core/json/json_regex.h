// SPDX-License-Identifier: Apache-2.0
// Regular expressions of paths. RE2 takes linear time and a bounded amount of memory.
#pragma once

#include <re2/re2.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace dfly {

// Null if it is none, or takes too much.
inline std::unique_ptr<re2::RE2> CompileJsonRegex(std::string_view pattern) {
  constexpr int64_t kBytesMax = 1 << 16;  // about a millisecond to make it
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kBytesMax);
  auto regex =
      std::make_unique<re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!regex->ok()) return nullptr;
  return regex;
}

}  // namespace dfly
