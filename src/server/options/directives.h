// SPDX-License-Identifier: Apache-2.0
// The settings of this program, as flags and as directives of a redis.conf.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/options/setting_row.h"

namespace dfly {

// Makes a flag of each row that has one. `rows` outlive the process. Once, before any flag is read.
void RegisterSettings(std::span<const SettingRow> rows);
std::span<const SettingRow> RegisteredSettings();
// By its flag or by a name that CONFIG knows. Null: there is none.
const SettingRow* FindSetting(std::string_view name);

// A directive of Redis that must not be ignored, and is no setting here.
struct RefusedDirective {
  std::string_view name;
  std::string_view why;
  std::string_view harmless = {};  // but for this value
};
std::span<const RefusedDirective> RefusedDirectives();
// Of Redis or of ours, whether it means something here or not; there need be no flag.
bool IsDirective(std::string_view name);

// Sets flags from directives, in the order in which it gets them.
class FlagSetter {
 public:
  // The source of what follows: lists (save, user, rename-command) begin anew in each. What stands
  // on the command line goes on with the file's, as in redis-server.
  void BeginSource() { begun_.clear(); }
  // --ignore_unknown_flags: what would be an error, as there is no such flag, is a warning.
  void IgnoreUnknown() { ignores_unknown_ = true; }
  // `values`: what stands behind the name. `is_file`: an unknown one is a warning only.
  // Empty, or an error without `where`.
  [[nodiscard]] std::string Set(std::string_view name, std::span<const std::string> values,
                                std::string_view where, bool is_file);
  // Lines for the log, once there is one.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void Warn(std::string warning) { warnings_.push_back(std::move(warning)); }

 private:
  // `row`: null for glog's own flags.
  std::string SetFlag(const std::string& flag, const SettingRow* row, std::string_view name,
                      std::span<const std::string> values, std::string_view where);

  std::string SetForeign(std::string_view name, std::string_view value, std::string_view where);

  bool ignores_unknown_ = false;
  std::vector<const SettingRow*> begun_;  // lists that this source has begun
  std::vector<std::string> warnings_;
};

// Of one of our flags (or of glog's), not of gflags itself.
bool IsServerFlag(const std::string& name);
// What the flag is now.
std::string FlagText(std::string_view flag);
// Something else than its default was asked for.
bool IsFlagSet(const SettingRow& row);
// Where a flag's value was given: " (redis.conf:12)"; empty: on no line of a file.
std::string FlagOrigin(std::string_view flag);
// What was said of a setting without effect; null: nothing.
const std::string* KeptValue(const SettingRow& row);

}  // namespace dfly
