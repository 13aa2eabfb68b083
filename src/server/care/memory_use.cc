// SPDX-License-Identifier: Apache-2.0
#include "server/care/memory_use.h"

#include "core/memory/work_bytes.h"
#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/net/tls_memory.h"
#include "server/acl/acl_store.h"
#include "server/base/huge_page_care.h"
#include "server/care/script_finder.h"
#include "server/clients/server_state.h"
#include "server/clients/session.h"
#include "server/push/pubsub.h"
#include "server/push/tracking.h"

namespace dfly {

MemoryUse::MemoryUse(WorkerState* worker, const PubSub* pubsub, const Tracking* tracking,
                     const ScriptFinder* scripts)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      shards_(*worker->server.shards),
      pubsub_(*pubsub),
      tracking_(*tracking),
      scripts_(*scripts) {
  counted.session = sizeof(Session);
}

WorkerMemory MemoryUse::Sum() const {
  WorkerMemory memory = {.clients = worker_.buffers.bytes() + worker_.buffers.client_bytes() +
                                    worker_.connection_count() * counted.session +
                                    pubsub_.memory_used() + tracking_.memory_used() +
                                    static_cast<uint64_t>(helio::ThreadTlsBytes()) +
                                    worker_.timer.memory_used(),
                         .queued_commands = counted.queued_commands,
                         .coordinators = counted.coordinators + WorkBytes::OfThread(),
                         .fiber_stacks = worker_.proactor.scheduler().stacks().bytes(),
                         .receive_buffers = worker_.proactor.receive_buffer_bytes(),
                         .interpreters = counted.interpreters + scripts_.memory_used()};
  for (Shard* shard : worker_.shards()) {
    memory.snapshot += shard->snapshot_bytes();
    memory.coordinators += shard->waiters().memory_used() + shard->watches().memory_used();
  }
  return memory;
}

void MemoryUse::Publish() {
  for (Shard* shard : worker_.shards()) shards_.PublishUsedBytes(*shard);
  Settle();
}

const HeapFacts& MemoryUse::RecentHeap() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (begin_ns >= next_heap_read_ns_) {
    recent_heap_ = ReadThreadHeap();
    const uint64_t end_ns = helio::MonotonicNanos();
    next_heap_read_ns_ = end_ns + 1000 * (end_ns - begin_ns);
  }
  return recent_heap_;
}

void MemoryUse::Settle() {
  int64_t used = static_cast<int64_t>(Sum().Sum());
  if (worker_.index() == 0) {
    used += static_cast<int64_t>(server_.scripts.memory_used() + server_.functions.memory_used() +
                                 server_.acl->memory_used());
  }
  int64_t pending = static_cast<int64_t>(counted.interpreters_transient);
  for (Shard* shard : worker_.shards()) {
    used += static_cast<int64_t>(shards_.used_bytes(shard->id()));
    pending += static_cast<int64_t>(shards_.pending_bytes(shard->id()));
  }
  MemoryMeter& meter = server_.memory;
  const int64_t quantum = meter.quantum();
  const int64_t change = used - metered_bytes_;
  const int64_t pending_change = pending - metered_pending_;
  if (change < quantum && -change < quantum && pending_change < quantum &&
      -pending_change < quantum) {
    return;
  }
  if (change < 0) listener_->OnLessUsed();
  metered_bytes_ = used;
  metered_pending_ = pending;
  meter.Add(change, pending_change);
  server_.huge_pages->OnUsed(meter.used());
}

}  // namespace dfly
