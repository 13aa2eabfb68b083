// SPDX-License-Identifier: Apache-2.0
#include "server/options/quota_settings.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/text/numbers.h"
#include "server/base/units.h"
#include "server/base/words.h"

namespace dfly {

namespace {

constexpr uint64_t kRateMax = 1'000'000'000;
constexpr uint64_t kBytesMax = uint64_t{1} << 50;
constexpr std::string_view kAction = "action";

struct Option {
  std::string_view name;
  uint64_t QuotaLimits::*member;
  bool has_units;
  uint64_t max;
};
constexpr Option kOptions[] = {
    {"commands", &QuotaLimits::commands, false, kRateMax},
    {"bytes", &QuotaLimits::bytes, true, kBytesMax},
    {"connections", &QuotaLimits::connections, false, kRateMax},
    {"memory", &QuotaLimits::memory, true, kBytesMax},
};

bool BeginsEntry(std::string_view word) { return IsWord(word, "user") || IsWord(word, "db"); }

// It has to survive a line of redis.conf, and to be itself in INFO and /metrics.
bool IsPlainName(std::string_view name) {
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 0x7f) return false;
    if (std::string_view("\"'\\#:,=").find(c) != std::string_view::npos) return false;
  }
  return true;
}

std::string ReadOwner(std::string_view kind, std::string_view name, QuotaOwner* owner) {
  if (IsWord(kind, "user")) {
    if (!IsPlainName(name)) {
      return "names of users are of printable ASCII without quotes and '#', '\\', ':', ',', '='";
    }
    owner->user = name;
    return "";
  }
  const auto index = ParseInt64(name);
  if (!index || *index < 0 || *index > INT32_MAX) {
    return fmt::format("'{}' is no number of a database", name);
  }
  owner->db_index = static_cast<int>(*index);
  return "";
}

// "<option> <value>"
std::string ReadOption(std::string_view name, std::string_view value, QuotaLimits* limits) {
  if (IsWord(name, kAction)) {
    if (!IsWord(value, "delay") && !IsWord(value, "error")) {
      return fmt::format("action is delay or error, not '{}'", value);
    }
    limits->action = IsWord(value, "error") ? QuotaAction::kError : QuotaAction::kDelay;
    return "";
  }
  for (const Option& option : kOptions) {
    if (!IsWord(name, option.name)) continue;
    std::optional<uint64_t> number;
    if (option.has_units) {
      number = ParseMemory(value);
    } else if (const auto parsed = ParseInt64(value); parsed && *parsed >= 0) {
      number = static_cast<uint64_t>(*parsed);
    }
    if (!number || *number > option.max) {
      return fmt::format("{} is a number from 0 to {}, not '{}'", option.name, option.max, value);
    }
    limits->*option.member = *number;
    return "";
  }
  return fmt::format("'{}' is none of user, db, commands, bytes, connections, memory and action",
                     name);
}

}  // namespace

std::string QuotaSettings::Set(std::string_view text) {
  const std::vector<std::string_view> words = SplitWords(text);
  std::map<QuotaOwner, QuotaLimits> named;
  for (size_t i = 0; i < words.size();) {
    if (!BeginsEntry(words[i])) {
      return fmt::format("an entry begins with user or db, not with '{}'", words[i]);
    }
    if (i + 1 == words.size()) return fmt::format("'{}' needs a name", words[i]);
    QuotaOwner owner;
    if (std::string error = ReadOwner(words[i], words[i + 1], &owner); !error.empty()) return error;
    QuotaLimits limits;
    const size_t begin = i + 2;
    for (i = begin; i < words.size() && !BeginsEntry(words[i]); i += 2) {
      if (i + 1 == words.size()) return fmt::format("'{}' needs a value", words[i]);
      for (size_t before = begin; before < i; before += 2) {
        if (IsWord(words[before], words[i])) {
          return fmt::format("'{}' is there twice for {} {}", words[i], owner.kind(), owner.name());
        }
      }
      std::string error = ReadOption(words[i], words[i + 1], &limits);
      if (!error.empty()) return error;
    }
    if (!named.emplace(owner, limits).second) {
      return fmt::format("{} {} is there twice", owner.kind(), owner.name());
    }
  }
  std::map<QuotaOwner, QuotaLimits> changed;
  if (!words.empty()) changed = all;
  for (const auto& [owner, limits] : named) {
    if (limits.empty()) {
      changed.erase(owner);
    } else {
      changed[owner] = limits;
    }
  }
  if (changed.size() > kEntriesMax) {
    return fmt::format("there may be {} entries at most", kEntriesMax);
  }
  all = std::move(changed);
  return "";
}

std::string QuotaSettings::ToString() const {
  std::string out;
  for (const auto& [owner, limits] : all) {
    fmt::format_to(std::back_inserter(out), "{}{} {}", out.empty() ? "" : " ", owner.kind(),
                   owner.name());
    for (const Option& option : kOptions) {
      const uint64_t value = limits.*option.member;
      if (value != 0) fmt::format_to(std::back_inserter(out), " {} {}", option.name, value);
    }
    if (limits.action == QuotaAction::kError) out += " action error";
  }
  return out;
}

std::string QuotaSettings::Check(int db_count) const {
  for (const auto& [owner, limits] : all) {
    if (owner.is_user() || owner.db_index < db_count) continue;
    return fmt::format("there is no database {}, there are {}", owner.db_index, db_count);
  }
  return "";
}

}  // namespace dfly
