// SPDX-License-Identifier: Apache-2.0
#include "server/options/directives.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "core/text/numbers.h"
#include "helio/base/logging.h"
#include "server/base/units.h"
#include "server/base/words.h"
#include "server/options/foreign_flags.h"

namespace dfly {

namespace {

constexpr RefusedDirective kRefused[] = {
    {"cluster-enabled",
     "there is no cluster of several servers; --cluster_mode=emulated is for clients of one", "no"},
    {"loadmodule", "there are no modules"},
};

// What this process was told. Before there are threads.
struct Told {
  std::span<const SettingRow> rows;
  absl::flat_hash_map<std::string, std::string> origins;            // by flag
  absl::flat_hash_map<const SettingRow*, std::string> kept_values;  // of settings without effect
};
Told& ToldHere() {
  static Told told;
  return told;
}

// What gflags keeps pointers to.
template <typename Value>
void RegisterFlag(const SettingRow& row, Value initial) {
  struct Storage {
    std::string name;
    Value value;
    Value initial;
  };
  static std::deque<Storage> all;
  Storage& its = all.emplace_back(Storage{FlagOf(row), initial, initial});
  const gflags::FlagRegisterer made(its.name.c_str(), row.help.data(), "server/settings",
                                    &its.value, &its.initial);
}

const RefusedDirective* FindRefused(std::string_view name) {
  const auto it = std::ranges::find_if(
      kRefused, [&](const auto& it) { return FlagName(it.name) == FlagName(name); });
  return it == std::end(kRefused) ? nullptr : &*it;
}

// Keeps what is said of a setting without effect. Returns an error, or nothing.
std::string KeepValue(const SettingRow& row, std::span<const std::string> words) {
  if (words.empty() || (words.size() > 1 && !row.has_words)) return "wrong number of arguments";
  std::string error;
  std::string value = CanonicalValue(row, fmt::format("{}", fmt::join(words, " ")), &error);
  if (error.empty()) ToldHere().kept_values[&row] = std::move(value);
  return error;
}

}  // namespace

void RegisterSettings(std::span<const SettingRow> rows) {
  CHECK(ToldHere().rows.empty());
  ToldHere().rows = rows;
  for (const SettingRow& row : rows) {
    if (!row.has_flag()) continue;
    const auto number = ParseInt64(row.initial);
    const bool is_number = row.kind == SettingKind::kInteger || row.kind == SettingKind::kMemory;
    if (row.kind == SettingKind::kBool) {
      RegisterFlag(row, row.initial == "yes");
    } else if (!is_number || !number) {  // "1gb" is a text as well
      RegisterFlag(row, std::string(row.initial));
    } else if (row.min < 0) {
      RegisterFlag<gflags::int64>(row, *number);
    } else {
      RegisterFlag<gflags::uint64>(row, static_cast<gflags::uint64>(*number));
    }
  }
}

std::span<const SettingRow> RegisteredSettings() { return ToldHere().rows; }

const SettingRow* FindSetting(std::string_view name) {
  const std::string flag = FlagName(name);
  const auto it = std::ranges::find_if(ToldHere().rows, [&](const SettingRow& row) {
    return HasName(row, name) || (row.has_flag() && FlagOf(row) == flag);
  });
  return it == ToldHere().rows.end() ? nullptr : &*it;
}

std::span<const RefusedDirective> RefusedDirectives() { return kRefused; }

bool IsDirective(std::string_view name) {
  return FindSetting(name) != nullptr || FindRefused(name) != nullptr;
}

bool IsServerFlag(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(name.c_str(), &info) &&
         info.filename.find("gflags") == std::string::npos;
}

std::string FlagText(std::string_view flag) {
  return gflags::GetCommandLineFlagInfoOrDie(std::string(flag).c_str()).current_value;
}

bool IsFlagSet(const SettingRow& row) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(FlagOf(row).c_str(), &info) && !info.is_default;
}

std::string FlagOrigin(std::string_view flag) {
  const auto it = ToldHere().origins.find(std::string(flag));
  return it == ToldHere().origins.end() ? "" : fmt::format(" ({})", it->second);
}

const std::string* KeptValue(const SettingRow& row) {
  const auto it = ToldHere().kept_values.find(&row);
  return it == ToldHere().kept_values.end() ? nullptr : &it->second;
}

std::string FlagSetter::Set(std::string_view name, std::span<const std::string> values,
                            std::string_view where, bool is_file) {
  const SettingRow* const row = FindSetting(name);
  if (row != nullptr && row->has_flag() && !is_file && values.size() == 1) {
    const std::string refusal = RefusalOfValue(name, values[0]);
    if (!refusal.empty()) return refusal;
    if (MeansNothing(name, values[0])) return "";
    const std::string value = OwnFormOf(name, values[0]);
    return SetFlag(FlagOf(*row), row, name, {&value, 1}, where);
  }
  if (row != nullptr && row->has_flag()) return SetFlag(FlagOf(*row), row, name, values, where);
  const std::string flag = FlagName(name);
  if (IsServerFlag(flag)) return SetFlag(flag, nullptr, name, values, where);
  if (row != nullptr && !row->no_effect.empty()) {
    const std::string error = KeepValue(*row, values);
    if (!error.empty()) return fmt::format("'{}': {}", name, error);
    if (*KeptValue(*row) != row->initial) {
      Warn(fmt::format("{}: '{}' has no effect: {}", where, name, row->no_effect));
    }
    return "";
  }
  const RefusedDirective* const refused = FindRefused(name);
  if (refused == nullptr) {
    const std::string value = values.empty() ? "true" : fmt::format("{}", fmt::join(values, " "));
    if (!is_file && FindForeignFlag(flag) != nullptr) return SetForeign(flag, value, where);
    const bool is_off = flag.starts_with("no") && FindForeignFlag(flag.substr(2)) != nullptr;
    if (!is_file && is_off && values.empty()) return SetForeign(flag.substr(2), "false", where);
    if (!is_file && ignores_unknown_) {
      Warn(fmt::format("{}: there is no flag --{}, it is ignored", where, name));
      return "";
    }
    if (!is_file) return fmt::format("there is no flag --{}; --help lists the usual ones", name);
    Warn(fmt::format("{}: '{}' is unknown, and ignored", where, name));
    return "";
  }
  const std::string value = fmt::format("{}", fmt::join(values, " "));
  if (!refused->harmless.empty() && LowerCase(value) == refused->harmless) return "";
  return fmt::format("'{}' cannot be ignored, and {}", name, refused->why);
}

std::string FlagSetter::SetForeign(std::string_view name, std::string_view value,
                                   std::string_view where) {
  const ForeignAnswer answer = AnswerForeignFlag(*FindForeignFlag(name), value);
  if (!answer.flag.empty()) {
    return SetFlag(std::string(answer.flag), FindSetting(answer.flag), name, {&answer.value, 1},
                   where);
  }
  if (!answer.warning.empty()) Warn(fmt::format("{}: --{}: {}", where, name, answer.warning));
  if (answer.error.empty() || !ignores_unknown_) return answer.error;
  Warn(fmt::format("{}: --{} is ignored: {}", where, name, answer.error));
  return "";
}

std::string FlagSetter::SetFlag(const std::string& flag, const SettingRow* row,
                                std::string_view name, std::span<const std::string> values,
                                std::string_view where) {
  const auto info = gflags::GetCommandLineFlagInfoOrDie(flag.c_str());
  const bool is_text = info.type == "string";
  const bool may_be_empty = row != nullptr && row->may_lack_value;
  if (values.empty() && !may_be_empty) return fmt::format("'{}' needs a value", name);
  if (values.size() > 1 && !is_text) return fmt::format("'{}' takes one value", name);
  std::string value = fmt::format("{}", fmt::join(values, " "));
  if (row != nullptr && row->repeat != SettingRepeat::kReplaces) {
    const bool has_begun = std::ranges::find(begun_, row) != begun_.end();
    const char* const between = row->repeat == SettingRepeat::kAddsWords ? " " : "\n";
    if (!has_begun) {
      begun_.push_back(row);
    } else if (!value.empty() && !info.current_value.empty()) {
      value = info.current_value + between + value;
    }
  }
  // gflags would take what is before it.
  if (value.find('\0') != std::string::npos) {
    return fmt::format("the value of '{}' has a NUL in it", name);
  }
  if (gflags::SetCommandLineOption(flag.c_str(), value.c_str()).empty()) {
    // Numbers of bytes may have units in a redis.conf.
    const auto bytes = info.type == "bool" ? std::nullopt : ParseMemory(value);
    const bool is_set =
        bytes &&
        !gflags::SetCommandLineOption(flag.c_str(), fmt::format("{}", *bytes).c_str()).empty();
    if (!is_set) {
      return fmt::format("'{}' is no value of '{}'{}", value, name,
                         info.type == "bool" ? ", which is yes or no" : "");
    }
  }
  ToldHere().origins[flag] = where;
  return "";
}

}  // namespace dfly
