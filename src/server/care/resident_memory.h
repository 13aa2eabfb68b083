// SPDX-License-Identifier: Apache-2.0
// Where the process' resident memory is, by what the kernel and the allocator say: to hold what the
// server counts (worker_memory.h, INFO) against. For MEMORY STATS.
#pragma once

#include <cstdint>

#include "core/memory/allocator_facts.h"
#include "server/meters/worker_memory.h"

namespace dfly {

struct ServerState;

// Bytes. All that is resident is in one of: files, fiber stacks, receive buffers, the heaps of the
// workers (heap.resident), and the rest.
struct ResidentMemory {
  uint64_t rss = 0;
  uint64_t files = 0;  // the program, its libraries, io_uring's rings
  uint64_t fiber_stacks = 0;
  uint64_t receive_buffers = 0;
  HeapFacts heap;
  // What was counted when the heaps were looked at.
  WorkerMemory counted;
  uint64_t data = 0;

  // The program's data, stacks of threads, what other threads than the workers have allocated.
  int64_t rest() const {
    return static_cast<int64_t>(rss) -
           static_cast<int64_t>(files + fiber_stacks + receive_buffers + heap.resident);
  }
};

// Stops each thread for about a millisecond for a gigabyte (ReadThreadHeap). Suspends.
ResidentMemory ReadResidentMemory(ServerState& server);

}  // namespace dfly
