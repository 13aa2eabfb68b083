// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/long_work.h"

#include "helio/fibers/fiber.h"
#include "helio/fibers/hold.h"
#include "helio/fibers/sync.h"

namespace helio {

void LongWork::Look() {
  steps_left_ = steps_per_look_;
  if (CycleClock::ToNanos(CycleClock::Now() - begin_) < kSliceNanos) return;
  const BoundedWait wait(kItsTurn);
  this_fiber::Yield();
  begin_ = CycleClock::Now();
}

}  // namespace helio
