// SPDX-License-Identifier: Apache-2.0
#include "server/options/redis_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "facade/parsers/quoted_words.h"
#include "server/base/words.h"

namespace dfly {

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
    auto words = SplitQuoted(line);
    if (!words) return fmt::format("{}: unbalanced quotes in '{}'", where, line);
    if (words->empty()) continue;
    words->front() = LowerCase(words->front());
    lines->push_back({std::move(*words), where});
  }
  return "";
}

}  // namespace dfly
