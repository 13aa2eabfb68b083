// SPDX-License-Identifier: Apache-2.0
// The id of a stream's entry: milliseconds and a number within them, ordered. Pure.
#pragma once

#include <charconv>
#include <compare>
#include <cstdint>
#include <string_view>

namespace dfly {

struct StreamId {
  static constexpr size_t kNumberMax = 20;  // digits
  static constexpr size_t kTextMax = 2 * kNumberMax + 1;

  uint64_t ms = 0;
  uint64_t seq = 0;

  static constexpr StreamId Min() { return {0, 0}; }
  static constexpr StreamId Max() { return {UINT64_MAX, UINT64_MAX}; }

  auto operator<=>(const StreamId&) const = default;
  bool is_zero() const { return ms == 0 && seq == 0; }

  // To the next one. False, and nothing happens: this is the last one there is.
  bool Increment() {
    if (*this == Max()) return false;
    if (++seq == 0) ++ms;
    return true;
  }
  // The opposite.
  bool Decrement() {
    if (is_zero()) return false;
    if (seq-- == 0) --ms;
    return true;
  }

  // "ms-seq", in `scratch` of kTextMax bytes.
  std::string_view Format(char* scratch) const {
    char* end = std::to_chars(scratch, scratch + kNumberMax, ms).ptr;
    *end++ = '-';
    end = std::to_chars(end, end + kNumberMax, seq).ptr;
    return {scratch, static_cast<size_t>(end - scratch)};
  }
};

}  // namespace dfly
