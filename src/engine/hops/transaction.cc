// SPDX-License-Identifier: Apache-2.0
#include "engine/hops/transaction.h"

#include <algorithm>
#include <utility>

#include "helio/base/cycle_clock.h"
#include "helio/fibers/no_suspend.h"

namespace dfly {

namespace {

constexpr helio::WaitReason kLocksAndHop = {"its first hop to {} shards", "of hops, see kHop"};

}  // namespace

Transaction::~Transaction() {
  if (is_scheduled_ && !is_locked_) Conclude();
  CHECK_EQ(left_.load(std::memory_order_relaxed), 0u)
      << "a transaction ends, and some of its shards have not answered yet";
  for (size_t i = 0; i < parts_count_; ++i) {
    CHECK(!parts_[i].linked()) << "a transaction ends, and shard " << parts_[i].shard
                               << " has it in its queue";
  }
}

void Transaction::LockAllShards(LockMode mode) {
  DCHECK(wanted_.empty());
  all_shards_ = mode;
}

void Transaction::Prepare() {
  DCHECK(parts_ == nullptr);
  home_ = helio::Proactor::Current();
  DCHECK(home_ != nullptr) << "a transaction runs on a fiber of a proactor";
  CollectShards();
  tags_.reserve(wanted_.size());
  parts_count_ = ids_.size();
  parts_ = std::make_unique<Part[]>(parts_count_);
  size_t next = 0;
  for (size_t i = 0; i < parts_count_; ++i) {
    Part& part = parts_[i];
    part.tx = this;
    part.shard = ids_[i];
    part.owner = owner_;
    part.clock_ms = clock_ms_;
    part.origin = origin_;
    part.hold = &holding_;
    part.TxEntry::run = &RunPart;
    part.done = &PartDone;
    part.granted = &OnGranted;
    part.revoked = &OnRevoked;
    if (all_shards_) {
      part.locks_shard = true;
      part.shard_mode = *all_shards_;
      continue;
    }
    const size_t begin = tags_.size();
    for (; next < wanted_.size() && wanted_[next].shard == part.shard; ++next) {
      const TagLock& tag = wanted_[next].tag;
      if (tags_.size() > begin && tags_.back().fingerprint == tag.fingerprint) {
        tags_.back() = tag;
      } else {
        tags_.push_back(tag);
      }
    }
    part.tags = std::span<const TagLock>(tags_.data() + begin, tags_.size() - begin);
  }
  TransactionStats& stats = shards_.transaction_stats(home_->index());
  if (all_shards_) {
    ++stats.global;
  } else {
    ++stats.widths[parts_count_];
  }
  home_call_.run = [](helio::Message* message) {
    static_cast<HomeCall*>(message)->tx->at_home_->Done();
  };
  home_call_.tx = this;
  if (parts_count_ == 0) BeginEffects();
}

void Transaction::CollectShards() {
  if (all_shards_) {
    for (ShardId id = 0; id < shards_.size(); ++id) ids_.push_back(id);
    return;
  }
  // Shared before exclusive: the last of equal tags has the stronger mode.
  const auto is_before = [](const Wanted& a, const Wanted& b) {
    if (a.shard != b.shard) return a.shard < b.shard;
    if (a.tag.fingerprint != b.tag.fingerprint) return a.tag.fingerprint < b.tag.fingerprint;
    return a.tag.mode < b.tag.mode;
  };
  // Who wants very many has sorted them, in slices.
  if (!std::is_sorted(wanted_.begin(), wanted_.end(), is_before)) {
    std::sort(wanted_.begin(), wanted_.end(), is_before);
  }
  for (const Wanted& wanted : wanted_) {
    if (ids_.empty() || ids_.back() != wanted.shard) ids_.push_back(wanted.shard);
  }
}

void Transaction::HopOfOuter(std::span<const ShardId> ids) {
  outer_->work_ = work_;
  outer_->work_arg_ = work_arg_;
  outer_->client_ = client_;
  outer_->notes_reads_ = notes_reads_;
  outer_->StartHop(ids, false);
}

bool Transaction::Writes() const {
  if (all_shards_) return *all_shards_ == LockMode::kExclusive;
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [](const Wanted& wanted) { return wanted.tag.mode == LockMode::kExclusive; });
}

void Transaction::BeginEffects() {
  has_begun_effects_ = true;
  if (shards_.effect_sink() == nullptr) [[likely]]
    return;
  const EffectRule rule = command_ == nullptr ? EffectRule::kNone : command_->effect_rule();
  // What has several commands takes more locks when it needs them.
  records_ = outer_ != nullptr ? outer_->records_ : rule == EffectRule::kNone || Writes();
  if (!records_) return;
  if (outer_ == nullptr) {
    part_units_ = std::make_unique<Unit[]>(parts_count_);
    is_scheduled_ = true;
    concludes_ = false;
  }
  if (rule == EffectRule::kNone) return;
  in_command_ = true;
  unit().BeginCommand(rule, command_->db_index(), command_->args());
}

void Transaction::EndEffects() {
  if (std::exchange(in_command_, false)) unit().EndCommand();
  if (!records_ || outer_ != nullptr || unit_.effects().empty()) return;
  // Without locks (of no shard) the sink may be gone meanwhile.
  if (EffectSink* const sink = shards_.effect_sink()) {
    sink->OnUnit(unit_.effects(), UnitOrigin::kCoordinator);
  }
  unit_.Clear();
}

void Transaction::MergeParts() {
  if (part_units_ == nullptr) return;
  for (size_t i = 0; i < parts_count_; ++i) {
    unit_.Merge(part_units_[i]);
    part_units_[i].Clear();
  }
}

bool Transaction::StartRun(bool concludes) {
  DCHECK(!is_scheduled_);
  is_scheduled_ = !concludes;
  concludes_ = concludes;
  if (timed_ != nullptr) timed_->CountHops(1);
  if (outer_ != nullptr) {
    BeginEffects();
    is_scheduled_ = is_scheduled_ || records_;
    CollectShards();
    HopOfOuter(ids_);
    if (concludes) Conclude();
    return true;
  }
  Prepare();
  if (parts_count_ == 0) return true;
  runs_at_once_ = true;
  for (size_t i = 0; i < parts_count_; ++i) parts_[i].works = true;
  if (!AwaitLocks()) return false;
  MergeParts();
  if (concludes) Conclude();
  return true;
}

bool Transaction::Schedule() {
  DCHECK(!is_scheduled_);
  is_scheduled_ = true;
  if (outer_ != nullptr) {
    BeginEffects();
    CollectShards();
    return true;
  }
  Prepare();
  return parts_count_ == 0 || AwaitLocks();
}

bool Transaction::AwaitLocks() {
  const int64_t begin = helio::CycleClock::Now();
  at_home_.emplace(1);
  if (runs_at_once_) holding_.NoteWait(&kLocksAndHop, static_cast<uint32_t>(parts_count_));
  AnnounceAll();
  at_home_->Wait();  // not with other locks: nobody waits for locks who has some
  if (timed_ != nullptr && granted_at_ > begin) NoteWait(begin);
  if (!has_given_up_) [[likely]] {
    if (is_scheduled_) holding_.Begin();
    return true;
  }
  is_scheduled_ = false;
  holding_.NoteWait(nullptr);
  if (given_up_for_ != Slow::kNone) refusable_->OnRefused(given_up_for_);
  return false;
}

void Transaction::NoteWait(int64_t begin_cycles) {
  timed_->AddLocksCycles(granted_at_ - begin_cycles);
  for (size_t i = 0; i < parts_count_; ++i) {
    if (parts_[i].held_by.name == nullptr) continue;
    timed_->set_held_by(parts_[i].held_by);
    return;
  }
}

void Transaction::StartHop(std::span<const ShardId> ids, bool concludes) {
  DCHECK(is_scheduled_);
  if (is_locked_) return HopLocked(ids);
  if (concludes && records_) {
    if (!ids.empty()) StartHop(ids, false);
    EndEffects();
    ids = {};
  }
  concludes_ = concludes;
  if (concludes) is_scheduled_ = false;
  if (timed_ != nullptr && !ids.empty()) timed_->CountHops(1);
  if (outer_ != nullptr) {
    if (!ids.empty()) HopOfOuter(ids);
    return;
  }
  uint32_t count = 0;
  for (size_t i = 0; i < parts_count_; ++i) {
    Part& part = parts_[i];
    part.works = std::find(ids.begin(), ids.end(), part.shard) != ids.end();
    count += part.works || concludes;
  }
  if (count == 0) return;
  at_home_.emplace(1);
  left_.store(count, std::memory_order_relaxed);
  {
    const helio::BoundedWait wait(count == 1 ? kHop : kHops, count == 1 ? OnlyShard() : count);
    SendHop();
    at_home_->Wait();
  }
  MergeParts();
  if (concludes) holding_.End();
}

void Transaction::HopLocked(std::span<const ShardId> ids) {
  std::vector<Unit> parts(records_ ? shards_.size() : 0);
  shards_.AwaitOn(ids, [&](ShardTurn& turn) {
    helio::NoSuspend no_suspend;
    if (records_) turn.BeginUnit(&parts[turn.shard().id()]);
    turn.cx().set_client(client_, notes_reads_);
    work_(work_arg_, turn);
  });
  for (const Unit& part : parts) locked_unit_->Merge(part);
}

ShardId Transaction::OnlyShard() const {
  size_t i = 0;
  while (!parts_[i].works && !concludes_) ++i;
  return parts_[i].shard;
}

void Transaction::Conclude() {
  if (is_scheduled_) StartHop({}, true);
}

void Transaction::AnnounceAll() {
  ++attempts_;
  is_refused_.store(false, std::memory_order_relaxed);
  left_.store(static_cast<uint32_t>(parts_count_), std::memory_order_relaxed);
  number_ = parts_count_ > 1 ? shards_.NextTransactionNumber() : 0;
  // Once the last message is sent all may be over, and this object gone.
  const size_t count = parts_count_;
  Part* const parts = parts_.get();
  for (size_t i = 0; i < count; ++i) Send(&parts[i], &OnAnnounce);
}

void Transaction::SendHop() {
  const size_t count = parts_count_;
  Part* const parts = parts_.get();
  size_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    if (parts[i].works || concludes_) last = i + 1;
  }
  const bool concludes = concludes_;
  for (size_t i = 0; i < last; ++i) {
    if (parts[i].works || concludes) Send(&parts[i], &OnHop);
  }
}

void Transaction::Send(Part* part, helio::Message::RunFn run) {
  part->Message::run = run;
  shards_.PostLazily(part->shard, part);
}

void Transaction::OnAnnounce(helio::Message* message) {
  auto* const part = static_cast<Part*>(message);
  Transaction* const tx = part->tx;
  Shard& shard = tx->shards_.local(part->shard);
  TxQueue& queue = shard.transactions();
  if (tx->parts_count_ == 1) {
    queue.ScheduleLast(part);
    part->waits = !part->is_granted;
    if (part->waits && tx->MayGiveUp(part)) return;
    // Without a hop to run, its turn is when it has its locks.
    tx->left_.store(1, std::memory_order_relaxed);
    shard.Arm(part);
    return;
  }
  bool is_announced;
  const bool was_reserved = std::exchange(part->is_reserved, false);
  if (was_reserved) {
    part->number = tx->number_;
    is_announced = queue.ScheduleReserved(part);
    DCHECK(is_announced);
  } else {
    tx->TakeBack(part);
    part->number = tx->number_;
    is_announced = queue.Schedule(part);
  }
  part->is_announced = is_announced;
  if (!is_announced) tx->is_refused_.store(true, std::memory_order_relaxed);
  part->waits = is_announced && !part->is_granted;
  if (part->waits) tx->waits_.fetch_add(1, std::memory_order_relaxed);
  if (was_reserved) queue.Settle();
  if (part->waits || tx->IsCancelled()) tx->MayGiveUp(part);
  // The release publishes the refusal and the part, the acquire of the last one sees all of them.
  if (tx->left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!tx->is_refused_.load(std::memory_order_relaxed)) return tx->OnReady(kAnnounces);
  if ((tx->waits_.load(std::memory_order_relaxed) & kGivesUp) != 0) return tx->TakeBackAll();
  if (tx->attempts_ < kRefusalsMax) {
    tx->AnnounceAll();
  } else {
    tx->ReserveAll();
  }
}

void Transaction::TakeBack(Part* part) {
  if (!part->is_announced) return;
  shards_.local(part->shard).Cancel(part);
  part->is_announced = false;
  if (std::exchange(part->waits, false)) waits_.fetch_sub(1, std::memory_order_relaxed);
}

void Transaction::ReserveAll() {
  left_.store(static_cast<uint32_t>(parts_count_), std::memory_order_relaxed);
  // The last message may lead to everything else, as in AnnounceAll.
  const size_t count = parts_count_;
  Part* const parts = parts_.get();
  for (size_t i = 0; i < count; ++i) Send(&parts[i], &OnReserve);
}

void Transaction::OnReserve(helio::Message* message) {
  auto* const part = static_cast<Part*>(message);
  Transaction* const tx = part->tx;
  tx->TakeBack(part);
  tx->shards_.local(part->shard).transactions().Reserve(part);
  part->is_reserved = true;
  if (tx->left_.fetch_sub(1, std::memory_order_acq_rel) == 1) tx->AnnounceAll();
}

void Transaction::OnGranted(TxEntry* entry) {
  auto* const part = static_cast<Part*>(entry);
  part->waits = false;
  part->tx->OnReady(1);
}

bool Transaction::OnRevoked(TxEntry* entry) {
  auto* const part = static_cast<Part*>(entry);
  std::atomic<uint32_t>& waits = part->tx->waits_;
  // Once it is 0 all have granted, and it runs.
  uint32_t count = waits.load(std::memory_order_acquire);
  while (count != 0 && !waits.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) {
  }
  if (count != 0) part->waits = true;
  return count != 0;
}

void Transaction::OnReady(uint32_t what) {
  // Each release publishes a part, the acquire of the last one sees all of them.
  const uint32_t count = waits_.fetch_sub(what, std::memory_order_acq_rel);
  if (count != what) {
    if (what == kAnnounces && (count & kGivesUp) != 0) TakeBackAll();
    return;
  }
  granted_at_ = helio::CycleClock::Now();
  BeginEffects();
  if (runs_at_once_) {
    left_.store(static_cast<uint32_t>(parts_count_), std::memory_order_relaxed);
    SendHop();
  } else {
    CallHome();
  }
}

bool Transaction::MayGiveUp(Part* part) {
  if (IsCancelled()) return GiveUp(part, Slow::kNone);
  SlowScripts& slow = shards_.slow_scripts();
  if (refusable_ == nullptr || slow.empty()) return false;
  TxQueue& queue = shards_.local(part->shard).transactions();
  const Slow what = queue.SlowBefore(*part, &slow);
  return what != Slow::kNone && GiveUp(part, what);
}

bool Transaction::GiveUp(Part* part, Slow what) {
  uint32_t count = waits_.load(std::memory_order_relaxed);
  do {
    if (count == 0 || (count & kGivesUp) != 0) return false;
  } while (!waits_.compare_exchange_weak(count, count | kGivesUp, std::memory_order_acq_rel));
  has_given_up_ = true;
  given_up_for_ = what;
  if (parts_count_ == 1) {
    shards_.local(part->shard).Cancel(part);
    left_.store(0, std::memory_order_relaxed);
    CallHome();
  } else if ((count & kAnnounces) == 0) {
    TakeBackAll();
  }
  return true;
}

void Transaction::TakeBackAll() {
  left_.store(static_cast<uint32_t>(parts_count_), std::memory_order_relaxed);
  // The last message may lead to everything else, as in AnnounceAll.
  const size_t count = parts_count_;
  Part* const parts = parts_.get();
  for (size_t i = 0; i < count; ++i) Send(&parts[i], &OnTakeBack);
}

void Transaction::OnTakeBack(helio::Message* message) {
  auto* const part = static_cast<Part*>(message);
  Transaction* const tx = part->tx;
  tx->TakeBack(part);
  if (tx->left_.fetch_sub(1, std::memory_order_acq_rel) == 1) tx->CallHome();
}

void Transaction::RefuseWaiters(Shard& shard, SlowScripts* slow) {
  const auto find = [&]() -> Part* {
    Part* found = nullptr;
    shard.transactions().ForEach([&](const TxEntry& entry) {
      if (found != nullptr || entry.run != &RunPart || entry.is_granted || entry.has_run) return;
      auto& part = const_cast<Part&>(static_cast<const Part&>(entry));
      const Transaction& tx = *part.tx;
      if (tx.refusable_ == nullptr || (tx.parts_count_ > 1 && !part.waits)) return;
      if ((tx.waits_.load(std::memory_order_relaxed) & kGivesUp) != 0) return;
      if (shard.transactions().SlowBefore(part, slow) != Slow::kNone) found = &part;
    });
    return found;
  };
  // One after the other, as others may run when one leaves the queue.
  while (Part* const part = find()) part->tx->MayGiveUp(part);
}

void Transaction::CancelWaiters(Shard& shard) {
  const auto find = [&]() -> Part* {
    Part* found = nullptr;
    shard.transactions().ForEach([&](const TxEntry& entry) {
      if (found != nullptr || entry.run != &RunPart || entry.has_run) return;
      auto& part = const_cast<Part&>(static_cast<const Part&>(entry));
      const Transaction& tx = *part.tx;
      if (!tx.IsCancelled()) return;
      const uint32_t waits = tx.waits_.load(std::memory_order_relaxed);
      const bool is_too_late =
          tx.parts_count_ == 1 ? entry.is_granted : waits == 0 || (waits & kGivesUp) != 0;
      if (!is_too_late) found = &part;
    });
    return found;
  };
  while (Part* const part = find()) part->tx->GiveUp(part, Slow::kNone);
}

void Transaction::OnHop(helio::Message* message) {
  auto* const part = static_cast<Part*>(message);
  part->tx->shards_.local(part->shard).Arm(part);
}

bool Transaction::RunPart(TxEntry* entry) {
  auto* const part = static_cast<Part*>(entry);
  Transaction* const tx = part->tx;
  if (part->waits) {  // the only part: several have been granted before they run
    part->waits = false;
    tx->granted_at_ = helio::CycleClock::Now();
  }
  if (!tx->has_begun_effects_) tx->BeginEffects();  // the only part, too
  if (part->works) {
    helio::NoSuspend no_suspend;
    ShardTurn turn(tx->shards_.local(part->shard), tx->client_, tx->notes_reads_);
    if (tx->records_) [[unlikely]]
      turn.BeginUnit(&tx->part_units_[static_cast<size_t>(part - tx->parts_.get())]);
    tx->work_(tx->work_arg_, turn);
  }
  return tx->concludes_;
}

void Transaction::PartDone(TxEntry* entry) {
  Transaction* const tx = static_cast<Part*>(entry)->tx;
  // Publishes what the hop has written to the coordinator, and to the next hop's shards.
  if (tx->left_.fetch_sub(1, std::memory_order_acq_rel) == 1) tx->CallHome();
}

void Transaction::CallHome() { home_->PostLazily(&home_call_); }

}  // namespace dfly
