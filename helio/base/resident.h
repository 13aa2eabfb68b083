// SPDX-License-Identifier: Apache-2.0
// What of mapped memory the machine has really given: pages count from when they are touched.
#pragma once

#include <cstddef>

namespace helio {

// Of [begin, begin + bytes), in bytes, whole pages; 0 if not all of it is mapped. A page begins at
// `begin`. Thread: any. Some microseconds for a megabyte.
size_t ResidentBytes(const void* begin, size_t bytes);

}  // namespace helio
