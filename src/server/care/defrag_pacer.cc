// SPDX-License-Identifier: Apache-2.0
#include "server/care/defrag_pacer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "server/base/machine.h"
#include "server/clients/server_state.h"

namespace dfly {

namespace {

constexpr uint64_t kLookPeriodNanos = 1000 * helio::kNanosPerMilli;
// After a look at the pages so many times as long passes before the next one: a hundredth of the
// time, where there are millions of them.
constexpr uint64_t kLookRest = 100;
// Of the threshold one half is what a pass leaves unused, the other what it has to gain at least.
constexpr unsigned kWasteShare = 2;
constexpr uint64_t kSliceNanos = 100'000;
constexpr size_t kStepBlocks = 64;  // between looks at the clock; about 10 us
constexpr uint64_t kCutRestNanos = 100 * helio::kNanosPerMilli;

uint64_t OrZero(uint64_t bytes, uint64_t less) { return bytes - std::min(bytes, less); }

}  // namespace

DefragPacer::DefragPacer(WorkerState* worker, MemoryUse* memory, Pools* pools)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      memory_(*memory),
      pools_(*pools),
      timer_(this, &worker->proactor) {
  worker_.ForEachShard([this](Shard& shard) { defragmenter_.AddShard(&shard); });
  memory_.set_listener(this);
}

// Beyond what is known to be used.
uint64_t DefragPacer::ExcessMemory() const {
  const int64_t used = std::max<int64_t>(0, server_.memory.used());
  return OrZero(ReadProcessMemory().anonymous_bytes, static_cast<uint64_t>(used));
}

void DefragPacer::ArmIn(uint64_t after_ns) {
  if (!timer_.armed()) timer_.ArmIn(after_ns);
}

void DefragPacer::LookLater() {
  const Settings& settings = server_.settings;
  if (settings.active_defrag.load(std::memory_order_relaxed)) {
    ArmIn(std::max(kLookPeriodNanos, look_rest_ns_));
  }
}

void DefragPacer::OnTimer() {
  const int64_t begin = helio::CycleClock::Now();
  const uint64_t again_ns = defragmenter_.is_running() ? MoveSome() : BeginIfItPays();
  if (again_ns != 0) ArmIn(again_ns);
  worker_.timer.NoteCycle(LatencyEvent::kDefragCycle, begin);
}

uint64_t DefragPacer::BeginIfItPays() {
  const Settings& settings = server_.settings;
  const bool is_loading = (settings.gate & Settings::kLoadingGate) != 0;
  if (!settings.active_defrag || worker_.shards().empty() || is_loading) return 0;
  const unsigned percent = settings.defrag_threshold_percent;
  const uint64_t ignored = settings.defrag_ignore_bytes;
  const auto used = static_cast<uint64_t>(std::max<int64_t>(0, server_.memory.used()));
  const uint64_t excess = ExcessMemory();
  const uint64_t tolerated = std::max(ignored, used / 100 * percent);
  look_rest_ns_ = 0;
  returned_excess_ = std::min(returned_excess_, excess);
  if (excess < tolerated) return 0;
  const uint64_t begin_ns = helio::MonotonicNanos();
  HeapSurvey survey = SurveyHeap(percent / kWasteShare);
  // This thread's part of what may be ignored. What lies in pages that the last pass could not
  // empty is none of the shards', and stays.
  const uint64_t least =
      std::max(ignored / server_.pool.size(), survey.used_bytes / 100 * (percent / kWasteShare));
  stuck_bytes_ = std::min<uint64_t>(stuck_bytes_, survey.gain_bytes);
  const bool pays = survey.gain_bytes - stuck_bytes_ >= least;
  if (pays) {
    defragmenter_.Begin(std::move(survey));
  } else if (excess >= returned_excess_ + tolerated / 2) {
    ReturnMemory();
    returned_excess_ = ExcessMemory();
  }
  const uint64_t took_ns = helio::MonotonicNanos() - begin_ns;
  defragmenter_.mutable_stats().work_ns += took_ns;
  look_rest_ns_ = took_ns * kLookRest;
  return pays ? helio::kNanosPerMilli : 0;
}

uint64_t DefragPacer::MoveSome() {
  const Settings& settings = server_.settings;
  if (!settings.active_defrag && !defragmenter_.moves_all()) {
    defragmenter_.Stop();
    return 0;
  }
  if (defragmenter_.must_wait()) return kCutRestNanos;
  const uint64_t begin_ns = helio::MonotonicNanos();
  uint64_t took_ns;
  bool is_done;
  do {
    is_done = defragmenter_.Step(kStepBlocks);
    took_ns = helio::MonotonicNanos() - begin_ns;
  } while (!is_done && took_ns < kSliceNanos);
  memory_.Publish();
  if (is_done) {
    const unsigned percent = settings.defrag_threshold_percent;
    stuck_bytes_ = SurveyHeap(percent / kWasteShare, defragmenter_.last_pages()).stuck_bytes;
    ReturnMemory();
    returned_excess_ = ExcessMemory();
    took_ns = helio::MonotonicNanos() - begin_ns;
  }
  defragmenter_.mutable_stats().work_ns += took_ns;
  if (is_done) return kLookPeriodNanos;  // more may have come together meanwhile
  const uint64_t share = settings.defrag_cycle_percent;
  return took_ns * (100 - share) / share;
}

void DefragPacer::MoveAll() {
  if (worker_.shards().empty()) return;
  if (defragmenter_.is_running()) defragmenter_.Stop();
  defragmenter_.Begin(std::nullopt);
  timer_.Disarm();
  ArmIn(0);
}

void DefragPacer::ReturnMemory() {
  if (defragmenter_.is_running()) return;  // it will, at its end
  pools_.Drop();
  ReturnFreeMemory();
  ++defragmenter_.mutable_stats().returns;
}

}  // namespace dfly
