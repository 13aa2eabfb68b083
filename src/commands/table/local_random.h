// SPDX-License-Identifier: Apache-2.0
// Chance for commands that answer with something random. Not for secrets.
#pragma once

#include <cstdint>

#include "helio/base/random.h"

namespace dfly {

// One generator for each thread.
inline helio::Random& LocalRandom() {
  thread_local helio::Random random(helio::SystemSeed());
  return random;
}

// 32 random bits, as the Random functions of core's containers want them.
inline uint32_t RandomBits() { return static_cast<uint32_t>(LocalRandom().Next() >> 32); }

}  // namespace dfly
