// SPDX-License-Identifier: Apache-2.0
#include "core/text/lzf.h"

#include <algorithm>
#include <cstdint>

#include "helio/base/logging.h"

// liblzf (src/core/CMakeLists.txt), which has no header for a compressor that is given its table.
extern "C" {
unsigned lzf_decompress(const void* packed, unsigned packed_size, void* to, unsigned room);
unsigned lzf_compress(const void* text, unsigned size, void* to, unsigned room, unsigned* table);
}

namespace dfly {

bool ExpandLzf(std::string_view packed, size_t size, std::string* to) {
  constexpr size_t kRatioMax = 264 / 3;  // three bytes are the longest repetition
  to->clear();
  if (packed.empty() || size == 0 || std::max(packed.size(), size) > UINT32_MAX ||
      size / kRatioMax > packed.size()) {
    return false;
  }
  to->resize(size);
  return lzf_decompress(packed.data(), static_cast<unsigned>(packed.size()), to->data(),
                        static_cast<unsigned>(size)) == size;
}

size_t CompressLzf(std::string_view text, char* to, size_t room) {
  DCHECK_LE(text.size(), size_t{UINT32_MAX});
  // Where three bytes were seen last, by their hash. What earlier texts have left there changes
  // nothing: a place counts only if these bytes are there, before the present ones; and then they
  // were entered when they came first, as whatever is not entered repeats what was before.
  thread_local unsigned table[size_t{1} << DFLY_LZF_TABLE_LOG];
  return lzf_compress(text.data(), static_cast<unsigned>(text.size()), to,
                      static_cast<unsigned>(std::min<size_t>(room, UINT32_MAX)), table);
}

}  // namespace dfly
