// SPDX-License-Identifier: Apache-2.0
// Puts what the allocator has in huge pages of 2 MB: a table of gigabytes has so many small pages
// that each look-up misses the processor's cache of their addresses.
//
// Only ranges whose small pages are all in use are changed, so the process does not grow. Whoever
// touches such a range meanwhile waits until the kernel has copied it. Source: madvise(2),
// MADV_COLLAPSE (Linux 6.1), which needs no setting of the machine.
//
// What is freed in a huge page leaves the process at once, but goes to other processes only when
// the machine or the control group is short of memory: then the kernel splits the page.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dfly {

// Owner:    one thread, any; the memory is that of all threads.
// Suspends: never, but blocks: for a range some 0.2 to 6 ms, as the kernel copies it.
class HugePages {
 public:
  static constexpr size_t kBytes = 2 << 20;

  enum class Result : uint8_t {
    kDone,      // one range more is a huge page
    kEnd,       // all ranges have been looked at; the next call begins anew
    kNoMemory,  // there is no huge page for now
    kRefused,   // by the kernel, for good; or there is a sanitizer
  };
  Result CollapseNext();

  // In huge pages, as far as it has made them.
  size_t bytes() const { return huge_.size() * kBytes; }

 private:
  struct Mapping {
    uintptr_t begin, end;  // at multiples of kBytes
  };

  void ReadMappings();

  std::vector<Mapping> mappings_;  // those left; the last one is next
  // Not asked for again while all of them is in use. What is freed and used again between two looks
  // is overlooked, so they are forgotten from time to time.
  absl::flat_hash_set<uintptr_t> huge_;
  uint32_t passes_ = 0;
};

}  // namespace dfly
