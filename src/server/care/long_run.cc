// SPDX-License-Identifier: Apache-2.0
#include "server/care/long_run.h"

#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/hold.h"
#include "server/care/running_scripts.h"

namespace dfly {

LongRun::LongRun(RunningScripts* scripts, bool is_function)
    : scripts_(*scripts), worker_(scripts->worker()), is_function_(is_function) {}

void LongRun::Begin() {
  begin_ns_ = slice_begin_ns_ = helio::MonotonicNanos();
  scripts_.OnBegin(this);
}

void LongRun::End() { scripts_.OnEnd(this); }

ScriptHost::Verdict LongRun::OnTick() {
  if (is_killed_) [[unlikely]]
    return Verdict::kKill;
  const uint64_t now_ns = helio::MonotonicNanos();
  // On schedules from a seed: at any tick.
  MessageShuffle* const shuffle = worker_.shuffle.get();
  if (now_ns - slice_begin_ns_ < scripts_.slice_ns() && (shuffle == nullptr || !shuffle->OneIn(4)))
      [[likely]] {
    return Verdict::kGoOn;
  }
  if (!has_given_way_) {
    has_given_way_ = true;
    scripts_.OnLong();
  }
  OnSlice(now_ns);
  GiveWay();
  slice_begin_ns_ = helio::MonotonicNanos();
  return is_killed_ ? Verdict::kKill : Verdict::kGoOn;
}

ScriptLoad::ScriptLoad(RunningScripts* scripts, Of of, bool holds_locks)
    : LongRun(scripts, of != Of::kScript), interpreter_(scripts->interpreters().Take(holds_locks)) {
  has_written_ = of == Of::kSnapshot;
  Begin();
}

ScriptLoad::~ScriptLoad() {
  End();
  scripts_.interpreters().GiveBack(interpreter_);
  scripts_.OnInterpreterBack();
}

void ScriptLoad::GiveWay() {
  scripts_.CountInterpreters();
  const helio::BoundedWait wait(helio::kItsTurn);
  helio::this_fiber::Yield();
}

}  // namespace dfly
