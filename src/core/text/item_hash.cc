// SPDX-License-Identifier: Apache-2.0
#include "core/text/item_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dfly {

ItemHash HashItem(std::string_view item) {
  const XXH128_hash_t hash = XXH3_128bits(item.data(), item.size());
  return {.first = hash.low64, .second = hash.high64 | 1};
}

}  // namespace dfly
