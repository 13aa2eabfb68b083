// SPDX-License-Identifier: Apache-2.0
// Large blocks that have pages of their own, apart from the allocator: they grow without a copy, as
// the kernel moves their pages, and a part of one can be given back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace helio {

// Thread: any. Each function asks the kernel: some microseconds, more where pages go.
class MappedBlocks {
 public:
  // At least `bytes`, which becomes what there is. Throws std::bad_alloc.
  static char* New(size_t* bytes);
  // Its content stays, its address may not.
  static char* Grow(char* block, size_t bytes_now, size_t* bytes);
  static void Free(char* block, size_t bytes);
  // The pages that lie wholly in [from, to) of a block; they can be used again.
  static void GiveBack(char* block, size_t from, size_t to);

  // All that there are, and what of it was written to. Looks at each page: some microseconds for a
  // megabyte, in which nobody gets or frees such a block.
  struct Sum {
    size_t bytes = 0;
    size_t resident = 0;
  };
  static Sum Read();
};

}  // namespace helio
