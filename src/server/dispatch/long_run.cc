// SPDX-License-Identifier: Apache-2.0
#include "server/dispatch/long_run.h"

#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/hold.h"
#include "server/dispatch/worker.h"

namespace dfly {

void LongRun::Begin() {
  begin_ns_ = slice_begin_ns_ = helio::MonotonicNanos();
  worker_->OnScriptBegin(this);
}

void LongRun::End() { worker_->OnScriptEnd(this); }

ScriptHost::Verdict LongRun::OnTick() {
  if (is_killed_) [[unlikely]]
    return Verdict::kKill;
  const uint64_t now_ns = helio::MonotonicNanos();
  // On schedules from a seed: at any tick.
  MessageShuffle* const shuffle = worker_->state().shuffle.get();
  if (now_ns - slice_begin_ns_ < worker_->script_slice_ns() &&
      (shuffle == nullptr || !shuffle->OneIn(4))) [[likely]] {
    return Verdict::kGoOn;
  }
  if (!has_given_way_) {
    has_given_way_ = true;
    worker_->OnScriptLong();
  }
  OnSlice(now_ns);
  GiveWay();
  slice_begin_ns_ = helio::MonotonicNanos();
  return is_killed_ ? Verdict::kKill : Verdict::kGoOn;
}

ScriptLoad::ScriptLoad(Worker* worker, Of of, bool holds_locks)
    : LongRun(worker, of != Of::kScript), interpreter_(worker->interpreters().Take(holds_locks)) {
  has_written_ = of == Of::kSnapshot;
  Begin();
}

ScriptLoad::~ScriptLoad() {
  End();
  worker_->interpreters().GiveBack(interpreter_);
  worker_->OnInterpreterBack();
}

void ScriptLoad::GiveWay() {
  worker_->CountInterpreters();
  const helio::BoundedWait wait(helio::kItsTurn);
  helio::this_fiber::Yield();
}

}  // namespace dfly
