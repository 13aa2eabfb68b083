// SPDX-License-Identifier: Apache-2.0
#include "facade/parsers/quoted_words.h"

#include "facade/parsers/escapes.h"
#include "helio/base/ascii.h"

namespace dfly {

namespace {

bool EndsWord(char c) { return helio::IsBlank(c) || c == '\0'; }

// Reads a quoted part of `line` that begins at `*at`, behind the quote. False: it has no end.
bool ReadQuoted(std::string_view line, char quote, size_t* at, std::string* word) {
  size_t i = *at;
  for (; i < line.size() && line[i] != quote; ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      word->push_back(line[i]);
      continue;
    }
    ++i;
    if (quote == '\'') {
      if (line[i] != '\'') word->push_back('\\');
      word->push_back(line[i]);
      continue;
    }
    if (line[i] == 'x' && i + 2 < line.size()) {
      const int high = HexValue(line[i + 1]);
      const int low = HexValue(line[i + 2]);
      if (high >= 0 && low >= 0) {
        word->push_back(static_cast<char>(high * 16 + low));
        i += 2;
        continue;
      }
    }
    word->push_back(Unescape(line[i]));
  }
  *at = i + 1;
  return i < line.size();
}

}  // namespace

std::optional<std::vector<std::string>> SplitQuoted(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  while (true) {
    while (at < line.size() && EndsWord(line[at])) ++at;
    if (at == line.size()) return words;
    std::string& word = words.emplace_back();
    while (at < line.size() && !EndsWord(line[at])) {
      const char c = line[at++];
      if (c != '"' && c != '\'') {
        word.push_back(c);
        continue;
      }
      if (!ReadQuoted(line, c, &at, &word)) return {};
      if (at < line.size() && !EndsWord(line[at])) return {};
    }
  }
}

}  // namespace dfly
