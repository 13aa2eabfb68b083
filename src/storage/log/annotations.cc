// SPDX-License-Identifier: Apache-2.0
#include "storage/log/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text/crc32c.h"
#include "core/text/numbers.h"
#include "engine/journal/sections.h"
#include "helio/base/logging.h"

namespace dfly {

namespace {

constexpr std::string_view kEpochPrefix = "#EPOCH:";
constexpr std::string_view kStreamPrefix = "#STREAM:";
constexpr std::string_view kTimestampPrefix = "#TS:";
constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kCrcDigits = 8;
constexpr size_t kFillerMin = 3;  // bytes

char* Append(std::string_view text, char* to) { return std::copy(text.begin(), text.end(), to); }
template <typename Number>
char* AppendNumber(Number number, char* to) {
  return std::to_chars(to, to + 20, number).ptr;
}

// Takes a decimal number and the blank behind it.
bool TakeNumber(std::string_view* text, uint64_t* number) {
  const char* const end = text->data() + text->size();
  if (text->empty() || (text->front() == '0' && text->size() > 1 && (*text)[1] != ' ')) {
    return false;
  }
  const auto [ptr, error] = std::from_chars(text->data(), end, *number);
  if (error != std::errc() || ptr == end || *ptr != ' ') return false;
  text->remove_prefix(static_cast<size_t>(ptr + 1 - text->data()));
  return true;
}

bool IsUpperHex(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); }

}  // namespace

std::string WriteLogFileHeader(std::string_view stream_id, uint64_t stream_offset, int db_index) {
  std::string text(kFileMark);
  if (stream_id.empty()) return text;
  text += fmt::format("{}{} {} {}\r\n", kStreamPrefix, stream_id, stream_offset, db_index);
  if (db_index >= 0) text += SelectCommand(db_index);
  return text;
}

std::optional<LogFileHeader> ParseLogFileHeader(std::string_view text) {
  if (!text.starts_with(kFileMark)) return std::nullopt;
  LogFileHeader header{.size = kFileMark.size()};
  std::string_view left = text.substr(kFileMark.size());
  if (!left.starts_with(kStreamPrefix)) return header;
  left.remove_prefix(kStreamPrefix.size());
  const std::string_view id = left.substr(0, left.find(' '));
  left.remove_prefix(std::min(id.size() + 1, left.size()));
  const size_t line_end = left.find(kLineEnd);
  uint64_t offset = 0;
  if (id.empty() || line_end == std::string_view::npos || !TakeNumber(&left, &offset))
    return header;
  const auto db_index = ParseInt64(left.substr(0, left.find(kLineEnd)));
  if (!db_index || *db_index < -1 || *db_index > INT32_MAX) return header;
  const auto db = static_cast<int>(*db_index);
  // Whatever else this accepts is not what is written.
  const std::string written = WriteLogFileHeader(id, offset, db);
  if (!text.starts_with(written)) return header;
  return LogFileHeader{.size = written.size(),
                       .stream_id = std::string(id),
                       .stream_offset = offset,
                       .db_index = db};
}

std::string_view WriteEpochHeader(uint64_t number, uint64_t stream_offset,
                                  std::span<const std::string_view> pieces, char* buffer,
                                  uint64_t unsynced) {
  DCHECK_LE(unsynced, stream_offset);
  uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  char* at = Append(kEpochPrefix, buffer);
  for (const uint64_t value : {number, stream_offset, bytes, unsynced}) {
    at = AppendNumber(value, at);
    *at++ = ' ';
  }
  uint32_t crc = Crc32c(0, {buffer, static_cast<size_t>(at - buffer)});
  for (const std::string_view piece : pieces) crc = Crc32c(crc, piece);
  for (size_t i = kCrcDigits; i > 0; --i) *at++ = "0123456789ABCDEF"[crc >> (4 * (i - 1)) & 15];
  at = Append(kLineEnd, at);
  return {buffer, static_cast<size_t>(at - buffer)};
}

std::optional<EpochHeader> ParseEpochHeader(std::string_view line) {
  if (!line.starts_with(kEpochPrefix) || !line.ends_with(kLineEnd)) return std::nullopt;
  std::string_view left = line.substr(kEpochPrefix.size());
  EpochHeader header;
  if (!TakeNumber(&left, &header.number) || !TakeNumber(&left, &header.stream_offset) ||
      !TakeNumber(&left, &header.bytes) || !TakeNumber(&left, &header.unsynced) ||
      header.unsynced > header.stream_offset) {
    return std::nullopt;
  }
  header.line_crc = Crc32c(0, line.substr(0, line.size() - left.size()));
  left.remove_suffix(kLineEnd.size());
  if (left.size() != kCrcDigits || !std::all_of(left.begin(), left.end(), IsUpperHex)) {
    return std::nullopt;
  }
  std::from_chars(left.data(), left.data() + left.size(), header.crc, 16);
  return header;
}

std::string_view WriteTimestamp(int64_t seconds, char* buffer) {
  char* at = Append(kTimestampPrefix, buffer);
  at = AppendNumber(seconds, at);
  at = Append(kLineEnd, at);
  return {buffer, static_cast<size_t>(at - buffer)};
}

std::optional<int64_t> ParseTimestamp(std::string_view line) {
  if (!line.starts_with(kTimestampPrefix) || !line.ends_with('\n')) return std::nullopt;
  line.remove_prefix(kTimestampPrefix.size());
  line.remove_suffix(line.ends_with(kLineEnd) ? 2 : 1);
  int64_t seconds = 0;
  const auto [ptr, error] = std::from_chars(line.data(), line.data() + line.size(), seconds);
  if (error != std::errc() || ptr != line.data() + line.size()) return std::nullopt;
  return seconds;
}

bool IsFiller(std::string_view line) {
  if (line.size() < kFillerMin || line[0] != '#' || !line.ends_with(kLineEnd)) return false;
  const std::string_view dots = line.substr(1, line.size() - kFillerMin);
  return dots.find_first_not_of('.') == std::string_view::npos;
}

}  // namespace dfly
