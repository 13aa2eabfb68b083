// SPDX-License-Identifier: Apache-2.0
#include "helio/base/log_text.h"

#include <fmt/format.h>

#include <iterator>

namespace helio {

size_t Utf8Size(std::string_view text) {
  const auto byte = [&text](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || text.size() <= more) return 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i <= more; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return more + 1;
}

std::string LogText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = Utf8Size(text);
    const char c = text.front();
    // U+0080 to U+009F are control characters, too.
    const bool is_control = size == 2 && c == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
    if (size > 1 && !is_control) {
      out += text.substr(0, size);
      text.remove_prefix(size);
      continue;
    }
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace helio
