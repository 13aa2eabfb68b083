// SPDX-License-Identifier: Apache-2.0
// What OpenSSL allocates, counted for each thread.
#pragma once

#include <cstdint>

namespace helio {

// From now on. False: OpenSSL has allocated something already, and nothing is counted.
[[nodiscard]] bool CountTlsMemory();

// Bytes that the calling thread has allocated, less those that it has freed. Sessions move, so it
// may be negative; the sum of all threads is right.
int64_t ThreadTlsBytes();

}  // namespace helio
