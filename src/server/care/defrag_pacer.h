// SPDX-License-Identifier: Apache-2.0
// When a thread moves what its shards have, so that memory can be returned:
// core/memory/heap_pages.h says how, engine/keyspace/defrag.h what.
//
// Each second in which something was done it compares what the process has resident with what is
// used. That is all as long as they are close. If they are not, it looks at the pages of its
// thread: when moving gains enough a pass begins, which works in slices and rests in between; and
// if the rest lies between the pages, that is returned.
#pragma once

#include <cstdint>

#include "engine/keyspace/defrag.h"
#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/care/memory_use.h"
#include "server/care/pools.h"
#include "server/clients/worker_state.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: never.
class DefragPacer final : public MemoryListener, public PerThread<DefragPacer> {
 public:
  // Listens to `memory`.
  DefragPacer(WorkerState* worker, MemoryUse* memory, Pools* pools);

  const Defragmenter& defragmenter() const { return defragmenter_; }
  void ResetStats() { defragmenter_.ResetStats(); }
  // Something was done: it looks in a while.
  void NoteWork() {
    if (!timer_.armed()) [[unlikely]]
      LookLater();
  }
  // DEBUG DEFRAG: a pass that moves everything begins soon, unless one is running.
  void MoveAll();
  // What is free goes to the system.
  void ReturnMemory();

 private:
  // Also what no command of a shard did, such as FLUSHALL.
  void OnLessUsed() override { NoteWork(); }
  void LookLater();
  void ArmIn(uint64_t after_ns);
  void OnTimer();
  // Both return after how many nanoseconds to come again, or 0.
  uint64_t BeginIfItPays();
  uint64_t MoveSome();
  uint64_t ExcessMemory() const;

  WorkerState& worker_;
  ServerState& server_;
  MemoryUse& memory_;
  Pools& pools_;
  Defragmenter defragmenter_;
  uint64_t stuck_bytes_ = 0;      // in pages that the last pass could not empty
  uint64_t returned_excess_ = 0;  // what was too much after memory was returned
  uint64_t look_rest_ns_ = 0;     // after the last look at the pages
  OwnedTimer<&DefragPacer::OnTimer> timer_;
};

}  // namespace dfly
