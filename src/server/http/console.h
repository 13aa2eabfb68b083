// SPDX-License-Identifier: Apache-2.0
// The web console: the files of src/server/console, as they were when this was built.
#pragma once

#include <string_view>

namespace dfly {

struct ConsoleFile {
  std::string_view path;  // of its URL
  std::string_view type;
  std::string_view bytes;
};

// Null: the console has no file with that path.
const ConsoleFile* FindConsoleFile(std::string_view path);

// Fields of the console's HTTP replies. With them a browser loads nothing for the page that comes
// from another server, and shows the page in no frame.
inline constexpr char kConsoleFields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";

}  // namespace dfly
