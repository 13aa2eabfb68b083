// SPDX-License-Identifier: Apache-2.0
// Where a collection changes from a small form into a large one, and how large its parts become.
#pragma once

#include <cstdint>

namespace dfly {

// Up to which size a collection is a packed block (hash-max-listpack-entries and -value).
struct PackedLimit {
  uint32_t entries;        // fields, members
  uint32_t element_bytes;  // of each text
};

struct SetLimit {
  uint32_t integers = 512;                                     // set-max-intset-entries
  PackedLimit packed = {.entries = 128, .element_bytes = 64};  // set-max-listpack-entries, -value
};

struct StreamLimit {
  // How large nodes become (stream-node-max-bytes, stream-node-max-entries). 0: no limit.
  uint64_t node_bytes = 4096;
  uint64_t node_entries = 100;
  // For how long messages of idempotent producers are remembered, and how many of each, unless the
  // stream says otherwise (stream-idmp-duration, stream-idmp-maxsize).
  uint32_t producer_seconds = 100;
  uint32_t producer_messages = 100;
  // Of how many producers a stream remembers messages (stream_idmp_producers_max).
  uint32_t producers_max = 10'000;
};

}  // namespace dfly
