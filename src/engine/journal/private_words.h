// SPDX-License-Identifier: Apache-2.0
// Commands that no Redis knows, in a stream that Redis reads. An unknown command ends the start of
// a redis-server that loads the log, but it takes ECHO without a word (shared/journal.md, section
// 4):
//
//   *2 $4 ECHO $<n> dragonfly:1:*3\r\n$5\r\nSTICK\r\n ...       the command in RESP behind the mark
//
// Readers believe it only where the stream is ours.
#pragma once

#include <string_view>

namespace dfly {

inline constexpr std::string_view kPrivateMark = "dragonfly:1:";

// Says of a command's name, in any case, whether no Redis 7.0 knows it. Thread: any. Must be fast.
using IsPrivateFn = bool (*)(std::string_view name);

}  // namespace dfly
