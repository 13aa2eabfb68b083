// SPDX-License-Identifier: Apache-2.0
// The checksum at the end of RDB files and DUMP payloads: CRC-64 with Jones' polynomial
// 0xad93d23594c935a9, lowest bits first, beginning with 0. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

// Of `bytes` that follow those whose checksum is `crc`.
uint64_t Crc64(uint64_t crc, std::string_view bytes);

}  // namespace dfly
