// SPDX-License-Identifier: Apache-2.0
#include "storage/log/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "facade/parsers/quoted_words.h"
#include "helio/base/ascii.h"

namespace dfly {

namespace {

constexpr size_t kLineMax = 1024;  // bytes, with its \n
constexpr size_t kWordsMin = 6;
constexpr size_t kShownMax = 200;

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const auto [ptr, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsNameOfFile(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

std::string QuotedName(std::string_view name) {
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '#';
  });
  if (is_plain) return std::string(name);
  std::string quoted = "\"";
  for (const char c : name) {
    // Other alphabets stay as they are: four times as long, a name may not fit in a line.
    if ((c >= ' ' && c <= '~') || static_cast<uint8_t>(c) >= 0x80) {
      if (c == '"') quoted += '\\';
      quoted += c;
    } else {
      constexpr std::string_view kNamed = "\nn\rr\tt\aa\bb";  // each with its letter
      const size_t at = kNamed.find(c);
      quoted += at == kNamed.npos ? fmt::format("\\x{:02x}", static_cast<uint8_t>(c))
                                  : std::string{'\\', kNamed[at + 1]};
    }
  }
  return quoted + '"';
}

std::string Line(const ManifestFile& file, char type) {
  std::string line = fmt::format("file {} seq {} type {}", QuotedName(file.name), file.seq, type);
  if (file.start_offset) line += fmt::format(" startoffset {}", *file.start_offset);
  if (file.end_offset) line += fmt::format(" endoffset {}", *file.end_offset);
  return line + '\n';
}

// Reads a line without its end. An empty text, or what is wrong with it.
std::string ParseLine(std::string_view line, Manifest* manifest) {
  const auto words = SplitQuoted(line);
  if (!words) return "a quote has no end";
  if (words->empty()) return "it is empty";
  if (words->size() % 2 != 0) return "the last word has no value";
  if (words->size() < kWordsMin) return "it needs a file, a seq and a type";
  ManifestFile file;
  char type = 0;
  for (size_t i = 0; i < words->size(); i += 2) {
    const std::string_view name = (*words)[i];
    const std::string& value = (*words)[i + 1];
    if (helio::EqualsIgnoreCase(name, "file")) {
      if (!IsNameOfFile(value)) return "a file may not be a path";
      file.name = value;
    } else if (helio::EqualsIgnoreCase(name, "seq")) {
      file.seq = ParseNumber<uint64_t>(value).value_or(0);
      if (file.seq == 0) return "seq is not a positive number";
    } else if (helio::EqualsIgnoreCase(name, "type")) {
      type = value.empty() ? '\0' : value[0];  // Redis looks at no more
    } else if (helio::EqualsIgnoreCase(name, "startoffset")) {
      file.start_offset = ParseNumber<int64_t>(value);
    } else if (helio::EqualsIgnoreCase(name, "endoffset")) {
      file.end_offset = ParseNumber<int64_t>(value);
    }
  }
  if (file.name.empty() || file.seq == 0) return "it needs a file, a seq and a type";
  // It will be written again.
  if (Line(file, type).size() > kLineMax) return "its name is too long";
  switch (type) {
    case 'b':
      if (manifest->base) return "there is a second base";
      manifest->base = std::move(file);
      return "";
    case 'h':
      manifest->history.push_back(std::move(file));
      return "";
    case 'i':
      if (!manifest->incrementals.empty() && manifest->incrementals.back().seq >= file.seq) {
        return "seq does not rise";
      }
      manifest->incrementals.push_back(std::move(file));
      return "";
    default:
      return "its type is not b, h or i";
  }
}

// For an error: what is not printable is a dot.
std::string Shown(std::string_view line) {
  std::string shown(line.substr(0, kShownMax));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  return shown;
}

}  // namespace

std::string ParseManifest(std::string_view text, Manifest* manifest) {
  *manifest = {};
  if (text.empty()) return "the manifest is empty";
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string error;
    std::string_view line = text.substr(0, end);
    if (line.size() >= kLineMax) {
      error = "it is too long";
    } else if (!line.starts_with('#')) {
      if (end == std::string_view::npos) {
        error = "it has no end";
      } else {
        error = ParseLine(line, manifest);
      }
    }
    if (!error.empty()) return fmt::format("line {}: {}: '{}'", number, error, Shown(line));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return "";
}

std::string FormatManifest(const Manifest& manifest) {
  std::string text;
  if (manifest.base) text += Line(*manifest.base, 'b');
  for (const ManifestFile& file : manifest.history) text += Line(file, 'h');
  for (const ManifestFile& file : manifest.incrementals) text += Line(file, 'i');
  // Redis refuses a file without a line.
  if (text.empty()) text = "# no files\n";
  return text;
}

}  // namespace dfly
