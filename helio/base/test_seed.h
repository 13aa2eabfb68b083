// SPDX-License-Identifier: Apache-2.0
// The seed of tests that draw at random. A run is the same run everywhere, unless the environment
// says otherwise:
//
//   DFLY_SEED=n       replays a seed
//   DFLY_SEED=random  explores: another seed in each process
//   DFLY_SEEDS=n      so many seeds, in tests of many schedules
//
// One seed serves all tests of a process. It is printed when it is first asked for, so that also a
// crash shows it.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

namespace helio {

// Whether DFLY_SEED names a seed.
inline bool IsReplay() {
  const char* const text = getenv("DFLY_SEED");
  return text != nullptr && std::string_view(text) != "random";
}

// Thread: any.
inline uint64_t TestSeed() {
  static const uint64_t seed = [] {
    const char* const text = getenv("DFLY_SEED");
    uint64_t drawn = 1;
    if (IsReplay()) {
      drawn = std::strtoull(text, nullptr, 10);
    } else if (text != nullptr) {
      drawn = std::random_device()();
    }
    std::printf("DFLY_SEED=%" PRIu64 "\n", drawn);
    std::fflush(stdout);
    return drawn;
  }();
  return seed;
}

// first, first + 1 ... first + count - 1: for a test that runs one after the other, and says itself
// which of them has failed.
struct SeedRange {
  uint64_t first;
  uint64_t count;

  uint64_t end() const { return first + count; }
};

// As many as the test has when nobody says more or less; one when it is replayed.
inline SeedRange TestSeeds(uint64_t usual) {
  const char* const many = getenv("DFLY_SEEDS");
  if (many != nullptr) return {TestSeed(), std::strtoull(many, nullptr, 10)};
  return {TestSeed(), IsReplay() ? 1 : usual};
}

}  // namespace helio
