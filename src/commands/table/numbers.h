// SPDX-License-Identifier: Apache-2.0
// Numbers among the arguments of a command. Each function replies the error when the argument is
// not what it should be, and returns none.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "facade/replies/reply_sink.h"

namespace dfly {

// For functions that return none once they have replied an error.
inline std::nullopt_t Refuse(ReplySink& reply, std::string_view error) {
  reply.Error(error);
  return std::nullopt;
}

// Any integer.
std::optional<int64_t> ParseInteger(std::string_view text, std::string_view error,
                                    ReplySink& reply);

// An integer within [min, INT64_MAX].
std::optional<int64_t> ParseAtLeast(int64_t min, std::string_view text, std::string_view error,
                                    ReplySink& reply);

// What the argument of EX, PX, EXAT and PXAT counts.
struct DeadlineUnit {
  std::string_view option;
  int64_t unit_ms;
  bool is_relative;  // to the present; else to 1970

  int64_t base_ms(int64_t now_ms) const { return is_relative ? now_ms : 0; }
};
// Null: `option` is none of the four, whatever the case of its letters.
const DeadlineUnit* FindDeadlineUnit(std::string_view option);

// Which deadlines a family takes. A number below `number_min` is answered with `below_min`, or, if
// that is empty, as one that is too large: with InvalidExpireError.
struct DeadlineRule {
  int64_t number_min = INT64_MIN;
  std::string_view below_min = {};
  int64_t at_max_ms = INT64_MAX;
};
inline constexpr DeadlineRule kAnyDeadline = {};                 // EXPIRE
inline constexpr DeadlineRule kNewDeadline = {.number_min = 1};  // SETEX, SET, GETEX
inline constexpr DeadlineRule kMemberDeadline = {                // HEXPIRE, FIELDEXPIRE
    .number_min = 0,
    .below_min = "ERR invalid expire time, must be >= 0",
    .at_max_ms = int64_t{1} << 48};  // the year 10889; exact as a double

// The deadline that is `text` units of `unit_ms` after `base_ms`, in Unix milliseconds, maybe in
// the past. `command` is for the error's text.
std::optional<int64_t> ParseDeadline(const DeadlineRule& rule, std::string_view text,
                                     int64_t unit_ms, int64_t base_ms, std::string_view command,
                                     ReplySink& reply);

}  // namespace dfly
