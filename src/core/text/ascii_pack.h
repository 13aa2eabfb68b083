// SPDX-License-Identifier: Apache-2.0
// Texts of ASCII characters in 7 bits for each: eight characters in seven bytes, the first one in
// the lowest bits. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dfly {

// Eight characters below 128 to 56 bits: pairs, then pairs of pairs, then halves move together.
constexpr uint64_t Pack8(uint64_t x) {
  x = (x & 0x007F007F007F007FULL) | ((x & 0x7F007F007F007F00ULL) >> 1);
  x = (x & 0x00003FFF00003FFFULL) | ((x & 0x3FFF00003FFF0000ULL) >> 2);
  return (x & 0x000000000FFFFFFFULL) | ((x & 0x0FFFFFFF00000000ULL) >> 4);
}

// Back again; bits 56 and above of `x` do not matter.
constexpr uint64_t Unpack8(uint64_t x) {
  x = (x & 0x000000000FFFFFFFULL) | ((x & 0x00FFFFFFF0000000ULL) << 4);
  x = (x & 0x00003FFF00003FFFULL) | ((x & 0x0FFFC0000FFFC000ULL) << 2);
  return (x & 0x007F007F007F007FULL) | ((x & 0x3F803F803F803F80ULL) << 1);
}

constexpr size_t PackedAsciiBytes(size_t size) { return (size * 7 + 7) / 8; }
constexpr size_t kPackedAsciiMin = 9;  // of the two below: what words of 8 bytes can overlap in

// REQUIRES: text.size() >= 8.
bool IsAscii(std::string_view text);
// Writes PackedAsciiBytes(text.size()). REQUIRES: IsAscii(text), at least kPackedAsciiMin of them.
void PackAscii(std::string_view text, char* packed);
// Writes `size`, rounded up to a multiple of 8. REQUIRES: size >= kPackedAsciiMin.
void UnpackAscii(const char* packed, size_t size, char* text);

// 14 to 16 characters in 111 bits. One bit less than they need: the first three must not be control
// characters, so the two highest bits of each have 3 values, and those of all three 27, which are 5
// bits instead of 6. A text of 14 or 15 has zeros behind it, so none of them may end with one.
struct ShortAscii {
  static constexpr size_t kMin = 14;
  static constexpr size_t kMax = 16;

  uint64_t low;   // bits 0 .. 63
  uint64_t high;  // bits 64 .. 110
};
// Empty if the text is not of this kind. REQUIRES: its size is.
std::optional<ShortAscii> PackShortAscii(std::string_view text);
// Writes ShortAscii::kMax bytes, and returns how many of them are the text's.
size_t UnpackShortAscii(const ShortAscii& packed, char* text);

}  // namespace dfly
