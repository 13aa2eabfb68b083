// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/hold.h"

#include <cstdio>

#include "helio/base/logging.h"

namespace helio {

void Hold::Begin() {
  DCHECK(!is_begun());
  FiberState* const fiber = Scheduler::CurrentFiber();
  if (fiber == nullptr) return;
  DCHECK(fiber->hold_ == nullptr || fiber->hold_->reason_.load() == nullptr)
      << "begins inside a BoundedWait, which would be for what follows, too";
  NoteWait(nullptr);
  was_told_.store(false, std::memory_order_relaxed);
  fiber_ = fiber;
  outer_ = fiber->hold_;
  fiber->hold_ = this;
}

void Hold::End() {
  if (fiber_ == nullptr) return;
  DCHECK(fiber_ == Scheduler::CurrentFiber()) << "another fiber has it";
  Hold** at = &fiber_->hold_;
  while (*at != this) at = &(*at)->outer_;
  *at = outer_;
  outer_ = nullptr;
  fiber_ = nullptr;
}

std::string Hold::DescribeWait() const {
  const WaitReason* const reason = reason_.load(std::memory_order_relaxed);
  if (reason == nullptr) return "";
  std::string text = reason->what;
  if (const size_t at = text.find("{}"); at != std::string::npos) {
    text.replace(at, 2, std::to_string(number_.load(std::memory_order_relaxed)));
  }
  const int64_t cycles = CycleClock::Now() - since_.load(std::memory_order_relaxed);
  char since[32];
  snprintf(since, sizeof(since), " since %.1f s",
           static_cast<double>(CycleClock::ToNanos(cycles)) / 1e9);
  return text + since;
}

#ifndef NDEBUG
void CheckMayWait() {
  const FiberState* const fiber = Scheduler::CurrentFiber();
  if (fiber == nullptr || fiber->hold_ == nullptr) return;
  DCHECK(fiber->hold_->reason_.load(std::memory_order_relaxed) != nullptr)
      << "fiber " << fiber->name()
      << " holds what others wait for, and waits for something that may need it: see "
         "helio/fibers/hold.h";
}
#endif

}  // namespace helio
