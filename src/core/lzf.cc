// SPDX-License-Identifier: Apache-2.0
#include "core/lzf.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "helio/base/logging.h"

// liblzf (src/core/CMakeLists.txt), which has no header for a compressor that is given its table.
extern "C" {
unsigned lzf_decompress(const void* packed, unsigned packed_size, void* to, unsigned room);
unsigned LzfCompressShort(const void* text, unsigned size, void* to, unsigned room,
                          unsigned* table);
unsigned LzfCompressLong(const void* text, unsigned size, void* to, unsigned room, unsigned* table);
}

namespace dfly {

namespace {

// The tables have to be cleared for each text, so that it always gives the same. For a short text
// that would be most of the work, so it has a small one.
constexpr size_t kShortMax = 100;
constexpr size_t kShortTable = size_t{1} << DFLY_LZF_SHORT_LOG;
constexpr size_t kLongTable = size_t{1} << DFLY_LZF_LONG_LOG;

}  // namespace

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
  thread_local unsigned table[std::max(kShortTable, kLongTable)];
  const bool is_short = text.size() <= kShortMax;
  std::memset(table, 0, (is_short ? kShortTable : kLongTable) * sizeof(unsigned));
  return (is_short ? LzfCompressShort : LzfCompressLong)(
      text.data(), static_cast<unsigned>(text.size()), to,
      static_cast<unsigned>(std::min<size_t>(room, UINT32_MAX)), table);
}

}  // namespace dfly
