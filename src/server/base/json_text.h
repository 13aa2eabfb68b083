// SPDX-License-Identifier: Apache-2.0
// Lines of JSON: the log with --log_format=json, and the audit log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

// The text in quotes. What JSON does not allow in them is escaped; a byte that is no UTF-8 becomes
// U+FFFD.
void AppendJsonForLog(std::string_view text, std::string* out);

// "2026-11-30T07:00:37.000001Z", RFC 3339. `micros`: Unix time.
std::string JsonTime(int64_t micros);

// One object of a line: {"name":value,...}.
class JsonLine {
 public:
  JsonLine& Text(std::string_view name, std::string_view value);
  JsonLine& Number(std::string_view name, int64_t value);
  // `value` is JSON itself.
  JsonLine& Raw(std::string_view name, std::string_view value);
  // The line, without its end. It is empty afterwards.
  std::string Take();

 private:
  std::string text_ = "{";
};

}  // namespace dfly
