// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace dfly {

// The SHA1 of `text` in 40 hexadecimal digits, lower case: the name of a script. Pure.
std::string Sha1Hex(std::string_view text);

}  // namespace dfly
