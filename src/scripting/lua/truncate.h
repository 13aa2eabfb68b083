// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace dfly {

// A Lua number as an integer. C leaves open what becomes of one that is out of range; this is what
// x86 makes of it, as users of Redis know it.
inline int64_t TruncateNumber(double value) {
  constexpr double kLimit = 9223372036854775808.0;
  if (!(value >= -kLimit && value < kLimit)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace dfly
