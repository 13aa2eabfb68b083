// SPDX-License-Identifier: Apache-2.0
// To be called after functions of ISA-L. Pure.
//
// ISA-L 2.30 leaves values in the upper halves of the vector registers. While they are there each
// change of the thread between code for SSE, as ours is, and for AVX, as glibc's memcpy is, costs
// about 70 cycles: with the log on that was 0.16 us of each SET (docs/benchmarks.md).
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dfly {

#if defined(__x86_64__)
__attribute__((target("avx"))) inline void ZeroUpperHalves() { _mm256_zeroupper(); }
#endif

inline void LeaveVectorCode() {
#if defined(__x86_64__)
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) ZeroUpperHalves();
#endif
}

}  // namespace dfly
