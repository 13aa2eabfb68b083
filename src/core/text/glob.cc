// SPDX-License-Identifier: Apache-2.0
#include "core/text/glob.h"

#include <cstdint>
#include <utility>

#include "helio/base/ascii.h"

namespace dfly {
namespace {

uint8_t Fold(char c, GlobCase letters) {
  return static_cast<uint8_t>(letters == GlobCase::kIgnore ? helio::ToLower(c) : c);
}

// Matches one byte against the pattern element at `at`, which is not '*', and moves `at` behind the
// element. Odd patterns mean what they mean in Redis: a class that is not closed ends with the
// pattern, a backslash at the very end stands for itself.
bool MatchElement(std::string_view pattern, size_t* at, char c, GlobCase letters) {
  size_t p = *at;
  const uint8_t byte = Fold(c, letters);
  bool match = false;
  switch (pattern[p]) {
    case '?':
      match = true;
      ++p;
      break;
    case '[': {
      ++p;
      const bool negated = p < pattern.size() && pattern[p] == '^';
      if (negated) ++p;
      while (true) {
        if (p >= pattern.size()) break;
        if (pattern[p] == '\\' && p + 1 < pattern.size()) {
          ++p;
          match |= Fold(pattern[p], letters) == byte;
        } else if (pattern[p] == ']') {
          ++p;
          break;
        } else if (p + 2 < pattern.size() && pattern[p + 1] == '-') {
          auto low = static_cast<uint8_t>(pattern[p]);
          auto high = static_cast<uint8_t>(pattern[p + 2]);
          if (low > high) std::swap(low, high);
          low = Fold(static_cast<char>(low), letters);
          high = Fold(static_cast<char>(high), letters);
          match |= byte >= low && byte <= high;
          p += 2;
        } else {
          match |= Fold(pattern[p], letters) == byte;
        }
        ++p;
      }
      if (negated) match = !match;
      break;
    }
    case '\\':
      if (p + 1 < pattern.size()) ++p;
      [[fallthrough]];
    default:
      match = Fold(pattern[p], letters) == byte;
      ++p;
  }
  *at = p;
  return match;
}

}  // namespace

// Greedy with one point of return: when the rest fails after a '*', only the last '*' takes one
// byte more. An earlier '*' never needs to, since the last one can swallow whatever it would have.
bool GlobMatch(std::string_view pattern, std::string_view text, GlobCase letters) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // behind the last '*'
  size_t star_text = 0;                  // where its match ends at present
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      if (p == pattern.size()) return true;
      continue;
    }
    if (t == text.size()) return p == pattern.size();
    if (p < pattern.size() && MatchElement(pattern, &p, text[t], letters)) {
      ++t;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star;
    t = ++star_text;
  }
}

}  // namespace dfly
