// SPDX-License-Identifier: Apache-2.0
#include "server/resident_memory.h"

#include <vector>

#include "server/machine.h"
#include "server/server.h"

namespace dfly {

namespace {

// Many fibers are much alike.
constexpr size_t kStacksLookedAt = 1000;
// Smaller buffers have been full before, mostly.
constexpr size_t kUntouchedMin = 64 * 1024;

uint64_t UntouchedOf(const Session& session) {
  const Connection& connection = session.connection;
  const size_t replies = connection.unsent_bytes() - connection.replies().pending_bytes();
  uint64_t bytes = 0;
  for (const size_t free :
       {connection.input_free_bytes(), connection.reply_buffer_bytes() - replies,
        session.multi == nullptr ? 0 : session.multi->memory_used() - session.multi->bytes()}) {
    if (free >= kUntouchedMin) bytes += free;
  }
  return bytes;
}

}  // namespace

ResidentMemory ReadResidentMemory(Server& server) {
  std::vector<ResidentMemory> parts(server.pool().size());
  server.AwaitOnWorkers([&parts](Worker& worker) {
    ResidentMemory& part = parts[worker.index()];
    part.fiber_stacks = worker.proactor().scheduler().stacks().ResidentBytes(kStacksLookedAt);
    part.receive_buffers = worker.proactor().ResidentReceiveBuffers();
    part.heap = ReadThreadHeap();
    worker.ForEachSession(
        [&part](Session& session) { part.untouched_buffers += UntouchedOf(session); });
  });
  ResidentMemory sum;
  const ProcessMemory process = ReadProcessMemory();
  sum.rss = process.rss_bytes;
  sum.files = process.rss_bytes - process.anonymous_bytes;
  for (const ResidentMemory& part : parts) {
    sum.fiber_stacks += part.fiber_stacks;
    sum.receive_buffers += part.receive_buffers;
    sum.heap.Add(part.heap);
    sum.untouched_buffers += part.untouched_buffers;
  }
  return sum;
}

}  // namespace dfly
