// SPDX-License-Identifier: Apache-2.0
#include "commands/table/numbers.h"

#include <algorithm>
#include <iterator>

#include "commands/table/args.h"
#include "core/text/numbers.h"
#include "facade/replies/error_texts.h"

namespace dfly {

std::optional<int64_t> ParseInteger(std::string_view text, std::string_view error,
                                    ReplySink& reply) {
  const std::optional<int64_t> number = ParseInt64(text);
  if (!number) return Refuse(reply, error);
  return number;
}

std::optional<int64_t> ParseAtLeast(int64_t min, std::string_view text, std::string_view error,
                                    ReplySink& reply) {
  const std::optional<int64_t> number = ParseInt64(text);
  if (!number || *number < min) return Refuse(reply, error);
  return number;
}

const DeadlineUnit* FindDeadlineUnit(std::string_view option) {
  static constexpr DeadlineUnit kUnits[] = {
      {"EX", 1000, true}, {"PX", 1, true}, {"EXAT", 1000, false}, {"PXAT", 1, false}};
  const auto* const found =
      std::find_if(std::begin(kUnits), std::end(kUnits),
                   [option](const DeadlineUnit& unit) { return IsOption(option, unit.option); });
  return found == std::end(kUnits) ? nullptr : found;
}

std::optional<int64_t> ParseDeadline(const DeadlineRule& rule, std::string_view text,
                                     int64_t unit_ms, int64_t base_ms, std::string_view command,
                                     ReplySink& reply) {
  const std::optional<int64_t> number = ParseInteger(text, kErrNotInteger, reply);
  if (!number) return std::nullopt;
  const bool is_below = *number < rule.number_min;
  if (is_below && !rule.below_min.empty()) return Refuse(reply, rule.below_min);
  int64_t at_ms = 0;
  if (is_below || __builtin_mul_overflow(*number, unit_ms, &at_ms) ||
      __builtin_add_overflow(at_ms, base_ms, &at_ms) || at_ms > rule.at_max_ms) {
    return Refuse(reply, InvalidExpireError(command));
  }
  return at_ms;
}

}  // namespace dfly
