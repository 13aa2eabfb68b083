// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dfly {

// A look-up in a table waits for memory three times: for its bucket, its slot, and what that has on
// the heap. A batch of look-ups goes through these stages one after the other, for all of its keys.
enum class FetchStage : uint8_t {
  kBucket,  // its metadata
  kSlot,    // by fingerprint
  kValue    // what key and value have on the heap
};
inline constexpr FetchStage kFetchStages[] = {FetchStage::kBucket, FetchStage::kSlot,
                                              FetchStage::kValue};

// Asks for the cache line at `address`; any address will do. The empty asm is a side effect:
// without it g++ takes a function that only prefetches for one that does nothing, and drops the
// call.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}

}  // namespace dfly
