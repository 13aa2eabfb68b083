// SPDX-License-Identifier: Apache-2.0
#include "helio/base/format_number.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace helio {
namespace {

constexpr char kTwoDigits[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546"
    "4748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293"
    "949596979899";

unsigned CountDigits(uint64_t value) {
  unsigned digits = 1;
  while (true) {
    if (value < 10) return digits;
    if (value < 100) return digits + 1;
    if (value < 1000) return digits + 2;
    if (value < 10000) return digits + 3;
    value /= 10000;
    digits += 4;
  }
}

char* Copy(std::string_view text, char* out) {
  memcpy(out, text.data(), text.size());
  return out + text.size();
}

}  // namespace

char* FormatUnsigned(uint64_t value, char* out) {
  if (value < 10) {
    *out = static_cast<char>('0' + value);
    return out + 1;
  }
  char* const end = out + CountDigits(value);
  char* p = end;
  while (value >= 100) {
    p -= 2;
    memcpy(p, kTwoDigits + (value % 100) * 2, 2);
    value /= 100;
  }
  if (value >= 10) {
    memcpy(p - 2, kTwoDigits + value * 2, 2);
  } else {
    p[-1] = static_cast<char>('0' + value);
  }
  return end;
}

char* FormatInteger(int64_t value, char* out) {
  if (value >= 0) return FormatUnsigned(static_cast<uint64_t>(value), out);
  *out = '-';
  return FormatUnsigned(0 - static_cast<uint64_t>(value), out + 1);
}

char* FormatDouble(double value, char* out) {
  if (std::isnan(value)) return Copy("nan", out);
  if (std::isinf(value)) return Copy(value > 0 ? "inf" : "-inf", out);
  if (value == 0) return Copy(std::signbit(value) ? "-0" : "0", out);
  constexpr double kWholeMax = 4611686018427387904.0;  // 2^62
  if (value >= -kWholeMax && value <= kWholeMax && value == std::trunc(value)) {
    return FormatInteger(static_cast<int64_t>(value), out);
  }

  // The shortest digits d1 d2 ... and the exponent of "d1.d2...e<exponent>", laid out anew, since
  // to_chars pads exponents and has other limits for plain notation.
  char text[kMaxDoubleChars];
  const auto written =
      std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  const char* p = text;
  if (*p == '-') *out++ = *p++;
  char digits[20];
  int count = 0;
  for (; *p != 'e'; p++) {
    if (*p != '.') digits[count++] = *p;
  }
  int exponent = 0;
  const bool negative = p[1] == '-';
  std::from_chars(p + 2, written.ptr, exponent);
  if (negative) exponent = -exponent;

  const int zeros = exponent + 1 - count;  // value == digits * 10^zeros
  if (zeros >= 0 && exponent < count + 7) {
    out = Copy({digits, static_cast<size_t>(count)}, out);
    memset(out, '0', static_cast<size_t>(zeros));
    return out + zeros;
  }
  if (zeros < 0 && (zeros > -7 || std::abs(exponent) < 4)) {
    const int whole = count + zeros;  // digits before the point
    if (whole <= 0) {
      out = Copy("0.", out);
      memset(out, '0', static_cast<size_t>(-whole));
      return Copy({digits, static_cast<size_t>(count)}, out - whole);
    }
    out = Copy({digits, static_cast<size_t>(whole)}, out);
    *out++ = '.';
    return Copy({digits + whole, static_cast<size_t>(count - whole)}, out);
  }
  *out++ = digits[0];
  if (count > 1) {
    *out++ = '.';
    out = Copy({digits + 1, static_cast<size_t>(count - 1)}, out);
  }
  *out++ = 'e';
  *out++ = exponent < 0 ? '-' : '+';
  return FormatUnsigned(static_cast<uint64_t>(std::abs(exponent)), out);
}

}  // namespace helio
