// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_place.h"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <system_error>

#include "core/text/crc32c.h"

namespace dfly {

namespace {

constexpr std::string_view kPrefix = "#PLACE:1 ";

std::string_view TakeWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(word.size() < text->size() ? word.size() + 1 : word.size());
  return word;
}

bool TakeNumber(std::string_view* text, uint64_t* number) {
  const std::string_view word = TakeWord(text);
  return std::from_chars(word.data(), word.data() + word.size(), *number).ec == std::errc();
}

}  // namespace

std::string FormatLogPlace(const LogPlace& log) {
  std::string text = fmt::format("{}{} {} {} {} {} ", kPrefix, log.place.id, log.place.offset,
                                 log.place.db_index, log.size, log.file);
  text += fmt::format("{:08X}\n", Crc32c(0, text));
  return text;
}

std::optional<LogPlace> ParseLogPlace(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  std::string_view left = text.substr(kPrefix.size());
  LogPlace log;
  log.place.id = TakeWord(&left);
  uint64_t db_index = 0;
  if (!TakeNumber(&left, &log.place.offset) || !TakeNumber(&left, &db_index) ||
      !TakeNumber(&left, &log.size) || db_index > INT_MAX) {
    return std::nullopt;
  }
  log.place.db_index = static_cast<int>(db_index);
  // A name may have blanks: it goes up to the last one.
  log.file = left.substr(0, left.rfind(' '));
  // Whatever else this accepts is not what is written.
  if (log.place.id.empty() || FormatLogPlace(log) != text) return std::nullopt;
  return log;
}

}  // namespace dfly
