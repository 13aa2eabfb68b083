// SPDX-License-Identifier: Apache-2.0
// The end of the server: what SHUTDOWN and signals do.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/hops/shard_set.h"
#include "helio/base/clock.h"
#include "helio/base/log_text.h"
#include "helio/base/spin_lock.h"
#include "helio/fibers/fiber.h"
#include "server/base/pulse.h"
#include "server/care/held_locks.h"
#include "server/care/shard_care.h"
#include "server/clients/listeners.h"
#include "server/clients/server_state.h"
#include "server/dispatch/gates.h"
#include "server/dispatch/worker.h"
#include "server/persistence/append_log.h"
#include "server/persistence/persistence.h"
#include "server/replication/failover.h"
#include "server/replication/primary_link.h"
#include "server/replication/replicas.h"
#include "server/replication/take_over_hold.h"
#include "server/run/server.h"

namespace dfly {

namespace {

// How long a script may hinder the end of the server, and for how much longer if it has written.
constexpr uint64_t kScriptPatienceNanos = 500'000'000;
constexpr uint64_t kScriptGraceNanos = 2'000'000'000;

// Between two looks at what is waited for.
constexpr uint64_t kLookNanos = 5'000'000;
constexpr uint64_t kPauseMillis = 10;

}  // namespace

bool Server::AbortStop() {
  if (stop_state_ != StopState::kPrepares) return false;
  LOG(INFO) << "Shutdown manually aborted.";
  is_stop_aborted_ = true;
  const auto is_done = std::make_shared<std::atomic<bool>>(false);
  state_.pool.at(0)->DispatchFiber("abort stop", [this, is_done] {
    persistence_->CancelSave();
    *is_done = true;
  });
  AwaitUnlessHung(
      [&] { return (*is_done && !awaits_replicas_) || stop_state_ != StopState::kPrepares; },
      ShutdownPatienceNanos());
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

// What a PrepareStop has begun on proactor 0. It may go on when nobody waits for it any more.
struct Server::StopWork {
  helio::SpinLock lock;
  std::atomic<bool> is_given_up{false};  // changes under lock, and only while it is not over
  std::atomic<bool> is_over{false};      // changes under lock
  std::string error;                     // set before is_over
  // Proactor 0 only:
  bool is_saved = false;
  bool holds_writes = false;
  helio::BlockingCounter watched{1};
  std::string late;  // who had the locks when they were given up
};

template <typename Condition>
bool Server::AwaitUnlessHung(Condition is_met, uint64_t patience_ns) {
  Pulse pulse(&state_.pool);
  for (uint64_t now_ns = helio::MonotonicNanos(); !is_met(); now_ns = helio::MonotonicNanos()) {
    if (pulse.LongestSilence(now_ns) >= patience_ns) return false;
    helio::Waiter().WaitUntil(now_ns + kLookNanos);
  }
  return true;
}

void Server::HoldWritesForStop(bool holds) {
  AwaitOnAll<ShardCare>(
      state_, [holds](ShardCare& care) { care.SetKeepsDue(ShardCare::KeepsDueFor::kStop, holds); });
  AwaitOnAll<Gates>(state_, [holds](Gates& gates) { gates.HoldWritesForStop(holds); });
}

void Server::AwaitReplicas(StopWork* work) {
  const uint64_t end_ns = helio::MonotonicNanos() + shutdown_timeout_s_ * 1'000'000'000;
  // What replicas of a replica lack, its primary has.
  if (!replicas_->has_any() || primary_link_->is_replica() || shutdown_timeout_s_ == 0) return;
  work->holds_writes = true;
  HoldWritesForStop(true);
  LOG(INFO) << "Waiting for replicas before shutting down.";
  while (!replicas_->AreInSync() && helio::MonotonicNanos() < end_ns) {
    if (is_stop_aborted_ || skips_replicas_ || work->is_given_up) break;
    replicas_->AskForAcks();
    helio::this_fiber::SleepForMillis(kPauseMillis);
  }
  if (!is_stop_aborted_) replicas_->LogSync();
}

std::string Server::PrepareStop(const StopRule& rule, uint64_t patience_ns) {
  const bool has_to_save = rule.saves().value_or(persistence_->saves_at_end());
  const bool must_end = rule.force || !has_to_save;
  const auto begin = [this] {
    auto before = StopState::kServes;
    return stop_state_.compare_exchange_strong(before, StopState::kPrepares);
  };
  while (!begin()) {
    if (stop_state_ == StopState::kPrepared || hangs()) return "";
    if (rule.now) skips_replicas_ = true;
    if (!must_end) return "another SHUTDOWN is not over yet";
    if (!has_to_save)
      state_.pool.at(0)->DispatchFiber("no save", [this] { persistence_->CancelSave(); });
    if (!AwaitUnlessHung([this] { return !is_preparing_stop(); }, patience_ns)) {
      stop_state_ = StopState::kHangs;
      return "";
    }
  }
  is_stop_aborted_ = false;
  skips_replicas_ = rule.now;
  awaits_replicas_ = true;
  const auto work = std::make_shared<StopWork>();
  state_.pool.at(0)->DispatchFiber("watch stop", [=, this] { WatchStop(work.get(), patience_ns); });
  state_.pool.at(0)->DispatchFiber("save at the end", [=, this] {
    if (!skips_replicas_) AwaitReplicas(work.get());
    awaits_replicas_ = false;
    if (is_stop_aborted_) {
      work->error = "SHUTDOWN ABORT";
    } else if (has_to_save && !persistence_->is_loading()) {
      work->error = persistence_->SaveForStop();
    } else if (!persistence_->is_loading()) {  // else what there is was not changed
      persistence_->CancelSave();
    }
    work->is_saved = true;
    work->watched.Wait();
    EndStopWork(work.get(), rule.force);
  });
  if (AwaitUnlessHung([&work] { return work->is_over.load(); }, patience_ns)) return work->error;
  {
    const std::lock_guard guard(work->lock);
    if (work->is_over) return work->error;
    work->is_given_up = true;
    stop_state_ = must_end ? StopState::kHangs : StopState::kGivenUp;
  }
  if (must_end) return "";
  return fmt::format("a thread has stopped: {}. SHUTDOWN NOSAVE ends it without", DescribeHang());
}

// Waits for no thread but in CancelSave, which first tells all that are alive.
void Server::WatchStop(StopWork* work, uint64_t patience_ns) {
  uint64_t begin_ns = helio::MonotonicNanos();
  while (!work->is_saved) {
    helio::this_fiber::SleepForMillis(kPauseMillis);
    if (awaits_replicas_) {
      begin_ns = helio::MonotonicNanos();
      continue;
    }
    if (work->is_given_up) {  // what waits behind the locks of the save is to go on
      persistence_->CancelSave();
      continue;
    }
    const uint64_t waited_ns = helio::MonotonicNanos() - begin_ns;
    if (waited_ns < kScriptPatienceNanos || persistence_->has_cut()) continue;
    // Scripts may hold what the cut waits for: those that have written get some time.
    EndScripts(waited_ns > kScriptPatienceNanos + kScriptGraceNanos);
    if (waited_ns < patience_ns) continue;
    std::string who = DescribeHang();
    if (persistence_->has_cut()) continue;
    work->late = std::move(who);
    persistence_->CancelSave();
  }
  work->watched.Done();
}

void Server::EndScripts(bool is_late) {
  DispatchOnAll<RunningScripts>(state_, [is_late](RunningScripts& scripts) {
    scripts.ForEach([is_late](LongRun& run) {
      if (is_late || !run.has_written()) run.Kill();
    });
  });
}

void Server::EndStopWork(StopWork* work, bool must_stop) {
  if (!work->error.empty() && !work->late.empty()) {
    work->error = fmt::format("the snapshot does not get its locks: {}", work->late);
  }
  const auto end = [&](StopState from, StopState to) {
    stop_state_.compare_exchange_strong(from, to);
    work->is_over = true;
  };
  const bool ends = work->error.empty() || (must_stop && !is_stop_aborted_);
  if (!ends && work->holds_writes) HoldWritesForStop(false);
  if (ends && !work->error.empty()) {
    LOG(WARNING) << "ends without a save: " << helio::LogText(std::exchange(work->error, ""));
  }
  {
    const std::lock_guard guard(work->lock);
    if (!work->is_given_up) {
      return end(StopState::kPrepares, ends ? StopState::kPrepared : StopState::kServes);
    }
  }
  if (ends && work->holds_writes) HoldWritesForStop(false);
  persistence_->EndStop();  // its client has been told that the server goes on
  end(StopState::kGivenUp, StopState::kServes);
}

void Server::TakeBackStop() {
  HoldWritesForStop(false);
  persistence_->EndStop();
  stop_state_ = StopState::kServes;
}

std::string Server::DescribeHang() {
  constexpr uint64_t kPatienceNanos = 1'000'000'000;
  struct Part {
    std::string text;
    std::atomic<bool> is_there{false};
  };
  // A thread that hangs may look at it when nobody is here any more.
  const auto parts = std::make_shared<std::vector<Part>>(state_.pool.size());
  for (uint32_t i = 0; i < state_.pool.size(); ++i) {
    state_.pool.at(i)->Dispatch([parts, i] {
      Part& part = (*parts)[i];
      if (Worker::IsHere()) {
        WorkerState::Here().ForEachShard([&part](Shard& shard) {
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
  for (uint32_t i = 0; i < state_.pool.size(); ++i) {
    const Part& part = (*parts)[i];
    all += part.is_there ? part.text : fmt::format("; thread {} does not answer", i);
  }
  return all.empty() ? "nobody has locks" : all.substr(2);
}

void Server::Stop() {
  if (state_.shards == nullptr) return;
  // No thread hints others to evict any more, and the hints that were sent have arrived: workers
  // end one by one.
  state_.settings.maxmemory = 0;
  state_.memory.set_holds_eviction(true);
  if (!workers_.empty()) {
    for (int round = 0; round < 2; ++round) AwaitOnAll<Worker>(state_, [](Worker&) {});
  }
  SetTlsReload(0);
  state_.pool.at(0)->AwaitFiber("close listeners", [this] {
    AwaitTlsReload();
    if (listeners_ != nullptr) listeners_->Close();
    replicas_->BeginStop();
    failover_->Stop();
    take_over_hold_->Cancel();
    primary_link_->Stop(skips_replicas_ ? 0 : shutdown_timeout_s_ * 1'000);
    persistence_->CancelLoad();  // its end would start the rules
    persistence_->StopRules();
    persistence_->CancelSave();
    persistence_->RefuseAll();
    persistence_->after_save().Stop();
  });
  // What waits for the locks of the last snapshot was never carried out, as far as clients know:
  // they are gone before it is.
  AwaitOnAll<Worker>(state_, [](Worker& worker) { worker.CloseAllConnections(); });
  state_.pool.at(0)->AwaitFiber("end stop", [this] {
    persistence_->EndStop();
    take_over_hold_->End();
  });
  // A connection that was accepted before may still be on its way to its worker: so until nothing
  // is left anywhere.
  uint64_t left = 1;
  const uint64_t begin_ns = helio::MonotonicNanos();
  constexpr uint64_t kLongNanos = 10'000'000'000;
  bool was_told = false;
  while (left > 0) {
    const bool is_late = helio::MonotonicNanos() - begin_ns > kScriptGraceNanos;
    EndScripts(is_late);
    AwaitOnAll<Worker>(state_, [](Worker& worker) { worker.CloseAllConnections(); });
    state_.pool.at(0)->AwaitFiber("settle", [] { helio::this_fiber::SleepForMillis(1); });
    // First the connections: while one lives it may still send batches.
    left = state_.connections.all();
    std::atomic<uint64_t> in_flight{0};
    AwaitOnAll<Worker>(state_, [&](Worker& worker) {
      in_flight += Batches::Here().in_flight() + worker.state().coordinators;
    });
    left += in_flight + state_.pubsub_load.messages.load(std::memory_order_relaxed);
    if (left == 0 || was_told || helio::MonotonicNanos() - begin_ns < kLongNanos) continue;
    was_told = true;
    std::atomic<uint64_t> batches{0}, waiting{0};
    AwaitOnAll<Worker>(state_, [&](Worker& worker) {
      batches += Batches::Here().in_flight();
      worker.state().ForEachShard([&](Shard& shard) {
        waiting += shard.transactions().length();
        LOG_IF(WARNING, shard.transactions().length() > 0)
            << "transactions on shard " << shard.id() << ": " << shard.transactions().Describe();
      });
    });
    LOG(WARNING) << "stopping: still waiting for the end of " << state_.connections.all()
                 << " connections, " << batches << " batches and " << in_flight - batches
                 << " commands; " << waiting << " entries in transaction queues";
  }
  state_.pool.at(0)->AwaitFiber("stop log", [this] {
    replicas_->Stop();
    append_log_->Stop(primary_link_->place_at_end());
  });
  state_.shards->set_after_flush_all(nullptr);
  AwaitOnAll<WorkerState>(state_, [this](WorkerState& worker) {
    workers_[worker.index()].reset();
    here_ = nullptr;
  });
#ifdef DFLY_SANITIZED
  state_.shards.reset();
#else
  (void)state_.shards.release();
#endif
  state_.pool.Stop();
}

}  // namespace dfly
