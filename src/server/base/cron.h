// SPDX-License-Identifier: Apache-2.0
// Times as cron(5) has them: "minute hour day month weekday". Pure.
#pragma once

#include <bitset>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

namespace dfly {

class Cron {
 public:
  // Each field is *, or numbers, ranges (1-5) and steps (*/15, 10-40/5), separated by commas. As in
  // cron(5) a day is right if the day of the month is, or the weekday, when both are restricted; a
  // weekday is 0 to 7, and both ends are Sunday. None: it makes no sense.
  static std::optional<Cron> Parse(std::string_view text);

  // Is the minute that `time` is in one of them? Local time.
  bool Matches(const std::tm& time) const;

 private:
  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;
  std::bitset<13> months_;
  std::bitset<8> weekdays_;
  bool has_days_ = false;
  bool has_weekdays_ = false;
};

}  // namespace dfly
