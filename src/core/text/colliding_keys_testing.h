// SPDX-License-Identifier: Apache-2.0
// For tests: keys that a table of hashes cannot tell from each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/text/hash.h"

namespace dfly::testkit {

// Pairs of keys of 19 and more characters whose hashes agree in bits 63..32 and 7..0, a handful,
// always the same ones: it sets the hash seed. REQUIRES: nothing was hashed that is still kept.
inline std::vector<std::pair<std::string, std::string>> CollidingKeys() {
  constexpr uint64_t kKeys = 1 << 22;  // 2^44 / 2 pairs of which one in 2^40 collides
  const auto key_of = [](uint64_t number) {
    return "a key that collides " + std::to_string(number);
  };
  SetHashSeed(1);
  std::vector<uint64_t> known(kKeys);
  for (uint64_t i = 0; i < kKeys; ++i) {
    const uint64_t hash = HashKey(key_of(i));
    known[i] = (hash & 0xFFFFFFFF00000000) | (hash & 0xFF) << 24 | i;
  }
  std::ranges::sort(known);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 1; i < kKeys; ++i) {
    if ((known[i - 1] ^ known[i]) >> 24 != 0) continue;
    pairs.emplace_back(key_of(known[i - 1] % (1 << 24)), key_of(known[i] % (1 << 24)));
  }
  return pairs;
}

}  // namespace dfly::testkit
