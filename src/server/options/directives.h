// SPDX-License-Identifier: Apache-2.0
// What becomes of the directives of a redis.conf: which of our flags each one sets. Those that mean
// nothing here are rows of ignored_settings.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dfly {

// A directive for which there is no flag of the same name (with _ for -).
struct Directive {
  enum class Kind : uint8_t {
    kFlag,     // sets the flag `target`
    kRefused,  // must not be ignored: `target` says why
  };
  std::string_view name;
  Kind kind;
  std::string_view target;
  // kRefused: but for this value.
  std::string_view harmless = {};
};
std::span<const Directive> Directives();
// Null: there is none; perhaps a flag has its name.
const Directive* FindDirective(std::string_view name);
// Of Redis, whether it means something here or not.
bool IsDirective(std::string_view name);

// Sets flags from directives, in the order in which it gets them.
class FlagSetter {
 public:
  // The source of what follows: lists (save, user, rename-command) begin anew in each. What stands
  // on the command line goes on with the file's, as in redis-server.
  void BeginSource() { begun_.clear(); }
  // `values`: what stands behind the name. `is_file`: an unknown one is a warning only.
  // Empty, or an error without `where`.
  [[nodiscard]] std::string Set(std::string_view name, std::span<const std::string> values,
                                std::string_view where, bool is_file);
  // Lines for the log, once there is one.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void Warn(std::string warning) { warnings_.push_back(std::move(warning)); }

 private:
  std::string SetFlag(const std::string& flag, std::string_view name,
                      std::span<const std::string> values, std::string_view where);

  std::vector<std::string> begun_;  // lists that this source has begun
  std::vector<std::string> warnings_;
};

// "proto-max-bulk-len" and "proto_max_bulk_len" to "proto_max_bulk_len".
std::string FlagName(std::string_view name);
// Of one of our flags (or of glog's), not of gflags itself.
bool IsServerFlag(const std::string& name);
// Where a flag's value was given: " (redis.conf:12)"; empty: on no line of a file.
std::string FlagOrigin(std::string_view flag);

}  // namespace dfly
