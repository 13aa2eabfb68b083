// SPDX-License-Identifier: Apache-2.0
// A small cache of what belongs to a string, found by where its bytes are: for strings of somebody
// who mostly keeps equal ones at one place, as Lua does. The bytes are compared as well, as another
// string may be there later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/text/short_text.h"

namespace dfly {

// `kCount`: a power of two. Longer strings than `kTextMax` are not kept.
// Suspends: never.
template <typename Value, size_t kCount, size_t kTextMax>
class StringCache {
 public:
  // Null: not known. Lives until the next Put or Clear.
  Value* Find(std::string_view text) {
    Entry& entry = entries_[IndexOf(text)];
    const bool is_it = entry.size == text.size() && AreSame(entry.text, text.data(), text.size());
    return is_it ? &entry.value : nullptr;
  }
  // Instead of another one, if need be.
  void Put(std::string_view text, const Value& value) {
    if (text.size() > kTextMax) return;
    Entry& entry = entries_[IndexOf(text)];
    entry.value = value;
    entry.size = static_cast<uint32_t>(text.size());
    std::memcpy(entry.text, text.data(), text.size());
  }
  void Clear() {
    for (Entry& entry : entries_) entry.size = UINT32_MAX;
  }

 private:
  static_assert((kCount & (kCount - 1)) == 0);

  struct Entry {
    uint32_t size = UINT32_MAX;  // none
    Value value;
    char text[kTextMax];
  };
  static size_t IndexOf(std::string_view text) {
    // Allocators place blocks at multiples of 16 bytes and more.
    const auto at = reinterpret_cast<uintptr_t>(text.data());
    return ((at >> 5) ^ (at >> 10)) % kCount;
  }

  std::array<Entry, kCount> entries_;
};

}  // namespace dfly
