// SPDX-License-Identifier: Apache-2.0
// What a worker counts for INFO.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "helio/base/counters.h"
#include "server/meters/script_stats.h"

namespace dfly {

// Counters of one command. What runs on another thread's shard is counted there.
struct CommandStats {
  uint64_t calls = 0;
  uint64_t failed = 0;    // answered with an error
  uint64_t rejected = 0;  // not executed: wrong arity, not authenticated, out of memory
  // Of helio::CycleClock. What costs next to nothing is timed in one of 16 calls, which counts for
  // 16, as looking at the clock would be a tenth of it.
  int64_t cycles = 0;
  uint64_t timed_calls = 0;
  uint32_t until_timed = 0;  // calls that are not timed before the next one that is
  uint32_t timed_every = 1;  // CommandRunner::UpdateTiming

  static constexpr uint32_t kTimedEvery = 16;

  void AddTimed(int64_t call_cycles, uint32_t weight = 1) {
    ++calls;
    timed_calls += weight;
    cycles += call_cycles * weight;
  }
  // Of one that may be timed now and then; the first ones all are. Returns for how many calls it
  // counts: itself, and those that come next.
  uint32_t AddSample(int64_t call_cycles) {
    const uint32_t weight = calls >= kTimedEvery ? timed_every : 1;
    AddTimed(call_cycles, weight);
    if (weight > 1) until_timed = weight - 1;
    return weight;
  }
};

// What one worker has done; written by its thread only.
struct WorkerCounts {
  uint64_t connections_received = 0;
  uint64_t commands_processed = 0;
  uint64_t local_commands = 0;   // executed in place, their shard is ours
  uint64_t remote_commands = 0;  // sent to another thread's shard
  uint64_t batches = 0;
  uint64_t queued_commands = 0;  // of one shard, that waited for a transaction
  uint64_t coordinated_commands = 0;
  uint64_t execs_of_one_shard = 0;  // in one hop
  uint64_t execs_across = 0;        // as a transaction, squashed
  uint64_t blocking_tried = 0;      // blocking commands that found something at once
  uint64_t blocking_one_hop = 0;    // that went to one shard, and may have waited
  uint64_t blocking_general = 0;    // with keys in several
  uint64_t migrations = 0;          // connections that came from other threads
  uint64_t protocol_errors = 0;
  uint64_t auth_timeouts = 0;
  uint64_t ends_swept = 0;  // of connections, that the kernel had not told
  uint64_t expiry_ns = 0;
  uint64_t expiry_cuts = 0;
  uint64_t large_inputs = 0;  // clients that were closed for them
  uint64_t error_replies = 0;
  uint64_t writes_held = 0;  // times that a command had to wait as a disk was behind

  static constexpr helio::CounterOf<WorkerCounts> kCounters[] = {
      &WorkerCounts::connections_received,
      &WorkerCounts::commands_processed,
      &WorkerCounts::local_commands,
      &WorkerCounts::remote_commands,
      &WorkerCounts::batches,
      &WorkerCounts::queued_commands,
      &WorkerCounts::coordinated_commands,
      &WorkerCounts::execs_of_one_shard,
      &WorkerCounts::execs_across,
      &WorkerCounts::blocking_tried,
      &WorkerCounts::blocking_one_hop,
      &WorkerCounts::blocking_general,
      &WorkerCounts::migrations,
      &WorkerCounts::protocol_errors,
      &WorkerCounts::auth_timeouts,
      &WorkerCounts::ends_swept,
      &WorkerCounts::expiry_ns,
      &WorkerCounts::expiry_cuts,
      &WorkerCounts::large_inputs,
      &WorkerCounts::error_replies,
      &WorkerCounts::writes_held};
};
static_assert(helio::ListsAll<WorkerCounts>());

// With what has no fixed number of members.
struct WorkerStats : WorkerCounts {
  static constexpr size_t kErrorCodesMax = 128;

  ScriptStats scripts;
  std::vector<CommandStats> commands;  // by Command::id
  // Error replies by their first word, see error_names.h. At most kErrorCodesMax, one for others.
  absl::flat_hash_map<std::string, uint64_t> errors;
};

}  // namespace dfly
