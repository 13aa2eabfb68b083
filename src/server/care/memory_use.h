// SPDX-License-Identifier: Apache-2.0
// What one thread uses, and what of it the process knows (MemoryMeter).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory/allocator_facts.h"
#include "server/base/per_thread.h"
#include "server/clients/worker_state.h"
#include "server/meters/worker_memory.h"

namespace dfly {

class PubSub;
class ScriptFinder;
class Tracking;

// Hears of a thread whose memory became free.
class MemoryListener {
 public:
  virtual void OnLessUsed() = 0;

 protected:
  ~MemoryListener() = default;
};

// Owner:    a worker; on its thread.
// Suspends: never.
class MemoryUse : public PerThread<MemoryUse> {
 public:
  MemoryUse(WorkerState* worker, const PubSub* pubsub, const Tracking* tracking,
            const ScriptFinder* scripts);

  // Kept by the parts of the thread whose memory it is. Bytes.
  struct Counted {
    size_t session = 0;          // one of them
    size_t queued_commands = 0;  // between MULTI and EXEC, wherever they are
    size_t coordinators = 0;     // arguments of commands that run on fibers
    // When the last script ended, or gave way; and of it what comes back by itself.
    size_t interpreters = 0;
    size_t interpreters_transient = 0;
  };
  Counted counted;

  WorkerMemory Sum() const;
  // Tells MemoryMeter what has changed, once that is some.
  void Settle();
  // The same, when used bytes have changed without a turn.
  void Publish();
  // What its heap has. Reading that takes time that depends on the heap's size: what this returns
  // is as old as keeps it below a thousandth of the thread's time.
  const HeapFacts& RecentHeap();
  // Of what Settle tells.
  void set_listener(MemoryListener* listener) { listener_ = listener; }

 private:
  WorkerState& worker_;
  ServerState& server_;
  ShardSet& shards_;
  const PubSub& pubsub_;
  const Tracking& tracking_;
  const ScriptFinder& scripts_;
  MemoryListener* listener_ = nullptr;
  int64_t metered_bytes_ = 0;  // what MemoryMeter knows of us
  int64_t metered_pending_ = 0;
  HeapFacts recent_heap_;
  uint64_t next_heap_read_ns_ = 0;
};

}  // namespace dfly
