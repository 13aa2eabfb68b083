// SPDX-License-Identifier: Apache-2.0
// What a worker does for its shards besides running commands: expiry, and its part of maxmemory:
// what its thread uses, room for a command, eviction ahead of need.
//
// All shards give in proportion to what they have. A shard with little data must not lose it only
// because it gets the writes, so a command makes its own shard give no more than its share, and
// tells the other threads to let theirs do the same, while the limit is passed by less than
// MemoryMeter's slack. Mostly no command gets there: from a little below the limit on (is_tight)
// each thread evicts between its other work.
#include <algorithm>
#include <utility>

#include "core/text/hash.h"
#include "helio/base/clock.h"
#include "helio/net/tls_memory.h"
#include "server/acl/acl_store.h"
#include "server/clients/server_state.h"
#include "server/dispatch/worker.h"

namespace dfly {

namespace {

constexpr uint64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kExpirePeriodMillis = 100;  // between steps that nobody waits for
constexpr uint64_t kExpirePeriodNanos = kExpirePeriodMillis * kNanosPerMilli;
constexpr int64_t kExpireSleepMillis = 10'000;
constexpr uint64_t kExpireSliceNanos = 1 * kNanosPerMilli;
constexpr uint64_t kExpireRestNanos =
    3 * kNanosPerMilli;  // between slices: at most a quarter of the thread's time
constexpr size_t kExpireStep = 256;
constexpr uint64_t kEvictSliceNanos = kNanosPerMilli / 2;
constexpr uint64_t kEvictRestNanos = kNanosPerMilli;
constexpr uint64_t kHintPeriodNanos = kNanosPerMilli / 5;
constexpr size_t kKeysPerStep = 32;
// What one command evicts at most: its share, and when the limit is passed by far.
constexpr size_t kKeysPerCommand = 16;
constexpr size_t kKeysPerCommandMax = 1024;
// So much of a shard's snapshot waits only if the disk does not follow.
constexpr size_t kSnapshotBehind = 1 << 20;
// Of what scripts have left.
constexpr uint64_t kCollectSliceNanos = kNanosPerMilli / 2;
constexpr uint64_t kCollectRestNanos = kNanosPerMilli;
constexpr uint64_t kCollectForCommandNanos = kNanosPerMilli / 2;
// Pools that go each time are no pools.
constexpr uint64_t kGiveBackPeriodNanos = 10 * kNanosPerMilli;
// What it frees at most of values that were deleted before.
constexpr size_t kFreedPerCommand = 512;

}  // namespace

WorkerMemory Worker::memory() const {
  WorkerMemory memory = {.clients = state_.buffers.bytes() + state_.buffers.client_bytes() +
                                    state_.connection_count() * session_bytes_ +
                                    pubsub_.memory_used() + tracking_.memory_used() +
                                    static_cast<uint64_t>(helio::ThreadTlsBytes()) +
                                    state_.timer.memory_used(),
                         .queued_commands = queued_bytes_,
                         .coordinators = coordinator_bytes_,
                         .fiber_stacks = proactor_.scheduler().stacks().bytes(),
                         .receive_buffers = proactor_.receive_buffer_bytes(),
                         .interpreters = interpreter_bytes_ + scripts_.memory_used()};
  for (Shard* shard : state_.shards()) {
    memory.snapshot += shard->snapshot_bytes();
    memory.coordinators += shard->waiters().memory_used() + shard->watches().memory_used();
  }
  return memory;
}

void Worker::PublishMemory() {
  for (Shard* shard : state_.shards()) shards_.PublishUsedBytes(*shard);
  SettleMemory();
}

const HeapFacts& Worker::RecentHeap() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (begin_ns >= next_heap_read_ns_) {
    recent_heap_ = ReadThreadHeap();
    const uint64_t end_ns = helio::MonotonicNanos();
    next_heap_read_ns_ = end_ns + 1000 * (end_ns - begin_ns);
  }
  return recent_heap_;
}

void Worker::SettleMemory() {
  int64_t used = static_cast<int64_t>(memory().Sum());
  if (index() == 0) {
    used += static_cast<int64_t>(server_.scripts.memory_used() + server_.functions.memory_used() +
                                 server_.acl->memory_used());
  }
  int64_t pending = static_cast<int64_t>(interpreter_transient_);
  for (Shard* shard : state_.shards()) {
    used += static_cast<int64_t>(shards_.used_bytes(shard->id()));
    pending += static_cast<int64_t>(shards_.pending_bytes(shard->id()));
  }
  MemoryMeter& meter = server_.memory;
  const int64_t quantum = meter.quantum();
  const int64_t change = used - metered_bytes_;
  const int64_t pending_change = pending - metered_pending_;
  if (change < quantum && -change < quantum && pending_change < quantum &&
      -pending_change < quantum) {
    return;
  }
  // Also what no command of a shard did, such as FLUSHALL.
  if (change < 0 && !defrag_timer_.armed()) NoteWorkForDefrag();
  metered_bytes_ = used;
  metered_pending_ = pending;
  meter.Add(change, pending_change);
}

void Worker::SetEvictionRules(const EvictionRules& rules) {
  for (Shard* shard : state_.shards()) {
    shard->access_clock().set_rules(rules);
    shard->evictor().Reset();
  }
  SetBarren(false);
  WakeEviction();
}

void Worker::SetBarren(bool is_barren) {
  if (is_barren_ == is_barren) return;
  is_barren_ = is_barren;
  server_.memory.CountBarren(is_barren ? 1 : -1);
}

// The part of `bytes` that the shard gives, if all give in proportion.
size_t Worker::ShareOf(const Shard& shard, int64_t bytes) const {
  const auto all = static_cast<double>(shards_.used_bytes() + 1);
  const auto own = static_cast<double>(shards_.used_bytes(shard.id()));
  return static_cast<size_t>(static_cast<double>(bytes) * std::min(own / all, 1.0)) + 1;
}

Evictor::Progress Worker::EvictFrom(Shard& shard, size_t bytes, size_t keys_max,
                                    const SparedKeys& spared) {
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
  if (progress.keys > 0) {
    SetBarren(false);
  } else if (progress.end == Evictor::End::kBarren) {
    SetBarren(std::all_of(state_.shards().begin(), state_.shards().end(), [](Shard* own) {
      return own->live_bytes() == 0 || own->evictor().found_nothing();
    }));
  }
  return progress;
}

bool Worker::MakeRoom(Shard& shard, const SparedKeys& spared) {
  MemoryMeter& meter = server_.memory;
  if (shard.needs_to_free() || ValueReaper::ThreadHasWork()) {
    // Who writes pays for what is freed, or it could be written faster than freed.
    shard.FreeStep(kFreedPerCommand);
    if (reaping_shard_ != &shard) reaping_shard_->FreeStep(kFreedPerCommand);
    shards_.PublishUsedBytes(shard);
    shards_.PublishUsedBytes(*reaping_shard_);
    SettleMemory();
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
  SettleMemory();
  if (meter.is_beyond()) return false;
  // What was found but is in use, or what others have, will make room.
  return progress.end != Evictor::End::kBarren || progress.keys > 0 || !meter.is_over() ||
         meter.can_make_room();
}

bool Worker::AwaitRoom(const SparedKeys& spared) {
  std::atomic<bool> has_room{false};
  shards_.AwaitOnAll([&](Shard& shard) {
    if (Worker::Here().MakeRoom(shard, spared)) has_room = true;
  });
  const MemoryMeter& meter = server_.memory;
  return !meter.is_over() || (has_room && !meter.is_beyond());
}

bool Worker::MakeRoomFor(Shard& shard, const Command& command, Args args) {
  spared_.clear();
  AddKeyHashes(command, args, &spared_);
  return MakeRoom(shard, {spared_});
}

bool Worker::LacksRoom(const Command& command) {
  if ((command.flags & kDenyOom) == 0 || !server_.memory.is_exhausted()) return false;
  GiveBack(kCollectForCommandNanos);
  return server_.memory.is_exhausted();
}

void Worker::AddKeyHashes(const Command& command, Args args, std::vector<uint64_t>* hashes) {
  if (!command.keys.has_keys()) return;
  for (size_t i : command.KeysOf(args)) hashes->push_back(HashKey(args[i]));
}

void Worker::GiveBack(uint64_t budget_ns) {
  const uint64_t now_ns = helio::MonotonicNanos();
  if (interpreter_transient_ != 0) {
    interpreters_.Collect(InterpreterPool::kGarbageMinShort, now_ns + budget_ns);
    CountInterpreters();
  }
  if (now_ns >= next_give_back_ns_) {
    next_give_back_ns_ = now_ns + kGiveBackPeriodNanos;
    DropPools();
    script_fibers_.Shrink(0);
    proactor_.scheduler().stacks().Drop();
    if (interpreters_.ShrinkUnused(now_ns + budget_ns)) CountInterpreters();
  }
  SettleMemory();
}

// Soon, but not between two scripts of one pipeline.
void Worker::ArmCollector() {
  proactor_.timers().Arm(&lua_timer_, helio::MonotonicNanos() + kCollectRestNanos);
}

void Worker::CollectTick() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  const bool is_short = server_.memory.is_over();
  const size_t worth = is_short ? InterpreterPool::kGarbageMinShort : InterpreterPool::kGarbageMin;
  const bool is_more = interpreters_.Collect(worth, begin_ns + kCollectSliceNanos);
  CountInterpreters();
  SettleMemory();
  if (is_more) ArmCollector();
}

void Worker::RenewInterpreters() {
  interpreters_.Renew();
  CountInterpreters();
  SettleMemory();
}

void Worker::WakeEviction() {
  const uint64_t now_ns = helio::MonotonicNanos();
  const bool evicts = server_.memory.evicts();
  const bool is_hint_due =
      now_ns >= last_hint_ns_ + (evicts ? kHintPeriodNanos : kGiveBackPeriodNanos);
  if (!is_hint_due && !evicts) return;
  if (!evict_timer_.armed()) proactor_.timers().Arm(&evict_timer_, now_ns);
  if (!is_hint_due) return;
  last_hint_ns_ = now_ns;
  for (uint32_t i = 0; i < server_.pool.size(); ++i) {
    if (i == index()) continue;
    // It is one for each thread, and sent again only when it has been run.
    EvictionHint& hint = server_.eviction_hints[i];
    if (hint.is_on_way.exchange(true, std::memory_order_acq_rel)) continue;
    server_.pool.at(i)->PostLazily(&hint);
  }
}

void Worker::OnEvictHint() {
  // Pairs with the exchange in WakeEviction.
  server_.eviction_hints[index()].is_on_way.store(false, std::memory_order_release);
  if (!evict_timer_.armed()) proactor_.timers().Arm(&evict_timer_, helio::MonotonicNanos());
}

void Worker::EvictTick() {
  MemoryMeter& meter = server_.memory;
  const uint64_t begin_ns = helio::MonotonicNanos();
  if (meter.is_tight() || meter.is_over()) GiveBack(kCollectSliceNanos);
  if (!meter.evicts()) return;
  SettleMemory();
  bool has_evicted = false;
  for (Shard* shard : state_.shards()) {
    const int64_t excess = meter.to_evict();
    if (excess <= 0) break;
    size_t share = ShareOf(*shard, excess);
    const ShardTurn turn(*shard);
    while (helio::MonotonicNanos() - begin_ns < kEvictSliceNanos) {
      const Evictor::Progress progress = EvictFrom(*shard, share, kKeysPerStep, {});
      has_evicted |= progress.keys > 0;
      if (progress.end != Evictor::End::kMore) break;
      share -= std::min(share, progress.bytes);
    }
  }
  SettleMemory();
  // If nothing was found it is for the next command to ask again.
  if (!has_evicted || meter.to_evict() <= 0) return;
  if (!evict_timer_.armed()) {
    proactor_.timers().Arm(&evict_timer_, helio::MonotonicNanos() + kEvictRestNanos);
  }
}

// --- Shards ---

void Worker::OnTurnEnd(Shard& shard) {
  shards_.PublishUsedBytes(shard);
  SettleMemory();
  if (server_.memory.is_tight() && !evict_timer_.armed()) [[unlikely]]
    WakeEviction();
  const bool reaps = ValueReaper::ThreadHasWork();
  if (reaps) [[unlikely]]
    shards_.PublishUsedBytes(*reaping_shard_);
  if (!defrag_timer_.armed()) [[unlikely]]
    NoteWorkForDefrag();
  if (shard.next_deadline_ms() < armed_deadline_ms_) [[unlikely]] {
    armed_deadline_ms_ = shard.next_deadline_ms();
    ExpireIn(UntilDeadline(armed_deadline_ms_, helio::UnixMillis()));
  }
  if (reaps || (shard.has_pending() && shard.needs_to_free())) [[unlikely]]
    ExpireIn(kExpirePeriodNanos);
}

// So that what becomes due together goes together, and nobody waits for a timer in vain. The clock
// may be set, so no sleep is long.
uint64_t Worker::UntilDeadline(int64_t at_ms, int64_t now_ms) const {
  const auto period_ms = static_cast<int64_t>(expires_precisely_ ? 1 : kExpirePeriodMillis);
  if (at_ms >= now_ms + kExpireSleepMillis) return kExpireSleepMillis * kNanosPerMilli;
  // A key is due when its time is over.
  return static_cast<uint64_t>(std::max(at_ms + 1 - now_ms, period_ms)) * kNanosPerMilli;
}

void Worker::ExpireIn(uint64_t wait_ns) {
  const uint64_t at_ns = helio::MonotonicNanos() + wait_ns;
  if (expire_timer_.armed() && expire_timer_.deadline_ns <= at_ns) return;
  proactor_.timers().Arm(&expire_timer_, at_ns);
}

void Worker::SetActiveExpiry(bool is_on) {
  expires_actively_ = is_on;
  armed_deadline_ms_ = is_on ? INT64_MAX : INT64_MIN;
  // What became due meanwhile: a timer that fired while it was off was not armed again.
  if (is_on) ExpireIn(kExpirePeriodNanos);
}

void Worker::ExpireTick() {
  const uint64_t begin_ns = helio::MonotonicNanos();
  const int64_t now_ms = helio::UnixMillis();
  bool frees = false;
  bool is_urgent = false;
  int64_t next_deadline_ms = INT64_MAX;
  for (Shard* shard : state_.shards()) {
    if (!shard->needs_steps()) continue;
    // What a script or a transaction has seen stays while its time stands still.
    const int64_t due_ms = std::min(now_ms, shard->transactions().oldest_clock_ms());
    bool more = true;
    const ShardTurn turn(*shard);
    while (more && helio::MonotonicNanos() - begin_ns < kExpireSliceNanos) {
      const bool freed_all = shard->FreeStep(kExpireStep);
      more = !freed_all;
      if (expires_actively_) more |= shard->ExpireStep(due_ms, kExpireStep).is_more_due;
    }
    is_urgent |= more;
    frees |= shard->needs_to_free();
    next_deadline_ms = std::min(next_deadline_ms, shard->next_deadline_ms());
  }
  NoteWorkForDefrag();
  state_.stats.expiry_ns += helio::MonotonicNanos() - begin_ns;
  state_.stats.expiry_cuts += is_urgent;
  if (is_urgent) ExpireIn(kExpireRestNanos);
  if (frees) ExpireIn(kExpirePeriodNanos);
  if (!expires_actively_) return;
  armed_deadline_ms_ = next_deadline_ms;
  if (next_deadline_ms != INT64_MAX) ExpireIn(UntilDeadline(next_deadline_ms, now_ms));
}

}  // namespace dfly
