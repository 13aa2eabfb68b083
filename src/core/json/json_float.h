// SPDX-License-Identifier: Apache-2.0
// Floating-point types of 2, 4 and 8 bytes: those of FPHA, an option of JSON.SET.
//
//              exponent  mantissa
//   FP16       5 bits    10 bits
//   BF16       8         7
//   FP32       8         23
//   FP64       11        52
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dfly {

enum class JsonFloat : uint8_t { kFp16, kBf16, kFp32, kFp64 };
inline constexpr size_t kJsonFloats = 4;

inline std::string_view FloatName(JsonFloat type) {
  static constexpr std::string_view kNames[kJsonFloats] = {"FP16", "BF16", "FP32", "FP64"};
  return kNames[static_cast<size_t>(type)];
}

constexpr size_t FloatBytes(JsonFloat type) {
  return type == JsonFloat::kFp64 ? 8 : type == JsonFloat::kFp32 ? 4 : 2;
}

// The nearest number of the type, of two the even one. None: it is beyond all of them.
inline std::optional<uint64_t> EncodeFloat(JsonFloat type, double number) {
  if (type == JsonFloat::kFp64) return std::bit_cast<uint64_t>(number);
  const int exponent_bits = type == JsonFloat::kFp16 ? 5 : 8;
  const int mantissa_bits = type == JsonFloat::kFp16 ? 10 : type == JsonFloat::kBf16 ? 7 : 23;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  uint64_t bits = 0;
  if (number != 0) {
    int exponent;
    std::frexp(number, &exponent);
    exponent = std::max(exponent - 1, 1 - bias);  // below that numbers are as far from each other
    const double scaled = std::nearbyint(std::ldexp(std::fabs(number), mantissa_bits - exponent));
    // A mantissa that was rounded up to the next power of 2 makes the exponent one more.
    bits = (static_cast<uint64_t>(exponent + bias - 1) << mantissa_bits) +
           static_cast<uint64_t>(scaled);
  }
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  if (bits >= infinity) return std::nullopt;
  return bits | uint64_t{std::signbit(number)} << (exponent_bits + mantissa_bits);
}

inline double DecodeFloat(JsonFloat type, uint64_t bits) {
  if (type == JsonFloat::kFp64) return std::bit_cast<double>(bits);
  if (type == JsonFloat::kFp32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (type == JsonFloat::kBf16) return std::bit_cast<float>(static_cast<uint32_t>(bits << 16));
  const auto mantissa = static_cast<double>(bits & 1023);
  const auto exponent = static_cast<int>(bits >> 10 & 31);
  const double number = exponent == 31  ? (mantissa == 0 ? INFINITY : NAN)
                        : exponent == 0 ? std::ldexp(mantissa, -24)
                                        : std::ldexp(mantissa + 1024, exponent - 25);
  return (bits >> 15 & 1) != 0 ? -number : number;
}

}  // namespace dfly
