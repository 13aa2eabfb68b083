// SPDX-License-Identifier: Apache-2.0
// The threads of the process, each running one proactor.
#pragma once

#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "helio/proactor/proactor.h"

namespace helio {

// Owner: the thread that made it, which is none of its own. The set of proactors does not change
// between Start() and Stop(), so everybody may read it.
class ProactorPool {
 public:
  struct Options {
    uint32_t threads = 1;
    bool force_epoll = false;
    uint32_t slice_us = 0;  // see SetTimeSlice; 0: the kernel's own
  };

  explicit ProactorPool(const Options& options) : options_(options) {}
  ~ProactorPool() { Stop(); }
  ProactorPool(const ProactorPool&) = delete;
  ProactorPool& operator=(const ProactorPool&) = delete;

  // Starts the threads; returns when all loops run. Each is pinned to a core of its own if the
  // process may use just as many cores as there are threads.
  void Start();
  // Asks all loops to stop and joins them. Their fibers must be ending by themselves. May be called
  // twice.
  void Stop();

  uint32_t size() const { return static_cast<uint32_t>(proactors_.size()); }
  Proactor* at(uint32_t index) const { return proactors_[index]; }

  // Thread: any fiber, or a plain thread. Calls `function(proactor)` on every proactor as a brief,
  // at once, and waits for all of them. Suspends.
  template <typename Function>
  void AwaitOnAll(Function function) {
    BlockingCounter done(size());
    for (Proactor* proactor : proactors_) {
      proactor->Dispatch([&, proactor] {
        function(proactor);
        done.Done();
      });
    }
    const BoundedWait wait(kBriefsOnThreads, size());
    done.Wait();
  }

 private:
  void RunThread(uint32_t index, int cpu, BlockingCounter* started);

  const Options options_;
  bool shares_cores_ = false;
  std::vector<std::thread> threads_;
  std::vector<Proactor*> proactors_;
  std::unique_ptr<std::latch> stopped_;
};

}  // namespace helio
