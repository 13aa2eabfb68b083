// SPDX-License-Identifier: Apache-2.0
// What a thread's memory is used for besides data; all of it counts for maxmemory.
#pragma once

#include <cstdint>

#include "helio/base/counters.h"

namespace dfly {

// Bytes. All are numbers that are kept anyway: reading them is cheap.
struct WorkerMemory {
  uint64_t clients = 0;  // connections, their buffers and arguments in flight, subscriptions
  uint64_t queued_commands = 0;  // between MULTI and EXEC
  uint64_t coordinators = 0;     // arguments of commands that run on fibers, and WorkBytes
  uint64_t fiber_stacks = 0;     // about: helio::StackPool::bytes()
  uint64_t receive_buffers = 0;  // that all connections share
  uint64_t interpreters = 0;     // Lua's states, when a script last ended or gave way; caches
  uint64_t snapshot = 0;         // what was serialized or kept, and is not written

  uint64_t Sum() const {
    return clients + queued_commands + coordinators + fiber_stacks + receive_buffers +
           interpreters + snapshot;
  }

  static constexpr helio::CounterOf<WorkerMemory> kCounters[] = {
      &WorkerMemory::clients,      &WorkerMemory::queued_commands, &WorkerMemory::coordinators,
      &WorkerMemory::fiber_stacks, &WorkerMemory::receive_buffers, &WorkerMemory::interpreters,
      &WorkerMemory::snapshot};
};
static_assert(helio::ListsAll<WorkerMemory>());

}  // namespace dfly
