// SPDX-License-Identifier: Apache-2.0
#include "helio/base/mapped_blocks.h"

#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "helio/base/logging.h"
#include "helio/base/resident.h"
#include "helio/base/spin_lock.h"

namespace helio {

namespace {

constexpr size_t kPage = 4096;

// All that exist, so that they can be counted. It outlives all buffers. Only Count is in the kernel
// with the lock.
class Registry {
 public:
  static Registry& Here() {
    static Registry* const all = std::make_unique<Registry>().release();
    return *all;
  }
  char* Add(void* block, size_t bytes) {
    if (block == MAP_FAILED) throw std::bad_alloc();
    const std::lock_guard guard(lock_);
    return bytes_of_.emplace(static_cast<char*>(block), bytes).first->first;
  }
  void Remove(char* block) {
    const std::lock_guard guard(lock_);
    CHECK_EQ(bytes_of_.erase(block), 1u);
  }
  MappedBlocks::Sum Count() {
    const std::lock_guard guard(lock_);
    MappedBlocks::Sum sum;
    for (const auto& [block, bytes] : bytes_of_) {
      sum.bytes += bytes;
      sum.resident += ResidentBytes(block, bytes);
    }
    return sum;
  }

 private:
  SpinLock lock_;
  std::unordered_map<char*, size_t> bytes_of_;
};

size_t RoundUp(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

char* MappedBlocks::New(size_t* bytes) {
  *bytes = RoundUp(*bytes);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  return Registry::Here().Add(mmap(nullptr, *bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0), *bytes);
}

char* MappedBlocks::Grow(char* block, size_t bytes_now, size_t* bytes) {
  *bytes = RoundUp(*bytes);
  Registry::Here().Remove(block);
  void* const grown = mremap(block, bytes_now, *bytes, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) Registry::Here().Add(block, bytes_now);
  return Registry::Here().Add(grown, *bytes);
}

void MappedBlocks::Free(char* block, size_t bytes) {
  Registry::Here().Remove(block);
  PCHECK(munmap(block, bytes) == 0);
}

void MappedBlocks::GiveBack(char* block, size_t from, size_t to) {
  from = RoundUp(from);
  to = to / kPage * kPage;
  if (from < to) PCHECK(madvise(block + from, to - from, MADV_DONTNEED) == 0);
}

auto MappedBlocks::Read() -> Sum { return Registry::Here().Count(); }

}  // namespace helio
