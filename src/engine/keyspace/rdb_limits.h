// SPDX-License-Identifier: Apache-2.0
// By which values that are read from RDB forms get their encodings in a shard.
#pragma once

#include "core/rdb/rdb_value.h"
#include "engine/keyspace/shard.h"

namespace dfly {

inline RdbLimits RdbLimitsOf(const Shard& shard) {
  return {.string_max = shard.string_max(),
          .list = shard.list_limit(),
          .set = shard.set_limit(),
          .zset = shard.zset_limit(),
          .hash = shard.hash_limit()};
}

}  // namespace dfly
