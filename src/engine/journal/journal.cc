// SPDX-License-Identifier: Apache-2.0
#include "engine/journal/journal.h"

#include <algorithm>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/logging.h"
#include "helio/fibers/fiber.h"
#include "helio/fibers/no_suspend.h"

namespace dfly {

// What the journal has on each thread.
struct alignas(64) Journal::Lane : helio::LoopHook, helio::Message {
  Lane()
      : LoopHook([](helio::LoopHook* hook) {
          auto* const lane = static_cast<Lane*>(hook);
          lane->journal->OnIterationEnd(lane);
        }),
        Message([](helio::Message* message) {
          auto* const lane = static_cast<Lane*>(message);
          // Before it looks at what is durable: what grows later posts it again.
          lane->is_posted.store(false, std::memory_order_seq_cst);
          lane->journal->Tell(lane);
        }) {}

  Journal* journal = nullptr;
  uint32_t thread = 0;
  helio::Proactor* proactor = nullptr;
  helio::Fiber fiber;
  helio::EventCount call;
  uint64_t told_bytes = 0;  // of its section, when on_bytes was called last
  std::atomic<bool> leads{false};
  std::atomic<bool> waits{false};      // its listener wants to be called
  std::atomic<bool> is_posted{false};  // the message is under way
  ListenFn listener;
};

Journal::Journal(helio::ProactorPool* pool, DurableLog* log, const Options& options)
    : pool_(*pool),
      log_(*log),
      options_(options),
      pace_(options.pace),
      period_ns_(options.period_ns),
      sections_(pool->size(), options.first_epoch, options.is_private),
      lanes_(std::make_unique<Lane[]>(pool->size())),
      durable_(options.first_epoch - 1) {
  pool_.AwaitOnAll([this](helio::Proactor* proactor) {
    Lane* const lane = &lanes_[proactor->index()];
    lane->journal = this;
    lane->thread = proactor->index();
    lane->proactor = proactor;
    lane->fiber = helio::Fiber("journal", [this, lane] { RunLeader(lane); });
  });
}

Journal::~Journal() {
  if (!stops_.load(std::memory_order_relaxed)) Stop();
}

void Journal::Stop() {
  Hurry();
  // For good: nobody leads any more. What was appended last had its own thread's hook, or the
  // leader has seen it before it let go.
  progress_.Await([this] { return !sections_.has_open() || has_failed(); });
  progress_.Await([this] { return TryLead(); });
  stops_.store(true, std::memory_order_seq_cst);
  // Messages that the last leader has posted were posted before these.
  pool_.AwaitOnAll([this](helio::Proactor* proactor) {
    Lane* const lane = &lanes_[proactor->index()];
    proactor->CancelHook(lane);
    lane->call.Notify();
  });
  for (uint32_t i = 0; i < pool_.size(); ++i) lanes_[i].fiber.Join();
}

uint64_t Journal::OnUnit(const Effects& effects, UnitOrigin origin) {
  helio::Proactor* const proactor = helio::Proactor::Current();
  Lane* const lane = &lanes_[proactor->index()];
  const uint64_t epoch = sections_.Append(lane->thread, effects, origin);
  proactor->AtIterationEnd(lane);
  return epoch;
}

uint64_t Journal::OnCommand(int db_index, std::span<const std::string_view> words) {
  helio::Proactor* const proactor = helio::Proactor::Current();
  Lane* const lane = &lanes_[proactor->index()];
  const uint64_t epoch = sections_.Append(lane->thread, db_index, words);
  proactor->AtIterationEnd(lane);
  return epoch;
}

uint64_t Journal::newest() const { return std::max(sections_.newest(), options_.first_epoch - 1); }

void Journal::SetListener(uint32_t thread, ListenFn listener) {
  lanes_[thread].listener = std::move(listener);
}

uint64_t Journal::Watch(uint64_t epoch) {
  const uint64_t now = released();
  if (now >= epoch) return now;
  lanes_[helio::Proactor::Current()->index()].waits.store(true, std::memory_order_seq_cst);
  return ReleasedNow();
}

uint64_t Journal::ReleasedNow() const {
  return std::min(durable_.load(std::memory_order_seq_cst),
                  reply_limit_.load(std::memory_order_seq_cst));
}

void Journal::SetReplyLimit(uint64_t limit) {
  reply_limit_.store(limit, std::memory_order_seq_cst);
  Announce(false);
}

void Journal::RaiseReplyLimit(uint64_t limit) {
  uint64_t before = reply_limit_.load(std::memory_order_relaxed);
  do {
    if (before >= limit) return;
  } while (!reply_limit_.compare_exchange_weak(before, limit, std::memory_order_seq_cst));
  Announce(false);
}

bool Journal::Flush() {
  const uint64_t target = newest();
  const auto is_over = [this, target] { return durable() >= target || has_failed(); };
  if (!is_over()) {
    Hurry();
    progress_.Await(is_over);
  }
  return durable() >= target;
}

// An appender makes its epoch visible and then looks for a leader; a leader lets go and then looks
// for what was appended. One of them sees the other.
void Journal::OnIterationEnd(Lane* lane) {
  Section& section = sections_.of(lane->thread);
  section.PublishNewest();
  const uint64_t bytes = section.waiting_bytes();
  if (pace() == Pace::kTimed && bytes > options_.period_bytes_max) Hurry();
  OnBytes(lane, bytes);
  if (!TryLead()) return;
  lane->leads.store(true, std::memory_order_relaxed);
  lane->call.Notify();
}

// Not with each unit: who is told looks at what all threads have.
void Journal::OnBytes(Lane* lane, uint64_t bytes) {
  if (bytes < lane->told_bytes) lane->told_bytes = bytes;
  if (bytes - lane->told_bytes < kGrowthBytes) return;
  lane->told_bytes = bytes;
  if (options_.on_bytes) options_.on_bytes();
}

bool Journal::TryLead() { return !is_led_.exchange(true, std::memory_order_seq_cst); }

void Journal::RunLeader(Lane* lane) {
  while (true) {
    lane->call.Await([&] {
      return lane->leads.load(std::memory_order_relaxed) || stops_.load(std::memory_order_relaxed);
    });
    if (!lane->leads.exchange(false, std::memory_order_relaxed)) return;
    Lead(lane);
  }
}

void Journal::Lead(Lane* lane) {
  do {
    while (!has_failed() && sections_.has_open()) {
      if (pace() == Pace::kTimed) AwaitPeriod(lane);
      const uint64_t units = WriteEpoch();
      if (pace() == Pace::kEach && units > 1) {
        helio::this_fiber::SleepForNanos(options_.pause_ns);
      }
    }
    is_led_.store(false, std::memory_order_seq_cst);
    progress_.Notify();
  } while (!has_failed() && sections_.has_open() && TryLead());
}

void Journal::AwaitPeriod(Lane* lane) {
  struct Due : helio::Timer {
    using Timer::Timer;
    helio::EventCount* call = nullptr;
    bool is_over = false;
  } due([](helio::Timer* timer) {
    auto* const self = static_cast<Due*>(timer);
    self->is_over = true;
    self->call->Notify();
  });
  due.call = &hurry_call_;
  helio::TimerQueue& timers = lane->proactor->timers();
  timers.Arm(&due, helio::MonotonicNanos() + period_ns_.load(std::memory_order_relaxed));
  hurry_call_.Await([&] { return due.is_over || hurries_.load(std::memory_order_seq_cst); });
  timers.Disarm(&due);
}

void Journal::Hurry() {
  hurries_.store(true, std::memory_order_seq_cst);
  hurry_call_.Notify();
}

uint64_t Journal::WriteEpoch() {
  // Before the epoch is closed: who hurries later wants one that has what it had appended.
  hurries_.store(false, std::memory_order_seq_cst);
  sections_.Close(&closed_);
  const bool is_written = log_.Write(closed_.epoch);
  sections_.Release(closed_);
  if (options_.on_bytes) options_.on_bytes();
  if (!is_written) {
    has_failed_.store(true, std::memory_order_seq_cst);
    return 0;
  }
  durable_.store(closed_.epoch.number, std::memory_order_seq_cst);
  Announce(true);
  return closed_.units;
}

void Journal::Announce(bool may_call) {
  progress_.Notify();
  for (uint32_t i = 0; i < pool_.size(); ++i) {
    Lane* const lane = &lanes_[i];
    if (!lane->waits.load(std::memory_order_seq_cst)) continue;
    if (may_call && lane->proactor == helio::Proactor::Current()) {
      const helio::NoSuspend no_suspend;
      Tell(lane);
    } else if (!lane->is_posted.exchange(true, std::memory_order_seq_cst)) {
      lane->proactor->Post(lane);
    }
  }
}

// It takes its wish back and looks at what is durable, again if it wishes anew: who writes does it
// the other way round.
void Journal::Tell(Lane* lane) {
  uint64_t told = 0;
  while (lane->waits.load(std::memory_order_seq_cst)) {
    const uint64_t released = ReleasedNow();
    if (released == told) return;  // and the wish stays
    told = released;
    if (!lane->listener || !lane->listener(released)) {
      lane->waits.store(false, std::memory_order_seq_cst);
    }
  }
}

}  // namespace dfly
