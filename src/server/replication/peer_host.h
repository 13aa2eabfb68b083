// SPDX-License-Identifier: Apache-2.0
// How the other end of a link may be called.
#pragma once

#include <algorithm>
#include <string_view>

namespace dfly {

// True if `text` may be the name or address of a host. INFO, ROLE, the log, CONFIG REWRITE and
// Sentinel have it between blanks, commas and line ends, so it must not contain any.
inline bool IsPeerHost(std::string_view text) {
  constexpr size_t kBytesMax = 255;
  return !text.empty() && text.size() <= kBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return c > ' ' && c <= '~' && c != ',' && c != '"' && c != '\'' && c != '\\';
         });
}

}  // namespace dfly
