// SPDX-License-Identifier: Apache-2.0
// The words of commands' options, and HELP replies.
#pragma once

#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>

#include "facade/reply_sink.h"

namespace dfly {

inline std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
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
