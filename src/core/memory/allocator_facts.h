// SPDX-License-Identifier: Apache-2.0
// What the allocator (core/memory/allocator.h) says of itself: how much it has given out, and what
// it has besides.
#pragma once

#include <cstddef>
#include <string>

#include "helio/base/counters.h"

namespace dfly {

// One thread's heap, in bytes. All zeros with a sanitizer, whose allocator has no such view.
struct HeapFacts {
  size_t allocated = 0;  // blocks that are in use
  size_t touched = 0;    // of them; what nobody has written to yet costs nothing
  size_t active = 0;     // what blocks were cut from so far: those, and free ones between them
  size_t resident = 0;   // of the segments that these are in: free pages and its tables, too

  static constexpr helio::CounterOf<HeapFacts> kCounters[] = {
      &HeapFacts::allocated, &HeapFacts::touched, &HeapFacts::active, &HeapFacts::resident};
};
static_assert(helio::ListsAll<HeapFacts>());

// The calling thread's. Looks at each of the allocator's pages (64 KB) and asks the kernel for each
// segment (32 MB), so it takes about a millisecond for a gigabyte.
HeapFacts ReadThreadHeap();

// The allocator's own statistics of the process, as text.
std::string AllocatorStatistics();

}  // namespace dfly
