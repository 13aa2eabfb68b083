// SPDX-License-Identifier: Apache-2.0
#include "core/memory/huge_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "core/memory/allocator.h"
#include "helio/base/resident.h"

namespace dfly {

#ifdef DFLY_SANITIZED

HugePages::Result HugePages::CollapseNext() { return Result::kRefused; }

#else

namespace {

#ifndef MADV_COLLAPSE
constexpr int MADV_COLLAPSE = 25;
#endif

constexpr uint32_t kForgetPasses = 60;

// A line of /proc/self/maps: 7f00-8f00 rw-p 00000000 00:00 0
bool IsPrivateMemory(std::string_view line, uintptr_t* begin, uintptr_t* end) {
  const char* const last = line.data() + line.size();
  const auto first = std::from_chars(line.data(), last, *begin, 16);
  if (first.ec != std::errc() || first.ptr == last || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, last, *end, 16);
  const std::string_view rest = line.substr(static_cast<size_t>(second.ptr - line.data()));
  return second.ec == std::errc() && rest.starts_with(" rw-p 00000000 00:00 0") &&
         !rest.ends_with(']');
}

}  // namespace

void HugePages::ReadMappings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (!IsPrivateMemory(line, &begin, &end)) continue;
    begin = (begin + kBytes - 1) / kBytes * kBytes;
    end = end / kBytes * kBytes;
    if (begin < end) mappings_.push_back({begin, end});
  }
}

HugePages::Result HugePages::CollapseNext() {
  if (mappings_.empty()) {
    if (++passes_ % kForgetPasses == 0) huge_.clear();
    ReadMappings();
  }
  while (!mappings_.empty()) {
    Mapping& mapping = mappings_.back();
    if (mapping.begin == mapping.end) {
      mappings_.pop_back();
      continue;
    }
    const uintptr_t address = mapping.begin;
    mapping.begin += kBytes;
    auto* const range = reinterpret_cast<void*>(address);
    if (!mi_is_in_heap_region(range)) continue;  // a stack, or somebody else's
    if (helio::ResidentBytes(range, kBytes) != kBytes) {
      huge_.erase(address);
      continue;
    }
    if (!huge_.insert(address).second) continue;
    if (madvise(range, kBytes, MADV_COLLAPSE) == 0) return Result::kDone;
    huge_.erase(address);
    if (errno == ENOMEM) return Result::kNoMemory;
    // EAGAIN: a page of it is in use by the kernel, for the moment. It may have been unmapped, too.
    if (errno == EINVAL && bytes() == 0) return Result::kRefused;
  }
  return Result::kEnd;
}

#endif

}  // namespace dfly
