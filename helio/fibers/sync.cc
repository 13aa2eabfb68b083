// SPDX-License-Identifier: Apache-2.0
#include "helio/fibers/sync.h"

namespace helio {

void WaiterList::PushBack(Waiter* waiter) {
  waiter->listed = true;
  waiter->next = nullptr;
  waiter->prev = tail_;
  (tail_ != nullptr ? tail_->next : head_) = waiter;
  tail_ = waiter;
}

Waiter* WaiterList::PopFront() {
  Waiter* first = head_;
  if (first != nullptr) Unlink(first);
  return first;
}

bool WaiterList::Remove(Waiter* waiter) {
  if (!waiter->listed) return false;
  Unlink(waiter);
  return true;
}

void WaiterList::Unlink(Waiter* waiter) {
  (waiter->prev != nullptr ? waiter->prev->next : head_) = waiter->next;
  (waiter->next != nullptr ? waiter->next->prev : tail_) = waiter->prev;
  waiter->next = waiter->prev = nullptr;
  waiter->listed = false;
}

WaiterList WaiterList::TakeAll() {
  for (Waiter* waiter = head_; waiter != nullptr; waiter = waiter->next) waiter->listed = false;
  return std::exchange(*this, WaiterList());
}

void WaiterList::WakeAll() {
  tail_ = nullptr;
  Waiter* waiter = std::exchange(head_, nullptr);
  while (waiter != nullptr) {
    Waiter* const next = waiter->next;  // before it is woken, since it lives in its fiber's frame
    waiter->Wake();
    waiter = next;
  }
}

void Mutex::lock() {
  CheckMayWait();
  spin_.lock();
  if (!locked_) {
    locked_ = true;
    spin_.unlock();
    return;
  }
  Waiter waiter;
  waiters_.PushBack(&waiter);
  spin_.unlock();
  waiter.Wait();  // unlock() has handed the lock to us
}

bool Mutex::try_lock() {
  std::lock_guard guard(spin_);
  return !std::exchange(locked_, true);
}

void Mutex::unlock() {
  spin_.lock();
  DCHECK(locked_);
  Waiter* heir = waiters_.PopFront();
  if (heir == nullptr) locked_ = false;
  spin_.unlock();
  if (heir != nullptr) heir->Wake();
}

void CondVar::Wait(std::unique_lock<Mutex>& lock) {
  CheckMayWait();
  Waiter waiter;
  {
    std::lock_guard guard(spin_);
    waiters_.PushBack(&waiter);
  }
  lock.unlock();
  waiter.Wait();
  lock.lock();
}

bool CondVar::WaitUntil(std::unique_lock<Mutex>& lock, uint64_t deadline_ns) {
  CheckMayWait();
  Waiter waiter;
  {
    std::lock_guard guard(spin_);
    waiters_.PushBack(&waiter);
  }
  lock.unlock();
  bool notified = waiter.WaitUntil(deadline_ns);
  if (!notified) {
    spin_.lock();
    const bool removed = waiters_.Remove(&waiter);
    spin_.unlock();
    if (!removed) {  // a notifier has just taken us: its Wake is on the way, and we must not leave
                     // before it
      waiter.Wait();
      notified = true;
    }
  }
  lock.lock();
  return notified;
}

void CondVar::NotifyOne() {
  spin_.lock();
  Waiter* waiter = waiters_.PopFront();
  spin_.unlock();
  if (waiter != nullptr) waiter->Wake();
}

void CondVar::NotifyAll() {
  spin_.lock();
  WaiterList waiters = waiters_.TakeAll();
  spin_.unlock();
  waiters.WakeAll();
}

uint32_t EventCount::PrepareWait() {
  // seq_cst, as in Notify(): either Notify sees that we announced ourselves, or we see its
  // condition.
  announced_.fetch_add(1, std::memory_order_seq_cst);
  std::lock_guard guard(spin_);
  return epoch_;
}

void EventCount::CancelWait() { announced_.fetch_sub(1, std::memory_order_relaxed); }

void EventCount::CommitWait(uint32_t epoch) {
  Waiter waiter;
  spin_.lock();
  const bool wait = epoch_ == epoch;
  if (wait) waiters_.PushBack(&waiter);
  spin_.unlock();
  if (wait) waiter.Wait();
  announced_.fetch_sub(1, std::memory_order_relaxed);
}

void EventCount::Notify() {
  // A read-modify-write, because it is a full barrier that the thread sanitizer understands too.
  if (announced_.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  spin_.lock();
  ++epoch_;
  WaiterList waiters = waiters_.TakeAll();
  spin_.unlock();
  waiters.WakeAll();
}

void BlockingCounter::Done() {
  // acq_rel: the last one publishes what all others did before their Done; pairs with spin_ in
  // Wait().
  const uint32_t before = left_.fetch_sub(1, std::memory_order_acq_rel);
  DCHECK_GT(before, 0u);
  if (before != 1) return;
  spin_.lock();
  done_ = true;
  WaiterList waiters = waiters_.TakeAll();
  spin_.unlock();
  waiters.WakeAll();
}

void BlockingCounter::Wait() {
  CheckMayWait();
  Waiter waiter;
  spin_.lock();
  const bool wait = !done_;
  if (wait) waiters_.PushBack(&waiter);
  spin_.unlock();
  if (wait) waiter.Wait();
}

}  // namespace helio
