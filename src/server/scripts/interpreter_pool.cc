// SPDX-License-Identifier: Apache-2.0
#include "server/scripts/interpreter_pool.h"

#include <algorithm>
#include <optional>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "server/base/version.h"
#include "server/base/waits.h"

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
  entry->is_used = true;
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
  while (idle_.size() > 1) Erase(idle_.begin());  // the one that was used last is the next
  for (Entry* entry : idle_) {
    if (entry->interpreter != nullptr) CollectOne(entry, UINT64_MAX);
  }
}

bool InterpreterPool::ShrinkUnused(uint64_t until_ns) {
  if (idle_.size() <= 1) {
    for (Entry* entry : idle_) entry->is_used = false;
    return false;
  }
  // The next one to be taken is the last; those before it in line were free for longer.
  const auto end = std::prev(idle_.end());
  const auto unused = static_cast<size_t>(
      std::count_if(idle_.begin(), end, [](const Entry* entry) { return !entry->is_used; }));
  size_t to_go = (unused + 1) / 2;
  for (size_t i = 0; to_go > 0 && helio::MonotonicNanos() < until_ns;) {
    if (idle_[i]->is_used) {
      ++i;
      continue;
    }
    Erase(idle_.begin() + static_cast<ptrdiff_t>(i));
    --to_go;
  }
  for (Entry* entry : idle_) entry->is_used = false;
  return idle_.size() > 1;
}

void InterpreterPool::Erase(std::vector<Entry*>::iterator idle) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [idle](const auto& entry) { return entry.get() == *idle; });
  entries_.erase(it);
  idle_.erase(idle);
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
