// SPDX-License-Identifier: Apache-2.0
// A timer that calls a method of the object that has it.
#pragma once

#include <cstdint>

#include "helio/base/clock.h"
#include "helio/fibers/timer_queue.h"
#include "helio/proactor/proactor.h"

namespace dfly {

template <auto kMethod>
class OwnedTimer;

// Owner: `owner`, on the proactor's thread. It is disarmed when it is destroyed.
template <typename Owner, void (Owner::*kMethod)()>
class OwnedTimer<kMethod> final : private helio::Timer {
 public:
  OwnedTimer(Owner* owner, helio::Proactor* proactor)
      : Timer([](helio::Timer* timer) { (static_cast<OwnedTimer*>(timer)->owner_.*kMethod)(); }),
        owner_(*owner),
        proactor_(*proactor) {}
  ~OwnedTimer() { Disarm(); }

  using Timer::armed;
  using Timer::deadline_ns;

  // On the clock of MonotonicNanos. Moves the deadline if it is armed.
  void ArmAt(uint64_t at_ns) { proactor_.timers().Arm(this, at_ns); }
  void ArmIn(uint64_t after_ns) { ArmAt(helio::MonotonicNanos() + after_ns); }
  void Disarm() { proactor_.timers().Disarm(this); }

 private:
  Owner& owner_;
  helio::Proactor& proactor_;
};

}  // namespace dfly
