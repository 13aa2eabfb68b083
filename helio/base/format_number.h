// SPDX-License-Identifier: Apache-2.0
// Numbers as Redis writes them, straight into a caller's buffer. No locale, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace helio {

constexpr size_t kMaxIntegerChars = 20;  // "-9223372036854775808", "18446744073709551615"
constexpr size_t kMaxDoubleChars = 32;

// Each writes at `out`, without a terminating NUL, and returns the end of what it wrote.
char* FormatUnsigned(uint64_t value, char* out);
char* FormatInteger(int64_t value, char* out);

// The shortest text that reads back as `value`: "3", "0.1", "-0", "1e+21", "1.5e-7", "inf", "-inf",
// "nan". Whole numbers up to 2^62 have no exponent.
char* FormatDouble(double value, char* out);

}  // namespace helio
