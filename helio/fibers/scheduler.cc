// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/scheduler.h"

#include <gflags/gflags.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/sanitizers.h"
#include "helio/fibers/hold.h"

#if defined(HELIO_ASAN) || defined(HELIO_TSAN)
constexpr uint32_t kDefaultStackBytes = 256 * 1024;  // their frames are several times larger
#else
constexpr uint32_t kDefaultStackBytes = 64 * 1024;
#endif
DEFINE_uint32(fiber_stack_size, kDefaultStackBytes,
              "Bytes of stack for each fiber that does not ask for a size of its own. Only touched "
              "pages use memory; too "
              "small a stack ends the process with a fault at its guard page");

namespace ctx = boost::context;

namespace helio {

namespace {

// Sleeps while *word == value, at most timeout_ns. Spurious returns are possible.
void FutexWait(std::atomic<uint32_t>* word, uint32_t value, uint64_t timeout_ns) {
  timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                   static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
          timeout_ns == TimerQueue::kNever ? nullptr : &timeout, nullptr, 0);
}

// Only the address is used, so the waiter may already be gone.
void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct FiberState::StackReturner {
  FiberState* fiber;
  ctx::stack_context allocate() { LOG(FATAL) << "fibers bring their stack"; }
  // Called on the loop's stack after the fiber's last switch.
  void deallocate(ctx::stack_context&) {
    fiber->scheduler_->stacks_.Put(std::exchange(fiber->stack_, {}));
  }
};

FiberState::FiberState(Scheduler* scheduler, FiberOptions options, Function function)
    : scheduler_(scheduler),
      options_(std::move(options)),
      function_(std::move(function)),
      timer_([](Timer* timer) {
        FiberState* fiber = static_cast<WaitTimer*>(timer)->fiber;
        if (fiber->status_ == Status::kSuspended) fiber->scheduler_->MakeReady(fiber);
      }) {
  timer_.fiber = this;
  wake_message_.fiber = this;
  wake_message_.run = [](Message* message) {
    FiberState* fiber = static_cast<WakeMessage*>(message)->fiber;
    fiber->scheduler_->WakeHere(fiber);
  };
}

FiberState::~FiberState() { DCHECK(done_); }

void FiberState::Wake() {
  if (Scheduler::Current() == scheduler_) {
    scheduler_->WakeHere(this);
  } else {
    scheduler_->Post(&wake_message_);
  }
}

void FiberState::Join() {
  CheckMayWait();
  Waiter waiter;
  {
    std::lock_guard lock(join_lock_);
    if (done_) return;
    joiners_.push_back(&waiter);
  }
  waiter.Wait();
}

Scheduler::Scheduler(absl::AnyInvocable<void()> wake_thread)
    : wake_thread_(std::move(wake_thread)) {
  CHECK(current_ == nullptr) << "this thread has a scheduler already";
  current_ = this;
  SanitizerAdoptThread(&loop_sanitizer_);
  if (!wake_thread_) {
    wake_thread_ = [this] {
      wake_signal_.store(1, std::memory_order_release);  // pairs with the acquire in RunUntilDone()
      FutexWakeAll(&wake_signal_);
    };
  }
}

Scheduler::~Scheduler() {
  CHECK_EQ(live_fibers_, 0u) << "fibers still run";
  CHECK(current_ == this);
  current_ = nullptr;
}

FiberState* Scheduler::Spawn(FiberOptions options, FiberState::Function function) {
  FiberState* const fiber = SpawnSuspended(std::move(options), std::move(function));
  MakeReady(fiber);
  return fiber;
}

FiberState* Scheduler::SpawnSuspended(FiberOptions options, FiberState::Function function) {
  DCHECK(current_ == this);
  auto* fiber = new FiberState(this, std::move(options), std::move(function));
  const size_t size =
      fiber->options_.stack_size ? fiber->options_.stack_size : FLAGS_fiber_stack_size;
  fiber->stack_ = stacks_.Get(size);
  ctx::stack_context stack;
  stack.size = fiber->stack_.size;
  stack.sp = fiber->stack_.bottom + fiber->stack_.size;
  fiber->sanitizer_.stack_bottom = fiber->stack_.bottom;
  fiber->sanitizer_.stack_size = fiber->stack_.size;
  SanitizerCreateFiber(&fiber->sanitizer_);
  fiber->context_ = ctx::fiber(std::allocator_arg, ctx::preallocated(stack.sp, stack.size, stack),
                               FiberState::StackReturner{fiber}, [this, fiber](ctx::fiber&& back) {
                                 back_ = std::move(back);
                                 FiberMain(fiber);
                                 return std::move(back_);
                               });
  fiber->AddRef();  // the scheduler's own reference, dropped when the fiber is done
  ++live_fibers_;
  fiber->status_ = FiberState::Status::kSuspended;
  return fiber;
}

void Scheduler::FiberMain(FiberState* fiber) {
  SanitizerAfterSwitch(&fiber->sanitizer_, back_sanitizer_);
  fiber->function_();
  fiber->function_ = nullptr;  // what it captured dies here, on its own fiber
  DCHECK(fiber->hold_ == nullptr) << "fiber " << fiber->name() << " ends with a Hold";
  fiber->status_ = FiberState::Status::kDone;
  SanitizerBeforeSwitch(&fiber->sanitizer_, *back_sanitizer_, true);
}

void Scheduler::UseRandomOrder(uint64_t seed) { random_state_ = seed * 2 + 1; }

void Scheduler::MakeReady(FiberState* fiber) {
  DCHECK(current_ == this);
  fiber->status_ = FiberState::Status::kReady;
  (fiber->options_.priority == FiberPriority::kNormal ? ready_ : background_).Push(fiber);
}

void Scheduler::WakeHere(FiberState* fiber) {
  DCHECK(current_ == this);
  DCHECK(!fiber->woken_) << "two wakes for one wait of fiber " << fiber->name();
  fiber->woken_ = true;
  if (fiber->status_ == FiberState::Status::kSuspended) MakeReady(fiber);
}

FiberState* Scheduler::PickReady() {
  if (random_state_ == 0) return ready_.Pop();
  // splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014)
  uint64_t z = (random_state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return ready_.TakeAt((z ^ (z >> 31)) % ready_.size());
}

void Scheduler::Enter(FiberState* fiber) {
  DCHECK(current_ == this);
  DCHECK(fiber->status_ == FiberState::Status::kSuspended && !fiber->woken_);
  fiber->woken_ = true;
  NoSuspend::Lifted lifted;  // it is on a stack of its own
  Resume(fiber);
}

void Scheduler::Resume(FiberState* fiber) {
  FiberState* const outer = std::exchange(running_, fiber);
  ctx::fiber outer_back = std::move(back_);
  SanitizerContext* const outer_back_sanitizer = back_sanitizer_;
  SanitizerContext* const self = outer != nullptr ? &outer->sanitizer_ : &loop_sanitizer_;
  back_sanitizer_ = self;
  fiber->status_ = FiberState::Status::kRunning;
  SanitizerBeforeSwitch(self, fiber->sanitizer_);
  fiber->context_ = std::move(fiber->context_).resume();
  SanitizerContext ignored;
  SanitizerAfterSwitch(self, &ignored);
  running_ = outer;
  back_ = std::move(outer_back);
  back_sanitizer_ = outer_back_sanitizer;
  if (fiber->status_ != FiberState::Status::kDone) return;

  SanitizerDestroyFiber(&fiber->sanitizer_);
  std::vector<Waiter*> joiners;
  {
    std::lock_guard lock(fiber->join_lock_);
    fiber->done_ = true;
    joiners.swap(fiber->joiners_);
  }
  for (Waiter* waiter : joiners) waiter->Wake();
  --live_fibers_;
  fiber->Release();
}

void Scheduler::Suspend(FiberState::Status status) {
  FiberState* self = running_;
  DCHECK(self != nullptr) << "only a fiber can suspend";
  DCHECK(!NoSuspend::active()) << "fiber " << self->name() << " suspends inside a NoSuspend scope";
  self->status_ = status;
  SanitizerBeforeSwitch(&self->sanitizer_, *back_sanitizer_);
  back_ = std::move(back_).resume();
  SanitizerAfterSwitch(&self->sanitizer_, back_sanitizer_);
}

size_t Scheduler::RunReady() {
  size_t count = ready_.size();
  for (size_t i = 0; i < count; ++i) Resume(PickReady());
  return count;
}

bool Scheduler::RunOneBackground() {
  if (background_.empty()) return false;
  Resume(background_.Pop());
  return true;
}

size_t Scheduler::DrainInbox() {
  size_t count = 0;
  for (Message* message = inbox_.TakeAll(); message != nullptr; ++count) {
    Message* next = message->next;  // `run` may free the message
    NoSuspend no_suspend;
    message->run(message);
    message = next;
  }
  return count;
}

void Scheduler::RunUntilDone() {
  while (live_fibers_ > 0) {
    DrainInbox();
    if (timers_.size() > 0) timers_.FireDue(MonotonicNanos());
    if (RunReady() > 0 || RunOneBackground()) continue;
    if (live_fibers_ == 0 || !inbox_.PrepareSleep()) continue;
    uint64_t timeout_ns = timers_.next_deadline_ns();
    if (timeout_ns != TimerQueue::kNever) {
      const uint64_t now_ns = MonotonicNanos();
      timeout_ns = timeout_ns > now_ns ? timeout_ns - now_ns : 0;
    }
    if (wake_signal_.exchange(0, std::memory_order_acquire) == 0)
      FutexWait(&wake_signal_, 0, timeout_ns);
  }
}

void Scheduler::Yield() {
  FiberState* self = running_;
  DCHECK(self != nullptr);
  CheckMayWait();
  MakeReady(self);
  Suspend(FiberState::Status::kReady);
}

void Scheduler::WaitForWake() {
  FiberState* self = running_;
  CheckMayWait();
  while (!self->woken_) Suspend(FiberState::Status::kSuspended);
  self->woken_ = false;
}

bool Scheduler::WaitForWakeUntil(uint64_t deadline_ns) {
  FiberState* self = running_;
  CheckMayWait();
  if (!self->woken_) {
    timers_.Arm(&self->timer_, deadline_ns);
    Suspend(FiberState::Status::kSuspended);
    timers_.Disarm(&self->timer_);
  }
  return std::exchange(self->woken_, false);
}

void Scheduler::ReadyQueue::Push(FiberState* fiber) {
  if (head_ > 64 &&
      head_ * 2 >
          items_.size()) {  // most of the vector is behind us: slide, so that it stays bounded
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(head_));
    head_ = 0;
  }
  items_.push_back(fiber);
}

FiberState* Scheduler::ReadyQueue::Pop() {
  FiberState* fiber = items_[head_++];
  if (head_ == items_.size()) {
    items_.clear();
    head_ = 0;
  }
  return fiber;
}

FiberState* Scheduler::ReadyQueue::TakeAt(size_t index) {
  std::swap(items_[head_], items_[head_ + index]);
  return Pop();
}

void Waiter::Wake() {
  if (fiber_ != nullptr) {
    fiber_->Wake();
    return;
  }
  std::atomic<uint32_t>* word = &thread_woken_;
  word->store(1, std::memory_order_release);  // pairs with the acquire in Wait(); *this may be gone
                                              // from here on
  FutexWakeAll(word);
}

void Waiter::Wait() {
  if (fiber_ != nullptr) {
    fiber_->scheduler()->WaitForWake();
    return;
  }
  DCHECK(Scheduler::Current() == nullptr) << "a loop must not wait: start a fiber";
  while (thread_woken_.load(std::memory_order_acquire) == 0)
    FutexWait(&thread_woken_, 0, TimerQueue::kNever);
}

bool Waiter::WaitUntil(uint64_t deadline_ns) {
  if (fiber_ != nullptr) return fiber_->scheduler()->WaitForWakeUntil(deadline_ns);
  DCHECK(Scheduler::Current() == nullptr) << "a loop must not wait: start a fiber";
  while (thread_woken_.load(std::memory_order_acquire) == 0) {
    const uint64_t now_ns = MonotonicNanos();
    if (now_ns >= deadline_ns) return false;
    FutexWait(&thread_woken_, 0, deadline_ns - now_ns);
  }
  return true;
}

}  // namespace helio
