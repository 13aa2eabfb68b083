// SPDX-License-Identifier: Apache-2.0
#include "server/interpreter_pool.h"

#include <algorithm>
#include <optional>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/version.h"
#include "server/waits.h"

namespace dfly {

Interpreter* InterpreterPool::TryTake() { return in_use() < count_max_ ? TakeOne() : nullptr; }

Interpreter* InterpreterPool::TakeOne() {
  if (idle_.empty()) {
    entries_.push_back(std::make_unique<Entry>());
    idle_.push_back(entries_.back().get());
  }
  Entry* const entry = idle_.back();
  idle_.pop_back();
  if (entry->interpreter == nullptr || entry->generation != generation_) {
    entry->interpreter = std::make_unique<Interpreter>(memory_max_, kRedisVersion);
    entry->generation = generation_;
    entry->settled_bytes = entry->interpreter->memory_used();
  }
  entry->cycles_left = 0;
  entry->has_forgotten = false;
  return entry->interpreter.get();
}

Interpreter* InterpreterPool::Take(bool holds_locks) {
  std::optional<helio::BoundedWait> wait;
  if (holds_locks) wait.emplace(kInterpreter);
  while (in_use() >= count_max_ + (holds_locks ? waiting_ : 0)) {
    helio::Waiter waiter;
    (holds_locks ? with_locks_ : without_locks_).PushBack(&waiter);
    waiter.Wait();
  }
  return TakeOne();
}

void InterpreterPool::WakeOne() {
  helio::Waiter* waiter = with_locks_.PopFront();
  if (waiter == nullptr && in_use() < count_max_) waiter = without_locks_.PopFront();
  if (waiter != nullptr) waiter->Wake();
}

void InterpreterPool::GiveBack(Interpreter* interpreter) {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->interpreter.get() == interpreter;
  });
  DCHECK(it != entries_.end());
  if (entries_.size() > count_max_) {
    entries_.erase(it);
  } else {
    if ((*it)->generation != generation_) {
      (*it)->Reset();
    } else {
      (*it)->settled_bytes = std::min((*it)->settled_bytes, interpreter->memory_used());
    }
    idle_.push_back(it->get());
  }
  WakeOne();
}

void InterpreterPool::BeginWait() {
  ++waiting_;
  WakeOne();
}

void InterpreterPool::Renew() {
  ++generation_;
  for (Entry* entry : idle_) entry->Reset();
}

bool InterpreterPool::CollectOne(Entry* entry, uint64_t until_ns) {
  constexpr unsigned kCycles = 2;
  if (entry->cycles_left == 0) {
    entry->cycles_left = kCycles;
    entry->interpreter->BeginCollection();
  }
  do {
    if (!entry->interpreter->CollectStep() || --entry->cycles_left > 0) continue;
    entry->settled_bytes = entry->interpreter->memory_used();
    if (entry->settled_bytes <= kKeptMax || entry->has_forgotten) return true;
    entry->interpreter->ForgetAll();
    entry->has_forgotten = true;
    entry->cycles_left = kCycles;
  } while (helio::MonotonicNanos() < until_ns);
  return false;
}

bool InterpreterPool::Collect(size_t worth_bytes, uint64_t until_ns) {
  for (Entry* entry : idle_) {
    if (entry->cycles_left == 0 && !entry->is_worth(worth_bytes)) continue;
    if (!CollectOne(entry, until_ns)) return true;
  }
  return false;
}

void InterpreterPool::Shrink() {
  // The one that was used last is the next.
  for (; idle_.size() > 1; idle_.erase(idle_.begin())) {
    entries_.erase(std::find_if(entries_.begin(), entries_.end(), [this](const auto& entry) {
      return entry.get() == idle_.front();
    }));
  }
  for (Entry* entry : idle_) {
    if (entry->interpreter != nullptr) CollectOne(entry, UINT64_MAX);
  }
}

size_t InterpreterPool::memory_used() const { return memory().used; }

auto InterpreterPool::memory() const -> Memory {
  Memory memory;
  for (const auto& entry : entries_) {
    if (entry->interpreter == nullptr) continue;
    const size_t used = entry->interpreter->memory_used();
    memory.used += used;
    if (used > entry->settled_bytes + kGarbageMinShort) {
      memory.transient += used - entry->settled_bytes;
    }
  }
  return memory;
}

}  // namespace dfly
