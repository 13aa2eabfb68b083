// SPDX-License-Identifier: Apache-2.0
// An intrusive queue for many producers and one consumer, after Dmitry Vyukov.
//
//     tail_ -> [stub] -> [a] -> [b] -> [c] <- head_      Pop takes at tail_, Push adds at head_
//
// Push is one exchange and one store and never fails. Between the two the list is cut behind the
// previous head: nodes after the cut exist but cannot be reached yet. Pop() then returns nullptr
// although Empty() is false; the producer is about to finish, so the consumer tries again later.
#pragma once

#include <atomic>

namespace helio {

// Derive what is queued from it. In one queue at a time.
struct MpscNode {
  std::atomic<MpscNode*> next{nullptr};
};

// Owner:    the consumer thread, for Pop and Empty. Push: any thread.
// Suspends: never; Push is wait-free, Pop does not loop.
// Invariant: whenever all nodes have been popped, the stub is the only one in the list.
// The nodes of one producer come out in the order in which it pushed them. The queue does not own
// its nodes; one that was popped may be freed or pushed again at once.
class MpscQueue {
 public:
  MpscQueue() : head_(&stub_), tail_(&stub_) {}
  MpscQueue(const MpscQueue&) = delete;
  MpscQueue& operator=(const MpscQueue&) = delete;

  // Thread: any. Returns true if the queue may have been empty: always for the first push after
  // Empty() was true, so a consumer that sleeps only while Empty() needs to be woken only then.
  // Whoever combines this with a "sleeping" flag must order the two itself (a seq_cst fence on
  // both sides).
  bool Push(MpscNode* node) {
    node->next.store(nullptr, std::memory_order_relaxed);  // published by the exchange
    // acquire: pairs with the release part of the previous producer's exchange, so that our store
    // to previous->next comes after its store of nullptr. The release part also pairs with the
    // acquire loads of head_ in Pop() and Empty().
    MpscNode* const previous = head_.exchange(node, std::memory_order_acq_rel);
    // release: pairs with the acquire loads of `next` in Pop(); what the producer wrote into the
    // node happens before the consumer reads it. Don't touch `previous` afterwards: the consumer
    // may have freed it.
    previous->next.store(node, std::memory_order_release);
    return previous == &stub_;
  }

  // Thread: consumer. nullptr: empty, or a producer is in the middle of Push() (then !Empty()).
  MpscNode* Pop() {
    MpscNode* tail = tail_;
    MpscNode* next = tail->next.load(std::memory_order_acquire);  // pairs with Push()
    if (tail == &stub_) {
      if (next == nullptr) return nullptr;
      tail_ = tail = next;
      next = tail->next.load(std::memory_order_acquire);  // pairs with Push()
    }
    if (next == nullptr) {
      // `tail` seems to be the last. A node leaves only when another one stands behind it, since
      // producers write into the last one: put the stub there.
      if (head_.load(std::memory_order_acquire) != tail) return nullptr;  // pairs with Push()
      Push(&stub_);
      next = tail->next.load(std::memory_order_acquire);  // pairs with Push()
      if (next == nullptr) return nullptr;  // a producer came between and has not linked yet
    }
    tail_ = next;
    return tail;
  }

  // Thread: consumer.
  bool Empty() const {
    // acquire: pairs with the exchange in Push().
    return tail_ == &stub_ && head_.load(std::memory_order_acquire) == &stub_;
  }

 private:
  alignas(64) std::atomic<MpscNode*> head_;  // any thread
  alignas(64) MpscNode* tail_;               // consumer only
  MpscNode stub_;
};

}  // namespace helio
