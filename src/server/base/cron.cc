// SPDX-License-Identifier: Apache-2.0
#include "server/base/cron.h"

#include <charconv>
#include <sstream>
#include <string>

namespace dfly {

namespace {

std::optional<unsigned> ParseNumber(std::string_view text) {
  unsigned number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// One of a field's parts: "*", "5", "1-5", each perhaps with "/2".
template <size_t kSize>
bool ParsePart(std::string_view part, unsigned low, unsigned high, std::bitset<kSize>* set) {
  unsigned step = 1;
  if (const size_t slash = part.find('/'); slash != std::string_view::npos) {
    const auto parsed = ParseNumber(part.substr(slash + 1));
    if (!parsed || *parsed == 0) return false;
    step = *parsed;
    part = part.substr(0, slash);
    if (part != "*" && part.find('-') == std::string_view::npos) return false;
  }
  unsigned first = low;
  unsigned last = high;
  if (part != "*") {
    const size_t dash = part.find('-');
    const auto from = ParseNumber(part.substr(0, dash));
    const auto to = dash == std::string_view::npos ? from : ParseNumber(part.substr(dash + 1));
    if (!from || !to || *from < low || *to > high || *from > *to) return false;
    first = *from;
    last = *to;
  }
  for (unsigned i = first; i <= last; i += step) set->set(i);
  return true;
}

template <size_t kSize>
bool ParseField(std::string_view field, unsigned low, unsigned high, std::bitset<kSize>* set) {
  while (true) {
    const size_t comma = field.find(',');
    if (!ParsePart(field.substr(0, comma), low, high, set)) return false;
    if (comma == std::string_view::npos) return true;
    field = field.substr(comma + 1);
  }
}

}  // namespace

std::optional<Cron> Cron::Parse(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string minutes, hours, days, months, weekdays, rest;
  if (!(words >> minutes >> hours >> days >> months >> weekdays) || words >> rest) {
    return std::nullopt;
  }
  Cron cron;
  if (!ParseField(minutes, 0, 59, &cron.minutes_) || !ParseField(hours, 0, 23, &cron.hours_) ||
      !ParseField(days, 1, 31, &cron.days_) || !ParseField(months, 1, 12, &cron.months_) ||
      !ParseField(weekdays, 0, 7, &cron.weekdays_)) {
    return std::nullopt;
  }
  if (cron.weekdays_[7]) cron.weekdays_.set(0);
  cron.has_days_ = days[0] != '*';
  cron.has_weekdays_ = weekdays[0] != '*';
  return cron;
}

bool Cron::Matches(const std::tm& time) const {
  const auto at = [](int number) { return static_cast<size_t>(number); };
  if (!minutes_[at(time.tm_min)] || !hours_[at(time.tm_hour)] || !months_[at(time.tm_mon + 1)]) {
    return false;
  }
  const bool is_day = days_[at(time.tm_mday)];
  const bool is_weekday = weekdays_[at(time.tm_wday)];
  return has_days_ && has_weekdays_ ? is_day || is_weekday : is_day && is_weekday;
}

}  // namespace dfly
