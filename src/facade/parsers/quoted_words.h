// SPDX-License-Identifier: Apache-2.0
// Lines of words, some of them in quotes, as redis-cli, redis.conf and the first line of a script
// have them. RequestParser has the same rules for inline commands, in its own buffer. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfly {

// The words of `line`. Double quotes know escapes (facade/parsers/escapes.h and \xHH), single
// quotes only \'. None if a quote has no end, or no blank behind it.
std::optional<std::vector<std::string>> SplitQuoted(std::string_view line);

}  // namespace dfly
