// SPDX-License-Identifier: Apache-2.0
// Whose work an entry of a shard's queue is, for those who ask what they wait for.
#pragma once

#include <cstdint>

namespace dfly {

struct TxOrigin {
  const char* name = nullptr;  // a command's full name, or a static text; null: nobody has said
  uint64_t client_id = 0;      // 0: it is no client's
};

}  // namespace dfly
