// SPDX-License-Identifier: Apache-2.0
#include "helio/proactor/proactor_pool.h"

#include <pthread.h>
#include <sched.h>

#include <string>

#include "helio/base/logging.h"
#include "helio/base/time_slice.h"

namespace helio {

void ProactorPool::Start() {
  CHECK(threads_.empty());
  CHECK_GT(options_.threads, 0u);
  std::vector<int> cpus;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
    }
  }
  // With cores to spare the kernel knows better which of them are free.
  const bool pin = cpus.size() == options_.threads;
  shares_cores_ = cpus.size() < options_.threads;
  proactors_.resize(options_.threads);
  stopped_ = std::make_unique<std::latch>(options_.threads + 1);
  BlockingCounter started(options_.threads);
  for (uint32_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(
        [this, i, cpu = pin ? cpus[i] : -1, &started] { RunThread(i, cpu, &started); });
  }
  started.Wait();
}

void ProactorPool::RunThread(uint32_t index, int cpu, BlockingCounter* started) {
  pthread_setname_np(pthread_self(), ("Proactor" + std::to_string(index)).c_str());
  if (cpu >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0) {
      PLOG(WARNING) << "cannot pin proactor " << index << " to core " << cpu;
    }
  }
  if (options_.slice_us != 0 && !SetTimeSlice(options_.slice_us) && index == 0) {
    PLOG(WARNING) << "cannot set the time slice of threads";
  }
  auto proactor = Proactor::Create(
      {.index = index, .force_epoll = options_.force_epoll, .shares_core = shares_cores_});
  proactors_[index] = proactor.get();
  started->Done();
  proactor->Run();
  stopped_->arrive_and_wait();  // a loop outlives the others' last message to it
}

void ProactorPool::Stop() {
  if (threads_.empty()) return;
  // Every loop serves the others until no fiber is left anywhere: one full round that finds nothing
  // to wait for.
  for (bool quiet = false; !quiet;) {
    quiet = true;
    for (Proactor* proactor : proactors_) {
      proactor->AwaitFiber("quiesce", [&] {
        while (Scheduler::Current()->live_fibers() > 1) {
          quiet = false;
          this_fiber::SleepForMillis(1);
        }
      });
    }
  }
  for (Proactor* proactor : proactors_) proactor->Stop();
  stopped_->count_down();  // from here on this thread sends nothing either
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  proactors_.clear();
}

}  // namespace helio
