// SPDX-License-Identifier: Apache-2.0
// For tests: lets the batches that reach a worker wait, and go on in an order that a seed decides.
#pragma once

#include <absl/functional/any_invocable.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "helio/base/random.h"
#include "helio/proactor/proactor.h"
#include "server/shard_batch.h"

namespace dfly {

// The order is one that threads of their own for each shard and each connection could produce: what
// one connection and one shard have for each other keeps its order, nothing else does.
//
// Owner: one worker. Suspends: never. While batches wait the loop does not sleep.
class BatchShuffle {
 public:
  enum class Way : uint8_t { kToShard, kBack };
  using RunFn = absl::AnyInvocable<void(ShardBatch*, Way)>;

  BatchShuffle(uint64_t seed, RunFn run)
      : random_(seed),
        run_(std::move(run)),
        hook_([](helio::LoopHook* hook) { static_cast<Hook*>(hook)->shuffle->RunSome(); }) {
    hook_.shuffle = this;
  }

  // REQUIRES: nothing waits.
  void Reseed(uint64_t seed) { random_ = helio::Random(seed); }

  void Add(ShardBatch* batch, Way way) {
    waiting_.push_back({batch, way});
    helio::Proactor::Current()->AtIterationEnd(&hook_);
  }

 private:
  struct Waiting {
    ShardBatch* batch;
    Way way;
  };
  struct Hook : helio::LoopHook {
    using LoopHook::LoopHook;
    BatchShuffle* shuffle = nullptr;
  };

  static bool SameStream(const Waiting& a, const Waiting& b) {
    return a.way == b.way && a.batch->connection == b.batch->connection &&
           a.batch->shard == b.batch->shard;
  }

  void RunSome() {
    for (uint64_t n = random_.Uniform(waiting_.size() + 1); n > 0 && !waiting_.empty(); --n) {
      const size_t any = random_.Uniform(waiting_.size());
      // The oldest of the same stream.
      const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
        return SameStream(other, waiting_[any]);
      });
      const Waiting next = *it;
      waiting_.erase(it);
      run_(next.batch, next.way);
    }
    if (!waiting_.empty()) helio::Proactor::Current()->AtIterationEnd(&hook_);
  }

  helio::Random random_;
  RunFn run_;
  std::vector<Waiting> waiting_;  // oldest first
  Hook hook_;
};

}  // namespace dfly
