// SPDX-License-Identifier: Apache-2.0
#include "server/redis_conf.h"

#include <fmt/format.h>

#include <algorithm>

#include "facade/escapes.h"
#include "server/words.h"

namespace dfly {

namespace {

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; }

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

std::optional<std::vector<std::string>> SplitConfigWords(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  while (true) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at == line.size()) return words;
    std::string& word = words.emplace_back();
    while (at < line.size() && !IsBlank(line[at])) {
      const char c = line[at++];
      if (c != '"' && c != '\'') {
        word.push_back(c);
        continue;
      }
      if (!ReadQuoted(line, c, &at, &word)) return {};
      if (at < line.size() && !IsBlank(line[at])) return {};
    }
  }
}

std::string QuoteConfigWord(std::string_view word) {
  const bool is_plain =
      !word.empty() && word[0] != '#' && std::all_of(word.begin(), word.end(), [](char c) {
        return c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\';
      });
  if (is_plain) return std::string(word);
  std::string quoted = "\"";
  for (char c : word) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      quoted += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c >= ' ' && c < 0x7f) {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return quoted + '"';
}

std::string ParseConfigText(std::string_view text, std::string_view name,
                            std::vector<ConfigLine>* lines) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    const size_t begin = line.find_first_not_of(" \t\r\n\v\f");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    const std::string where = fmt::format("{}:{}", name, number);
    auto words = SplitConfigWords(line);
    if (!words) return fmt::format("{}: unbalanced quotes in '{}'", where, line);
    if (words->empty()) continue;
    words->front() = LowerCase(words->front());
    lines->push_back({std::move(*words), where});
  }
  return "";
}

}  // namespace dfly
