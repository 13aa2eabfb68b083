// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/fiber_pool.h"

#include <utility>

#include "helio/base/logging.h"

namespace helio {

FiberPool::FiberPool(FiberOptions options, size_t idle_max)
    : options_(std::move(options)), idle_max_(idle_max) {}

FiberPool::~FiberPool() {
  DCHECK_EQ(running_, 0u);
  Shrink(0);
}

void FiberPool::Shrink(size_t idle_left) {
  if (idle_.size() <= idle_left) return;
  const auto end = idle_.end() - static_cast<ptrdiff_t>(idle_left);
  for (auto it = idle_.begin(); it != end; ++it) {
    (*it)->function = nullptr;
    Scheduler::Current()->Enter((*it)->fiber);
  }
  idle_.erase(idle_.begin(), end);
}

auto FiberPool::Take() -> Member* {
  if (!idle_.empty()) {
    Member* const member = idle_.back();
    idle_.pop_back();
    return member;
  }
  Member* const member = std::make_unique<Member>().release();  // Main deletes it
  member->fiber = Scheduler::Current()->SpawnSuspended(options_, [this, member] { Main(member); });
  return member;
}

bool FiberPool::Run(Function function, void* arg) {
  Member* const member = Take();
  bool has_returned = false;
  member->function = function;
  member->arg = arg;
  member->has_returned = &has_returned;
  ++running_;
  Scheduler::Current()->Enter(member->fiber);
  if (!has_returned) member->has_returned = nullptr;
  return has_returned;
}

void FiberPool::Main(Member* member) {
  Scheduler* const scheduler = Scheduler::Current();
  FiberState* const self = member->fiber;
  while (true) {
    scheduler->WaitForWake();
    if (member->function == nullptr) break;
    member->function(member->arg);
    --running_;
    if (member->has_returned != nullptr) *std::exchange(member->has_returned, nullptr) = true;
    if (idle_.size() >= idle_max_) break;
    idle_.push_back(member);
  }
  delete member;
  self->Release();
}

}  // namespace helio
