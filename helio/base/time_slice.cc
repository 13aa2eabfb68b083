// SPDX-License-Identifier: Apache-2.0
#include "helio/base/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace helio {

namespace {

// Debian 12's libc has no name for it, and the kernel's header does not go with sched.h.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

bool Get(Attributes* attributes) {
  return syscall(SYS_sched_getattr, 0, attributes, sizeof(*attributes), 0) == 0;
}

}  // namespace

bool SetTimeSlice(uint32_t us) {
  Attributes attributes;
  if (!Get(&attributes)) return false;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return true;
  attributes.size = sizeof(attributes);
  attributes.runtime_ns = uint64_t{us} * 1000;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

uint32_t TimeSlice() {
  Attributes attributes;
  return Get(&attributes) ? static_cast<uint32_t>(attributes.runtime_ns / 1000) : 0;
}

}  // namespace helio
