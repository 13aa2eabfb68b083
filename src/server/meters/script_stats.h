// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "helio/base/counters.h"

namespace dfly {

// Of scripts, by the way that they went.
struct ScriptStats {
  uint64_t in_place = 0;        // on the shard of their keys, in one hop
  uint64_t across = 0;          // on several shards, with the locks of their keys
  uint64_t global = 0;          // with all shards locked
  uint64_t alone = 0;           // without atomicity
  uint64_t restarts = 0;        // abandoned, as they used keys that they had not declared
  uint64_t refused_keys = 0;    // of those that could not start again
  uint64_t hops = 0;            // of scripts and their calls
  uint64_t deferred_calls = 0;  // that went together (redis.acall)
  uint64_t gave_way = 0;        // as they took longer than a slice of time

  uint64_t runs() const { return in_place + across + global + alone - restarts; }

  static constexpr helio::CounterOf<ScriptStats> kCounters[] = {
      &ScriptStats::in_place, &ScriptStats::across,         &ScriptStats::global,
      &ScriptStats::alone,    &ScriptStats::restarts,       &ScriptStats::refused_keys,
      &ScriptStats::hops,     &ScriptStats::deferred_calls, &ScriptStats::gave_way};
};
static_assert(helio::ListsAll<ScriptStats>());

}  // namespace dfly
