// SPDX-License-Identifier: Apache-2.0
// Words: of commands' options, of lists in settings; and HELP replies.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "facade/replies/reply_sink.h"
#include "helio/base/ascii.h"

namespace dfly {

using helio::LowerCase;
using helio::SplitWords;

// True if `text` is `word`, whatever its case.
inline bool IsWord(std::string_view text, std::string_view word) {
  return helio::EqualsIgnoreCase(text, word);
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
