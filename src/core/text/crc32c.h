// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli's polynomial, as iSCSI and ext4 have it): the checksum of the append-only
// log's epochs. By ISA-L, which takes the fastest way that the processor has. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

// Of `bytes` that follow those whose checksum is `crc`; 0 for the first ones.
uint32_t Crc32c(uint32_t crc, std::string_view bytes);

}  // namespace dfly
