// SPDX-License-Identifier: Apache-2.0
#include "server/replication/feed_threads.h"

#include <atomic>
#include <vector>

#include "helio/fibers/inbox.h"
#include "helio/proactor/proactor.h"
#include "helio/proactor/proactor_pool.h"
#include "server/replication/replica_feed.h"

namespace dfly {

struct alignas(64) FeedThreads::Thread : helio::Message {
  Thread()
      : Message([](helio::Message* message) {
          auto* const self = static_cast<Thread*>(message);
          self->is_posted.store(false, std::memory_order_seq_cst);
          for (size_t i = 0; i < self->feeds.size(); ++i) self->feeds[i]->Pump();
        }) {}

  std::vector<ReplicaFeed*> feeds;  // the thread's own
  std::atomic<bool> waits{false};
  std::atomic<bool> is_posted{false};
};

FeedThreads::FeedThreads(helio::ProactorPool* pool, uint32_t threads)
    : pool_(*pool), threads_(std::make_unique<Thread[]>(threads)) {}

FeedThreads::~FeedThreads() = default;

void FeedThreads::Add(ReplicaFeed* feed) {
  threads_[helio::Proactor::Current()->index()].feeds.push_back(feed);
}

void FeedThreads::Remove(ReplicaFeed* feed) {
  std::erase(threads_[helio::Proactor::Current()->index()].feeds, feed);
}

void FeedThreads::WantWake() {
  threads_[helio::Proactor::Current()->index()].waits.store(true, std::memory_order_seq_cst);
}

void FeedThreads::PumpSoon() { Post(helio::Proactor::Current()->index()); }

void FeedThreads::Wake() {
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    Thread& thread = threads_[i];
    if (!thread.waits.load(std::memory_order_seq_cst)) continue;
    thread.waits.store(false, std::memory_order_seq_cst);
    Post(i);
  }
}

void FeedThreads::Post(uint32_t thread) {
  if (threads_[thread].is_posted.exchange(true, std::memory_order_seq_cst)) return;
  pool_.at(thread)->Post(&threads_[thread]);
}

}  // namespace dfly
