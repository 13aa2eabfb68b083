// SPDX-License-Identifier: Apache-2.0
#include "helio/base/resident.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace helio {

size_t ResidentBytes(const void* begin, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kPagesAtATime = 1024;
  unsigned char is_resident[kPagesAtATime];
  char* at = static_cast<char*>(const_cast<void*>(begin));
  size_t pages = 0;
  for (size_t left = (bytes + page - 1) / page; left > 0;) {
    const size_t count = std::min(left, kPagesAtATime);
    if (mincore(at, count * page, is_resident) != 0) return 0;
    pages += static_cast<size_t>(
        std::count_if(is_resident, is_resident + count, [](unsigned char c) { return c & 1; }));
    at += count * page;
    left -= count;
  }
  return pages * page;
}

}  // namespace helio
