// SPDX-License-Identifier: Apache-2.0
#include "scripting/script_header.h"

#include <algorithm>
#include <vector>

namespace dfly {
namespace {

constexpr std::string_view kMark = "#!";
constexpr std::string_view kFlagsOption = "flags=";
constexpr std::string_view kNameOption = "name=";
constexpr std::string_view kErrLibraryName =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least "
    "one character long";

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool EqualLetters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? x | 0x20 : x) == (y >= 'A' && y <= 'Z' ? y | 0x20 : y);
  });
}

// Words as redis-cli's: separated by blanks, perhaps in quotes. None if a quote stays open.
std::optional<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  for (;;) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at == line.size()) return words;
    std::string word;
    char quote = 0;
    for (; at < line.size() && (quote != 0 || !IsBlank(line[at])); ++at) {
      const char c = line[at];
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        if (at + 1 < line.size() && !IsBlank(line[at + 1])) return std::nullopt;
        quote = 0;
      } else if (quote == '"' && c == '\\' && at + 1 < line.size()) {
        word += line[++at];
      } else {
        word += c;
      }
    }
    if (quote != 0) return std::nullopt;
    words.push_back(std::move(word));
  }
}

std::optional<std::string> ParseFlags(std::string_view list, uint32_t* flags) {
  if (list.empty()) return std::nullopt;
  for (;;) {
    const size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    const std::optional<ScriptFlag> flag = ScriptFlagOf(name);
    if (!flag) return "ERR Unexpected flag in script shebang: " + std::string(name);
    *flags |= *flag;
    if (comma == std::string_view::npos) return std::nullopt;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::optional<ScriptFlag> ScriptFlagOf(std::string_view name) {
  for (const ScriptFlagName& known : kScriptFlagNames) {
    if (known.name == name) return known.flag;
  }
  return std::nullopt;
}

bool IsFunctionName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::optional<std::string> ParseScriptHeader(std::string_view source, ScriptHeader* header) {
  *header = {};
  if (!source.starts_with(kMark)) return std::nullopt;
  const size_t newline = source.find('\n');
  if (newline == std::string_view::npos) return "ERR Invalid script shebang";
  const auto words = SplitWords(source.substr(0, newline));
  if (!words) return "ERR Invalid engine in script shebang";
  if (words->front() != "#!lua") {
    return "ERR Unexpected engine in script shebang: " + words->front();
  }
  for (size_t i = 1; i < words->size(); ++i) {
    const std::string_view word = (*words)[i];
    if (!word.starts_with(kFlagsOption)) {
      return "ERR Unknown lua shebang option: " + std::string(word);
    }
    if (auto error = ParseFlags(word.substr(kFlagsOption.size()), &header->flags)) return error;
  }
  header->has_shebang = true;
  header->body_begin = newline;
  return std::nullopt;
}

std::optional<std::string> ParseLibraryHeader(std::string_view source, ScriptHeader* header) {
  *header = {};
  if (!source.starts_with(kMark)) return "ERR Missing library metadata";
  const size_t newline = source.find('\n');
  if (newline == std::string_view::npos) return "ERR Invalid library metadata";
  const auto words = SplitWords(source.substr(0, newline));
  if (!words) return "ERR Invalid library metadata";
  const std::string engine = words->front().substr(kMark.size());
  bool has_name = false;
  for (size_t i = 1; i < words->size(); ++i) {
    const std::string_view word = (*words)[i];
    if (word.size() < kNameOption.size() ||
        !EqualLetters(word.substr(0, kNameOption.size()), kNameOption)) {
      return "ERR Invalid metadata value given: " + std::string(word);
    }
    if (has_name) return "ERR Invalid metadata value, name argument was given multiple times";
    has_name = true;
    header->name = word.substr(kNameOption.size());
  }
  if (!has_name) return "ERR Library name was not given";
  if (!IsFunctionName(header->name)) return std::string(kErrLibraryName);
  if (!EqualLetters(engine, "lua")) return "ERR Engine '" + engine + "' not found";
  header->has_shebang = true;
  header->body_begin = newline;
  return std::nullopt;
}

}  // namespace dfly
