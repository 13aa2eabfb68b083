// SPDX-License-Identifier: Apache-2.0
#include "server/base/units.h"

#include <fmt/format.h>

#include <limits>

#include "core/text/numbers.h"
#include "server/base/words.h"

namespace dfly {

std::optional<uint64_t> ParseMemory(std::string_view text) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  static constexpr Unit kUnits[] = {{"", 1},           {"b", 1},          {"k", 1000},
                                    {"kb", 1 << 10},   {"m", 1'000'000},  {"mb", 1 << 20},
                                    {"g", 1000000000}, {"gb", 1ull << 30}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = ParseInt64(text.substr(0, digits));
  if (!number) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (!IsWord(text.substr(digits), unit.name)) continue;
    const auto count = static_cast<uint64_t>(*number);
    if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / unit.bytes) break;
    return count * unit.bytes;
  }
  return std::nullopt;
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{}B", bytes);
  double value = static_cast<double>(bytes);
  std::string_view unit;
  for (std::string_view next : {"K", "M", "G", "T", "P"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.2f}{}", value, unit);
}

}  // namespace dfly
