// SPDX-License-Identifier: Apache-2.0
// math.random's numbers: those of POSIX's lrand48, as in Redis, so that math.randomseed gives the
// same sequence everywhere.
#pragma once

#include <cstdint>

namespace dfly {

class LuaRandom {
 public:
  static constexpr int32_t kMax = INT32_MAX;

  // The sequence of a state nobody has seeded; each state should have another.
  void SetOwnSeed(uint64_t seed) { own_ = seed & kMask; }
  // A script starts with the state's own sequence, whatever the script before it has seeded.
  void StartScript() { seeded_ = false; }

  void Seed(int32_t seed) {
    chosen_ = (static_cast<uint64_t>(static_cast<uint32_t>(seed)) << 16) + 0x330E;
    seeded_ = true;
  }

  // 0 .. kMax
  int32_t Next() {
    uint64_t& x = seeded_ ? chosen_ : own_;
    x = (x * 0x5DEECE66D + 0xB) & kMask;
    return static_cast<int32_t>(x >> 17);
  }

 private:
  static constexpr uint64_t kMask = (uint64_t{1} << 48) - 1;
  uint64_t own_ = 0x1234ABCD330E;
  uint64_t chosen_ = 0;
  bool seeded_ = false;
};

}  // namespace dfly
