// SPDX-License-Identifier: Apache-2.0
#include "core/text/crc64.h"

#include <isa-l/crc64.h>

#include "core/text/vector_code.h"

namespace dfly {

uint64_t Crc64(uint64_t crc, std::string_view bytes) {
  // ISA-L inverts what it gets and what it returns; Redis' form of this checksum does not.
  const uint64_t sum =
      ~crc64_jones_refl(~crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  LeaveVectorCode();
  return sum;
}

}  // namespace dfly
