// SPDX-License-Identifier: Apache-2.0
// Wakes the feeds of replicas, on their threads, when there is something for them. A thread whose
// feeds have more to send than there is room for is not woken.
#pragma once

#include <cstdint>
#include <memory>

namespace helio {
class ProactorPool;
}

namespace dfly {

class ReplicaFeed;

// Suspends: never.
class FeedThreads {
 public:
  // `pool`, which outlives it, will have so many threads.
  FeedThreads(helio::ProactorPool* pool, uint32_t threads);
  ~FeedThreads();

  // --- Of the calling thread ---

  void Add(ReplicaFeed* feed);
  void Remove(ReplicaFeed* feed);
  // Its feeds have sent all there is: Wake is for them, too. Who asks has to look once more.
  void WantWake();
  // Its feeds go on soon.
  void PumpSoon();

  // --- Thread: any ---

  // Something was published: all that wanted it go on.
  void Wake();

 private:
  struct Thread;

  void Post(uint32_t thread);

  helio::ProactorPool& pool_;
  const std::unique_ptr<Thread[]> threads_;
};

}  // namespace dfly
