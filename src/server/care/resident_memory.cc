// SPDX-License-Identifier: Apache-2.0
#include "server/care/resident_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/memory/lent_block.h"
#include "engine/keyspace/shard.h"
#include "helio/base/mapped_blocks.h"
#include "server/base/machine.h"
#include "server/care/memory_use.h"
#include "server/clients/server_state.h"
#include "server/clients/worker_state.h"

namespace dfly {

namespace {

// Many fibers are much alike.
constexpr size_t kStacksLookedAt = 1000;

}  // namespace

ResidentMemory ReadResidentMemory(ServerState& server) {
  std::vector<ResidentMemory> parts(server.pool.size());
  AwaitOnAll<WorkerState>(server, [&parts](WorkerState& worker) {
    ResidentMemory& part = parts[worker.index()];
    part.counted = MemoryUse::Here().Sum();
    worker.ForEachShard([&part](Shard& shard) { part.data += shard.used_bytes(); });
    part.fiber_stacks = worker.proactor.scheduler().stacks().ResidentBytes(kStacksLookedAt);
    part.receive_buffers = worker.proactor.ResidentReceiveBuffers();
    part.heap = ReadThreadHeap();
  });
  ResidentMemory sum;
  const ProcessMemory process = ReadProcessMemory();
  sum.rss = process.rss_bytes;
  sum.files = process.rss_bytes - process.anonymous_bytes;
  for (const ResidentMemory& part : parts) {
    sum.fiber_stacks += part.fiber_stacks;
    sum.receive_buffers += part.receive_buffers;
    helio::AddCounters(&sum.heap, part.heap);
    helio::AddCounters(&sum.counted, part.counted);
    sum.data += part.data;
  }
  // Those who count the blocks leave it out, too. Without mimalloc nothing is known of the heap.
  const auto unwritten = static_cast<uint64_t>(LentBlock::unwritten_bytes());
  sum.heap.allocated -= std::min<uint64_t>(sum.heap.allocated, unwritten);
  // Large buffers are no part of the heaps, but of what is counted.
  const helio::MappedBlocks::Sum mapped = helio::MappedBlocks::Read();
  helio::AddCounters(&sum.heap, HeapFacts{.allocated = mapped.bytes,
                                          .touched = mapped.resident,
                                          .active = mapped.bytes,
                                          .resident = mapped.resident});
  return sum;
}

}  // namespace dfly
