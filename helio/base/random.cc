// SPDX-License-Identifier: Apache-2.0
#include "helio/base/random.h"

#include <atomic>
#include <random>

namespace helio {
namespace {

std::atomic<bool> is_fixed{false};  // Written before threads start.
std::atomic<uint64_t> fixed_count{0};

}  // namespace

uint64_t SystemSeed() {
  if (is_fixed.load(std::memory_order_relaxed)) {
    uint64_t count = fixed_count.fetch_add(1, std::memory_order_relaxed);
    return SplitMix64(&count);
  }
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

void FixSystemSeeds(uint64_t seed) {
  fixed_count.store(SplitMix64(&seed), std::memory_order_relaxed);
  is_fixed.store(true, std::memory_order_relaxed);
}

}  // namespace helio
