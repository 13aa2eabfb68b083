// SPDX-License-Identifier: Apache-2.0
// The Lua states of one thread. One is taken for each script that runs, as a script that gives way
// keeps its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "helio/fibers/sync.h"
#include "scripting/interpreter.h"

namespace dfly {

// Owner:    one worker.
// Suspends: Take.
class InterpreterPool {
 public:
  InterpreterPool(size_t count_max, size_t memory_max)
      : count_max_(count_max), memory_max_(memory_max) {}

  // Null: all are in use.
  Interpreter* TryTake();
  // Waits for one. Comes to an end even if the caller holds locks that others with an interpreter
  // wait for, as those say so.
  Interpreter* Take(bool holds_locks);
  void GiveBack(Interpreter* interpreter);
  // Around waits for locks. Whoever holds those may wait for an interpreter, so there is one more
  // meanwhile for callers of Take who hold locks. Not for others, who may wait for locks later: so
  // there are no more than twice as many, and one for the one script that may take locks late.
  void BeginWait();
  void EndWait() { --waiting_; }
  // What they have compiled is outdated: each is replaced when it is free.
  void Renew();

  size_t in_use() const { return entries_.size() - idle_.size(); }
  size_t count() const { return entries_.size(); }
  // Of all of them.
  size_t memory_used() const;

 private:
  struct Entry {
    std::unique_ptr<Interpreter> interpreter;
    uint64_t generation = 0;
  };

  Interpreter* TakeOne();
  void WakeOne();

  const size_t count_max_;
  const size_t memory_max_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<Entry*> idle_;
  uint64_t generation_ = 0;
  size_t waiting_ = 0;            // of those in use
  helio::WaiterList with_locks_;  // who wait
  helio::WaiterList without_locks_;
};

}  // namespace dfly
