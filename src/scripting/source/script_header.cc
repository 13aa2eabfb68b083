// SPDX-License-Identifier: Apache-2.0
#include "scripting/source/script_header.h"

#include <vector>

#include "facade/parsers/quoted_words.h"
#include "helio/base/ascii.h"

namespace dfly {
namespace {

constexpr std::string_view kMark = "#!";
constexpr std::string_view kFlagsOption = "flags=";
constexpr std::string_view kNameOption = "name=";
constexpr std::string_view kErrLibraryName =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least "
    "one character long";

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
  const auto words = SplitQuoted(source.substr(0, newline));
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
  const auto words = SplitQuoted(source.substr(0, newline));
  if (!words) return "ERR Invalid library metadata";
  const std::string engine = words->front().substr(kMark.size());
  bool has_name = false;
  for (size_t i = 1; i < words->size(); ++i) {
    const std::string_view word = (*words)[i];
    if (word.size() < kNameOption.size() ||
        !helio::EqualsIgnoreCase(word.substr(0, kNameOption.size()), kNameOption)) {
      return "ERR Invalid metadata value given: " + std::string(word);
    }
    if (has_name) return "ERR Invalid metadata value, name argument was given multiple times";
    has_name = true;
    header->name = word.substr(kNameOption.size());
  }
  if (!has_name) return "ERR Library name was not given";
  if (!IsFunctionName(header->name)) return std::string(kErrLibraryName);
  if (!helio::EqualsIgnoreCase(engine, "lua")) return "ERR Engine '" + engine + "' not found";
  header->has_shebang = true;
  header->body_begin = newline;
  return std::nullopt;
}

}  // namespace dfly
