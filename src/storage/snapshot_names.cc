// SPDX-License-Identifier: Apache-2.0
#include "storage/snapshot_names.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace dfly {

namespace {

constexpr std::string_view kTimestamp = "{timestamp}";
constexpr std::string_view kTimestampForm = "dddd-dd-ddTdd-dd-dd";  // d: a digit
constexpr std::string_view kRdbEnding = ".rdb";
constexpr std::string_view kSummaryEnding = "-summary.dfs";
constexpr std::string_view kPartEnding = ".dfs";
constexpr std::string_view kTemporaryEnding = ".tmp";
constexpr size_t kGenerationDigits = 16;
constexpr size_t kNumberDigits = 5;

bool HasEnding(std::string_view text, std::string_view ending) {
  return text.size() > ending.size() && text.ends_with(ending);
}

bool IsTimestamp(std::string_view text) {
  if (text.size() != kTimestampForm.size()) return false;
  return std::equal(text.begin(), text.end(), kTimestampForm.begin(), [](char c, char form) {
    return form == 'd' ? c >= '0' && c <= '9' : c == form;
  });
}

std::string_view WithoutEnding(std::string_view dbfilename) {
  for (std::string_view ending : {kRdbEnding, kPartEnding}) {
    if (HasEnding(dbfilename, ending)) dbfilename.remove_suffix(ending.size());
  }
  return dbfilename;
}

// Takes `prefix` and `suffix` away. False: they are not there.
bool Strip(std::string_view* text, std::string_view prefix, std::string_view suffix) {
  if (text->size() < prefix.size() + suffix.size() || !text->starts_with(prefix) ||
      !text->ends_with(suffix)) {
    return false;
  }
  *text = text->substr(prefix.size(), text->size() - prefix.size() - suffix.size());
  return true;
}

}  // namespace

std::string SnapshotPath::Join(std::string_view file) const {
  return directory.empty() ? std::string(file) : fmt::format("{}/{}", directory, file);
}

std::string SnapshotPath::Main() const {
  return Join(
      fmt::format("{}{}", name, format == SnapshotFormat::kRdb ? kRdbEnding : kSummaryEnding));
}

std::string SnapshotPath::ShardFile(uint64_t generation, uint32_t number) const {
  return Join(fmt::format("{}-{:016x}-{:05}{}", name, generation, number, kPartEnding));
}

std::string SnapshotPath::Temporary(uint64_t generation) const {
  return Join(fmt::format("{}-{:016x}-00000{}", name, generation, kTemporaryEnding));
}

std::string CheckDbFileName(std::string_view dbfilename) {
  if (dbfilename.find('/') != std::string_view::npos) {
    return "dbfilename can't be a path, just a filename";
  }
  const std::string_view name = WithoutEnding(dbfilename);
  if (name.find(kTimestamp) != name.rfind(kTimestamp)) return "dbfilename has {timestamp} twice";
  if (name.size() > 200) return "dbfilename is too long";
  return "";
}

std::string CheckSnapshotName(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    return "the name of a snapshot can't be a path, just a filename";
  }
  const bool is_odd = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
  });
  if (WithoutEnding(name).empty() || name.starts_with('.') || is_odd) {
    return "the name of a snapshot is empty, begins with a dot or has special characters";
  }
  const std::string error = CheckDbFileName(name);
  return error.empty() ? "" : "the name of a snapshot: " + error;
}

SnapshotFormat FormatOf(std::string_view dbfilename) {
  return HasEnding(dbfilename, kRdbEnding) ? SnapshotFormat::kRdb : SnapshotFormat::kOurs;
}

std::string NameAt(std::string_view dbfilename, int64_t now_ms) {
  std::string name(WithoutEnding(dbfilename));
  if (const size_t at = name.find(kTimestamp); at != std::string::npos) {
    const std::time_t seconds = static_cast<std::time_t>(now_ms / 1000);
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    name.replace(at, kTimestamp.size(), fmt::format("{:%Y-%m-%dT%H-%M-%S}", utc));
  }
  return name;
}

std::optional<SnapshotPath> SnapshotOf(std::string_view dbfilename, std::string_view directory,
                                       std::string_view file) {
  SnapshotPath path;
  path.directory = directory;
  if (HasEnding(file, kRdbEnding)) {
    path.format = SnapshotFormat::kRdb;
    file.remove_suffix(kRdbEnding.size());
  } else if (HasEnding(file, kSummaryEnding)) {
    file.remove_suffix(kSummaryEnding.size());
  } else {
    return std::nullopt;
  }
  const std::string_view name = WithoutEnding(dbfilename);
  path.name = file;
  const size_t at = name.find(kTimestamp);
  if (at == std::string_view::npos) return file == name ? std::optional(path) : std::nullopt;
  if (!Strip(&file, name.substr(0, at), name.substr(at + kTimestamp.size()))) return std::nullopt;
  return IsTimestamp(file) ? std::optional(path) : std::nullopt;
}

std::optional<uint64_t> GenerationOf(const SnapshotPath& path, std::string_view file) {
  const std::string prefix = path.name + "-";
  std::string_view rest = file;
  if (path.format != SnapshotFormat::kOurs || !Strip(&rest, prefix, kPartEnding)) {
    rest = file;
    if (!Strip(&rest, prefix, kTemporaryEnding)) return std::nullopt;
  }
  if (rest.size() != kGenerationDigits + 1 + kNumberDigits || rest[kGenerationDigits] != '-') {
    return std::nullopt;
  }
  uint64_t generation = 0;
  const char* const end = rest.data() + kGenerationDigits;
  if (std::from_chars(rest.data(), end, generation, 16).ptr != end) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(rest.begin() + kGenerationDigits + 1, rest.end(), is_digit)) return std::nullopt;
  return generation;
}

}  // namespace dfly
