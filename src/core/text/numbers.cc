// SPDX-License-Identifier: Apache-2.0
#include "core/text/numbers.h"

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dfly {
namespace {

// Redis refuses longer texts as long doubles. Nobody needs them for doubles either.
constexpr size_t kFloatTextMax = 5 * 1024;

// strtod and strtold want a terminated string, which an argument is not.
template <typename Float>
std::optional<Float> ParseFloat(std::string_view text, Float (*parse)(const char*, char**)) {
  if (text.empty() || text.size() >= kFloatTextMax) return std::nullopt;
  if (std::isspace(static_cast<unsigned char>(text[0]))) return std::nullopt;
  char small[128];
  std::string large;
  const char* begin;
  if (text.size() < sizeof(small)) {
    std::memcpy(small, text.data(), text.size());
    small[text.size()] = '\0';
    begin = small;
  } else {
    large.assign(text);
    begin = large.c_str();
  }
  char* end = nullptr;
  errno = 0;
  Float value = parse(begin, &end);
  if (static_cast<size_t>(end - begin) != text.size() || std::isnan(value)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(value) || value == 0)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> ParseInt64(std::string_view text) {
  if (text.empty() || text.size() > 20) return std::nullopt;
  const bool negative = text[0] == '-';
  const size_t first = negative ? 1 : 0;
  if (first == text.size()) return std::nullopt;
  if (text[first] == '0') {
    if (text.size() != 1) return std::nullopt;
    return 0;
  }
  uint64_t magnitude = 0;
  for (size_t i = first; i < text.size(); ++i) {
    uint64_t digit = static_cast<uint8_t>(text[i]) - static_cast<uint64_t>('0');
    if (digit > 9) return std::nullopt;
    // 19 digits always fit.
    if (i - first >= 19 && magnitude > (UINT64_MAX - digit) / 10) return std::nullopt;
    magnitude = magnitude * 10 + digit;
  }
  const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (magnitude > limit) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
}

std::optional<double> ParseDouble(std::string_view text) {
  return ParseFloat<double>(text, std::strtod);
}

std::optional<long double> ParseLongDouble(std::string_view text) {
  return ParseFloat<long double>(text, std::strtold);
}

std::string FormatLongDouble(long double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  char text[5 * 1024 + 32];  // the largest long double has 4933 digits before the point
  int size = std::snprintf(text, sizeof(text), "%.17Lf", value);
  while (text[size - 1] == '0') --size;
  if (text[size - 1] == '.') --size;
  std::string_view result(text, static_cast<size_t>(size));
  return std::string(result == "-0" ? "0" : result);
}

std::string_view FormatDouble(double value, char* out) {
  char* at = out;
  auto put = [&at](std::string_view text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  };
  auto put_zeros = [&at](int count) {
    for (; count > 0; --count) *at++ = '0';
  };

  if (std::isnan(value)) {
    put("nan");
  } else if (std::isinf(value)) {
    put(value > 0 ? "inf" : "-inf");
  } else if (value == 0) {
    put(std::signbit(value) ? "-0" : "0");
  } else if (std::abs(value) <= 0x1p62 && value == std::trunc(value)) {
    at = std::to_chars(at, out + kDoubleTextMax, static_cast<int64_t>(value)).ptr;
  } else {
    // The shortest digits and the exponent: d[.ddd]e[+-]xx.
    char scientific[kDoubleTextMax];
    char* end = std::to_chars(scientific, scientific + sizeof(scientific), value,
                              std::chars_format::scientific)
                    .ptr;
    const char* from = scientific;
    if (*from == '-') *at++ = *from++;
    char digits[24];
    int count = 0;
    for (; *from != 'e'; ++from) {
      if (*from != '.') digits[count++] = *from;
    }
    int exponent = 0;
    bool negative = from[1] == '-';
    std::from_chars(from + 2, end, exponent);
    if (negative) exponent = -exponent;

    // value = 0.d1d2... with `count` digits times 10^(exponent + 1); `scale` counts the zeros after
    // the last digit, or, negated, the digits after the point.
    const int scale = exponent - count + 1;
    const int magnitude = exponent < 0 ? -exponent : exponent;
    if (scale >= 0 && magnitude < count + 7) {
      put({digits, static_cast<size_t>(count)});
      put_zeros(scale);
    } else if (scale < 0 && (scale > -7 || magnitude < 4)) {
      int whole = count + scale;
      if (whole <= 0) {
        put("0.");
        put_zeros(-whole);
        put({digits, static_cast<size_t>(count)});
      } else {
        put({digits, static_cast<size_t>(whole)});
        *at++ = '.';
        put({digits + whole, static_cast<size_t>(count - whole)});
      }
    } else {
      *at++ = digits[0];
      if (count > 1) {
        *at++ = '.';
        put({digits + 1, static_cast<size_t>(count - 1)});
      }
      *at++ = 'e';
      *at++ = negative ? '-' : '+';
      at = std::to_chars(at, out + kDoubleTextMax, magnitude).ptr;
    }
  }
  return {out, static_cast<size_t>(at - out)};
}

}  // namespace dfly
