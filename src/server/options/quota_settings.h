// SPDX-License-Identifier: Apache-2.0
// The setting `quota`: what a user of the ACL, or a database, may use. An entry is
//
//   user <name> | db <number>  [commands <n>] [bytes <n>] [connections <n>] [memory <n>]
//                              [action delay|error]
//
// and one value may have several of them, one behind another, as lines of redis.conf become one.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dfly {

// What becomes of a command past a limit of commands or bytes.
enum class QuotaAction : uint8_t { kDelay, kError };

// 0: no limit.
struct QuotaLimits {
  uint64_t commands = 0;  // in a second
  uint64_t bytes = 0;     // received and sent, in a second
  uint64_t connections = 0;
  uint64_t memory = 0;  // bytes
  QuotaAction action = QuotaAction::kDelay;

  bool empty() const { return commands == 0 && bytes == 0 && connections == 0 && memory == 0; }
  bool operator==(const QuotaLimits&) const = default;
};

// Whose quota it is.
struct QuotaOwner {
  static constexpr int kUser = -1;
  int db_index = kUser;
  std::string user;

  bool is_user() const { return db_index == kUser; }
  // The two words by which the setting, INFO and /metrics name it.
  std::string_view kind() const { return is_user() ? "user" : "db"; }
  std::string name() const { return is_user() ? user : std::to_string(db_index); }
  auto operator<=>(const QuotaOwner&) const = default;
};

struct QuotaSettings {
  // Users first, by name; then databases. None of them is without a limit.
  std::map<QuotaOwner, QuotaLimits> all;

  static constexpr size_t kEntriesMax = 1024;

  // Each entry of `text` takes the place of what its owner had; one without a limit removes that.
  // Owners that are not named keep theirs; an empty text removes all. Returns why it cannot, and
  // then nothing has changed; or nothing.
  [[nodiscard]] std::string Set(std::string_view text);
  // All of them, in bytes.
  std::string ToString() const;
  // Why not all of them can be, if there are so many databases; or nothing.
  [[nodiscard]] std::string Check(int db_count) const;
};

}  // namespace dfly
