// SPDX-License-Identifier: Apache-2.0
// The digest of a string that clients see (DIGEST, SET ... IFDEQ). Unlike the hash of a key it is
// the same in each process, and clients can compute it: XXH3 without a seed.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

// Thread: any.
uint64_t TextDigest(std::string_view text);

}  // namespace dfly
