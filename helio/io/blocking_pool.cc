// SPDX-License-Identifier: Apache-2.0
#include "helio/io/blocking_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "helio/base/logging.h"
#include "helio/base/spin_lock.h"
#include "helio/fibers/fiber.h"

namespace helio::blocking_pool_internal {

namespace {

constexpr uint64_t kReleasePollNanos = 20'000;

// Thread: any. The queue's lock is a spin lock: a helper that unlocked a Mutex could wake a fiber,
// whose loop could end before the helper has left the wake.
class Pool {
 public:
  // At the process's end, from a plain thread; no fiber is left by then.
  ~Pool() {
    is_closed_ = true;
    has_calls_.Notify();
    for (std::thread& thread : threads_) thread.join();
  }

  bool Execute(Call* call) {
    const BoundedWait wait(kSystemCall);
    // Calls that are queued or running; more of them than helpers means that one more is of use.
    const unsigned busy = busy_.fetch_add(1, std::memory_order_relaxed) + 1;
    const bool has_helper = EnsureHelpers(std::min(busy, kBlockingThreadsMax));
    if (has_helper) {
      {
        const std::lock_guard lock(calls_lock_);
        calls_.push_back(call);
      }
      has_calls_.Notify();
      call->done.Wait();
      // Almost always true at once; if not, the helper may need this very core to go on. Acquire:
      // pairs with the release in Help().
      while (!call->released.load(std::memory_order_acquire)) {
        this_fiber::SleepForNanos(kReleasePollNanos);
      }
    }
    busy_.fetch_sub(1, std::memory_order_relaxed);
    return has_helper;
  }

 private:
  // Returns false if there is none and none can be made.
  bool EnsureHelpers(unsigned wanted) {
    if (helpers_.load(std::memory_order_acquire) >= wanted) return true;
    std::lock_guard lock(mutex_);
    while (threads_.size() < wanted) {
      if (!StartHelper()) break;
      helpers_.store(static_cast<unsigned>(threads_.size()), std::memory_order_release);
    }
    return !threads_.empty();
  }

  bool StartHelper() {
    // Signals are for the threads that expect them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
      threads_.emplace_back([this] { Help(); });
    } catch (const std::system_error& error) {
      LOG_FIRST_N(ERROR, 1) << "cannot start a thread for files: " << error.what();
      started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  // Null: there is none.
  Call* Take() {
    const std::lock_guard lock(calls_lock_);
    if (calls_.empty()) return nullptr;
    Call* const call = calls_.front();
    calls_.pop_front();
    return call;
  }

  void Help() {
    pthread_setname_np(pthread_self(), "FileHelper");
    while (true) {
      Call* call = nullptr;
      has_calls_.Await([&] { return (call = Take()) != nullptr || is_closed_; });
      if (call == nullptr) return;
      call->run(call->function);
      call->done.Done();
      call->released.store(true, std::memory_order_release);
    }
  }

  SpinLock calls_lock_;
  std::deque<Call*> calls_;  // guarded by calls_lock_
  EventCount has_calls_;
  std::atomic<bool> is_closed_{false};
  std::atomic<unsigned> busy_{0};
  std::atomic<unsigned> helpers_{0};
  Mutex mutex_;                       // for fibers only
  std::vector<std::thread> threads_;  // guarded by mutex_
};

}  // namespace

bool Execute(Call* call) {
  static Pool pool;
  return pool.Execute(call);
}

}  // namespace helio::blocking_pool_internal
