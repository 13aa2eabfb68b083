// SPDX-License-Identifier: Apache-2.0
#include "core/lzf.h"

#include <cstdint>

namespace dfly {

bool ExpandLzf(std::string_view packed, size_t size, std::string* to) {
  constexpr size_t kRatioMax = 264 / 3;  // three bytes are the longest repetition
  to->clear();
  if (packed.empty() || size / kRatioMax > packed.size()) return false;
  to->resize(size);
  char* const out = to->data();
  size_t at = 0;
  const auto next = [&packed] {
    const auto byte = static_cast<uint8_t>(packed[0]);
    packed.remove_prefix(1);
    return size_t{byte};
  };
  while (!packed.empty()) {
    const size_t head = next();
    if (head < 32) {
      const size_t count = head + 1;
      if (count > packed.size() || count > size - at) return false;
      packed.copy(out + at, count);
      packed.remove_prefix(count);
      at += count;
      continue;
    }
    size_t count = (head >> 5) + 2;
    if (head >> 5 == 7) {
      if (packed.empty()) return false;
      count += next();
    }
    if (packed.empty()) return false;
    const size_t back = ((head & 31) << 8 | next()) + 1;
    if (back > at || count > size - at) return false;
    // They may overlap: what was written just now is repeated.
    for (; count > 0; --count, ++at) out[at] = out[at - back];
  }
  return at == size;
}

}  // namespace dfly
