// SPDX-License-Identifier: Apache-2.0
// The journal: effects of all threads, written in epochs to a DurableLog.
//
//   handlers -OnUnit-> each thread's section -Close-> epoch -DurableLog::Write-> durable()
//
// No thread is the journal's own. A thread that has appended something looks at the end of its
// loop's iteration whether anybody writes; if not, it is the *leader*, and a fiber of it writes
// epoch after epoch until nothing is left. What comes while one is written is the next one: group
// commit without a timer. A thread that has nothing to write is never woken.
//
// With Pace::kEach an epoch of several units is followed by a short pause. The clients that have
// just been answered send one after another, and without a pause the first of them would get an
// epoch of its own, for which all others wait (docs/benchmarks.md).
#pragma once

#include <absl/functional/any_invocable.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/journal/durable_log.h"
#include "engine/journal/sections.h"
#include "engine/keyspace/effects.h"
#include "helio/fibers/sync.h"
#include "helio/proactor/proactor_pool.h"

namespace dfly {

// Owner: whoever makes it, from a fiber or a plain thread. It is the shards' EffectSink.
class Journal final : public EffectSink {
 public:
  enum class Pace : uint8_t {
    kEach,   // clients wait for what they have written: at once
    kTimed,  // nobody waits: after a period, or when much has been collected
  };
  struct Options {
    Pace pace = Pace::kEach;
    uint64_t first_epoch = 1;
    uint64_t pause_ns = 60'000;           // of kEach
    uint64_t period_ns = 10'000'000;      // of kTimed; see SetPeriod
    uint64_t period_bytes_max = 1 << 20;  // of one thread; with more an epoch of kTimed ends early
    IsPrivateFn is_private = nullptr;     // what stands behind ECHO; null: nothing
    // waiting_bytes() has grown by about kGrowthBytes on a thread, or an epoch was written. Thread:
    // any proactor's; must not suspend.
    std::function<void()> on_bytes = {};
  };

  static constexpr uint64_t kGrowthBytes = 64 * 1024;

  // `pool` and `log` outlive it. Suspends.
  Journal(helio::ProactorPool* pool, DurableLog* log, const Options& options);
  ~Journal();
  // Writes what is left, and calls nobody any more. REQUIRES: nobody appends or waits any more.
  // Suspends. The destructor does it if nobody has.
  void Stop();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Thread: the proactor's that has run the unit.
  uint64_t OnUnit(const Effects& effects, UnitOrigin origin) override;
  uint64_t OnCommand(int db_index, std::span<const std::string_view> words) override;

  // The newest epoch that has a unit; before the first unit, the one before Options::first_epoch.
  // Thread: any.
  uint64_t newest() const;
  // The same of one thread. 0: it has appended nothing.
  uint64_t newest(uint32_t thread) const { return sections_.of(thread).newest(); }
  // The number of the epoch that takes what is appended now. Thread: any.
  uint64_t open_epoch() const { return sections_.open_epoch(); }
  // All epochs up to this one are written. Thread: any.
  uint64_t durable() const { return durable_.load(std::memory_order_acquire); }
  // Epochs that replies may tell of: all of durable() that the limit lets. Thread: any.
  uint64_t released() const {
    return std::min(durable(), reply_limit_.load(std::memory_order_acquire));
  }
  // From now on replies tell of no epoch behind `limit`, unless they have done so already;
  // UINT64_MAX, as at first: of any. Thread: any proactor's, while no other one calls either.
  void SetReplyLimit(uint64_t limit);
  // They may tell of those up to `limit`, if there is one that is lower. Thread: any proactor's.
  // Suspends: never.
  void RaiseReplyLimit(uint64_t limit);
  // The log was stopped before it had written all.
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  // Bytes that are not written. Thread: any.
  uint64_t waiting_bytes() const { return sections_.waiting_bytes(); }

  // Called on the thread, as a brief, when released() has grown and the thread has asked for it
  // (Watch). Returns whether it waits for more. Thread: the one with that index, before it asks.
  using ListenFn = absl::AnyInvocable<bool(uint64_t released)>;
  void SetListener(uint32_t thread, ListenFn listener);
  // Returns released(). If `epoch` is not yet the listener will be called when it is, and perhaps
  // before. Thread: a proactor's.
  [[nodiscard]] uint64_t Watch(uint64_t epoch);

  // From the next epoch on. Thread: any.
  void SetPace(Pace pace) {
    pace_.store(pace, std::memory_order_relaxed);
    Hurry();
  }

  // Options::period_ns, from the next epoch on. Thread: any.
  void SetPeriod(uint64_t nanos) { period_ns_.store(nanos, std::memory_order_relaxed); }
  // The epoch that is open ends soon, whatever the pace. Thread: any.
  void Hurry();

  // Returns when all that was appended before is durable. False: the log has failed. From a fiber
  // or a plain thread. Suspends.
  bool Flush();

 private:
  struct Lane;

  void OnIterationEnd(Lane* lane);
  void OnBytes(Lane* lane, uint64_t bytes);
  bool TryLead();
  void RunLeader(Lane* lane);
  void Lead(Lane* lane);
  void AwaitPeriod(Lane* lane);
  // The number of its units; 0: the log has failed.
  uint64_t WriteEpoch();
  // As released(), in the order of all sequentially consistent operations.
  uint64_t ReleasedNow() const;
  // `may_call`: the listener of the calling thread is called at once, and not by a message.
  void Announce(bool may_call);
  void Tell(Lane* lane);

  helio::ProactorPool& pool_;
  DurableLog& log_;
  Pace pace() const { return pace_.load(std::memory_order_relaxed); }

  const Options options_;
  std::atomic<Pace> pace_;
  std::atomic<uint64_t> period_ns_;
  Sections sections_;
  ClosedEpoch closed_;  // of the leader
  const std::unique_ptr<Lane[]> lanes_;
  alignas(64) std::atomic<bool> is_led_{false};
  std::atomic<bool> hurries_{false};
  std::atomic<bool> stops_{false};
  std::atomic<bool> has_failed_{false};
  alignas(64) std::atomic<uint64_t> durable_;
  std::atomic<uint64_t> reply_limit_{UINT64_MAX};
  helio::EventCount progress_;    // of durable_, has_failed_ and is_led_
  helio::EventCount hurry_call_;  // of hurries_, and a leader's timer
};

}  // namespace dfly
