// SPDX-License-Identifier: Apache-2.0
#include "server/options/setting_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/text/numbers.h"
#include "helio/base/logging.h"
#include "server/base/units.h"
#include "server/base/words.h"
#include "server/options/options.h"

namespace dfly {

namespace {

// Why a value that Redis would take is none here; empty: it is one.
std::string Refusal(const SettingRow& row, std::string_view value) {
  if (row.harmless.empty()) return "";
  std::string_view rest = row.harmless;
  while (true) {
    const size_t size = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, size) == value) return "";
    if (size == rest.size()) break;
    rest.remove_prefix(size + 1);
  }
  return fmt::format("'{}' would promise what is not there: {}", value, row.no_effect);
}

std::string CanonicalMemory(const SettingRow& row, std::string_view text, std::string* error) {
  // Redis reads no digits as 0.
  const bool has_number = !text.empty() && text[0] >= '0' && text[0] <= '9';
  auto bytes = ParseMemory(has_number ? text : fmt::format("0{}", text));
  const bool is_number =
      text.find_first_not_of("0123456789") == std::string_view::npos && !text.empty();
  // It is too large for 64 bits, and so for each maximum.
  if (!bytes && is_number && row.max != 0) bytes = std::numeric_limits<uint64_t>::max();
  if (!bytes) *error = "argument must be a memory value";
  const auto min = static_cast<uint64_t>(row.min);
  const auto max = static_cast<uint64_t>(row.max);
  if (bytes && max != 0 && (*bytes < min || *bytes > max)) {
    *error = fmt::format("argument must be between {} and {} inclusive", min, max);
  }
  return fmt::format("{}", bytes.value_or(0));
}

std::string Canonical(const SettingRow& row, std::string_view text, std::string* error) {
  switch (row.kind) {
    case SettingKind::kText:
      return row.canonical == nullptr ? std::string(text) : row.canonical(text, error);
    case SettingKind::kBool:
      if (IsWord(text, "yes") || IsWord(text, "no")) return LowerCase(text);
      *error = "argument must be 'yes' or 'no'";
      return "";
    case SettingKind::kInteger: {
      const auto number = ParseInt64(text);
      if (!number) {
        *error = "argument couldn't be parsed into an integer";
      } else if (*number < row.min || *number > row.max) {
        *error = fmt::format("argument must be between {} and {} inclusive", row.min, row.max);
      }
      return std::string(text);
    }
    case SettingKind::kMemory:
      return CanonicalMemory(row, text, error);
    case SettingKind::kChoice: {
      const std::vector<std::string_view> choices = SplitWords(row.choices);
      const auto it = std::find_if(choices.begin(), choices.end(), [text](std::string_view choice) {
        return LowerCase(choice) == LowerCase(text);
      });
      if (it != choices.end()) return std::string(*it);
      *error =
          fmt::format("argument(s) must be one of the following: {}", fmt::join(choices, ", "));
      return std::string(text);
    }
  }
  return "";
}

}  // namespace

std::string FlagName(std::string_view name) {
  std::string flag = LowerCase(name);
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

std::string FlagOf(const SettingRow& row) {
  return FlagName(row.flag.empty() ? row.name : row.flag);
}

bool HasName(const SettingRow& row, std::string_view name) {
  const std::string wanted = FlagName(name);
  return wanted == FlagName(row.name) ||
         (!row.old_name.empty() && wanted == FlagName(row.old_name));
}

std::string CanonicalValue(const SettingRow& row, std::string_view text, std::string* error) {
  error->clear();
  std::string value = Canonical(row, text, error);
  if (error->empty()) *error = Refusal(row, value);
  return value;
}

std::string InitialValue(const SettingRow& row) {
  const bool is_open = row.kind == SettingKind::kMemory || row.kind == SettingKind::kChoice;
  if (is_open && row.initial.empty()) return "";
  std::string error;
  std::string value = CanonicalValue(row, row.initial, &error);
  CHECK(error.empty()) << row.name << ": " << error;
  return value;
}

ServerOptions InitialOptions(std::span<const SettingRow> rows) {
  ServerOptions options;
  for (const SettingRow& row : rows) {
    const std::string value = InitialValue(row);
    const bool is_open = row.kind != SettingKind::kText && value.empty();
    if (row.slot.store == nullptr || is_open) continue;
    const std::string error = row.slot.store(value, &options);
    CHECK(error.empty()) << row.name << ": " << error;
  }
  return options;
}

}  // namespace dfly
