// SPDX-License-Identifier: Apache-2.0
// Redis' glob patterns: * ? [abc] [a-z] [^a] and \x for x itself. Pure.
#pragma once

#include <string_view>

namespace dfly {

enum class GlobCase { kSensitive, kIgnore };

// True if `pattern` matches the whole of `text`. Bytes, not characters. The work is bounded by
// size of pattern times size of text whatever the pattern, so a client cannot stall a shard with
// it.
bool GlobMatch(std::string_view pattern, std::string_view text,
               GlobCase letters = GlobCase::kSensitive);

}  // namespace dfly
