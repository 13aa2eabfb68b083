// SPDX-License-Identifier: Apache-2.0
// Hash slots, as in the specification of Redis Cluster (redis.io): CRC16 of a key, or of what
// stands between its first { and the next }, modulo 16384. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dfly {

inline constexpr uint16_t kClusterSlots = 16384;

uint16_t ClusterSlotOf(std::string_view key);

// A short tag, of letters and digits, whose slot this is. Tries up to 240,000 of them, 2 ms.
std::string ClusterTagOf(uint16_t slot);

}  // namespace dfly
