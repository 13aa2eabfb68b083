// SPDX-License-Identifier: Apache-2.0
// The hash of an item of a probabilistic structure: two halves of XXH3, of which as many functions
// are made as wanted (Kirsch and Mitzenmacher, "Less Hashing, Same Performance", 2006). Unlike the
// hash of a key it is the same in each process, as what was made with it may be saved.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

struct ItemHash {
  uint64_t first;
  uint64_t second;  // odd, so no two functions in a row are the same

  // Function `i`, uniform in [0, range). REQUIRES: range > 0.
  uint64_t At(uint64_t i, uint64_t range) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(first + i * second) * range) >> 64);
  }
};

// Thread: any.
ItemHash HashItem(std::string_view item);

}  // namespace dfly
