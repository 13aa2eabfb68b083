// SPDX-License-Identifier: Apache-2.0
// Arithmetic of JSON numbers. Integers stay integers as long as 64 bits hold them.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "core/json/json_doc.h"

namespace dfly {

struct JsonNumber {
  bool is_integer = false;
  int64_t integer = 0;
  double real = 0;

  static JsonNumber Integer(int64_t integer) { return {.is_integer = true, .integer = integer}; }
  static JsonNumber Real(double real) { return {.real = real}; }
  // REQUIRES: is_number().
  static JsonNumber Of(const JsonNode& node) {
    const bool is_integer = node.type() == JsonType::kInteger && !node.is_uint();
    return is_integer ? Integer(node.AsInt()) : Real(node.AsDouble());
  }
  double AsReal() const { return is_integer ? static_cast<double>(integer) : real; }
  JsonNode NodeIn(JsonDoc* doc) const {
    return is_integer ? doc->MakeInt(integer) : doc->MakeDouble(real);
  }
};

// With the sign of x, exactly. Not fmod(x, y): in a program that has Lua, calls of that name get
// Lua's own remainder (lua_numbers.cc).
inline double JsonRemainder(double x, double y) {
  return static_cast<double>(std::fmod(static_cast<long double>(x), static_cast<long double>(y)));
}

// `sign`: + - * / %. None: it is not finite, or divides by 0.
inline std::optional<JsonNumber> ComputeJson(char sign, const JsonNumber& a, const JsonNumber& b) {
  if (a.is_integer && b.is_integer && sign != '/') {
    int64_t result = 0;
    bool overflows = false;
    switch (sign) {
      case '+':
        overflows = __builtin_add_overflow(a.integer, b.integer, &result);
        break;
      case '-':
        overflows = __builtin_sub_overflow(a.integer, b.integer, &result);
        break;
      case '*':
        overflows = __builtin_mul_overflow(a.integer, b.integer, &result);
        break;
      default:
        if (b.integer == 0) return std::nullopt;
        result = b.integer == -1 ? 0 : a.integer % b.integer;  // the least one % -1 overflows
    }
    if (!overflows) return JsonNumber::Integer(result);
  }
  const double x = a.AsReal();
  const double y = b.AsReal();
  if ((sign == '/' || sign == '%') && y == 0) return std::nullopt;
  const double result = sign == '+'   ? x + y
                        : sign == '-' ? x - y
                        : sign == '*' ? x * y
                        : sign == '/' ? x / y
                                      : JsonRemainder(x, y);
  if (!std::isfinite(result)) return std::nullopt;
  return JsonNumber::Real(result);
}

}  // namespace dfly
