// SPDX-License-Identifier: Apache-2.0
// A small seeded generator for tests, sampling and load generation: xoshiro256** by Blackman and
// Vigna (public domain), seeded by splitmix64. Not for secrets.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "helio/base/logging.h"

namespace helio {

// The next value of a counter-based sequence; also a decent integer hash.
inline uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Owner: whoever holds it; not thread-safe. The same seed gives the same sequence on every machine.
// Serves as a UniformRandomBitGenerator for the standard library's algorithms.
class Random {
 public:
  using result_type = uint64_t;

  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = SplitMix64(&seed);
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). REQUIRES: bound > 0. The bias is below bound / 2^64.
  uint64_t Uniform(uint64_t bound) {
    DCHECK_GT(bound, 0u);
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(Next()) * bound) >> 64);
  }

  // Uniform in [low, high].
  uint64_t Between(uint64_t low, uint64_t high) {
    DCHECK_LE(low, high);
    return low == 0 && high == max() ? Next() : low + Uniform(high - low + 1);
  }

  // Uniform in [0, 1).
  double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  bool OneIn(uint64_t n) { return Uniform(n) == 0; }

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  uint64_t operator()() { return Next(); }

 private:
  uint64_t state_[4];
};

// A seed that nobody outside can foresee; after FixSystemSeeds() the next one of a known sequence.
// Thread: any.
uint64_t SystemSeed();

// For tests, before threads start.
void FixSystemSeeds(uint64_t seed);

}  // namespace helio
