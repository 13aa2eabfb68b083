// SPDX-License-Identifier: Apache-2.0
#include "core/text/crc32c.h"

#include <isa-l/crc.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dfly {

namespace {

#if defined(__x86_64__)
__attribute__((target("avx"))) void ZeroUpperHalves() { _mm256_zeroupper(); }
#endif

// ISA-L 2.30 leaves values in the upper halves of the vector registers. While they are there each
// change of the thread between code for SSE, as ours is, and for AVX, as glibc's memcpy is, costs
// about 70 cycles: with the log on that was 0.16 us of each SET (docs/benchmarks.md).
void LeaveVectorCode() {
#if defined(__x86_64__)
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) ZeroUpperHalves();
#endif
}

}  // namespace

uint32_t Crc32c(uint32_t crc, std::string_view bytes) {
  // ISA-L takes an int for the size, and leaves out both inversions.
  constexpr size_t kBytesMax = 1 << 30;
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kBytesMax);
    // It reads only; its declaration has no const.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
    state = crc32_iscsi(data, static_cast<int>(part.size()), state);
    bytes.remove_prefix(part.size());
  }
  LeaveVectorCode();
  return ~state;
}

}  // namespace dfly
