// SPDX-License-Identifier: Apache-2.0
// The web console: the files of src/server/console, as they were when this was built.
#pragma once

#include <string_view>

namespace dfly {

struct ConsoleFile {
  std::string_view path;  // under which it is served
  std::string_view type;
  std::string_view bytes;
};

// Null: there is none.
const ConsoleFile* FindConsoleFile(std::string_view path);

// What browsers shall forbid the console: anything that is not this server's.
inline constexpr char kConsoleFields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";

}  // namespace dfly
