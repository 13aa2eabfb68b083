// SPDX-License-Identifier: Apache-2.0
// For tests: lets the messages that a worker sends wait, and go on in an order that a seed decides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/fibers/inbox.h"
#include "helio/proactor/proactor.h"

namespace dfly {

// The order is one that threads of their own for each shard and each connection could produce: what
// is of one stream keeps its order, nothing else does.
//
// Owner: the only worker of its server. Suspends: never. While messages wait the loop does not
// sleep.
class MessageShuffle {
 public:
  explicit MessageShuffle(uint64_t seed)
      : random_(seed),
        hook_([](helio::LoopHook* hook) { static_cast<Hook*>(hook)->shuffle->RunSome(); }) {
    hook_.shuffle = this;
  }

  // REQUIRES: nothing waits.
  void Reseed(uint64_t seed) { random_ = helio::Random(seed); }

  // Is it time for something that happens once in `n` times?
  bool OneIn(uint64_t n) { return random_.OneIn(n); }

  // Of the replies of a shard to a connection.
  static uint64_t StreamOfReplies(uint64_t connection_id, uint32_t shard) {
    return (connection_id * 1024 + shard) * 2 + 1;
  }

  // Nothing waits.
  bool empty() const { return waiting_.empty(); }

  // Called before each message runs. It may do what a message may.
  void SetStepHook(std::function<void()> on_step) { on_step_ = std::move(on_step); }

  // `stream` 0: none, it may be overtaken by all.
  void Add(helio::Message* message, uint64_t stream) {
    waiting_.push_back({message, stream});
    helio::Proactor::Current()->AtIterationEnd(&hook_);
  }

 private:
  struct Waiting {
    helio::Message* message;
    uint64_t stream;
  };
  struct Hook : helio::LoopHook {
    using LoopHook::LoopHook;
    MessageShuffle* shuffle = nullptr;
  };

  void RunSome() {
    for (uint64_t n = random_.Uniform(waiting_.size() + 1); n > 0 && !waiting_.empty(); --n) {
      auto next = waiting_.begin() + static_cast<ptrdiff_t>(random_.Uniform(waiting_.size()));
      if (next->stream != 0) {  // the oldest of it
        next = std::find_if(waiting_.begin(), waiting_.end(),
                            [&](const Waiting& other) { return other.stream == next->stream; });
      }
      helio::Message* const message = next->message;
      waiting_.erase(next);
      if (on_step_) on_step_();
      message->run(message);
    }
    if (!waiting_.empty()) helio::Proactor::Current()->AtIterationEnd(&hook_);
  }

  helio::Random random_;
  std::vector<Waiting> waiting_;  // oldest first
  Hook hook_;
  std::function<void()> on_step_;
};

}  // namespace dfly
