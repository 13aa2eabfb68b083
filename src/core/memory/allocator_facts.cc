// SPDX-License-Identifier: Apache-2.0
#include "core/memory/allocator_facts.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/memory/allocator.h"
#include "helio/base/resident.h"

namespace dfly {

#ifdef DFLY_SANITIZED

HeapFacts ReadThreadHeap() { return {}; }
std::string AllocatorStatistics() { return "The sanitizer's allocator has no statistics.\n"; }

#else

namespace {

// mimalloc takes memory from the system in segments of that size, at multiples of it; a larger
// block has a longer one. Only its thread gives a segment back, so it stays while that one looks.
constexpr uintptr_t kSegmentBytes = 32 << 20;
constexpr uintptr_t kPageBytes = 4096;  // or a multiple: what is no page's begin is refused
// Of smaller blocks most are whole.
constexpr size_t kLargeBlock = 64 * 1024;

struct Walk {
  HeapFacts facts;
  std::vector<std::pair<uintptr_t, uintptr_t> > segments;  // begin, end
};

// As ResidentBytes, but any part may be unmapped.
size_t Resident(uintptr_t from, uintptr_t end) {
  constexpr uintptr_t kPart = 64 * 1024;
  size_t bytes = 0;
  for (uintptr_t at = from / kPageBytes * kPageBytes; at < end; at += kPart) {
    bytes += helio::ResidentBytes(reinterpret_cast<const void*>(at), std::min(kPart, end - at));
  }
  return bytes;
}

bool VisitArea(const mi_heap_t*, const mi_heap_area_t* area, void*, size_t, void* arg) {
  Walk& walk = *static_cast<Walk*>(arg);
  const size_t allocated = area->used * area->full_block_size;
  walk.facts.allocated += allocated;
  walk.facts.active += area->committed;
  const auto begin = reinterpret_cast<uintptr_t>(area->blocks);
  walk.facts.touched += area->full_block_size < kLargeBlock
                            ? allocated
                            : std::min(allocated, Resident(begin, begin + area->committed));
  const uintptr_t segment = begin / kSegmentBytes * kSegmentBytes;
  const uintptr_t end = std::max(segment + kSegmentBytes, begin + area->reserved);
  walk.segments.emplace_back(segment, end);
  // Pages of a segment follow each other mostly.
  const size_t count = walk.segments.size();
  if (count > 1 && walk.segments[count - 2] == walk.segments.back()) walk.segments.pop_back();
  return true;
}

}  // namespace

HeapFacts ReadThreadHeap() {
  Walk walk;
  walk.segments.reserve(1024);
  mi_heap_visit_blocks(mi_heap_get_backing(), false, VisitArea, &walk);
  // Of a pass that moves blocks (core/memory/heap_pages.h).
  if (mi_heap_get_default() != mi_heap_get_backing()) {
    mi_heap_visit_blocks(mi_heap_get_default(), false, VisitArea, &walk);
  }
  std::sort(walk.segments.begin(), walk.segments.end());
  uintptr_t seen_to = 0;
  for (const auto& [begin, end] : walk.segments) {
    const uintptr_t from = std::max(begin, seen_to);
    if (from >= end) continue;
    walk.facts.resident += Resident(from, end);
    seen_to = end;
  }
  return walk.facts;
}

std::string AllocatorStatistics() {
  std::string text;
  mi_stats_merge();
  mi_stats_print_out(
      [](const char* part, void* arg) { static_cast<std::string*>(arg)->append(part); }, &text);
  return text;
}

#endif

}  // namespace dfly
