// SPDX-License-Identifier: Apache-2.0
#include "server/options/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/glob.h"
#include "facade/replies/error_texts.h"
#include "helio/base/log_text.h"
#include "helio/base/logging.h"
#include "helio/io/blocking_pool.h"
#include "server/base/file_text.h"
#include "server/base/words.h"
#include "server/options/config_rewrite.h"
#include "server/options/directives.h"

namespace dfly {

namespace {

std::string SetError(std::string_view name, std::string_view why) {
  return fmt::format("ERR CONFIG SET failed (possibly related to argument '{}') - {}", name, why);
}

// As Redis tells a setting in an error: by that of its names that was given.
std::string_view ToldName(const SettingRow& row, std::string_view given) {
  const bool is_old = !row.old_name.empty() && FlagName(given) == FlagName(row.old_name);
  return is_old ? row.old_name : row.name;
}

}  // namespace

Config::Config(std::span<const SettingRow> rows, const ServerOptions& told, Settings* live,
               SettingHost* host)
    : now_(told), live_(*live), host_(*host) {
  for (const SettingRow& row : rows) {
    if (row.live != nullptr) row.live(now_, live);
    if (row.how == SettingHow::kFlagOnly) continue;
    DCHECK(Find(row.name) == nullptr) << row.name;
    Setting setting = {.row = &row, .text = "", .was_set = row.has_flag() && IsFlagSet(row)};
    if (row.slot.show == nullptr) {
      const std::string* const kept = KeptValue(row);
      setting.text = kept == nullptr ? InitialValue(row) : *kept;
      setting.was_set = kept != nullptr;
    }
    settings_.push_back(std::move(setting));
  }
}

Config::Setting* Config::Find(std::string_view name) {
  const auto it = std::ranges::find_if(
      settings_, [name](const Setting& setting) { return HasName(*setting.row, name); });
  return it == settings_.end() ? nullptr : &*it;
}

std::string Config::ValueOf(const Setting& setting) const {
  return setting.row->slot.show == nullptr ? setting.text : setting.row->slot.show(now_);
}

std::vector<std::pair<std::string, std::string>> Config::Get(
    std::span<const std::string_view> patterns) {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::string>> found;
  const auto add = [&](std::string_view name, const Setting& setting) {
    const bool is_new = std::none_of(found.begin(), found.end(),
                                     [name](const auto& pair) { return IsWord(name, pair.first); });
    if (is_new) found.emplace_back(name, ValueOf(setting));
  };
  for (std::string_view pattern : patterns) {
    if (pattern.find_first_of("[*?") == std::string_view::npos) {
      // A name comes back as it was written.
      if (const Setting* setting = Find(pattern)) add(pattern, *setting);
      continue;
    }
    for (const Setting& setting : settings_) {
      for (std::string_view name : {setting.row->name, setting.row->old_name}) {
        if (!name.empty() && GlobMatch(pattern, name, GlobCase::kIgnore)) add(name, setting);
      }
    }
  }
  return found;
}

// Checks the pairs, and stores their values in `wanted`.
std::string Config::Read(std::span<const std::string_view> pairs, bool may_set_protected,
                         std::vector<Change>* changes, ServerOptions* wanted) {
  // Unknown names are told before anything else, as Redis does.
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (Find(pairs[i]) == nullptr) {
      return fmt::format("ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                         Printed(pairs[i]));
    }
  }
  for (size_t i = 0; i < pairs.size(); i += 2) {
    Setting* const setting = Find(pairs[i]);
    const SettingRow& row = *setting->row;
    if (!row.is_live()) return SetError(pairs[i], "can't set immutable config");
    if (row.how == SettingHow::kProtected && !may_set_protected) {
      return SetError(pairs[i], "can't set protected config");
    }
    if (std::any_of(changes->begin(), changes->end(),
                    [setting](const Change& change) { return change.setting == setting; })) {
      return SetError(pairs[i], "duplicate parameter");
    }
    const auto is_wrong = [&row](char c) {  // a tab stands between words as a blank does
      const bool is_control = (c >= '\0' && c < ' ' && c != '\t') || c == '\x7f';
      return is_control && (c == '\0' || !row.takes_controls);
    };
    if (std::ranges::any_of(pairs[i + 1], is_wrong)) {
      return SetError(pairs[i], "argument must have no control characters");
    }
    std::string error;
    std::string text = CanonicalValue(row, pairs[i + 1], &error);
    if (error.empty() && row.slot.store != nullptr) error = row.slot.store(text, wanted);
    const std::string_view name = ToldName(row, pairs[i]);
    if (!error.empty()) return SetError(name, error);
    changes->push_back({setting, name, std::move(text)});
  }
  return "";
}

// Makes all changes take effect, or none.
std::string Config::Apply(const std::vector<Change>& changes, const ServerOptions& wanted) {
  const auto store_live = [&](const ServerOptions& options) {
    for (const Change& change : changes) {
      if (change.setting->row->live != nullptr) change.setting->row->live(options, &live_);
    }
  };
  store_live(wanted);
  std::vector<decltype(SettingRow::apply)> applied;
  for (const Change& change : changes) {
    const auto apply = change.setting->row->apply;
    if (apply == nullptr || std::ranges::find(applied, apply) != applied.end()) continue;
    const std::string error = apply(host_, {.before = now_, .now = wanted});
    if (error.empty()) {
      applied.push_back(apply);
      continue;
    }
    store_live(now_);
    for (const auto& other : applied) {
      const std::string lost = other(host_, {.before = wanted, .now = now_});
      LOG_IF(ERROR, !lost.empty())
          << "CONFIG SET could not be taken back: " << helio::LogText(lost);
    }
    return SetError(change.name, error);
  }
  return "";
}

std::string Config::Set(std::span<const std::string_view> pairs, bool may_set_protected) {
  DCHECK_EQ(pairs.size() % 2, 0u);
  std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  ServerOptions wanted = now_;
  std::string error = Read(pairs, may_set_protected, &changes, &wanted);
  if (error.empty()) error = Apply(changes, wanted);
  if (!error.empty()) return error;
  now_ = std::move(wanted);
  for (Change& change : changes) {
    change.setting->text = std::move(change.text);
    change.setting->was_set = true;
  }
  return "";
}

void Config::Note(std::string_view name, std::string_view value) {
  std::lock_guard lock(mutex_);
  Setting* const setting = Find(name);
  CHECK(setting != nullptr && setting->row->slot.store != nullptr) << name;
  const std::string error = setting->row->slot.store(value, &now_);
  DCHECK(error.empty()) << error;
  setting->was_set = true;
}

void Config::WithNow(const std::function<void(const ServerOptions& now)>& use) {
  std::lock_guard lock(mutex_);
  use(now_);
}

std::string Config::Rewrite(const std::string& path, const std::vector<std::string>* users) {
  if (path.empty()) return "ERR The server is running without a config file";
  std::lock_guard lock(mutex_);
  std::vector<RewrittenSetting> settings;
  for (const Setting& setting : settings_) {
    const SettingRow& row = *setting.row;
    const std::string value = ValueOf(setting);
    const bool has_line = !row.lacks_line_if_empty || !value.empty();
    settings.push_back({row.name, row.old_name, value, row.has_words, setting.was_set, has_line});
  }
  std::string error;
  const bool has_run = helio::RunBlocking([&] {
    std::string text;
    error = ReadTextFile(path, &text);
    if (error.empty()) error = ReplaceTextFile(path, RewriteConfigText(text, settings, users));
  });
  if (!has_run) error = "too many files are being written";
  if (error.empty()) return "";
  LOG(WARNING) << "CONFIG REWRITE failed: " << helio::LogText(path) << ": " << error;
  return fmt::format("ERR Rewriting config file: {}", error);
}

}  // namespace dfly
