// SPDX-License-Identifier: Apache-2.0
// What a thread keeps for reuse: buffers of connections, batches, MULTIs, stacks of fibers, Lua
// states, fibers of scripts. It all counts for maxmemory, so it goes when nobody uses it: a half of
// it each few seconds, by a timer that is armed only while there is some. So a thread that does
// nothing wakes for it some times after its last command, and then no more. Who is short of memory
// does not wait for that (ShardCare::GiveBack).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/base/owned_timer.h"
#include "server/care/memory_use.h"
#include "server/care/running_scripts.h"
#include "server/clients/worker_state.h"

namespace dfly {

// One of them. Owner: a part of the thread, on it.
class Pool {
 public:
  // Half of it goes; those first that were not used for longest.
  virtual void Halve() = 0;
  // All of it goes.
  virtual void Drop() = 0;
  virtual bool is_empty() const = 0;
  // Something is in use, and will come back.
  virtual bool has_more() const { return false; }
  // What the largest commands so far have made of what is used again and again.
  virtual void ReleaseScratch() {}

 protected:
  ~Pool() = default;

  template <typename T>
  static void Release(std::vector<T>* scratch) {
    constexpr size_t kKept = 4096;  // a vector of fewer elements stays
    if (scratch->capacity() > kKept) *scratch = std::vector<T>();  // {} would keep its room
  }
};

// Owner:    a worker; on its thread.
// Suspends: never.
class Pools {
 public:
  Pools(WorkerState* worker, MemoryUse* memory, RunningScripts* scripts);

  void Add(Pool* pool) { pools_.push_back(pool); }
  // Something may have come back there: from now on a half of it goes each kPeriodNanos, until
  // nothing is left.
  void Note() {
    if (!timer_.armed()) [[unlikely]]
      timer_.ArmIn(kPeriodNanos);
  }
  // Buffers and what was added: it would keep pages that are nearly empty.
  void Drop();
  void ReleaseScratch();

 private:
  static constexpr uint64_t kPeriodNanos = 2'000'000'000;

  void Tick();
  // True: there is more.
  bool Shrink();

  WorkerState& worker_;
  MemoryUse& memory_;
  RunningScripts& scripts_;
  std::vector<Pool*> pools_;
  uint64_t looked_commands_ = 0;    // WorkerStats::commands_processed, at the last Tick
  OwnedTimer<&Pools::Tick> timer_;  // armed while something is kept that may go
};

}  // namespace dfly
