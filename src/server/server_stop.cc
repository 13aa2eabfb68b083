// SPDX-License-Identifier: Apache-2.0
// The end of the server: what SHUTDOWN and signals do.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "helio/base/clock.h"
#include "helio/fibers/fiber.h"
#include "server/held_locks.h"
#include "server/server.h"

namespace dfly {

namespace {

// How long a script may hinder the end of the server, and for how much longer if it has written.
constexpr uint64_t kScriptPatienceNanos = 500'000'000;
constexpr uint64_t kScriptGraceNanos = 2'000'000'000;

}  // namespace

bool Server::AbortStop() {
  if (!is_preparing_stop_) return false;
  pool_.at(0)->AwaitFiber("abort stop", [this] { persistence_.CancelSave(); });
  return true;
}

uint64_t Server::ShutdownPatienceNanos() const {
#ifdef DFLY_SANITIZED
  constexpr uint64_t kSlowness = 10;
#else
  constexpr uint64_t kSlowness = 1;
#endif
  return std::max<uint64_t>(shutdown_timeout_s_, 1) * kSlowness * 1'000'000'000;
}

std::string Server::PrepareStop(std::optional<bool> saves, bool must_stop, uint64_t locks_wait_ns) {
  if (is_prepared_to_stop_) return "";
  if (is_preparing_stop_.exchange(true)) return "the server is stopping already";
  std::string error;
  const auto save = [&] {
    if (persistence_.is_loading()) return;  // what there is was not changed
    if (saves.value_or(persistence_.has_rules() && persistence_.is_enabled())) {
      error = persistence_.SaveForStop();
    } else {
      persistence_.CancelSave();
    }
  };
  std::atomic<bool> is_over{false};
  std::string late;  // who had the locks when they were given up
  helio::BlockingCounter watched(1);
  const auto watch = [&] {
    const uint64_t begin_ns = helio::MonotonicNanos();
    while (!is_over) {
      helio::this_fiber::SleepForMillis(10);
      const uint64_t waited_ns = helio::MonotonicNanos() - begin_ns;
      if (waited_ns < kScriptPatienceNanos || persistence_.has_cut()) continue;
      // Scripts may hold what the cut waits for: those that have written get some time.
      const bool is_late = waited_ns > kScriptPatienceNanos + kScriptGraceNanos;
      AwaitOnWorkers([is_late](Worker& worker) {
        worker.ForEachScript([is_late](ScriptRun& run) {
          if (is_late || !run.has_written()) run.Kill();
        });
      });
      if (waited_ns < locks_wait_ns || persistence_.has_cut()) continue;
      std::string who = DescribeHang();
      if (persistence_.has_cut()) continue;
      late = std::move(who);
      persistence_.CancelSave();
    }
    watched.Done();
  };
  pool_.at(0)->DispatchFiber("watch stop", watch);
  if (helio::Proactor::Current() == pool_.at(0)) {
    save();
  } else {
    pool_.at(0)->AwaitFiber("save at the end", save);
  }
  is_over = true;
  watched.Wait();
  if (!error.empty() && !late.empty()) {
    error = fmt::format("the snapshot does not get its locks: {}", late);
  }
  is_prepared_to_stop_ = error.empty() || must_stop;
  is_preparing_stop_ = false;
  return error;
}

void Server::TakeBackStop() {
  persistence_.EndStop();
  is_prepared_to_stop_ = false;
}

std::string Server::DescribeHang() {
  constexpr uint64_t kPatienceNanos = 1'000'000'000;
  constexpr uint64_t kLookNanos = 5'000'000;
  struct Part {
    std::string text;
    std::atomic<bool> is_there{false};
  };
  // A thread that hangs may look at it when nobody is here any more.
  const auto parts = std::make_shared<std::vector<Part>>(pool_.size());
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    pool_.at(i)->Dispatch([parts, i] {
      Part& part = (*parts)[i];
      if (local_worker_ != nullptr) {
        local_worker_->ForEachShard([&part](Shard& shard) {
          shard.transactions().ForEach([&](const TxEntry& entry) {
            if (HoldsLocks(entry)) part.text += "; locks of " + DescribeHolder(entry, shard.id());
          });
        });
      }
      part.is_there = true;
    });
  }
  const uint64_t end_ns = helio::MonotonicNanos() + kPatienceNanos;
  const auto is_there = [](const Part& part) { return part.is_there.load(); };
  while (!std::all_of(parts->begin(), parts->end(), is_there) && helio::MonotonicNanos() < end_ns) {
    helio::Waiter().WaitUntil(helio::MonotonicNanos() + kLookNanos);
  }
  std::string all;
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    const Part& part = (*parts)[i];
    all += part.is_there ? part.text : fmt::format("; thread {} does not answer", i);
  }
  return all.empty() ? "nobody has locks" : all.substr(2);
}

void Server::Stop() {
  if (shards_ == nullptr) return;
  // No thread hints others to evict any more, and the hints that were sent have arrived: workers
  // end one by one.
  settings_.maxmemory = 0;
  memory_.set_evicts(false);
  if (!workers_.empty()) {
    for (int round = 0; round < 2; ++round) AwaitOnWorkers([](Worker&) {});
  }
  pool_.at(0)->AwaitFiber("close listeners", [this] {
    if (listeners_ != nullptr) listeners_->Close();
    persistence_.CancelLoad();  // its end would start the rules
    persistence_.StopRules();
    persistence_.CancelSave();
    persistence_.RefuseAll();
  });
  // What waits for the locks of the last snapshot was never carried out, as far as clients know:
  // they are gone before it is.
  AwaitOnWorkers([](Worker& worker) { worker.CloseAllConnections(); });
  pool_.at(0)->AwaitFiber("end stop", [this] { persistence_.EndStop(); });
  // A connection that was accepted before may still be on its way to its worker: so until nothing
  // is left anywhere.
  uint64_t left = 1;
  const uint64_t begin_ns = helio::MonotonicNanos();
  constexpr uint64_t kLongNanos = 10'000'000'000;
  bool was_told = false;
  while (left > 0) {
    const bool is_late = helio::MonotonicNanos() - begin_ns > kScriptGraceNanos;
    AwaitOnWorkers([is_late](Worker& worker) {
      worker.CloseAllConnections();
      worker.ForEachScript([is_late](ScriptRun& run) {
        if (is_late || !run.has_written()) run.Kill();
      });
    });
    pool_.at(0)->AwaitFiber("settle", [] { helio::this_fiber::SleepForMillis(1); });
    // First the connections: while one lives it may still send batches.
    left = connections();
    std::atomic<uint64_t> in_flight{0};
    AwaitOnWorkers(
        [&](Worker& worker) { in_flight += worker.batches_in_flight() + worker.coordinators(); });
    left += in_flight + pubsub_load_.messages.load(std::memory_order_relaxed);
    if (left == 0 || was_told || helio::MonotonicNanos() - begin_ns < kLongNanos) continue;
    was_told = true;
    std::atomic<uint64_t> batches{0}, waiting{0};
    AwaitOnWorkers([&](Worker& worker) {
      batches += worker.batches_in_flight();
      worker.ForEachShard([&](Shard& shard) {
        waiting += shard.transactions().length();
        LOG_IF(WARNING, shard.transactions().length() > 0)
            << "transactions on shard " << shard.id() << ": " << shard.transactions().Describe();
      });
    });
    LOG(WARNING) << "stopping: still waiting for the end of " << connections() << " connections, "
                 << batches << " batches and " << in_flight - batches << " commands; " << waiting
                 << " entries in transaction queues";
  }
  shards_->set_after_work(nullptr);
  shards_->set_after_flush_all(nullptr);
  AwaitOnWorkers([this](Worker& worker) {
    local_worker_ = nullptr;
    workers_[worker.index()].reset();
  });
#ifdef DFLY_SANITIZED
  shards_.reset();
#else
  (void)shards_.release();
#endif
  pool_.Stop();
}

}  // namespace dfly
