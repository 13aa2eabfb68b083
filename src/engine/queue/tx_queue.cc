// SPDX-License-Identifier: Apache-2.0
#include "engine/queue/tx_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <memory>
#include <utility>

#include "helio/base/clock.h"

namespace dfly {

void SortAndMerge(std::vector<TagLock>* tags) {
  // Shared before exclusive: the last of equal tags has the stronger mode.
  std::sort(tags->begin(), tags->end(), [](const TagLock& a, const TagLock& b) {
    return a.fingerprint != b.fingerprint ? a.fingerprint < b.fingerprint : a.mode < b.mode;
  });
  size_t count = 0;
  for (const TagLock& tag : *tags) {
    if (count == 0 || (*tags)[count - 1].fingerprint != tag.fingerprint) ++count;
    (*tags)[count - 1] = tag;
  }
  tags->resize(count);
}

namespace {

void NoteBegin(TxEntry* entry) {
  entry->scheduled_ns = helio::MonotonicNanos();
  entry->was_told = false;
}

bool Excludes(LockMode first, LockMode second) {
  return first == LockMode::kExclusive || second == LockMode::kExclusive;
}

bool IsOwnOf(const TxEntry& first, const TxEntry& second) {
  return first.owner != nullptr && first.owner == second.owner;
}

// Null: it is not among them. REQUIRES: they are sorted.
const TagLock* FindTag(std::span<const TagLock> tags, uint64_t fingerprint) {
  const auto it = std::lower_bound(
      tags.begin(), tags.end(), fingerprint,
      [](const TagLock& tag, uint64_t wanted) { return tag.fingerprint < wanted; });
  return it != tags.end() && it->fingerprint == fingerprint ? &*it : nullptr;
}

// Do they want the same?
bool Excludes(const TxEntry& first, const TxEntry& second) {
  if (first.locks_shard && second.locks_shard) {
    return Excludes(first.shard_mode, second.shard_mode);
  }
  if (first.locks_shard || second.locks_shard) {
    const TxEntry& shard = first.locks_shard ? first : second;
    const TxEntry& other = first.locks_shard ? second : first;
    return std::any_of(other.tags.begin(), other.tags.end(),
                       [&](const TagLock& tag) { return Excludes(shard.shard_mode, tag.mode); });
  }
  // Both are sorted. One may have a million.
  constexpr size_t kMuchMore = 32;
  const bool is_first_short = first.tags.size() * kMuchMore < second.tags.size();
  if (is_first_short || second.tags.size() * kMuchMore < first.tags.size()) {
    const auto& few = is_first_short ? first.tags : second.tags;
    const auto& many = is_first_short ? second.tags : first.tags;
    return std::any_of(few.begin(), few.end(), [&](const TagLock& tag) {
      const TagLock* const other = FindTag(many, tag.fingerprint);
      return other != nullptr && Excludes(other->mode, tag.mode);
    });
  }
  auto a = first.tags.begin();
  auto b = second.tags.begin();
  while (a != first.tags.end() && b != second.tags.end()) {
    if (a->fingerprint == b->fingerprint) {
      if (Excludes(a->mode, b->mode)) return true;
      ++a;
      ++b;
    } else if (a->fingerprint < b->fingerprint) {
      ++a;
    } else {
      ++b;
    }
  }
  return false;
}

bool Wants(const TxEntry& entry, uint64_t fingerprint) {
  return entry.locks_shard || FindTag(entry.tags, fingerprint) != nullptr;
}

}  // namespace

struct TxQueue::Barrier : TxEntry {
  Barrier(uint64_t fingerprint, int64_t clock_ms_of_due) : tag{fingerprint, LockMode::kExclusive} {
    tags = {&tag, 1};
    clock_ms = clock_ms_of_due;
    origin = {.name = "expiry"};
    run = &Run;
    done = [](TxEntry* entry) {
      const std::unique_ptr<Barrier> ends(static_cast<Barrier*>(entry));
    };
  }
  static bool Run(TxEntry*) { return true; }

  const TagLock tag;
};

TxQueue::~TxQueue() { DCHECK(entries_.empty()) << "a transaction was never concluded"; }

Slow TxQueue::SlowBefore(const TxEntry& entry, SlowScripts* slow) const {
  for (const TxEntry& other : const_cast<List&>(entries_)) {
    if (other.owner == nullptr || other.owner == entry.owner || !Excludes(other, entry)) continue;
    const Slow what = slow->WhatIs(other.owner);
    if (what != Slow::kNone) return what;
  }
  return Slow::kNone;
}

bool TxQueue::IsInUse(const TagLock& lock) const {
  if (!Conflicts(lock)) return false;
  const auto excludes = [&](LockMode mode) {
    return mode == LockMode::kExclusive || lock.mode == LockMode::kExclusive;
  };
  for (const TxEntry& entry : const_cast<List&>(entries_)) {
    const bool is_promised = entry.has_number && entry.is_granted;
    if (!entry.has_run && !is_promised) continue;
    if (entry.locks_shard) {
      if (excludes(entry.shard_mode)) return true;
      continue;
    }
    const TagLock* const tag = FindTag(entry.tags, lock.fingerprint);
    if (tag != nullptr && excludes(tag->mode)) return true;
  }
  return false;
}

bool TxQueue::Acquire(TxEntry* entry) {
  if (entry->locks_shard) return locks_.AcquireShard(entry->shard_mode);
  constexpr size_t kMany = 1024;
  if (entry->tags.size() >= kMany) locks_.Reserve(entry->tags.size());
  bool is_free = true;
  for (const TagLock& tag : entry->tags) is_free &= locks_.Acquire(tag);
  return is_free;
}

void TxQueue::NoteHolder(TxEntry* entry) {
  entry->held_by = {};
  if (entry->is_granted) [[likely]]
    return;
  size_t looked_at = 0;
  for (const TxEntry& other : entries_) {
    if (&other == entry || ++looked_at > kHolderLooks) return;
    if (IsOwnOf(other, *entry) || !Excludes(other, *entry)) continue;
    entry->held_by = other.origin;
    return;
  }
}

bool TxQueue::Schedule(TxEntry* entry) {
  CHECK(!entry->linked());
  entry->has_number = true;
  entry->is_armed = false;
  entry->has_run = false;
  entry->is_granted = Acquire(entry);
  ++length_;
  const TxEntry* const last = entries_.Back();
  bool is_refused = false;
  if (last == nullptr || last->number <= entry->number) {
    entries_.PushBack(entry);
  } else {
    is_refused = !InsertBeforeLarger(entry);
  }
  if (!entry->is_granted) ++hindered_;
  if (is_refused) {
    Remove(entry);
    ++stats_.refused;
    return false;
  }
  NoteHolder(entry);
  NoteBegin(entry);
  stats_.longest = std::max<uint64_t>(stats_.longest, length_);
  return true;
}

bool TxQueue::InsertBeforeLarger(TxEntry* entry) {
  auto at = entries_.end();
  bool is_refused = false;
  while (at != entries_.begin() && std::prev(at)->number > entry->number) {
    --at;
    is_refused |= !entry->is_granted && at->is_granted && Excludes(*at, *entry);
  }
  if (!entry->is_granted && !is_refused) {
    // What those behind it want is no obstacle.
    entry->is_granted = std::none_of(
        entries_.begin(), at, [&](const TxEntry& before) { return Excludes(before, *entry); });
  }
  entries_.InsertBefore(&*at, entry);
  return !is_refused;
}

bool TxQueue::ScheduleReserved(TxEntry* entry) {
  DCHECK(!entry->is_armed && !entry->has_number);
  Remove(entry);
  return Schedule(entry);
}

void TxQueue::ScheduleLast(TxEntry* entry) {
  CHECK(!entry->linked());
  const TxEntry* const last = entries_.Back();
  entry->number = last == nullptr ? 0 : last->number;
  entry->has_number = false;
  entry->is_armed = false;
  entry->has_run = false;
  entry->is_granted = Acquire(entry);
  entries_.PushBack(entry);
  if (!entry->is_granted) ++hindered_;
  NoteHolder(entry);
  NoteBegin(entry);
  stats_.longest = std::max<uint64_t>(stats_.longest, ++length_);
}

void TxQueue::Remove(TxEntry* entry) {
  entry->Unlink();
  --length_;
  if (!entry->is_granted) --hindered_;
  if (entry->locks_shard) {
    locks_.ReleaseShard(entry->shard_mode);
  } else {
    for (const TagLock& tag : entry->tags) locks_.Release(tag);
  }
  may_be_unhindered_ = true;
}

void TxQueue::Cancel(TxEntry* entry) {
  DCHECK(entry->linked() && !entry->has_run);
  entry->is_armed = false;
  Remove(entry);
  RunReady();
}

void TxQueue::Hold(TxEntry* entry) {
  ScheduleLast(entry);
  DCHECK(entry->is_granted);
  entry->has_run = true;
}

bool TxQueue::HoldAlso(TxEntry* entry, const TagLock& tag, std::span<const TagLock> tags) {
  DCHECK(entry->linked() && entry->has_run);
  if (Conflicts(tag)) return false;
  locks_.Acquire(tag);
  entry->tags = tags;
  return true;
}

void TxQueue::Release(TxEntry* entry) {
  DCHECK(entry->linked() && entry->has_run && !entry->is_armed);
  Remove(entry);
  if (after_run_ != nullptr) after_run_(after_run_arg_);
  RunReady();
}

bool TxQueue::IsBlocked(const TxEntry& entry) const {
  for (const TxEntry& other : const_cast<List&>(entries_)) {
    if (&other == &entry || IsOwnOf(other, entry) || !Excludes(other, entry)) continue;
    const bool is_promised = other.has_number && other.is_granted;
    if (other.has_run || is_promised) return true;
  }
  return false;
}

void TxQueue::Overtake(TxEntry* entry) {
  CHECK(!entry->linked());
  DCHECK(overtaking_ == nullptr);
  entry->number = 0;
  entry->has_number = entry->is_armed = entry->has_run = entry->is_granted = false;
  Acquire(entry);
  for (TxEntry& other : entries_) {
    if (!other.is_granted || other.has_run || !Excludes(other, *entry)) continue;
    if (IsOwnOf(other, *entry)) continue;
    if (other.has_number && !other.revoked(&other)) continue;
    other.is_granted = false;
    ++hindered_;
  }
  const TxEntry* const first = entries_.Front();
  if (first == nullptr) {
    entries_.PushBack(entry);
  } else {
    entries_.InsertBefore(const_cast<TxEntry*>(first), entry);
  }
  stats_.longest = std::max<uint64_t>(stats_.longest, ++length_);
  NoteBegin(entry);
  if (IsBlocked(*entry)) {
    ++hindered_;
    overtaking_ = entry;
  } else {
    entry->is_granted = entry->has_run = true;
  }
}

void TxQueue::Arm(TxEntry* entry) {
  DCHECK(entry->linked() && !entry->is_armed);
  entry->is_armed = true;
  if (is_running_ && entry->is_granted) {
    // Called by what runs: it is looked at again when that is over.
    DCHECK(!entry->has_number);
    entry->is_granted = false;
    ++hindered_;
    may_be_unhindered_ = true;
  }
  if (is_running_) return;
  if (entry->is_granted) RunEntry(entry);
  RunReady();
}

void TxQueue::RunEntry(TxEntry* entry) {
  DCHECK(!is_running_);
  DCHECK(entry->is_granted || !entry->has_number);
  const bool is_first = entry == entries_.Front();
  ++(is_first ? stats_.runs_at_head : stats_.runs_ahead);
  if (!entry->is_granted) --hindered_;
  entry->is_granted = true;
  entry->is_armed = false;
  entry->has_run = true;
  is_running_ = true;
  if (entry->run(entry)) Remove(entry);
  if (after_run_ != nullptr) after_run_(after_run_arg_);
  entry->done(entry);
  is_running_ = false;
}

void TxQueue::RunReady() {
  if (is_running_) return;
  while (TxEntry* next = entries_.Front()) {
    if (overtaking_ != nullptr && !IsBlocked(*overtaking_)) {
      TxEntry* const entry = std::exchange(overtaking_, nullptr);
      entry->is_granted = entry->has_run = true;
      --hindered_;
      entry->granted(entry);
    }
    if (!next->is_armed) {
      if (hindered_ == 0 || !may_be_unhindered_) return;
      next = FindUnhindered();
      if (next == nullptr) return;
    }
    if (next->is_armed) {
      RunEntry(next);
    } else {
      next->granted(next);
    }
  }
}

TxEntry* TxQueue::FindUnhindered() {
  // Which tags the entries so far want; what collides only waits longer.
  constexpr size_t kBits = 4096;
  std::bitset<kBits> wanted, wanted_exclusive;
  bool shard_wanted = false, shard_wanted_exclusive = false, any_wanted = false;
  bool any_exclusive = false;
  auto is_hindered = [&](const TxEntry& entry) {
    if (entry.locks_shard) {
      return entry.shard_mode == LockMode::kExclusive ? any_wanted || shard_wanted
                                                      : any_exclusive || shard_wanted_exclusive;
    }
    for (const TagLock& tag : entry.tags) {
      const size_t bit = tag.fingerprint % kBits;
      if (shard_wanted_exclusive || wanted_exclusive[bit]) return true;
      if (tag.mode == LockMode::kExclusive && (shard_wanted || wanted[bit])) return true;
    }
    return false;
  };
  size_t looked_at = 0;
  for (TxEntry& entry : entries_) {
    if (++looked_at > kLookAhead) return nullptr;
    if (!entry.is_granted && &entry != overtaking_ && !is_hindered(entry)) {
      entry.is_granted = true;
      --hindered_;
      if (entry.is_armed || entry.has_number) return &entry;
    }
    if (entry.locks_shard) {
      shard_wanted = true;
      shard_wanted_exclusive |= entry.shard_mode == LockMode::kExclusive;
      continue;
    }
    any_wanted |= !entry.tags.empty();
    for (const TagLock& tag : entry.tags) {
      wanted.set(tag.fingerprint % kBits);
      if (tag.mode != LockMode::kExclusive) continue;
      wanted_exclusive.set(tag.fingerprint % kBits);
      any_exclusive = true;
    }
  }
  may_be_unhindered_ = false;
  return nullptr;
}

std::string TxQueue::Describe() const {
  std::string text;
  for (const TxEntry& entry : const_cast<List&>(entries_)) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}{}{}{}", entry.number, entry.has_number ? "" : " local",
                        entry.is_armed ? " armed" : "", entry.is_granted ? " granted" : "");
    text += entry.locks_shard ? " shard" : fmt::format(" {} tags", entry.tags.size());
  }
  return text;
}

uint64_t TxQueue::oldest_ns() const {
  uint64_t oldest = 0;
  for (const TxEntry& entry : const_cast<List&>(entries_)) {
    if (oldest == 0 || entry.scheduled_ns < oldest) oldest = entry.scheduled_ns;
  }
  return oldest;
}

int64_t TxQueue::KeepDue(uint64_t fingerprint, int64_t now_ms) {
  int64_t clock_ms = now_ms;
  bool has_barrier = false;
  for (const TxEntry& entry : const_cast<List&>(entries_)) {
    if (entry.clock_ms >= now_ms || !Wants(entry, fingerprint)) continue;
    clock_ms = std::min(clock_ms, entry.clock_ms);
    has_barrier |= entry.run == &Barrier::Run;
  }
  if (clock_ms == now_ms || has_barrier) return clock_ms;
  auto barrier = std::make_unique<Barrier>(fingerprint, clock_ms);
  ScheduleLast(barrier.get());
  DCHECK(!barrier->is_granted);
  barrier.release()->is_armed = true;  // as Arm, but nothing can be ready
  return clock_ms;
}

int64_t TxQueue::oldest_clock_ms() const {
  int64_t oldest = INT64_MAX;
  for (const TxEntry& entry : const_cast<List&>(entries_)) {
    oldest = std::min(oldest, entry.clock_ms);
  }
  return oldest;
}

}  // namespace dfly
