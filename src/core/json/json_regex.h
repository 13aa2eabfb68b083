// SPDX-License-Identifier: Apache-2.0
// Regular expressions of paths. RE2 looks at a text in linear time. It does not bound what it takes
// to parse a pattern: a class of Unicode takes 60 us and 12 KB. So patterns are short.
#pragma once

#include <re2/re2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace dfly {

inline constexpr size_t kJsonRegexMax = 1024;

// To compile it, in visits of some 6 ns: at least what the dearest patterns of that size took.
inline uint64_t JsonRegexWork(std::string_view pattern) {
  const bool has_classes = pattern.find("\\p") != SIZE_MAX || pattern.find("\\P") != SIZE_MAX;
  const bool is_large = has_classes || pattern.find('{') != SIZE_MAX;
  return 2'000 + (is_large ? 60'000 : 0) + (has_classes ? 4'000 : 100) * pattern.size();
}

// Null if it is none, or takes too much. REQUIRES: it has at most kJsonRegexMax bytes.
inline std::unique_ptr<re2::RE2> CompileJsonRegex(std::string_view pattern) {
  constexpr int64_t kBytesMax = 1 << 16;
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kBytesMax);
  auto regex =
      std::make_unique<re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!regex->ok()) return nullptr;
  return regex;
}

}  // namespace dfly
