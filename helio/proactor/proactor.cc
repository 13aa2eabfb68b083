// SPDX-License-Identifier: Apache-2.0
#include "helio/proactor/proactor.h"

#include <sched.h>

#include <algorithm>

#include "helio/base/clock.h"
#include "helio/proactor/epoll_proactor.h"
#include "helio/proactor/uring_proactor.h"

namespace helio {

struct Proactor::Periodic : Timer {
  Periodic() : Timer(&Fire) {}
  static void Fire(Timer* timer) {
    auto* self = static_cast<Periodic*>(timer);
    // From now, not from the deadline: a loop that was busy for long does not owe the calls it
    // missed.
    self->queue->Arm(self, MonotonicNanos() + self->period_ns);
    self->running = true;
    self->task();
    self->running = false;
    if (self->removed) current_->EraseRemovedPeriodic();
  }

  uint64_t id = 0;
  uint64_t period_ns = 0;
  bool running = false;
  bool removed = false;  // by itself, while it ran
  TimerQueue* queue = nullptr;
  absl::AnyInvocable<void()> task;
};

std::unique_ptr<Proactor> Proactor::Create(const Options& options) {
  if (!options.force_epoll) {
    std::string why;
    if (auto proactor = UringProactor::TryCreate(options, &why)) return proactor;
    LOG_FIRST_N(WARNING, 1) << "io_uring is not usable here (" << why << "), falling back to epoll";
  }
  return std::make_unique<EpollProactor>(options);
}

Proactor::Proactor(const Options& options)
    : index_(options.index),
      shares_core_(options.shares_core),
      scheduler_([this] { WakeFromOtherThread(); }),
      now_ns_(MonotonicNanos()) {
  CHECK(current_ == nullptr) << "this thread has a proactor already";
  current_ = this;
  hooks_.next = hooks_.prev = &hooks_;
}

Proactor::~Proactor() {
  for (auto& periodic : periodic_) timers().Disarm(periodic.get());
  DCHECK_EQ(queued_hooks_, 0u);
  current_ = nullptr;
}

void Proactor::Stop() {
  Dispatch([this] { stopped_.store(true, std::memory_order_relaxed); });
}

void Proactor::Run() {
  CHECK(current_ == this);
  now_ns_ = MonotonicNanos();
  bool gave_way = false;  // in the iteration before
  while (true) {
    ++stats_.iterations;
    if (const size_t messages = scheduler_.DrainInbox(); messages > 0) {
      stats_.messages += messages;
      RunStageTask();
    }
    if (timers().next_deadline_ns() <= now_ns_) timers().FireDue(now_ns_);
    scheduler_.RunReady();
    RunHooks();
    SendLazyWakes();

    if (stopped_.load(std::memory_order_relaxed) && scheduler_.live_fibers() == 0 &&
        queued_hooks_ == 0)
      break;

    const bool busy = scheduler_.has_ready() || queued_hooks_ > 0;
    // Background fibers get the idle moments, and one turn in 64 iterations of a loop that is never
    // idle.
    const bool ran_background =
        (!busy || stats_.iterations % 64 == 0) && scheduler_.RunOneBackground();
    uint64_t timeout_ns = 0;
    gave_way = shares_core_ && !busy && !ran_background && !gave_way;
    if (!busy && !ran_background && !gave_way && scheduler_.inbox().PrepareSleep()) {
      timeout_ns = timers().next_deadline_ns();
      if (timeout_ns != TimerQueue::kNever) {
        const uint64_t now_ns = MonotonicNanos();
        timeout_ns = timeout_ns > now_ns ? timeout_ns - now_ns : 0;
      }
    }
    if (timeout_ns > 0) ++stats_.sleeps;
    if (on_stall_ != nullptr) [[unlikely]]
      CheckStall();
    {
      NoSuspend no_suspend;
      Poll(timeout_ns);
    }
    RunStageTask();
    if (timeout_ns == 0) scheduler_.inbox().EndSleep();
    if (gave_way) sched_yield();
    now_ns_ = MonotonicNanos();
  }
}

void Proactor::WatchStalls(uint64_t least_ns, absl::AnyInvocable<void(uint64_t)> on_stall) {
  on_stall_ = std::move(on_stall);
  stall_ns_ = least_ns;
  iteration_begin_ns_ = MonotonicNanos();
}

void Proactor::CheckStall() {
  const uint64_t taken_ns = MonotonicNanos() - iteration_begin_ns_;
  if (taken_ns >= stall_ns_) on_stall_(taken_ns);
}

void Proactor::PostLazily(Message* message) {
  if (!scheduler_.PostLazily(message)) return;
  Proactor* sender = Current();
  DCHECK(sender != nullptr);
  sender->lazy_wakes_.push_back(this);
}

void Proactor::SendLazyWakes() {
  for (Proactor* receiver : lazy_wakes_) {
    ++stats_.wakes_sent;
    receiver->scheduler_.WakeThread();
  }
  lazy_wakes_.clear();
}

uint64_t Proactor::AddPeriodic(uint64_t period_ms, absl::AnyInvocable<void()> task) {
  auto periodic = std::make_unique<Periodic>();
  periodic->id = ++last_periodic_id_;
  periodic->period_ns = period_ms * 1'000'000;
  periodic->queue = &timers();
  periodic->task = std::move(task);
  timers().Arm(periodic.get(), MonotonicNanos() + periodic->period_ns);
  periodic_.push_back(std::move(periodic));
  return last_periodic_id_;
}

void Proactor::RemovePeriodic(uint64_t id) {
  auto it = std::find_if(periodic_.begin(), periodic_.end(),
                         [id](const auto& periodic) { return periodic->id == id; });
  if (it == periodic_.end()) return;
  timers().Disarm(it->get());
  (*it)->removed = true;
  if (!(*it)->running)
    periodic_.erase(it);  // a task that removes itself must not lose what it captured
}

void Proactor::EraseRemovedPeriodic() {
  std::erase_if(periodic_,
                [](const auto& periodic) { return periodic->removed && !periodic->running; });
}

void Proactor::AtIterationEnd(LoopHook* hook) {
  DCHECK(current_ == this);
  if (hook->queued) return;
  hook->queued = true;
  hook->next = &hooks_;
  hook->prev = hooks_.prev;
  hooks_.prev->next = hook;
  hooks_.prev = hook;
  ++queued_hooks_;
}

void Proactor::CancelHook(LoopHook* hook) {
  if (!hook->queued) return;
  hook->queued = false;
  hook->prev->next = hook->next;
  hook->next->prev = hook->prev;
  --queued_hooks_;
}

void Proactor::RunStageTask() {
  if (!stage_task_) return;
  NoSuspend no_suspend;
  stage_task_();
}

void Proactor::RunHooks() {
  NoSuspend no_suspend;
  // A hook that is queued again by a hook runs in the next iteration, so that this loop always
  // ends.
  for (size_t most = queued_hooks_; most > 0 && queued_hooks_ > 0; --most) {
    LoopHook* hook = hooks_.next;
    CancelHook(hook);
    hook->run(hook);
  }
}

}  // namespace helio
