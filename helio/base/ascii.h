// SPDX-License-Identifier: Apache-2.0
// Letters, blanks and words of ASCII, whatever the locale. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace helio {

constexpr char ToLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr char ToUpper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

inline std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), ToLower);
  return out;
}
inline std::string UpperCase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), ToUpper);
  return out;
}

constexpr bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return ToLower(x) == ToLower(y); });
}

// What isspace() takes in the C locale.
constexpr bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The words between blanks: views into `text`.
inline std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const auto* const begin = std::find_if_not(text.begin(), text.end(), IsBlank);
    const auto* const end = std::find_if(begin, text.end(), IsBlank);
    if (begin == end) return words;
    words.emplace_back(begin, static_cast<size_t>(end - begin));
    text.remove_prefix(static_cast<size_t>(end - text.begin()));
  }
}

}  // namespace helio
