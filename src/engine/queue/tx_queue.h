// SPDX-License-Identifier: Apache-2.0
// The order of the transactions on one shard: who has announced itself, and who may run.
//
// Each has a number from one global counter. An entry is *granted* what it wants when it stands
// first, or before that if no entry before it wants what it wants. A transaction on several shards
// runs nowhere before all of them have granted it. An entry that comes late, when one with a larger
// number has been granted here what it wants, is refused. The transaction then takes its intents
// back everywhere and tries again with a new number. If it is refused too often it first takes a
// place at the end of each queue (Reserve): then nobody who comes later is granted what it wants,
// and with the number that it takes when it has all these places it cannot be refused.
//
// Why that is strictly serializable: from the moment it is granted everywhere until it runs on a
// shard, nobody else touches there what it wants. So it takes effect at that moment, and a command
// of one shard, that runs only if nobody who was announced before excludes it, when it runs. (It is
// not enough that it runs on each shard when that has granted it. What it has done on one could be
// seen, and somebody who has seen it could then go before a transaction that stands before it on
// another, and that a third shard does not know yet.)
//
// Why nobody waits for ever: who waits for a grant waits for smaller numbers only, on every shard.
// Whoever comes later goes behind him, commands of one shard included. So between its announcement
// and its run no more entries run that conflict with it than stood before it, at most one for each
// other client; and it is refused no more than Transaction::kRefusalsMax times.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/queue/lock_table.h"
#include "engine/queue/slow_scripts.h"
#include "engine/queue/tx_origin.h"
#include "helio/base/intrusive_list.h"
#include "helio/fibers/hold.h"

namespace dfly {

// Makes of any tags what an entry takes: no tag twice.
void SortAndMerge(std::vector<TagLock>* tags);

// A transaction's stand on one shard, or a command of this shard that has to wait.
// Owner: whoever made it; between Schedule and the end the shard's thread.
struct TxEntry : helio::ListHook<TxEntry> {
  // Runs a hop, on the shard's thread; must not suspend. True: it was the last, and the intents end
  // with it.
  using RunFn = bool (*)(TxEntry* entry);
  // After `run`, when the queue is in order again. The entry may go.
  using DoneFn = void (*)(TxEntry* entry);
  // It was not granted when it was scheduled, and is now. Changes nothing here.
  using GrantedFn = void (*)(TxEntry* entry);
  // It was granted, and is not any more, if it agrees: it will be granted again. False: it relies
  // on what it was granted already. Changes nothing here.
  using RevokedFn = bool (*)(TxEntry* entry);

  RunFn run = nullptr;
  DoneFn done = nullptr;
  GrantedFn granted = nullptr;    // of those that have a number of their own, or overtake
  RevokedFn revoked = nullptr;    // of those that have a number of their own
  uint64_t number = 0;            // its place
  bool has_number = false;        // of its own: it is on several shards
  std::span<const TagLock> tags;  // as SortAndMerge leaves them; live while it is scheduled
  bool locks_shard = false;       // instead of tags
  LockMode shard_mode = LockMode::kShared;
  bool is_armed = false;    // has a hop to run
  bool is_granted = false;  // no conflict stands before it
  bool has_run = false;     // a hop
  uint64_t scheduled_ns = 0;
  const void* owner = nullptr;  // entries of one owner do not hinder his overtaking
  // Its time (Unix milliseconds), which stands still. What it has seen does not expire before that.
  int64_t clock_ms = INT64_MAX;
  TxOrigin origin;
  // What the fiber whose locks these are waits for, once it has them. Lives while this is
  // scheduled; null: nobody waits with them.
  helio::Hold* hold = nullptr;
  // Of one without `hold`: that it has been here for long was told.
  mutable bool was_told = false;
  // The first that excluded it when it was scheduled; nobody if it was granted at once, or all of
  // those are far behind the first of the queue.
  TxOrigin held_by;
};

struct TxQueueStats {
  uint64_t refused = 0;       // schedules that have to be tried again
  uint64_t runs_at_head = 0;  // hops that ran when their entry stood first
  uint64_t runs_ahead = 0;    // that ran before others with smaller numbers
  uint64_t longest = 0;       // entries at a time
};

// Owner: one shard, on its thread. Suspends: never.
class TxQueue {
 public:
  // `after_run(arg)` after each hop, when the intents that end with it are gone, and before anybody
  // who has waited for them runs.
  using AfterRunFn = void (*)(void* arg);

  TxQueue() = default;
  TxQueue(AfterRunFn after_run, void* arg) : after_run_(after_run), after_run_arg_(arg) {}
  TxQueue(const TxQueue&) = delete;
  TxQueue& operator=(const TxQueue&) = delete;
  ~TxQueue();

  // No transaction is here.
  bool empty() const { return locks_.empty(); }
  // May a command of this shard that wants `lock` run now?
  bool Conflicts(const TagLock& lock) const { return locks_.Conflicts(lock); }

  // The script that is slow and excludes `entry`, which is in the queue or not.
  Slow SlowBefore(const TxEntry& entry, SlowScripts* slow) const;

  // The same for what follows at once from what has run, and touches nothing but that tag, which
  // had it too: nobody who still waits for a grant here was promised to be before it.
  bool IsInUse(const TagLock& lock) const;

  // Announces `entry`, with its number. False: refused, nothing is left of it here. Else it is
  // granted what it wants now (is_granted), or `granted` will be called.
  [[nodiscard]] bool Schedule(TxEntry* entry);
  // Takes a place at the end for an entry that will be scheduled with a number that is yet to come.
  void Reserve(TxEntry* entry) { ScheduleLast(entry); }
  // Announces an entry that has reserved its place. With a number that is larger than all that
  // were given before it had places everywhere it is not refused. Settle has to follow, as entries
  // may be before it now that came behind its place.
  [[nodiscard]] bool ScheduleReserved(TxEntry* entry);
  void Settle() { RunReady(); }
  // Announces a command of this shard behind all that are here; it needs no number.
  void ScheduleLast(TxEntry* entry);
  // The entry has a hop to run; runs it now if it is its turn, and others whose turn it makes.
  // REQUIRES: one that has a number of its own is granted.
  void Arm(TxEntry* entry);
  // Takes an announcement back that has not run.
  void Cancel(TxEntry* entry);

  // What began because nobody had an intent on its tags, and now gives way in the middle, takes
  // them to keep them meanwhile: it stands behind all that are here, and runs. Release ends it; so
  // it does for an entry whose `run` has left its intents in place.
  // REQUIRES: none of its tags conflicts, and nobody else has run here since it began.
  void Hold(TxEntry* entry);
  // One more tag for an entry that runs. False: somebody has an intent on it, nothing has changed.
  // `tags` is to be entry->tags with that one, and replaces it.
  [[nodiscard]] bool HoldAlso(TxEntry* entry, const TagLock& tag, std::span<const TagLock> tags);
  void Release(TxEntry* entry);

  // For somebody who runs already, with locks elsewhere, and has to have something here as well:
  // goes before all who have not begun, and waits only for those who run or were promised that they
  // may (`granted` is called then, unless it is_granted at once). Release ends it.
  //
  // Who is overtaken has taken no effect anywhere, so he comes later in the order of all, which is
  // what he would have had to do anyway. And nobody waits for ever: those who run end without
  // waiting for anybody, as long as only one in the process overtakes at a time (LateLocks).
  void Overtake(TxEntry* entry);

  size_t length() const { return length_; }
  // When the oldest entry was scheduled (monotonic); 0 if there is none.
  uint64_t oldest_ns() const;
  // The time of the entry that is furthest behind; INT64_MAX if none has its own.
  int64_t oldest_clock_ms() const;
  // For what runs at `now_ms` and finds a key of the tag due: the time by which it has to judge. An
  // entry that wants the tag, too, may have an earlier clock, and has seen the key or is going to;
  // so the key stays, and all who run meanwhile see it. Whoever wants the tag from now on comes
  // behind those who want it already, so that this has an end.
  int64_t KeepDue(uint64_t fingerprint, int64_t now_ms);
  const LockTable& locks() const { return locks_; }
  // fn(const TxEntry&), by their order.
  template <typename Function>
  void ForEach(Function fn) const {
    for (const TxEntry& entry : const_cast<List&>(entries_)) fn(entry);
  }
  // Its entries, for logs: "12 armed granted 3 tags, 13 waiting shard".
  std::string Describe() const;
  const TxQueueStats& stats() const { return stats_; }
  TxQueueStats& stats() { return stats_; }

 private:
  using List = helio::IntrusiveList<TxEntry, TxEntry>;

  // Entries that FindUnhindered looks at.
  static constexpr size_t kLookAhead = 128;

  // Entries that NoteHolder looks at.
  static constexpr size_t kHolderLooks = 32;

  // Keeps a tag from those who come later, and does nothing when its turn comes. Owns itself.
  struct Barrier;

  bool Acquire(TxEntry* entry);
  // REQUIRES: it is in its place.
  void NoteHolder(TxEntry* entry);
  // Puts an entry in front of those with larger numbers. False: one of them is granted what it
  // wants.
  bool InsertBeforeLarger(TxEntry* entry);
  void Remove(TxEntry* entry);
  void RunEntry(TxEntry* entry);
  void RunReady();
  // Whoever runs, or may rely on that he will, and wants what `entry` wants.
  bool IsBlocked(const TxEntry& entry) const;
  // Grants entries what those before them do not want (the paper's "selective contention
  // analysis"), and returns the first that has waited for it: to run, or to be told.
  TxEntry* FindUnhindered();

  const AfterRunFn after_run_ = nullptr;
  void* const after_run_arg_ = nullptr;
  LockTable locks_;
  List entries_;  // by number
  size_t length_ = 0;
  size_t hindered_ = 0;             // entries that are not granted
  bool may_be_unhindered_ = false;  // something was released since FindUnhindered
  bool is_running_ = false;
  TxEntry* overtaking_ = nullptr;  // not granted yet
  TxQueueStats stats_;
};

}  // namespace dfly
