// SPDX-License-Identifier: Apache-2.0
#include "server/interpreter_pool.h"

#include <algorithm>

#include "helio/base/logging.h"
#include "server/version.h"

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
  }
  return entry->interpreter.get();
}

Interpreter* InterpreterPool::Take(bool holds_locks) {
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
    idle_.push_back(it->get());
  }
  WakeOne();
}

void InterpreterPool::BeginWait() {
  ++waiting_;
  WakeOne();
}

void InterpreterPool::Renew() { ++generation_; }

size_t InterpreterPool::memory_used() const {
  size_t bytes = 0;
  for (const auto& entry : entries_) {
    if (entry->interpreter != nullptr) bytes += entry->interpreter->memory_used();
  }
  return bytes;
}

}  // namespace dfly
