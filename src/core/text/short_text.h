// SPDX-License-Identifier: Apache-2.0
// Short texts in registers.
//
// Where a processor reads a word that was just written in pieces, it waits until the pieces have
// left its store buffer: some fifteen cycles, more than hashing a short key takes. So short texts
// are read by words that overlap, and compared without a copy.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dfly {

static_assert(std::endian::native == std::endian::little);

inline uint64_t LoadWord(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

// The first byte is the lowest one; zeros above. REQUIRES: size <= 8.
inline uint64_t LoadShort(const char* at, size_t size) {
  if (size == 8) return LoadWord(at);
  if (size >= 4) {
    uint32_t first;
    uint32_t last;
    std::memcpy(&first, at, 4);
    std::memcpy(&last, at + size - 4, 4);
    return first | (uint64_t{last} << ((size - 4) * 8));
  }
  if (size >= 2) {
    uint16_t first;
    uint16_t last;
    std::memcpy(&first, at, 2);
    std::memcpy(&last, at + size - 2, 2);
    return first | (uint64_t{last} << ((size - 2) * 8));
  }
  return size == 1 ? static_cast<uint8_t>(*at) : 0;
}

inline bool AreSame(const char* a, const char* b, size_t size) {
  if (size > 16) return std::memcmp(a, b, size) == 0;
  if (size < 8) return LoadShort(a, size) == LoadShort(b, size);
  return LoadWord(a) == LoadWord(b) && LoadWord(a + size - 8) == LoadWord(b + size - 8);
}

}  // namespace dfly
