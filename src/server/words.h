// SPDX-License-Identifier: Apache-2.0
// Words: of commands' options, of lists in settings; and HELP replies.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "facade/reply_sink.h"

namespace dfly {

inline std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

// What stands between blanks, tabs and ends of lines: views into `text`.
inline std::vector<std::string_view> SplitWords(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find_first_of(kSpace)));
    text.remove_prefix(words.back().size());
  }
}

// True if `text` is `word`, whatever its case. REQUIRES: `word` is in lower case.
inline bool IsWord(std::string_view text, std::string_view word) {
  return text.size() == word.size() && LowerCase(text) == word;
}

// The reply to "<command> HELP". `lines` describe all subcommands but HELP.
inline void ReplyHelp(ReplySink& reply, std::string_view command,
                      std::initializer_list<std::string_view> lines) {
  reply.Array(lines.size() + 3);
  reply.Status(std::string(command) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (std::string_view line : lines) reply.Status(line);
  reply.Status("HELP");
  reply.Status("    Prints this help.");
}

}  // namespace dfly
