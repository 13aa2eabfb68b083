// SPDX-License-Identifier: Apache-2.0
// Up to which size values of one shard have their small forms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/table/value_limits.h"
#include "core/types/quick_list.h"

namespace dfly {

// For what is written from now on. The server has settings for all of them; these are the values of
// shards that nobody has told anything, as in the tests of commands.
struct ShardLimits {
  BlockLimit list;                                           // list-max-listpack-size
  PackedLimit hash = {.entries = 512, .element_bytes = 64};  // hash-max-listpack-*
  SetLimit set;                                              // set-max-*
  PackedLimit zset = {.entries = 128, .element_bytes = 64};  // zset-max-listpack-*
  StreamLimit stream;                                        // stream-node-max-*
  size_t hll_sparse_bytes = 3000;                            // hll-sparse-max-bytes
  size_t json_depth = 128;                                   // json_max_depth
  uint64_t json_path_visits = 16'000'000;                    // json_path_visits_max
};

}  // namespace dfly
