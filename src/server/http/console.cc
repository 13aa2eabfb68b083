// SPDX-License-Identifier: Apache-2.0
#include "server/http/console.h"

#include "server/http/console_bytes.h"  // made by cmake/embed.cmake

namespace dfly {

namespace {

template <size_t kSize>
constexpr std::string_view Bytes(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

}  // namespace

const ConsoleFile* FindConsoleFile(std::string_view path) {
  static const ConsoleFile files[] = {
      {"/", "text/html; charset=utf-8", Bytes(console_html)},
      {"/console.css", "text/css; charset=utf-8", Bytes(console_css)},
      {"/console.charts.js", "text/javascript; charset=utf-8", Bytes(console_charts_js)},
      {"/console.replicas.js", "text/javascript; charset=utf-8", Bytes(console_replicas_js)},
      {"/console.js", "text/javascript; charset=utf-8", Bytes(console_js)},
      {"/console.svg", "image/svg+xml", Bytes(console_svg)},
  };
  for (const ConsoleFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace dfly
