// SPDX-License-Identifier: Apache-2.0
// The text of configuration files: redis.conf's lines of words, with quotes and comments. Pure.
// The format is that of redis.io's redis.conf.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

// As it has to be written in a line to be one word.
std::string QuoteConfigWord(std::string_view word);

// One directive of a file.
struct ConfigLine {
  std::vector<std::string> words;  // not empty; the first one in lower case
  std::string where;               // "redis.conf:12"
};

// All directives of `text`. `name` is for ConfigLine::where. Empty, or what is wrong and where.
[[nodiscard]] std::string ParseConfigText(std::string_view text, std::string_view name,
                                          std::vector<ConfigLine>* lines);

}  // namespace dfly
