// SPDX-License-Identifier: Apache-2.0
// The messages that other threads send to one thread, and the knowledge whether that thread sleeps.
//
// One atomic word holds all of it: null (empty, the owner is awake), kSleeping (empty, the owner
// sleeps), or the newest message of a linked stack. A sender learns from its own compare-and-swap
// whether it has to wake the owner; the owner takes the whole stack with one exchange and turns it
// round, so messages of one sender keep their order. (Treiber, "Systems programming: coping with
// parallelism", 1986, with a batch pop, which also removes the ABA case.)
#pragma once

#include <atomic>
#include <cstdint>

#include "helio/base/logging.h"

namespace helio {

// A message: `run` is called once on the owner's thread, as a brief (it must not suspend). The
// message belongs to the inbox from Push until `run` is called; `run` may free or reuse it.
struct Message {
  using RunFn = void (*)(Message*);

  explicit Message(RunFn fn = nullptr) : run(fn) {}

  Message* next = nullptr;
  RunFn run;
};

class Inbox {
 public:
  // Thread: any. Returns true if the owner sleeps and this call is the one that has to wake it.
  [[nodiscard]] bool Push(Message* message) {
    Message* head = head_.load(std::memory_order_relaxed);
    do {
      message->next = head == kSleeping() ? nullptr : head;
      // The release publishes the message; pairs with the acquire in TakeAll().
    } while (!head_.compare_exchange_weak(head, message, std::memory_order_release,
                                          std::memory_order_relaxed));
    return head == kSleeping();
  }

  // Thread: owner. Takes all messages, oldest first, as a list linked by `next`. Also ends a
  // PrepareSleep().
  Message* TakeAll() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Message* newest =
        head_.exchange(nullptr, std::memory_order_acquire);  // pairs with the release in Push()
    if (newest == kSleeping()) return nullptr;
    Message* oldest = nullptr;
    while (newest != nullptr) {
      Message* older = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = older;
    }
    return oldest;
  }

  // Thread: owner. Takes the announcement of PrepareSleep() back: senders need not wake it any
  // more.
  void EndSleep() {
    Message* expected = kSleeping();
    if (head_.load(std::memory_order_relaxed) == expected) {
      head_.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
    }
  }

  // Thread: owner. Announces that the owner is about to sleep: from now on the first Push reports
  // true. Returns false if there are messages; then nothing was announced and the owner must not
  // sleep.
  [[nodiscard]] bool PrepareSleep() {
    Message* expected = nullptr;
    if (head_.compare_exchange_strong(expected, kSleeping(), std::memory_order_relaxed))
      return true;
    return expected == kSleeping();
  }

 private:
  static Message* kSleeping() { return reinterpret_cast<Message*>(uintptr_t{1}); }

  std::atomic<Message*> head_{nullptr};
};

}  // namespace helio
