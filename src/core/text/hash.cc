// SPDX-License-Identifier: Apache-2.0
#include "core/text/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "helio/base/random.h"

namespace dfly {
namespace {

uint64_t hash_seed = helio::SystemSeed();  // Written before threads start, and by tests.

}  // namespace

uint64_t HashKey(std::string_view key) {
  return XXH3_64bits_withSeed(key.data(), key.size(), hash_seed);
}

void SetHashSeed(uint64_t seed) { hash_seed = seed; }

uint64_t HashSeed() { return hash_seed; }

}  // namespace dfly
