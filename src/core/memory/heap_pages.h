// SPDX-License-Identifier: Apache-2.0
// The pages of the calling thread's heap: how full they are, and how they become fuller.
//
// mimalloc keeps blocks of one size together in pages of 64 KB (512 KB for blocks of more than
// 16 KB). Once most blocks of a page are free it still takes its whole size. What is left in such
// pages can only be copied elsewhere (core/memory/block_mover.h): into a second heap of the thread,
// whose pages fill up one after another, and are handed to the first one at the end (DenseHeap).
//
// With a sanitizer there are no such pages: the survey finds nothing.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace dfly {

// Which pages are to be emptied.
//
// Owner:    anybody; the pages are those of one thread at one time.
// Suspends: never.
class SparsePages {
 public:
  bool Has(const void* block) const {
    const uintptr_t slice = reinterpret_cast<uintptr_t>(block) / kSliceBytes;
    const auto it = regions_.find(slice / kRegionSlices);
    return it != regions_.end() && it->second[slice % kRegionSlices];
  }
  bool empty() const { return regions_.empty(); }
  void Add(const void* begin, size_t bytes);
  void Clear() { regions_.clear(); }

 private:
  static constexpr size_t kSliceBytes = 64 * 1024;  // no two pages share one
  static constexpr size_t kRegionSlices = 512;

  absl::flat_hash_map<uintptr_t, std::bitset<kRegionSlices>> regions_;
};

struct HeapSurvey {
  size_t resident_bytes = 0;  // of its pages, as far as they were ever used
  size_t used_bytes = 0;      // of its blocks
  size_t sparse_pages = 0;
  size_t gain_bytes = 0;   // by which resident_bytes become less when the sparse pages are emptied
  size_t stuck_bytes = 0;  // of gain_bytes, about: in pages that were to be emptied before
  SparsePages sparse;
};

// Looks at all pages of the calling thread's heap: some 10 ns for each, if they are in the cache.
// Sparse are the emptiest ones, so many that what is unused in the others is no more than
// `waste_percent` of what is used, where that is possible at a reasonable price. `before`: the
// pages that a pass has just tried to empty.
HeapSurvey SurveyHeap(unsigned waste_percent, const SparsePages& before = {});

// While it lives, all that the calling thread allocates is packed in pages of its own, and pages
// that become empty are returned to the system at once.
//
// Owner:    a thread; made and destroyed there, one at a time.
class DenseHeap {
 public:
  DenseHeap();
  ~DenseHeap();
  DenseHeap(const DenseHeap&) = delete;
  DenseHeap& operator=(const DenseHeap&) = delete;

 private:
  [[maybe_unused]] void* heap_ = nullptr;  // with a sanitizer, both
  [[maybe_unused]] void* main_heap_ = nullptr;
};

// Returns to the system what the calling thread's heap has free between its pages, as far as it
// can. Takes some microseconds for each MB. Not with a sanitizer, whose allocator keeps what is
// freed, to find late uses of it. REQUIRES: there is no DenseHeap on this thread.
void ReturnFreeMemory();

}  // namespace dfly
