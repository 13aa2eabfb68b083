// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dfly {

// Asks for the cache line at `address`; any address will do. The empty asm is a side effect:
// without it g++ takes a function that only prefetches for one that does nothing, and drops the
// call.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}

}  // namespace dfly
