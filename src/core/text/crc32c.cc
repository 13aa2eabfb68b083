// SPDX-License-Identifier: Apache-2.0
#include "core/text/crc32c.h"

#include <isa-l/crc.h>

#include "core/text/vector_code.h"

namespace dfly {

uint32_t Crc32c(uint32_t crc, std::string_view bytes) {
  // ISA-L takes an int for the size, and leaves out both inversions.
  constexpr size_t kBytesMax = 1 << 30;
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kBytesMax);
    // It reads only; its declaration has no const.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
    state = crc32_iscsi(data, static_cast<int>(part.size()), state);
    bytes.remove_prefix(part.size());
  }
  LeaveVectorCode();
  return ~state;
}

}  // namespace dfly
