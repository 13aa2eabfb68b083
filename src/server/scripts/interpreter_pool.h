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

  // An idle interpreter, or a new one. Null: `count_max` are in use.
  Interpreter* TryTake();
  // Waits for an interpreter. `holds_locks`: of the caller. Its wait ends even if every interpreter
  // belongs to a script that waits for these locks: such a script has called BeginWait.
  Interpreter* Take(bool holds_locks);
  void GiveBack(Interpreter* interpreter);
  // A script that has an interpreter calls BeginWait before it waits for locks, and EndWait after
  // that. The owner of the locks may wait in Take. So between the two calls the pool may make one
  // interpreter more, for a caller of Take who holds locks. A caller without locks does not get it,
  // because it may wait for locks later. There are never more than 2 * count_max + 1: the last one
  // is for the only script of the process that may take locks late.
  void BeginWait();
  void EndWait() { --waiting_; }
  // The scripts that the interpreters have compiled are outdated: the idle interpreters end now,
  // the others when they are given back.
  void Renew();

  // --- Memory that scripts have left ---

  // Collects in those that are free and have more than `worth_bytes` of what scripts have left,
  // until `until_ns`. One that keeps much even so forgets what it has compiled. True: there is
  // more to do.
  bool Collect(size_t worth_bytes, uint64_t until_ns);
  // Collects in all that are free, however long it takes; all but one of them go.
  void Shrink();
  // Of those that were not used since the last call a half goes, until `until_ns`; one of all
  // stays. True: another call may find more.
  bool ShrinkUnused(uint64_t until_ns);

  // So little garbage is worth no collection, unless memory is short.
  static constexpr size_t kGarbageMin = 256 << 10;
  static constexpr size_t kGarbageMinShort = 64 << 10;
  // With more that is no garbage, an interpreter forgets what it has compiled.
  static constexpr size_t kKeptMax = 16 << 20;

  size_t in_use() const { return entries_.size() - idle_.size(); }
  size_t count() const { return entries_.size(); }
  // Of all of them.
  size_t memory_used() const;
  // The same, and of it what a collection may give back, or the end of the scripts that run.
  struct Memory {
    size_t used = 0;
    size_t transient = 0;
  };
  Memory memory() const;

 private:
  struct Entry {
    std::unique_ptr<Interpreter> interpreter;
    uint64_t generation = 0;
    size_t settled_bytes = 0;    // when it was new, or after the last collection
    unsigned cycles_left = 0;    // of a collection that has begun
    bool has_forgotten = false;  // since a script ran
    bool is_used = false;        // since ShrinkUnused

    size_t garbage_bytes() const {
      const size_t used = interpreter == nullptr ? 0 : interpreter->memory_used();
      return used > settled_bytes ? used - settled_bytes : 0;
    }
    void Reset() {
      interpreter.reset();
      cycles_left = 0;
    }
    // With much in it, Lua itself lets as much garbage come together.
    bool is_worth(size_t bytes) const { return garbage_bytes() > bytes + settled_bytes / 2; }
  };

  Interpreter* TakeOne();
  void Erase(std::vector<Entry*>::iterator idle);
  // False: the time is over.
  bool CollectOne(Entry* entry, uint64_t until_ns);
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
