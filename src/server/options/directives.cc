// SPDX-License-Identifier: Apache-2.0
#include "server/options/directives.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gflags/gflags.h>

#include <algorithm>

#include "server/base/units.h"
#include "server/base/words.h"
#include "server/options/ignored_settings.h"

namespace dfly {

namespace {

using Kind = Directive::Kind;

constexpr Directive kDirectives[] = {
    {"databases", Kind::kFlag, "dbnum"},
    {"proto-max-bulk-len", Kind::kFlag, "max_bulk_len"},
    {"lua-time-limit", Kind::kFlag, "busy_reply_threshold"},
    {"hash-max-ziplist-entries", Kind::kFlag, "hash_max_listpack_entries"},
    {"hash-max-ziplist-value", Kind::kFlag, "hash_max_listpack_value"},
    {"zset-max-ziplist-entries", Kind::kFlag, "zset_max_listpack_entries"},
    {"zset-max-ziplist-value", Kind::kFlag, "zset_max_listpack_value"},
    {"list-max-ziplist-size", Kind::kFlag, "list_max_listpack_size"},

    {"cluster-enabled", Kind::kRefused,
     "there is no cluster of several servers; --cluster_mode=emulated is for clients of one", "no"},
    {"loadmodule", Kind::kRefused, "there are no modules"},
};

// Directives that may be repeated; each line adds to what is there.
constexpr std::string_view kLists[] = {"save", "user", "rename_command",
                                       "client_output_buffer_limit"};
// Of those, whose lines go into one line of the flag.
constexpr std::string_view kOneLineLists[] = {"save", "client_output_buffer_limit"};

bool IsOneOf(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::flat_hash_map<std::string, std::string>& Origins() {
  static absl::flat_hash_map<std::string, std::string> origins;
  return origins;
}

}  // namespace

std::span<const Directive> Directives() { return kDirectives; }

const Directive* FindDirective(std::string_view name) {
  const std::string wanted = FlagName(name);
  const auto it =
      std::find_if(std::begin(kDirectives), std::end(kDirectives),
                   [&wanted](const Directive& it) { return FlagName(it.name) == wanted; });
  return it == std::end(kDirectives) ? nullptr : &*it;
}

bool IsDirective(std::string_view name) {
  return FindDirective(name) != nullptr || FindIgnoredSetting(name) != nullptr;
}

std::string FlagName(std::string_view name) {
  std::string flag = LowerCase(name);
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

bool IsServerFlag(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(name.c_str(), &info) &&
         info.filename.find("gflags") == std::string::npos;
}

std::string FlagOrigin(std::string_view flag) {
  const auto it = Origins().find(std::string(flag));
  return it == Origins().end() ? "" : fmt::format(" ({})", it->second);
}

std::string FlagSetter::Set(std::string_view name, std::span<const std::string> values,
                            std::string_view where, bool is_file) {
  const std::string flag = FlagName(name);
  if (IsServerFlag(flag)) return SetFlag(flag, name, values, where);
  if (const IgnoredSetting* const row = FindIgnoredSetting(name)) {
    bool is_initial = false;
    const std::string error = KeepIgnoredSetting(*row, values, &is_initial);
    if (!error.empty()) return fmt::format("'{}': {}", name, error);
    if (!is_initial) Warn(fmt::format("{}: '{}' has no effect: {}", where, name, row->why));
    return "";
  }
  const Directive* const directive = FindDirective(name);
  if (directive == nullptr) {
    if (!is_file) return fmt::format("there is no flag --{}; --help lists the usual ones", name);
    Warn(fmt::format("{}: '{}' is unknown, and ignored", where, name));
    return "";
  }
  if (directive->kind == Kind::kFlag)
    return SetFlag(std::string(directive->target), name, values, where);
  const std::string value = fmt::format("{}", fmt::join(values, " "));
  if (!directive->harmless.empty() && LowerCase(value) == directive->harmless) return "";
  return fmt::format("'{}' cannot be ignored, and {}", name, directive->target);
}

std::string FlagSetter::SetFlag(const std::string& flag, std::string_view name,
                                std::span<const std::string> values, std::string_view where) {
  const auto info = gflags::GetCommandLineFlagInfoOrDie(flag.c_str());
  const bool is_text = info.type == "string";
  const bool may_be_empty = flag == "save";  // no points
  if (values.empty() && !may_be_empty) return fmt::format("'{}' needs a value", name);
  if (values.size() > 1 && !is_text) return fmt::format("'{}' takes one value", name);
  std::string value = fmt::format("{}", fmt::join(values, " "));
  if (IsOneOf(kLists, flag)) {
    const bool has_begun = std::find(begun_.begin(), begun_.end(), flag) != begun_.end();
    const char* const between = IsOneOf(kOneLineLists, flag) ? " " : "\n";
    if (!has_begun) {
      begun_.push_back(flag);
    } else if (!value.empty() && !info.current_value.empty()) {
      value = info.current_value + between + value;
    }
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
  Origins()[flag] = where;
  return "";
}

}  // namespace dfly
