// SPDX-License-Identifier: Apache-2.0
#include "server/care/shard_care.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/text/hash.h"
#include "helio/base/clock.h"
#include "helio/base/cycle_clock.h"
#include "server/clients/server_state.h"
#include "server/quotas/quotas.h"

namespace dfly {

namespace {

constexpr int64_t kExpirePeriodMillis = 100;  // between steps that nobody waits for
constexpr uint64_t kExpirePeriodNanos = kExpirePeriodMillis * helio::kNanosPerMilli;
constexpr int64_t kExpireSleepMillis = 10'000;
constexpr uint64_t kCareSliceNanos = helio::kNanosPerMilli / 10;  // clients wait for it
// Between slices: at most a quarter of the thread's time.
constexpr uint64_t kExpireRestNanos = 3 * kCareSliceNanos;
constexpr size_t kExpireStep = 256;
constexpr uint64_t kEvictRestNanos = 2 * kCareSliceNanos;
constexpr uint64_t kHintPeriodNanos = helio::kNanosPerMilli / 5;
constexpr size_t kKeysPerStep = 32;
// What one command evicts at most: its share, and when the limit is passed by far.
constexpr size_t kKeysPerCommand = 16;
constexpr size_t kKeysPerCommandMax = 1024;
// So much of a shard's snapshot waits only if the disk does not follow.
constexpr size_t kSnapshotBehind = 1 << 20;
// Of what scripts have left.
constexpr uint64_t kGiveBackNanos = helio::kNanosPerMilli / 2;
constexpr uint64_t kCollectForCommandNanos = helio::kNanosPerMilli / 2;
// Pools that go each time are no pools.
constexpr uint64_t kGiveBackPeriodNanos = 10 * helio::kNanosPerMilli;
// What it frees at most of values that were deleted before.
constexpr size_t kFreedPerCommand = 512;

}  // namespace

ShardCare::ShardCare(WorkerState* worker, MemoryUse* memory, Pools* pools, RunningScripts* scripts,
                     DefragPacer* defrag)
    : PerThread(this),
      worker_(*worker),
      server_(worker->server),
      shards_(*worker->server.shards),
      memory_(*memory),
      pools_(*pools),
      scripts_(*scripts),
      defrag_(*defrag),
      reaping_shard_(worker->shards().empty() ? nullptr : worker->shards().front()),
      expire_timer_(this, &worker->proactor),
      evict_timer_(this, &worker->proactor) {
  pools_.Add(this);
  worker_.ForEachShard([this](Shard& shard) { shard.set_turn_end(this); });
  if (reaping_shard_ != nullptr) {
    // A client may have been the last to use a large string.
    reaping_shard_->set_on_block_to_free([this] { ExpireIn(kExpirePeriodNanos); });
  }
  server_.eviction_hints[worker_.index()].run = [](helio::Message*) { Here().OnEvictHint(); };
}

ShardCare::~ShardCare() {
  worker_.ForEachShard([](Shard& shard) { shard.set_turn_end(nullptr); });
  if (reaping_shard_ != nullptr) reaping_shard_->set_on_block_to_free(nullptr);
}

void ShardCare::SetEviction(const EvictionSettings& eviction) {
  eviction_ = eviction;
  for (Shard* shard : worker_.shards()) {
    shard->SetEviction(eviction);
    if (shard->starts_clocks()) ExpireIn(0);
  }
  SetBarren(false);
  WakeEviction();
}

void ShardCare::SetBarren(bool is_barren) {
  if (is_barren_ == is_barren) return;
  is_barren_ = is_barren;
  server_.memory.CountBarren(is_barren ? 1 : -1);
}

// The part of `bytes` that the shard gives, if all give in proportion to what may go.
size_t ShardCare::ShareOf(const Shard& shard, int64_t bytes) {
  uint64_t all = 0;
  uint64_t own = 0;
  if (eviction_.spares_some()) [[unlikely]] {
    own = shards_.PublishEvictableBytes(shard);
    all = shards_.evictable_bytes();
  } else {
    own = shards_.used_bytes(shard.id());
    all = shards_.used_bytes();
  }
  const double share = std::min(static_cast<double>(own) / static_cast<double>(all + 1), 1.0);
  return static_cast<size_t>(static_cast<double>(bytes) * share) + 1;
}

Evictor::Progress ShardCare::EvictFrom(Shard& shard, size_t bytes, size_t keys_max,
                                       const SparedKeys& spared) {
  // What goes now is in no stream, and would be back after a restart.
  const auto take_over = static_cast<uint8_t>(KeepsDueFor::kTakeOver);
  if ((keeps_due_ & take_over) != 0) return {.end = Evictor::End::kBarren};
  // What is evicted and was not saved yet goes on living there. Writers wait when that is too much,
  // or are refused if there is no limit; else all keys would go for no room.
  const uint64_t limit = server_.settings.snapshot_buffer_limit.load(std::memory_order_relaxed);
  const uint64_t most = limit != 0 ? limit / shards_.size() : kSnapshotBehind;
  if (shard.snapshot_bytes() > most) return {.end = Evictor::End::kBarren};
  const int64_t now_ms = helio::UnixMillis();
  // What a script or a transaction has seen stays while its time stands still.
  const int64_t due_ms = std::min(now_ms, shard.transactions().oldest_clock_ms());
  const Evictor::Progress progress = shard.evictor().Evict(bytes, keys_max, spared, now_ms, due_ms);
  shards_.PublishUsedBytes(shard);
  if (server_.settings.limits_databases.load(std::memory_order_relaxed)) {
    Quotas::Here().PublishMemory(shard);
  }
  if (progress.keys > 0) {
    SetBarren(false);
  } else if (progress.end == Evictor::End::kBarren) {
    SetBarren(std::all_of(worker_.shards().begin(), worker_.shards().end(), [](Shard* own) {
      return own->live_bytes() == 0 || own->evictor().found_nothing();
    }));
  }
  return progress;
}

bool ShardCare::MakeRoom(Shard& shard, const SparedKeys& spared) {
  MemoryMeter& meter = server_.memory;
  if (shard.needs_to_free() || ValueReaper::ThreadHasWork()) {
    // Who writes pays for what is freed, or it could be written faster than freed.
    shard.FreeStep(kFreedPerCommand);
    if (reaping_shard_ != &shard) reaping_shard_->FreeStep(kFreedPerCommand);
    shards_.PublishUsedBytes(shard);
    shards_.PublishUsedBytes(*reaping_shard_);
    memory_.Settle();
    if (!meter.is_over()) return true;
  }
  GiveBack(kCollectForCommandNanos);
  WakeEviction();
  const int64_t excess = meter.excess();
  if (excess == 0) return true;  // what comes back by itself is enough
  if (!meter.evicts()) return false;
  const bool is_beyond = meter.is_beyond();
  const size_t bytes = is_beyond ? static_cast<size_t>(excess) : ShareOf(shard, excess);
  const Evictor::Progress progress =
      EvictFrom(shard, bytes, is_beyond ? kKeysPerCommandMax : kKeysPerCommand, spared);
  memory_.Settle();
  if (meter.is_beyond()) return false;
  // What was found but is in use, or what others have, will make room.
  return progress.end != Evictor::End::kBarren || progress.keys > 0 || !meter.is_over() ||
         meter.can_make_room();
}

bool ShardCare::AwaitRoom(const SparedKeys& spared) {
  std::atomic<bool> has_room{false};
  shards_.AwaitOnAll([&](Shard& shard) {
    if (Here().MakeRoom(shard, spared)) has_room = true;
  });
  const MemoryMeter& meter = server_.memory;
  return !meter.is_over() || (has_room && !meter.is_beyond());
}

bool ShardCare::MakeRoomFor(Shard& shard, const Command& command, Args args) {
  spared_.clear();
  AddKeyHashes(command, args, &spared_);
  return MakeRoom(shard, {spared_});
}

bool ShardCare::MakeRoomFor(Shard& shard, std::span<const std::string_view> keys) {
  spared_.clear();
  for (std::string_view key : keys) spared_.push_back(HashKey(key));
  return MakeRoom(shard, {spared_});
}

bool ShardCare::LacksRoom(const Command& command) {
  if ((command.flags & kDenyOom) == 0 || !server_.memory.is_exhausted()) return false;
  GiveBack(kCollectForCommandNanos);
  return server_.memory.is_exhausted();
}

void ShardCare::AddKeyHashes(const Command& command, Args args, std::vector<uint64_t>* hashes) {
  if (!command.keys.has_keys()) return;
  for (size_t i : command.KeysOf(args)) hashes->push_back(HashKey(args[i]));
}

void ShardCare::GiveBack(uint64_t budget_ns) {
  const uint64_t now_ns = helio::MonotonicNanos();
  scripts_.CollectNow(now_ns + budget_ns);
  if (now_ns >= next_give_back_ns_) {
    next_give_back_ns_ = now_ns + kGiveBackPeriodNanos;
    pools_.Drop();
    scripts_.fibers().Shrink(0);
    worker_.proactor.scheduler().stacks().Drop();
    scripts_.ShrinkUnused(now_ns + budget_ns);
  }
  memory_.Settle();
}

void ShardCare::Purge() {
  scripts_.Shrink();
  worker_.proactor.scheduler().stacks().Drop();
  pools_.ReleaseScratch();
  pools_.Drop();
  memory_.Settle();
  defrag_.ReturnMemory();
}

void ShardCare::WakeEviction() {
  const uint64_t now_ns = helio::MonotonicNanos();
  const bool evicts = server_.memory.evicts();
  const bool is_hint_due =
      now_ns >= last_hint_ns_ + (evicts ? kHintPeriodNanos : kGiveBackPeriodNanos);
  if (!is_hint_due && !evicts) return;
  if (!evict_timer_.armed()) evict_timer_.ArmAt(now_ns);
  if (!is_hint_due) return;
  last_hint_ns_ = now_ns;
  for (uint32_t i = 0; i < server_.pool.size(); ++i) {
    if (i == worker_.index()) continue;
    // It is one for each thread, and sent again only when it has been run.
    EvictionHint& hint = server_.eviction_hints[i];
    if (hint.is_on_way.exchange(true, std::memory_order_acq_rel)) continue;
    server_.pool.at(i)->PostLazily(&hint);
  }
}

void ShardCare::OnEvictHint() {
  // Pairs with the exchange in WakeEviction.
  server_.eviction_hints[worker_.index()].is_on_way.store(false, std::memory_order_release);
  if (!evict_timer_.armed()) evict_timer_.ArmIn(0);
}

void ShardCare::OnEvictTimer() {
  const int64_t begin = helio::CycleClock::Now();
  EvictTick();
  worker_.timer.NoteCycle(LatencyEvent::kEvictionCycle, begin);
}

void ShardCare::EvictTick() {
  MemoryMeter& meter = server_.memory;
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (meter.is_tight() || meter.is_over()) GiveBack(kGiveBackNanos);
  if (!meter.evicts()) return;
  memory_.Settle();
  bool has_evicted = false;
  for (Shard* shard : worker_.shards()) {
    const int64_t excess = meter.to_evict();
    if (excess <= 0) break;
    size_t share = ShareOf(*shard, excess);
    const ShardTurn turn(*shard);
    while (helio::MonotonicNanos() - begin_ns < kCareSliceNanos) {
      const Evictor::Progress progress = EvictFrom(*shard, share, kKeysPerStep, {});
      has_evicted |= progress.keys > 0;
      if (progress.end != Evictor::End::kMore) break;
      share -= std::min(share, progress.bytes);
    }
  }
  memory_.Settle();
  // If nothing was found it is for the next command to ask again.
  if (!has_evicted || meter.to_evict() <= 0) return;
  if (!evict_timer_.armed()) evict_timer_.ArmIn(kEvictRestNanos);
}

// --- Shards ---

void ShardCare::OnTurnEnd(Shard& shard) {
  shards_.PublishUsedBytes(shard);
  if (server_.settings.limits_databases.load(std::memory_order_relaxed)) [[unlikely]]
    Quotas::Here().PublishMemory(shard);
  memory_.Settle();
  if (server_.memory.is_tight() && !evict_timer_.armed()) [[unlikely]]
    WakeEviction();
  const bool reaps = ValueReaper::ThreadHasWork();
  if (reaps) [[unlikely]]
    shards_.PublishUsedBytes(*reaping_shard_);
  defrag_.NoteWork();
  if (shard.next_deadline_ms() < armed_deadline_ms_) [[unlikely]] {
    armed_deadline_ms_ = shard.next_deadline_ms();
    ExpireIn(UntilDeadline(armed_deadline_ms_, helio::UnixMillis()));
  }
  if (reaps || (shard.has_pending() && shard.needs_to_free()) || shard.starts_clocks()) [[unlikely]]
    ExpireIn(kExpirePeriodNanos);
}

// So that what becomes due together goes together, and nobody waits for a timer in vain. The clock
// may be set, so no sleep is long.
uint64_t ShardCare::UntilDeadline(int64_t at_ms, int64_t now_ms) const {
  const auto period_ms = static_cast<int64_t>(expires_precisely_ ? 1 : kExpirePeriodMillis);
  if (at_ms >= now_ms + kExpireSleepMillis) return kExpireSleepMillis * helio::kNanosPerMilli;
  // A key is due when its time is over.
  return static_cast<uint64_t>(std::max(at_ms + 1 - now_ms, period_ms)) * helio::kNanosPerMilli;
}

void ShardCare::ExpireIn(uint64_t wait_ns) {
  const uint64_t at_ns = helio::MonotonicNanos() + wait_ns;
  if (expire_timer_.armed() && expire_timer_.deadline_ns <= at_ns) return;
  expire_timer_.ArmAt(at_ns);
}

void ShardCare::SetActiveExpiry(bool is_on) {
  is_expiry_on_ = is_on;
  UpdateActiveExpiry();
}

void ShardCare::SetKeepsDue(KeepsDueFor why, bool does) {
  const auto bit = static_cast<uint8_t>(why);
  keeps_due_ = static_cast<uint8_t>(does ? keeps_due_ | bit : keeps_due_ & ~bit);
  const bool keeps = keeps_due_ != 0;
  worker_.ForEachShard([keeps](Shard& shard) { shard.set_keeps_due(keeps); });
  UpdateActiveExpiry();
  if (why == KeepsDueFor::kTakeOver && !does) WakeEviction();
}

void ShardCare::UpdateActiveExpiry() {
  const bool is_on = is_expiry_on_ && keeps_due_ == 0;
  expires_actively_ = is_on;
  armed_deadline_ms_ = is_on ? INT64_MAX : INT64_MIN;
  // What became due meanwhile: a timer that fired while it was off was not armed again.
  if (is_on) ExpireIn(kExpirePeriodNanos);
}

void ShardCare::SetPreciseExpiry(bool is_on) {
  expires_precisely_ = is_on;
  armed_deadline_ms_ = INT64_MAX;  // the next command arms the timer anew
}

void ShardCare::OnExpireTimer() {
  const int64_t begin = helio::CycleClock::Now();
  ExpireTick();
  worker_.timer.NoteCycle(LatencyEvent::kExpireCycle, begin);
}

void ShardCare::ExpireTick() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  const int64_t now_ms = helio::UnixMillis();
  bool frees = false;
  bool is_urgent = false;
  int64_t next_deadline_ms = INT64_MAX;
  for (Shard* shard : worker_.shards()) {
    if (!shard->needs_steps()) continue;
    // What a script or a transaction has seen stays while its time stands still.
    const int64_t due_ms = std::min(now_ms, shard->transactions().oldest_clock_ms());
    bool more = true;
    const ShardTurn turn(*shard);
    while (more && helio::MonotonicNanos() - begin_ns < kCareSliceNanos) {
      const bool freed_all = shard->FreeStep(kExpireStep);
      more = !freed_all;
      more |= shard->StartClocks(now_ms, kExpireStep);
      if (expires_actively_) more |= shard->ExpireStep(due_ms, kExpireStep).is_more_due;
    }
    is_urgent |= more;
    frees |= shard->needs_to_free();
    next_deadline_ms = std::min(next_deadline_ms, shard->next_deadline_ms());
  }
  defrag_.NoteWork();
  worker_.stats.expiry_ns += helio::MonotonicNanos() - begin_ns;
  worker_.stats.expiry_cuts += is_urgent;
  if (is_urgent) ExpireIn(kExpireRestNanos);
  if (frees) ExpireIn(kExpirePeriodNanos);
  if (!expires_actively_) return;
  armed_deadline_ms_ = next_deadline_ms;
  if (next_deadline_ms != INT64_MAX) ExpireIn(UntilDeadline(next_deadline_ms, now_ms));
}

}  // namespace dfly
