// SPDX-License-Identifier: Apache-2.0
#include "core/text/crc64.h"

#include <array>
#include <bit>
#include <cstddef>

namespace dfly {

namespace {

constexpr uint64_t kPolynomial = 0xad93d23594c935a9;
constexpr size_t kStep = 8;  // bytes at once

// tables[k][b]: what the byte b does to the checksum when k more bytes follow.
using Tables = std::array<std::array<uint64_t, 256>, kStep>;

constexpr Tables MakeTables() {
  uint64_t reversed = 0;
  for (int i = 0; i < 64; ++i) reversed |= (kPolynomial >> i & 1) << (63 - i);
  Tables tables = {};
  for (size_t byte = 0; byte < 256; ++byte) {
    uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? reversed : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kStep; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint64_t before = tables[k - 1][byte];
      tables[k][byte] = tables[0][before & 0xFF] ^ before >> 8;
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

uint64_t Crc64(uint64_t crc, std::string_view bytes) {
  for (; bytes.size() >= kStep; bytes.remove_prefix(kStep)) {
    for (size_t i = 0; i < kStep; ++i) {
      crc ^= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    }
    uint64_t next = 0;
    for (size_t i = 0; i < kStep; ++i) next ^= kTables[kStep - 1 - i][crc >> (8 * i) & 0xFF];
    crc = next;
  }
  for (char c : bytes) crc = kTables[0][(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ crc >> 8;
  return crc;
}

}  // namespace dfly
