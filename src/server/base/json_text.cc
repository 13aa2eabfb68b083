// SPDX-License-Identifier: Apache-2.0
#include "server/base/json_text.h"

#include <fmt/format.h>

#include <ctime>
#include <iterator>
#include <utility>

#include "helio/base/log_text.h"

namespace dfly {

void AppendJsonForLog(std::string_view text, std::string* out) {
  *out += '"';
  while (!text.empty()) {
    const char c = text[0];
    const size_t size = helio::Utf8Size(text);
    if (size == 0) {
      *out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\r') {
      *out += "\\r";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      *out += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  *out += '"';
}

std::string JsonTime(int64_t micros) {
  constexpr int64_t kMicros = 1'000'000;
  const time_t seconds = micros / kMicros;
  tm parts = {};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     micros % kMicros);
}

JsonLine& JsonLine::Raw(std::string_view name, std::string_view value) {
  if (text_.size() > 1) text_ += ',';
  AppendJsonForLog(name, &text_);
  text_ += ':';
  text_ += value;
  return *this;
}

JsonLine& JsonLine::Text(std::string_view name, std::string_view value) {
  Raw(name, "");
  AppendJsonForLog(value, &text_);
  return *this;
}

JsonLine& JsonLine::Number(std::string_view name, int64_t value) {
  return Raw(name, fmt::format("{}", value));
}

std::string JsonLine::Take() {
  text_ += '}';
  return std::exchange(text_, "{");
}

}  // namespace dfly
