// SPDX-License-Identifier: Apache-2.0
// The watch of a thread for transactions that have their locks for long (--lock_warning_ms): each
// is logged once. A look follows only while a fiber runs for a command, or a script has given way,
// so an idle server does not tick.
#pragma once

#include "server/base/owned_timer.h"
#include "server/base/per_thread.h"
#include "server/care/running_scripts.h"
#include "server/clients/worker_state.h"

namespace dfly {

// Owner:    a worker; on its thread.
// Suspends: never.
class LockWatch : public PerThread<LockWatch> {
 public:
  LockWatch(WorkerState* worker, const RunningScripts* scripts);

  // Something runs that may have locks for long.
  void Begin();

 private:
  void OnTimer();
  void LookForOld();

  WorkerState& worker_;
  const RunningScripts& scripts_;
  OwnedTimer<&LockWatch::OnTimer> timer_;  // armed while something may have locks
};

}  // namespace dfly
