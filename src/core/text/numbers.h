// SPDX-License-Identifier: Apache-2.0
// Numbers as Redis reads and writes them. What is not a number for Redis is none here. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfly {

// Only the canonical decimal form: no spaces, no '+', no leading zeros, no "-0", within 64 bits.
// So the text can be had back from the number.
std::optional<int64_t> ParseInt64(std::string_view text);

// What C's strtod reads (also "inf", "1e3", "0x10"), and nothing around it: no spaces, no nan, no
// overflow or underflow.
std::optional<double> ParseDouble(std::string_view text);
std::optional<long double> ParseLongDouble(std::string_view text);

// INCRBYFLOAT's and HINCRBYFLOAT's: 17 digits after the point without the trailing zeros, never an
// exponent.
std::string FormatLongDouble(long double value);

inline constexpr size_t kDoubleTextMax = 32;
// The shortest text that reads back as `value`, as Redis >= 7.2 replies it: "3", "0.1", "1e+25",
// "inf", "-inf", "nan". `out` holds kDoubleTextMax bytes.
std::string_view FormatDouble(double value, char* out);

}  // namespace dfly
