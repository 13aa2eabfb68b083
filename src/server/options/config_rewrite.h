// SPDX-License-Identifier: Apache-2.0
// CONFIG REWRITE: the text of a configuration file with the settings that there are now. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

struct RewrittenSetting {
  std::string_view name;
  std::string_view old_name;
  std::string value;
  bool has_words = false;
  bool was_set = false;  // by the command line or CONFIG SET: it is added if it is not there
  bool has_line = true;  // false: its lines go
};

// Keeps comments, order, includes and what it does not know; the first line of a setting gets its
// value, and later ones go. What is missing and was set is added at the end. `users`: lines of ACL
// without "user "; null: they stay as they are.
std::string RewriteConfigText(std::string_view text, std::span<const RewrittenSetting> settings,
                              const std::vector<std::string>* users);

}  // namespace dfly
