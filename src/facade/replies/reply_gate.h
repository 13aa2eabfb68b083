// SPDX-License-Identifier: Apache-2.0
// Lets replies of a thread's connections leave once what they tell is durable.
//
// Epochs are the journal's (engine/journal/). A connection waits here while the next reply that it
// would send tells of an epoch that is not on the disk yet (ReplyQueue::Hold).
#pragma once

#include <absl/functional/any_invocable.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "helio/base/intrusive_list.h"

namespace dfly {

// Owner:    a thread; on it.
// Suspends: never.
class ReplyGate {
 public:
  struct Waiter : helio::ListHook<> {
    explicit Waiter(void (*fn)(Waiter*)) : on_open(fn) {}
    void (*on_open)(Waiter*);
    uint64_t epoch = 0;
  };
  // Returns up to which epoch all is durable; if that is less than `epoch`, Open is called once it
  // is not.
  using AskFn = absl::AnyInvocable<uint64_t(uint64_t epoch)>;

  // From now on replies wait.
  void Start(AskFn ask) { ask_ = std::move(ask); }
  // Nothing waits any more. `epoch`: the last that any reply waits for.
  void Stop(uint64_t epoch) {
    ask_ = nullptr;
    Open(epoch);
  }

  // Epochs up to this one are known to be durable.
  uint64_t open() const { return open_; }

  // True: the waiter is called when `epoch` is durable, and leaves the gate then. False: it is, and
  // open() says so.
  [[nodiscard]] bool Await(Waiter* waiter, uint64_t epoch) {
    if (epoch > open_) open_ = std::max(open_, ask_ ? ask_(epoch) : epoch);
    if (epoch <= open_) return false;
    waiter->epoch = epoch;
    if (!waiter->linked()) waiting_.PushBack(waiter);
    return true;
  }

  // All epochs up to this one are durable.
  void Open(uint64_t epoch) {
    open_ = std::max(open_, epoch);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      Waiter& waiter = *it;
      ++it;
      if (waiter.epoch > open_) continue;
      waiter.Unlink();
      waiter.on_open(&waiter);  // it does not wait again before this is over
    }
  }
  bool has_waiters() const { return !waiting_.empty(); }

 private:
  AskFn ask_;
  uint64_t open_ = 0;
  helio::IntrusiveList<Waiter> waiting_;
};

}  // namespace dfly
