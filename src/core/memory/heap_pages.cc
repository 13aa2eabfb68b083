// SPDX-License-Identifier: Apache-2.0
#include "core/memory/heap_pages.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <vector>

#include "core/memory/allocator.h"
#include "helio/base/logging.h"

namespace dfly {

void SparsePages::Add(const void* begin, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t last = (address + bytes - 1) / kSliceBytes;
  for (uintptr_t slice = address / kSliceBytes; slice <= last; ++slice) {
    regions_[slice / kRegionSlices].set(slice % kRegionSlices);
  }
}

#ifdef DFLY_SANITIZED

HeapSurvey SurveyHeap(unsigned, const SparsePages&) { return {}; }
DenseHeap::DenseHeap() = default;
DenseHeap::~DenseHeap() = default;
void ReturnFreeMemory() {}

#else

namespace {

struct Page {
  const void* begin;
  size_t reserved;
  size_t resident;
  size_t used;
  size_t block_bytes;

  size_t unused() const { return resident - used; }
};

// In sixteenths: how full it is.
constexpr size_t kLevels = 16;
size_t LevelOf(const Page& page) { return page.used * kLevels / (page.resident + 1); }

// A page that is fuller than this stays: seven bytes would have to move to win one.
constexpr size_t kSparseLevels = kLevels * 7 / 8;

bool AddPage(const mi_heap_t*, const mi_heap_area_t* area, void*, size_t, void* pages) {
  static_cast<std::vector<Page>*>(pages)->push_back(
      {.begin = area->blocks,
       .reserved = area->reserved,
       .resident = area->committed,
       .used = std::min(area->used * area->full_block_size, area->committed),
       .block_bytes = area->full_block_size});
  return true;
}

std::vector<Page> PagesOfThread() {
  std::vector<Page> pages;
  mi_heap_visit_blocks(mi_heap_get_backing(), false, AddPage, &pages);
  return pages;
}

// mimalloc gives an empty page back only if something else happens in its segment some time later.
// While somebody holds this it gives pages back at once, in all threads: it is one setting of the
// process. Always would be dear for large buffers, which come and go.
std::atomic<int> prompt_returns{0};

long UsualDelay() {  // milliseconds; first asked for before anybody changes it
  static const long delay = mi_option_get(mi_option_decommit_delay);  // NOLINT(runtime/int)
  return delay;
}
void HoldPromptReturn() {
  UsualDelay();
  if (prompt_returns.fetch_add(1) == 0) mi_option_set(mi_option_decommit_delay, 0);
}
void ReleasePromptReturn() {
  if (prompt_returns.fetch_sub(1) == 1) mi_option_set(mi_option_decommit_delay, UsualDelay());
}

thread_local bool has_dense_heap = false;

}  // namespace

HeapSurvey SurveyHeap(unsigned waste_percent, const SparsePages& before) {
  HeapSurvey survey;
  const std::vector<Page> pages = PagesOfThread();
  std::array<size_t, kLevels + 1> unused = {};
  for (const Page& page : pages) {
    survey.resident_bytes += page.resident;
    survey.used_bytes += page.used;
    if (page.used == 0) continue;  // nothing in it has to move
    unused[LevelOf(page)] += page.unused();
  }
  // From the emptiest ones on, until the rest is full enough.
  size_t sparse_below = 0;
  size_t left = std::accumulate(unused.begin(), unused.end(), size_t{0});
  while (sparse_below < kSparseLevels && left > survey.used_bytes / 100 * waste_percent) {
    left -= unused[sparse_below++];
  }
  // Blocks of a size that need as many pages when they have moved would move for nothing.
  struct OfSize {
    size_t pages = 0;
    size_t page_bytes = 0;
    size_t resident = 0;
    size_t used = 0;
    size_t Gain() const {
      const size_t needed = (used + page_bytes - 1) / page_bytes;
      return needed < pages ? resident - std::min(resident, needed * page_bytes) : 0;
    }
  };
  absl::flat_hash_map<size_t, OfSize> sizes;
  const auto is_sparse = [&](const Page& page) {
    return page.used != 0 && LevelOf(page) < sparse_below;
  };
  for (const Page& page : pages) {
    if (!is_sparse(page)) continue;
    OfSize& size = sizes[page.block_bytes];
    ++size.pages;
    size.page_bytes = std::max(size.page_bytes, page.reserved);
    size.resident += page.resident;
    size.used += page.used;
  }
  for (const auto& [bytes, size] : sizes) survey.gain_bytes += size.Gain();
  for (const Page& page : pages) {
    if (!is_sparse(page) || sizes[page.block_bytes].Gain() == 0) continue;
    ++survey.sparse_pages;
    if (before.Has(page.begin)) survey.stuck_bytes += page.unused();
    survey.sparse.Add(page.begin, page.reserved);
  }
  return survey;
}

DenseHeap::DenseHeap() {
  CHECK(!has_dense_heap);
  has_dense_heap = true;
  heap_ = mi_heap_new();
  main_heap_ = mi_heap_set_default(static_cast<mi_heap_t*>(heap_));
  HoldPromptReturn();
}

DenseHeap::~DenseHeap() {
  has_dense_heap = false;
  mi_heap_set_default(static_cast<mi_heap_t*>(main_heap_));
  mi_heap_delete(static_cast<mi_heap_t*>(heap_));  // its blocks live on in the main heap
  ReleasePromptReturn();
}

// Of pages that became empty, mimalloc keeps those whose segment of 32 MB has others in use. So all
// that is free there is taken, from the largest pieces on, and freed again while it returns pages
// at once. What is taken is not touched.
void ReturnFreeMemory() {
  constexpr size_t kSegmentBytes = 32 << 20;
  constexpr size_t kLargest = 15 << 20;  // larger blocks have segments of their own
  constexpr size_t kSmallest = 256 << 10;
  constexpr size_t kSmallPageBlock = 16 << 10;  // the largest that has a page of 64 KB, with others
  CHECK(!has_dense_heap);
  HoldPromptReturn();
  mi_collect(true);
  absl::flat_hash_set<uintptr_t> segments;
  for (const Page& page : PagesOfThread()) {
    segments.insert(reinterpret_cast<uintptr_t>(page.begin) / kSegmentBytes);
  }
  mi_heap_t* const taken = mi_heap_new();
  const auto take_all = [&](size_t bytes) {
    const void* block;
    do {
      block = mi_heap_malloc(taken, bytes);
      // It is elsewhere: there is no such piece left.
    } while (segments.contains(reinterpret_cast<uintptr_t>(block) / kSegmentBytes));
  };
  for (size_t bytes = kLargest; bytes >= kSmallest; bytes /= 2) take_all(bytes);
  take_all(kSmallPageBlock);
  mi_heap_destroy(taken);
  mi_collect(true);
  ReleasePromptReturn();
}

#endif

}  // namespace dfly
