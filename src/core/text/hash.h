// SPDX-License-Identifier: Apache-2.0
// The one hash of a key. It is computed once, where the command is dispatched, and travels with it.
//
//   bits 63..32   the key's *position*: orders the table of its shard (core/table/dash_table.h)
//   bits 31..0    choose the shard (multiply-shift, so mostly the upper ones of them)
//   bits  7..0    the fingerprint inside a bucket
//
// so the choice of the shard tells nothing about the place in the shard's table.
#pragma once

#include <cstdint>
#include <string_view>

namespace dfly {

// XXH3 with a seed that is drawn at random when the process starts, so that nobody outside can
// prepare keys that collide; snapshots keep it. Thread: any.
uint64_t HashKey(std::string_view key);

// For a server that goes on with what another one had saved, and for tests that want the same
// layout in each run. REQUIRES: nothing was hashed that is still kept.
void SetHashSeed(uint64_t seed);
uint64_t HashSeed();

// The shard of a key, 0 .. num_shards - 1. REQUIRES: num_shards > 0.
inline uint32_t ShardOf(uint64_t hash, uint32_t num_shards) {
  return static_cast<uint32_t>((static_cast<uint64_t>(static_cast<uint32_t>(hash)) * num_shards) >>
                               32);
}

}  // namespace dfly
