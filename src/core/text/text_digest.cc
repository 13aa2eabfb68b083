// SPDX-License-Identifier: Apache-2.0
#include "core/text/text_digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dfly {

uint64_t TextDigest(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace dfly
