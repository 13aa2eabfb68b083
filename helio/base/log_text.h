// SPDX-License-Identifier: Apache-2.0
// Texts that came from outside, in lines of the log:  LOG(INFO) << "script: " << LogText(line);
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace helio {

// Bytes of the character that UTF-8 text begins with; 0: it does not begin with one. As RFC 3629
// has it: nothing longer than it need be, no surrogates, nothing above U+10FFFF.
// REQUIRES: !text.empty().
size_t Utf8Size(std::string_view text);

// The text as one line that no terminal obeys: what is not printable, and what is no UTF-8, is
// escaped as in C, and so are backslashes.
std::string LogText(std::string_view text);

}  // namespace helio
