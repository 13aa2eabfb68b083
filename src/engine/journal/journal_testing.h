// SPDX-License-Identifier: Apache-2.0
// For tests: effects from text, and text from effects.
#pragma once

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/keyspace/effects.h"

namespace dfly {

// Of commands with their databases; their words stand between blanks.
inline Effects EffectsOf(const std::vector<std::pair<int, std::string>>& commands) {
  Effects effects;
  for (const auto& [db_index, command] : commands) {
    const std::vector<std::string> words = absl::StrSplit(command, ' ');
    effects.Add(db_index, std::vector<std::string_view>(words.begin(), words.end()));
  }
  return effects;
}

// The commands of RESP, whose words have no line ends.
inline std::vector<std::string> CommandsOf(const std::string& resp) {
  std::vector<std::string> lines = absl::StrSplit(resp, "\r\n");
  std::vector<std::string> commands;
  for (size_t i = 0; i + 1 < lines.size();) {
    const size_t count = std::stoul(lines[i].substr(1));
    std::vector<std::string> words;
    for (size_t word = 0; word < count; ++word) words.push_back(lines.at(i + 2 + 2 * word));
    commands.push_back(absl::StrJoin(words, " "));
    i += 1 + 2 * count;
  }
  return commands;
}

}  // namespace dfly
