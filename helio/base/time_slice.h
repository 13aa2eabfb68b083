// SPDX-License-Identifier: Apache-2.0
// For how long the kernel lets a thread run while others wait for its core: the slice of EEVDF,
// which each thread may choose since Linux 6.12 (sched_setattr(2), "sched_runtime" of SCHED_OTHER).
// Of threads that wait, one with a short slice comes earlier, and one that runs stops earlier.
// Shares of the core stay as they are.
#pragma once

#include <cstdint>

namespace helio {

// For the calling thread. The kernel takes 100 us to 100 ms, and the nearest of these for others. A
// thread of another policy (SCHED_FIFO, SCHED_IDLE) stays as it is; so do all before Linux 6.12.
// False: the kernel refuses it, as errno says.
bool SetTimeSlice(uint32_t us);
// Of the calling thread; 0: the kernel does not tell.
uint32_t TimeSlice();

}  // namespace helio
