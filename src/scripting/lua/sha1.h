// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace dfly {

// The SHA1 of `text` in 40 hexadecimal digits, lower case: the name of a script. Pure.
std::string Sha1Hex(std::string_view text);

// The same for functions of Lua: its errors jump over destructors, so they may own no memory.
std::array<char, 40> Sha1Digits(std::string_view text);

}  // namespace dfly
