// SPDX-License-Identifier: Apache-2.0
#include "storage/log/log_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "core/text/numbers.h"

namespace dfly {

namespace {

constexpr int64_t kMinute = 60;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kDurationMax = 100 * 366 * kDay;

int64_t SecondsOf(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return kMinute;
    case 'h':
      return kHour;
    case 'd':
      return kDay;
    default:
      return 0;
  }
}

// "2026-11-25 10:03:00", or with a T: 0 is a digit, all else stands for itself.
bool HasFormOfTime(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00 00:00:00";
  return std::ranges::equal(text, kForm, [](char c, char form) {
    if (form == '0') return c >= '0' && c <= '9';
    return c == form || (form == ' ' && c == 'T');
  });
}

std::optional<int64_t> ParseCalendar(std::string_view text) {
  const bool is_utc = text.ends_with('Z');
  if (is_utc) text.remove_suffix(1);
  if (!HasFormOfTime(text)) return std::nullopt;
  const auto number = [text](size_t at, size_t digits) {
    int value = 0;
    for (const char c : text.substr(at, digits)) value = 10 * value + (c - '0');
    return value;
  };
  std::tm time = {};
  time.tm_year = number(0, 4) - 1900;
  time.tm_mon = number(5, 2) - 1;
  time.tm_mday = number(8, 2);
  time.tm_hour = number(11, 2);
  time.tm_min = number(14, 2);
  time.tm_sec = number(17, 2);
  time.tm_isdst = -1;
  const std::tm asked = time;
  const std::time_t seconds = is_utc ? timegm(&time) : mktime(&time);
  // A day or an hour that does not exist becomes another one.
  if (time.tm_mon != asked.tm_mon || time.tm_mday != asked.tm_mday ||
      time.tm_hour != asked.tm_hour || time.tm_min != asked.tm_min || time.tm_sec != asked.tm_sec) {
    return std::nullopt;
  }
  return seconds;
}

}  // namespace

std::optional<int64_t> ParseDuration(std::string_view text) {
  const int64_t unit = text.empty() ? 0 : SecondsOf(text.back());
  if (unit > 0) text.remove_suffix(1);
  const auto number = ParseInt64(text);
  if (!number || *number < 0 || *number > kDurationMax / std::max<int64_t>(unit, 1)) {
    return std::nullopt;
  }
  return *number * std::max<int64_t>(unit, 1);
}

std::string FormatDuration(int64_t seconds) {
  if (seconds != 0 && seconds % kHour == 0) return fmt::format("{}h", seconds / kHour);
  if (seconds != 0 && seconds % kMinute == 0) return fmt::format("{}m", seconds / kMinute);
  return fmt::format("{}", seconds);
}

std::optional<LogPoint> ParseLogPoint(std::string_view text, int64_t now_s) {
  constexpr std::string_view kEpoch = "epoch:";
  if (text.starts_with(kEpoch)) {
    const auto number = ParseInt64(text.substr(kEpoch.size()));
    if (!number || *number < 0) return std::nullopt;
    return LogPoint{.time_s = {}, .epoch = static_cast<uint64_t>(*number)};
  }
  std::optional<int64_t> time_s;
  if (text.starts_with('-') && SecondsOf(text.back()) > 0) {
    if (const auto ago = ParseDuration(text.substr(1))) time_s = now_s - *ago;
  } else if (const auto seconds = ParseInt64(text)) {
    if (*seconds >= 0) time_s = seconds;
  } else {
    time_s = ParseCalendar(text);
  }
  if (!time_s) return std::nullopt;
  return LogPoint{.time_s = time_s, .epoch = {}};
}

std::string FormatLogTime(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local = {};
  localtime_r(&time, &local);
  char text[64];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", &local);
  return fmt::format("{} ({})", std::string_view(text, size), seconds);
}

}  // namespace dfly
